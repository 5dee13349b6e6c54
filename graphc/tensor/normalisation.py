"""Normalisation by statistics that training takes of a minibatch, as rules that emit operations."""

from __future__ import annotations

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import TypeRuleError
from graphc.ops.constant import full_like
from graphc.ops.elementwise import add, div, mul, stop_gradient, sub
from graphc.ops.functions import sqrt
from graphc.ops.movement import reshape
from graphc.ops.training_forms import running_statistic
from graphc.tensor.numeric import average, broadcast_to, shape_of
from graphc.tensor.shapes import one_axis, shape_text

Columns = tuple[Value, Value, Value, Value]


def batch_normalized(
    b: IRBuilder, x: Value, columns: Columns, axis: int, epsilon: float, momentum: float
) -> Value:
    """x · factor + offset by channel; columns: scale, bias, mean and variance."""
    place = one_axis(axis, x.tensor.rank)
    shape = shape_of(x)
    for what, column in zip(("scale", "bias", "mean", "variance"), columns, strict=True):
        if shape_of(column) not in ((shape[place],), ()):
            raise TypeRuleError(
                f"requires a {what} for each channel, {shape_text((shape[place],))}, got "
                f"{shape_text(shape_of(column))}",
                slug="shape-mismatch",
            )
    scale, bias, mean, variance = (broadcast_to(b, c, (shape[place],)) for c in columns)
    others = tuple(i for i in range(x.tensor.rank) if i != place)
    one_each = tuple(n if i == place else 1 for i, n in enumerate(shape))

    def over(column: Value) -> Value:
        return broadcast_to(b, reshape(b, column, one_each), shape)

    seen = average(b, x, others, keepdims=False)
    # The slope of a variance is 0 where its mean moves.
    centred = sub(b, x, over(stop_gradient(b, seen)))
    spread = average(b, mul(b, centred, centred), others, keepdims=False)
    mean = running_statistic(b, mean, seen, momentum)
    variance = running_statistic(b, variance, spread, momentum, seen)
    deviation = sqrt(b, add(b, variance, full_like(b, epsilon, variance)))
    factor = div(b, scale, deviation)
    offset = sub(b, bias, mul(b, mean, factor))
    return add(b, mul(b, x, over(factor)), over(offset))
