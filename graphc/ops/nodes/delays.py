"""Delays along time: what makes a cycle of nodes computable (book 2.6).

Outside every cycle a delay is a shift of the columns, which its rule here makes; what it is in a
cycle, `passes/form_loops.py` knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from graphc.ir.core import IRBuilder, OpDef, Operation, Value
from graphc.ir.types import SAMPLES, MatrixType, Type, TypeRuleError
from graphc.ops.nodes.layout import NodeParams, matrix, node_def
from graphc.ops.nodes.sequence_columns import SequenceColumns

MAX_STEPS = 10_000
"""Most steps that a delay looks away; a cycle carries a value for each of them."""


@dataclass(frozen=True)
class DelayParams(NodeParams):
    """`rows` 0: taken from the operand. `default_hidden_activity` is the value at sequence ends."""

    rows: int = 0
    time_step: int = 1
    default_hidden_activity: float = 0.1
    tags: tuple[str, ...] = ()


def _infer_delay(types: Sequence[Type], params: DelayParams) -> Sequence[Type]:
    x = matrix(types[0])
    if params.rows < 0 or params.time_step < 1:
        raise TypeRuleError(
            "requires rows of at least 0 and a time step of at least 1, "
            f"got {params.rows} and {params.time_step}"
        )
    if params.time_step > MAX_STEPS:
        raise TypeRuleError(
            f"requires a time step of at most {MAX_STEPS}, got {params.time_step}", slug="limit"
        )
    if x.cols is not None and not x.is_per_sample:
        raise TypeRuleError(f"requires a node with one column per time step, got {x}", operand=0)
    if params.rows and x.rows is not None and x.rows != params.rows:
        raise TypeRuleError(
            f"requires the {params.rows} rows it declares, got {x}",
            operand=0,
            slug="shape-mismatch",
        )
    return [MatrixType(params.rows or x.rows, SAMPLES, x.image)]


def look_ahead(op: Operation) -> int:
    """How many steps later the column is that a delay is at; negative for an earlier one."""
    params = op.params_as(DelayParams)
    return -params.time_step if op.opdef is PAST_VALUE else params.time_step


def _expand_sequences(
    b: IRBuilder, op: Operation, operands: Sequence[Value], columns: SequenceColumns
) -> Value:
    default = op.params_as(DelayParams).default_hidden_activity
    return columns.shifted(b, operands[0], look_ahead(op), default)


def _delay(name: str, summary: str, equation: str, *, looks_ahead: bool) -> OpDef:
    return node_def(
        name,
        summary,
        ("x",),
        params=DelayParams,
        infer=_infer_delay,
        expand_sequences=_expand_sequences,
        looks_ahead=looks_ahead,
        equation=equation,
        source="book 2.6",
    )


PAST_VALUE = _delay(
    "past_value", "the node's value some steps earlier", "V_t = X_(t-d)", looks_ahead=False
)
FUTURE_VALUE = _delay(
    "future_value", "the node's value some steps later", "V_t = X_(t+d)", looks_ahead=True
)

DELAYS = (PAST_VALUE, FUTURE_VALUE)

OPS = DELAYS
