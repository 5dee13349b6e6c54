"""A learner's step on some rows of a table, as a function that tests run."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import Function, IRBuilder, Module, RegionKind, ResultInfo, Value
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops.control import RETURN
from graphc.ops.learners import SGD
from graphc.ops.update_rows import Lookup, update_rows

N, K = Symbol("N", 24), Symbol("K", 40)


def rule(
    b: IRBuilder, rows: Sequence[Value], gradient: Value, numbers: Sequence[Value]
) -> list[Value]:
    """That of SGD, with momentum."""
    settings = dict(zip(SGD.numbers, numbers, strict=True))
    new, states = SGD.update(b, gradient, rows[0], rows[1:], settings)
    return [new, *states]


def step(
    size: int,
    width: int,
    dtype: DType,
    *,
    columns: bool = False,
    lookups: int = 1,
) -> Module:
    """W and its velocity after a minibatch of so many lookups, by the rule of SGD.

    Arguments w, v, learning_rate, momentum, then x0 [N, K], y0 [N, width], i0 [N, K], x1 and so on.
    """
    function = Function("step", RegionKind.SSA)
    table = TensorType((width, size) if columns else (size, width), dtype)
    one = TensorType((1, 1), dtype)
    tables = [function.add_argument(n, table, r) for n, r in (("w", "parameter"), ("v", "state"))]
    numbers = [function.add_argument(name, one, "hyperparameter") for name in SGD.numbers]
    parts: list[Lookup] = []
    for i in range(lookups):
        types = {
            "x": TensorType((N, K), dtype),
            "y": TensorType((N, width), dtype),
            "i": TensorType((N, K), DType.I32),
        }
        parts.append(Lookup(*(function.add_argument(f"{n}{i}", types[n], "input") for n in "xyi")))
    builder = IRBuilder(function.block)
    builder.emit(RETURN, update_rows(builder, tables, numbers, parts, rule, columns=columns))
    function.results.extend([ResultInfo("w", "w"), ResultInfo("v", "v")])
    return Module([function], [N, K])
