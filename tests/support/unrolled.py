"""A recurrent network written out step by step: a network without delays, a sample per sequence.

Node `h` becomes `h.0`, `h.1`, …; parameters are shared; a delay is the node of another step, or the
input `outside.VALUE.ROWS` where that lies outside of the sequence; what has no samples but is
computed from them (a criterion) is added up over the steps. No loop is left, so it judges them.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphc.ir.core import Operation
from graphc.ir.types import MatrixType
from graphc.model.model import Model
from graphc.ops.nodes.delays import DELAYS, PAST_VALUE, DelayParams
from graphc.ops.nodes.elementwise import PLUS
from graphc.ops.nodes.layout import node_type
from graphc.ops.nodes.leaves import INPUT, InputParams

Array = np.ndarray
Place = tuple[Operation, int]


def unrolled(model: Model, steps: int) -> Model:
    """The network for sequences of that many steps; it has the values of `model`."""
    copy = Model()
    made: dict[Place, Operation] = {}
    outside: dict[tuple[float, int], Operation] = {}
    depends = {op: _depends_on_samples(op) for op in model.graph.block}
    for op in model.graph.block:
        for t in range(steps if depends[op] else 1):
            if op.opdef not in DELAYS:
                name = f"{op.result.name}.{t}" if depends[op] else op.result.name
                new = Operation(
                    op.opdef, (), [MatrixType(None, None)], op.params, location=op.location
                )
                new.result.name = name
                made[op, t] = copy.graph.block.append(new)

    def source(op: Operation, t: int) -> Operation:
        while op.opdef in DELAYS:
            assert isinstance(op.params, DelayParams)
            offset = op.params.time_step
            t += -offset if op.opdef is PAST_VALUE else offset
            if not 0 <= t < steps:
                key = (op.params.default_hidden_activity, node_type(op).rows or 0)
                if key not in outside:
                    outside[key] = _input(copy, *key)
                return outside[key]
            op = _made_by(op, 0)
        return made[op, t if depends[op] else 0]

    for (op, t), new in list(made.items()):
        inputs = [_made_by(op, i) for i in range(len(op.operands))]
        new.set_operands(source(i, t).result for i in inputs)
    for op in model.graph.block:
        if depends[op] and not node_type(op).has_samples:
            _add_up(copy, op, [made[op, t] for t in range(steps)])
    copy.values = model.values
    return copy


def _made_by(op: Operation, index: int) -> Operation:
    found = op.operands[index].op
    assert found is not None
    return found


def _depends_on_samples(op: Operation) -> bool:
    if node_type(op).has_samples:
        return True
    return any(node_type(_made_by(op, i)).has_samples for i in range(len(op.operands)))


def _input(model: Model, value: float, rows: int) -> Operation:
    op = Operation(INPUT, (), [MatrixType(None, None)], InputParams(rows=rows))
    op.result.name = f"outside.{value}.{rows}"
    return model.graph.block.append(op)


def _add_up(model: Model, op: Operation, steps: list[Operation]) -> None:
    total = steps[0]
    for other in steps[1:]:
        plus = Operation(
            PLUS, (total.result, other.result), [MatrixType(None, None)], location=op.location
        )
        plus.result.name = f"sum.{other.result.name}"
        total = model.graph.block.append(plus)
    total.result.name = op.result.name


def step_inputs(arrays: Mapping[str, Array], model: Model) -> dict[str, Array]:
    """The inputs [S, rows] of an unrolled network for those [T, S, rows] of the network."""
    found: dict[str, Array] = {}
    some = next(iter(arrays.values()))
    for op in model.graph.block:
        if op.opdef is not INPUT:
            continue
        name = op.result.name or ""
        if name.startswith("outside."):
            _, *number, rows = name.split(".")
            found[name] = np.full((some.shape[1], int(rows)), float(".".join(number)))
        else:
            base, t = name.rsplit(".", 1)
            found[name] = arrays[base][int(t)]
    return found
