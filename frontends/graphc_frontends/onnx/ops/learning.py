"""Training inside a graph: gradients of its values, and the updates of optimisers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import graphc as gc
from graphc_frontends.onnx.graph import Context
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import dtype_of, mistake, shape_of

if TYPE_CHECKING:
    from onnx import NodeProto

DOMAIN = "ai.onnx.preview.training"

Update = Callable[..., tuple[Any, ...]]


def _each(inputs: Sequence[Any], states: int, update: Update) -> object:
    """The update of each parameter; all new parameters come first, then their states by kind."""
    kinds = 2 + states  # parameters, gradients, states
    if len(inputs) % kinds:
        message = f"requires {kinds} arrays for each parameter, got {len(inputs)} in all"
        raise mistake("shape-mismatch", message)
    count = len(inputs) // kinds
    made = [update(*inputs[i::count]) for i in range(count)]
    return tuple(value for column in zip(*made, strict=True) for value in column)


@operator("Adagrad", domain=DOMAIN)
def adagrad(
    rate: Any,
    step: Any,
    *inputs: Any,
    decay_factor: float,
    epsilon: float,
    norm_coefficient: float,
) -> object:
    now = rate / (1 + gc.cast(step, "f32") * decay_factor)

    def update(x: Any, gradient: Any, squares: Any) -> tuple[Any, ...]:
        slope = gradient + norm_coefficient * x
        after = squares + slope * slope
        return x - now * slope / (gc.sqrt(after) + epsilon), after

    return _each(inputs, 1, update)


@operator("Adam", domain=DOMAIN)
def adam(
    rate: Any,
    step: Any,
    *inputs: Any,
    alpha: float,
    beta: float,
    epsilon: float,
    norm_coefficient: float,
    norm_coefficient_post: float,
) -> object:
    """With the correction of the first steps but before step 1."""
    steps = gc.maximum(gc.cast(step, "f32"), 1.0)
    corrected = rate * gc.sqrt(1 - gc.power(beta, steps)) / (1 - gc.power(alpha, steps))
    now = gc.where(step > 0, corrected, rate)

    def update(x: Any, gradient: Any, mean: Any, squares: Any) -> tuple[Any, ...]:
        slope = gradient + norm_coefficient * x
        mean = alpha * mean + (1 - alpha) * slope
        squares = beta * squares + (1 - beta) * (slope * slope)
        made = x - now * (mean / (gc.sqrt(squares) + epsilon))
        return (1 - norm_coefficient_post) * made, mean, squares

    return _each(inputs, 2, update)


@operator("Momentum", domain=DOMAIN)
def momentum(
    rate: Any,
    step: Any,
    *inputs: Any,
    alpha: float,
    beta: float,
    mode: str,
    norm_coefficient: float,
) -> object:
    """The first step takes the whole gradient."""
    share = gc.where(step > 0, beta, 1.0)

    def update(x: Any, gradient: Any, before: Any) -> tuple[Any, ...]:
        slope = gradient + norm_coefficient * x
        speed = alpha * before + share * slope
        way = slope + alpha * speed if mode == "nesterov" else speed
        return x - rate * way, speed

    return _each(inputs, 1, update)


@operator("Gradient", domain=DOMAIN)
def gradient(
    *inputs: Any, xs: Sequence[str], y: str, zs: Sequence[str] = (), context: Context
) -> object:
    """Of the sum of `y` with respect to the values `xs`: the nodes between are run once more."""
    named = [*xs, *zs]
    if len(inputs) != len(named):
        message = f"requires the {len(named)} values {', '.join(named)}, got {len(inputs)}"
        raise mistake("shape-mismatch", message)
    nodes = _nodes_between(context, named, y)
    count = len(xs)

    def of(*values: Any) -> Any:
        scope = context.scope.inside()
        scope.values.update(zip(named, [*values, *inputs[count:]], strict=True))
        context.reader.run_nodes(nodes, scope)
        return scope.find(y)

    made, back = gc.vjp(of, *inputs[:count])
    slopes = back(gc.ones(shape_of(made), dtype_of(made)))
    for name, slope in zip(xs, slopes, strict=True):
        if slope is None:
            raise mistake("not-supported", f"`{name}` is not of floating-point numbers")
    return tuple(slopes)


def _nodes_between(context: Context, given: Sequence[str], y: str) -> list[NodeProto]:
    """The nodes before this one by which `y` follows from the given values."""
    before: list[NodeProto] = []
    for node in context.reader.model.graph.node:
        if [*node.output] == [*context.node.output]:
            break
        before.append(node)
    else:
        raise mistake("not-supported", "is not supported in a graph inside of another")
    found: list[NodeProto] = []
    moves = set(given)
    for node in before:
        if moves & _read(node) and not {*node.output} & {*given}:
            moves |= {*node.output}
            found.append(node)
    needed = {y}
    kept: list[NodeProto] = []
    for node in reversed(found):
        if needed & {*node.output}:
            needed |= _read(node)
            kept.append(node)
    return kept[::-1]


def _read(node: NodeProto) -> set[str]:
    """The names that a node reads, in graphs inside of it too."""
    names: set[str] = set()
    waiting = [node]
    while waiting:
        here = waiting.pop()
        names |= {*here.input} - {""}
        for attribute in here.attribute:
            for graph in (attribute.g, *attribute.graphs):
                waiting += graph.node
                names |= {output.name for output in graph.output}
    return names
