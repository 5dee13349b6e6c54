"""Replaces operations by cheaper ones that give the same bits (but for sparse products).

    %1 = mul %x, %one : tensor<4xf32>
    %2 = neg %y : tensor<4xf32>                =>    %3 = sub %x, %y : tensor<4xf32>
    %3 = add %1, %2 : tensor<4xf32>                  return %3
    return %3

Each rule is a named pattern in `PATTERNS`: those of movements are in `simplify_movement.py`, of
powers in `simplify_powers.py`, of sparse products in `simplify_indexed.py`, which alone do not
promise the same bits and say what differs. `--trace-patterns` shows which fired where. Leaves
alone: whatever is not exact in IEEE arithmetic. `x + 0` turns -0 into 0, `x * 0` loses nan,
`-(a - b)` and `b - a` differ in the sign of zero, a float sum over one element starts from 0 and so
turns -0 into 0, and float sums of sums change their order: none of them is here. (nan counts as one
value, whatever its sign and payload. Reading an operand of a product transposed leaves the order of
its sums to the backend, which is free to choose it anyway.)

Algorithm: the greedy driver of `ir/rewriter.py` with a worklist; every rule removes an operation,
makes its operands smaller, or moves constants to the right and broadcasts towards the results, so
it comes to rest. O(operations) firings.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, OpDef, Operation, RegionKind, Trait, Value
from graphc.ir.rewriter import Firing, Pattern, apply_patterns
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import DType
from graphc.ops.constant import CONSTANT, ConstantParams
from graphc.ops.elementwise import (
    ABS,
    ADD,
    CAST,
    DIV,
    EQUAL,
    GREATER,
    GREATER_EQUAL,
    LESS,
    LESS_EQUAL,
    LOGICAL_AND,
    LOGICAL_NOT,
    LOGICAL_OR,
    MAXIMUM,
    MINIMUM,
    MUL,
    NEG,
    NOT_EQUAL,
    SELECT,
    SUB,
    CastParams,
    add,
    cast,
    neg,
    select,
    sub,
)
from graphc.ops.reduction import (
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_SUM,
    ExtremumParams,
    ReduceParams,
)
from graphc.ops.training_forms import DROP, RUNNING_STATISTIC
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.matching import Result, is_float, is_number, made_by, operand_of, splat
from graphc.passes.simplify_indexed import INDEXED_PATTERNS
from graphc.passes.simplify_movement import MOVEMENT_PATTERNS
from graphc.passes.simplify_powers import POWER_PATTERNS

# --- arithmetic ----------------------------------------------------------------------------------


def _constant_to_the_right(_b: IRBuilder, op: Operation) -> Result:
    if not op.opdef.has(Trait.COMMUTATIVE):
        return None
    x, y = op.operands
    if made_by(x, CONSTANT) is None or made_by(y, CONSTANT) is not None:
        return None
    return [_b.emit_one(op.opdef, y, x, params=op.params)]


def _drop_right(number: float) -> Callable[[IRBuilder, Operation], Result]:
    """`op(x, number)` is `x`."""

    def rewrite(_b: IRBuilder, op: Operation) -> Result:
        x, y = op.operands
        return [x] if is_number(y, number) else None

    return rewrite


def _first_operand(_b: IRBuilder, op: Operation) -> Result:
    return [op.operands[0]]


def _add_zero(_b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    # Of floats only -0.0 is neutral: -0.0 + 0.0 is 0.0.
    return [x] if is_number(y, -0.0 if is_float(y) else 0) else None


def _by_minus_one(b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    return [neg(b, x)] if is_number(y, -1) else None


def _neg_of_neg(_b: IRBuilder, op: Operation) -> Result:
    inner = operand_of(op.operands[0], NEG)
    return [inner] if inner is not None else None


def _add_of_neg(b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    if (negated := operand_of(y, NEG)) is not None:
        return [sub(b, x, negated)]
    if (negated := operand_of(x, NEG)) is not None:
        return [sub(b, y, negated)]
    return None


def _sub_of_neg(b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    negated = operand_of(y, NEG)
    return [add(b, x, negated)] if negated is not None else None


def _both_negated(b: IRBuilder, op: Operation) -> Result:
    x, y = (operand_of(v, NEG) for v in op.operands)
    if x is None or y is None:
        return None
    if op.opdef is DIV and not is_float(x):
        return None  # the smallest integer is its own negative, which changes the quotient's sign
    return [b.emit_one(op.opdef, x, y)]


def _abs_of(opdef: OpDef) -> Callable[[IRBuilder, Operation], Result]:
    def rewrite(b: IRBuilder, op: Operation) -> Result:
        inner = operand_of(op.operands[0], opdef)
        return [b.emit_one(ABS, inner)] if inner is not None else None

    return rewrite


def _same_operands(_b: IRBuilder, op: Operation) -> Result:
    """`max(x, x)`, `x and x`."""
    x, y = op.operands
    return [x] if x is y else None


# --- selection, comparisons, logic ---------------------------------------------------------------


def _select_constant(_b: IRBuilder, op: Operation) -> Result:
    condition, x, y = op.operands
    value = splat(condition)
    return None if value is None else [x if value else y]


def _select_equal(_b: IRBuilder, op: Operation) -> Result:
    _, x, y = op.operands
    return [x] if x is y else None


def _select_of_not(b: IRBuilder, op: Operation) -> Result:
    condition, x, y = op.operands
    inner = operand_of(condition, LOGICAL_NOT)
    return [select(b, inner, y, x)] if inner is not None else None


def _compare_same(answer: bool) -> Callable[[IRBuilder, Operation], Result]:
    def rewrite(b: IRBuilder, op: Operation) -> Result:
        x, y = op.operands
        # A float may be nan, which is neither less, nor greater, nor equal to itself.
        if x is not y or (is_float(x) and op.opdef not in (LESS, GREATER)):
            return None
        return [_truth(b, answer, op.result)]

    return rewrite


def _truth(b: IRBuilder, answer: bool, like: Value) -> Value:
    return b.emit_one(CONSTANT, params=ConstantParams(like.tensor, (answer,)))


def _not_of_not(_b: IRBuilder, op: Operation) -> Result:
    inner = operand_of(op.operands[0], LOGICAL_NOT)
    return [inner] if inner is not None else None


def _not_of_equal(b: IRBuilder, op: Operation) -> Result:
    (x,) = op.operands
    for opdef, opposite in ((EQUAL, NOT_EQUAL), (NOT_EQUAL, EQUAL)):
        comparison = made_by(x, opdef)
        if comparison is not None:
            return [b.emit_one(opposite, *comparison.operands)]
    return None


def _logic_constant(neutral: bool) -> Callable[[IRBuilder, Operation], Result]:
    """`x and true` is `x`, `x and false` is `false`; `or` the other way round."""

    def rewrite(_b: IRBuilder, op: Operation) -> Result:
        x, y = op.operands
        value = splat(y)
        return None if value is None else [x if value is neutral else y]

    return rewrite


# --- reductions and casts ------------------------------------------------------------------------


def _reduce_units(b: IRBuilder, op: Operation) -> Result:
    """Axes of extent 1 need no reduction; of a float sum one axis stays, for it starts from 0."""
    (x,) = op.operands
    params = op.params_as(ReduceParams)
    axes = tuple(a for a in params.axes if x.tensor.dims[a] != 1)
    if axes == params.axes and axes:
        return None
    if not axes:
        return None if op.opdef is REDUCE_SUM and is_float(x) else [x]
    return [b.emit_one(op.opdef, x, params=replace(params, axes=axes))]


def _reduce_of_reduce(b: IRBuilder, op: Operation) -> Result:
    inner = made_by(op.operands[0], op.opdef)
    if inner is None or len(inner.result.uses) != 1:
        return None
    if op.opdef is REDUCE_SUM and is_float(inner.result):
        return None
    params, before = op.params_as(ReduceParams), inner.params_as(ReduceParams)
    axes = tuple(sorted({*params.axes, *before.axes}))
    joined = replace(params, axes=axes)
    # Of ties the first is the same one only where the inner axes come last.
    is_in_order = axes == (*params.axes, *before.axes)
    picks_first = isinstance(params, ExtremumParams) and params.ties == "first"
    if joined != replace(before, axes=axes) or (picks_first and not is_in_order):
        return None
    return [b.emit_one(op.opdef, inner.operands[0], params=joined)]


def _cast_same(_b: IRBuilder, op: Operation) -> Result:
    (x,) = op.operands
    return [x] if x.type == op.result.type else None


_LOSSLESS = frozenset(
    {
        (DType.F32, DType.F64),
        (DType.I32, DType.I64),
        (DType.I32, DType.F64),
        *((stored, stored.computed) for stored in DType if stored is not DType.U64),
        *((DType.I1, wide) for wide in DType),
    }
)
"""Casts after which every value is still told apart exactly."""


def _cast_of_cast(b: IRBuilder, op: Operation) -> Result:
    inner = operand_of(op.operands[0], CAST)
    if inner is None or (inner.tensor.dtype, op.operands[0].tensor.dtype) not in _LOSSLESS:
        return None
    return [cast(b, inner, op.params_as(CastParams).dtype)]


PATTERNS: tuple[Pattern, ...] = (
    *(Pattern("constant-to-the-right", o, _constant_to_the_right) for o in (ADD, MUL, EQUAL)),
    *(
        Pattern("constant-to-the-right", o, _constant_to_the_right)
        for o in (NOT_EQUAL, LOGICAL_AND, LOGICAL_OR)
    ),
    Pattern("mul-one", MUL, _drop_right(1)),
    Pattern("div-one", DIV, _drop_right(1)),
    Pattern("sub-zero", SUB, _drop_right(0)),
    Pattern("add-zero", ADD, _add_zero),
    Pattern("mul-minus-one", MUL, _by_minus_one),
    Pattern("div-minus-one", DIV, _by_minus_one),
    Pattern("neg-of-neg", NEG, _neg_of_neg),
    Pattern("add-of-neg", ADD, _add_of_neg),
    Pattern("sub-of-neg", SUB, _sub_of_neg),
    Pattern("mul-of-negs", MUL, _both_negated),
    Pattern("div-of-negs", DIV, _both_negated),
    Pattern("abs-of-neg", ABS, _abs_of(NEG)),
    Pattern("abs-of-abs", ABS, _abs_of(ABS)),
    Pattern("maximum-same", MAXIMUM, _same_operands),
    Pattern("minimum-same", MINIMUM, _same_operands),
    Pattern("select-constant", SELECT, _select_constant),
    Pattern("select-equal", SELECT, _select_equal),
    Pattern("select-of-not", SELECT, _select_of_not),
    *(Pattern("compare-same", o, _compare_same(True)) for o in (EQUAL, LESS_EQUAL, GREATER_EQUAL)),
    *(Pattern("compare-same", o, _compare_same(False)) for o in (NOT_EQUAL, LESS, GREATER)),
    Pattern("not-of-not", LOGICAL_NOT, _not_of_not),
    Pattern("not-of-equal", LOGICAL_NOT, _not_of_equal),
    Pattern("and-same", LOGICAL_AND, _same_operands),
    Pattern("or-same", LOGICAL_OR, _same_operands),
    Pattern("and-constant", LOGICAL_AND, _logic_constant(True)),
    Pattern("or-constant", LOGICAL_OR, _logic_constant(False)),
    *(Pattern("reduce-units", o, _reduce_units) for o in (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN)),
    *(
        Pattern("reduce-of-reduce", o, _reduce_of_reduce)
        for o in (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN)
    ),
    *(Pattern("outside-of-training", o, _first_operand) for o in (DROP, RUNNING_STATISTIC)),
    Pattern("cast-same", CAST, _cast_same),
    Pattern("cast-of-cast", CAST, _cast_of_cast),
    *MOVEMENT_PATTERNS,
    *INDEXED_PATTERNS,
    *POWER_PATTERNS,
)


def simplify(function: Function, trace: list[Firing] | None = None) -> int:
    """Apply `PATTERNS` to `function` until none fires; how often one did."""
    if function.kind is not RegionKind.SSA or function.arena is not None:
        return 0
    blocks = list(straight_blocks(function))
    return sum(apply_patterns(block, PATTERNS, trace=trace) for block in blocks)


@dataclass(frozen=True)
class Simplify(Pass):
    name: ClassVar[str] = "simplify"
    summary: ClassVar[str] = "replace operations by cheaper ones that give the same bits"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    def run(self, module: Module, context: Context) -> PassOutcome:
        before = [len(b) for f in module.functions for b in straight_blocks(f)]
        fired = sum(simplify(f, context.trace) for f in module.functions)
        # The driver also drops dead operations on its way, which counts as a change.
        changed = fired > 0 or before != [
            len(b) for f in module.functions for b in straight_blocks(f)
        ]
        return PassOutcome(changed, {"fired": fired})
