"""Replaces operations by cheaper ones that give the same bits.

    %1 = mul %x, %one : tensor<4xf32>
    %2 = neg %y : tensor<4xf32>                =>    %3 = sub %x, %y : tensor<4xf32>
    %3 = add %1, %2 : tensor<4xf32>                  return %3
    return %3

Each rule is a named pattern in the tables at the end of `PATTERNS`; `--trace-patterns` shows which
fired where. Leaves alone: whatever is not exact in IEEE arithmetic. `x + 0` turns -0 into 0,
`x * 0` loses nan, `-(a - b)` and `b - a` differ in the sign of zero, a float sum over one element
starts from 0 and so turns -0 into 0, and float sums of sums change their order: none of them is
here. (nan counts as one value, whatever its sign and payload. Reading an operand of a product
transposed leaves the order of its sums to the backend, which is free to choose it anyway.)

Algorithm: the greedy driver of `ir/rewriter.py` with a worklist; every rule removes an operation,
makes its operands smaller, or moves constants to the right and broadcasts towards the results, so
it comes to rest. O(operations) firings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.codegen import Elementwise
from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, OpDef, Operation, RegionKind, Trait, Value
from graphc.ir.params import print_value
from graphc.ir.rewriter import Firing, Pattern, apply_patterns
from graphc.ir.types import Dim, DType, TensorType
from graphc.ops.constant import CONSTANT, ConstantParams
from graphc.ops.contraction import MATMUL, MatmulParams, matmul
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
from graphc.ops.movement import RESHAPE, TRANSPOSE, TransposeParams, reshape, transpose
from graphc.ops.reduction import (
    BROADCAST,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_SUM,
    ReduceParams,
    broadcast,
)
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

Result = Sequence[Value] | None

# --- what patterns look at -----------------------------------------------------------------------


def splat(value: Value) -> bool | int | float | None:
    """The one number that every element of a constant is, as its element type holds it."""
    op = value.op
    if op is None or not isinstance(op.params, ConstantParams):
        return None
    first, *rest = op.params.value
    if any(print_value(v) != print_value(first) for v in rest):
        return None
    return op.params.type.dtype.numpy.type(first).item()


def is_number(value: Value, number: float) -> bool:
    """Whether `value` is `number` in every element; 0.0 and -0.0 are different numbers."""
    found = splat(value)
    if found is None or isinstance(found, bool):
        return False
    return print_value(float(found)) == print_value(float(number))


def _type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _is_float(value: Value) -> bool:
    return _type(value).dtype.is_float


def _made_by(value: Value, opdef: OpDef) -> Operation | None:
    return value.op if value.op is not None and value.op.opdef is opdef else None


def _operand_of(value: Value, opdef: OpDef) -> Value | None:
    """The operand of the unary `opdef` that makes `value`."""
    op = _made_by(value, opdef)
    return op.operands[0] if op is not None else None


# --- arithmetic ----------------------------------------------------------------------------------


def _constant_to_the_right(_b: IRBuilder, op: Operation) -> Result:
    if not op.opdef.has(Trait.COMMUTATIVE):
        return None
    x, y = op.operands
    if _made_by(x, CONSTANT) is None or _made_by(y, CONSTANT) is not None:
        return None
    return [_b.emit_one(op.opdef, y, x, params=op.params)]


def _drop_right(number: float) -> Callable[[IRBuilder, Operation], Result]:
    """`op(x, number)` is `x`."""

    def rewrite(_b: IRBuilder, op: Operation) -> Result:
        x, y = op.operands
        return [x] if is_number(y, number) else None

    return rewrite


def _add_zero(_b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    # Of floats only -0.0 is neutral: -0.0 + 0.0 is 0.0.
    return [x] if is_number(y, -0.0 if _is_float(y) else 0) else None


def _by_minus_one(b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    return [neg(b, x)] if is_number(y, -1) else None


def _neg_of_neg(_b: IRBuilder, op: Operation) -> Result:
    inner = _operand_of(op.operands[0], NEG)
    return [inner] if inner is not None else None


def _add_of_neg(b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    if (negated := _operand_of(y, NEG)) is not None:
        return [sub(b, x, negated)]
    if (negated := _operand_of(x, NEG)) is not None:
        return [sub(b, y, negated)]
    return None


def _sub_of_neg(b: IRBuilder, op: Operation) -> Result:
    x, y = op.operands
    negated = _operand_of(y, NEG)
    return [add(b, x, negated)] if negated is not None else None


def _both_negated(b: IRBuilder, op: Operation) -> Result:
    x, y = (_operand_of(v, NEG) for v in op.operands)
    if x is None or y is None:
        return None
    if op.opdef is DIV and not _is_float(x):
        return None  # the smallest integer is its own negative, which changes the quotient's sign
    return [b.emit_one(op.opdef, x, y)]


def _abs_of(opdef: OpDef) -> Callable[[IRBuilder, Operation], Result]:
    def rewrite(b: IRBuilder, op: Operation) -> Result:
        inner = _operand_of(op.operands[0], opdef)
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
    inner = _operand_of(condition, LOGICAL_NOT)
    return [select(b, inner, y, x)] if inner is not None else None


def _compare_same(answer: bool) -> Callable[[IRBuilder, Operation], Result]:
    def rewrite(b: IRBuilder, op: Operation) -> Result:
        x, y = op.operands
        # A float may be nan, which is neither less, nor greater, nor equal to itself.
        if x is not y or (_is_float(x) and op.opdef not in (LESS, GREATER)):
            return None
        return [_truth(b, answer, op.result)]

    return rewrite


def _truth(b: IRBuilder, answer: bool, like: Value) -> Value:
    return b.emit_one(CONSTANT, params=ConstantParams(_type(like), (answer,)))


def _not_of_not(_b: IRBuilder, op: Operation) -> Result:
    inner = _operand_of(op.operands[0], LOGICAL_NOT)
    return [inner] if inner is not None else None


def _not_of_equal(b: IRBuilder, op: Operation) -> Result:
    (x,) = op.operands
    for opdef, opposite in ((EQUAL, NOT_EQUAL), (NOT_EQUAL, EQUAL)):
        comparison = _made_by(x, opdef)
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


# --- movement ------------------------------------------------------------------------------------


def _reshape_same(_b: IRBuilder, op: Operation) -> Result:
    (x,) = op.operands
    return [x] if x.type == op.result.type else None


def _reshape_of_reshape(b: IRBuilder, op: Operation) -> Result:
    inner = _operand_of(op.operands[0], RESHAPE)
    return [reshape(b, inner, _type(op.result).dims)] if inner is not None else None


def _reshape_of_broadcast(b: IRBuilder, op: Operation) -> Result:
    """Only where extents of 1 come and go, so that the broadcast can follow the reshape."""
    inner = _operand_of(op.operands[0], BROADCAST)
    if inner is None:
        return None
    spread, dims = _type(op.operands[0]).dims, _type(op.result).dims
    kept = [(full, own) for full, own in zip(spread, _type(inner).dims, strict=True) if full != 1]
    if [full for full, _ in kept] != [d for d in dims if d != 1]:
        return None
    own = iter([small for _, small in kept])
    return [broadcast(b, reshape(b, inner, [1 if d == 1 else next(own) for d in dims]), dims)]


def _broadcast_same(_b: IRBuilder, op: Operation) -> Result:
    (x,) = op.operands
    return [x] if x.type == op.result.type else None


def _broadcast_of_broadcast(b: IRBuilder, op: Operation) -> Result:
    inner = _operand_of(op.operands[0], BROADCAST)
    return [broadcast(b, inner, _type(op.result).dims)] if inner is not None else None


def _move_constant(b: IRBuilder, op: Operation) -> Result:
    """A broadcast, reshape or transposition of one number repeated."""
    constant = _made_by(op.operands[0], CONSTANT)
    if constant is None or splat(constant.result) is None:
        return None
    assert isinstance(constant.params, ConstantParams)
    params = ConstantParams(_type(op.result), constant.params.value[:1])
    return [b.emit_one(CONSTANT, params=params)]


def _elementwise_of_broadcast(b: IRBuilder, op: Operation) -> Result:
    """Compute on the small operands, then broadcast; constants of one number adapt."""
    if not isinstance(op.opdef.codegen, Elementwise):
        return None
    dims: tuple[Dim, ...] | None = None
    for value in op.operands:
        inner = _operand_of(value, BROADCAST)
        if inner is None and splat(value) is None:
            return None
        if inner is not None:
            if dims is not None and _type(inner).dims != dims:
                return None
            dims = _type(inner).dims
    if dims is None or dims == _type(op.result).dims:
        return None
    small = [_without_broadcast(b, v, dims) for v in op.operands]
    return [broadcast(b, b.emit_one(op.opdef, *small, params=op.params), _type(op.result).dims)]


def _without_broadcast(b: IRBuilder, value: Value, dims: tuple[Dim, ...]) -> Value:
    inner = _operand_of(value, BROADCAST)
    if inner is not None:
        return inner
    constant = value.op
    assert constant is not None and isinstance(constant.params, ConstantParams)
    params = ConstantParams(_type(value).with_dims(dims), constant.params.value[:1])
    return b.emit_one(CONSTANT, params=params)


def _transpose_of_transpose(b: IRBuilder, op: Operation) -> Result:
    inner = _made_by(op.operands[0], TRANSPOSE)
    if inner is None:
        return None
    first, second = _permutation(inner), _permutation(op)
    return [transpose(b, inner.operands[0], [first[i] for i in second])]


def _transpose_of_units(b: IRBuilder, op: Operation) -> Result:
    """A transposition that keeps the order of the extents above 1 is a view."""
    (x,) = op.operands
    dims = _type(x).dims
    moved = [i for i in _permutation(op) if dims[i] != 1]
    return [reshape(b, x, _type(op.result).dims)] if moved == sorted(moved) else None


def _permutation(op: Operation) -> tuple[int, ...]:
    assert isinstance(op.params, TransposeParams)
    return op.params.permutation


def _matmul_of_transpose(b: IRBuilder, op: Operation) -> Result:
    assert isinstance(op.params, MatmulParams)
    if (op.params.contract, op.params.batch) != (1, 0):
        return None
    x, y = op.operands
    a, c = _operand_of(x, TRANSPOSE), _operand_of(y, TRANSPOSE)
    # A transposition of rank 2 that survived the patterns above exchanges the two dims.
    if a is None and c is None:
        return None
    ta = op.params.transpose_a != _is_exchange(x)
    tb = op.params.transpose_b != _is_exchange(y)
    return [matmul(b, a or x, c or y, transpose_a=ta, transpose_b=tb)]


def _is_exchange(value: Value) -> bool:
    op = _made_by(value, TRANSPOSE)
    return op is not None and _permutation(op) == (1, 0)


# --- reductions and casts ------------------------------------------------------------------------


def _reduce_units(b: IRBuilder, op: Operation) -> Result:
    """Axes of extent 1 need no reduction; of a float sum one axis stays, for it starts from 0."""
    (x,) = op.operands
    assert isinstance(op.params, ReduceParams)
    axes = tuple(a for a in op.params.axes if _type(x).dims[a] != 1)
    if axes == op.params.axes and axes:
        return None
    if not axes:
        return None if op.opdef is REDUCE_SUM and _is_float(x) else [x]
    return [b.emit_one(op.opdef, x, params=ReduceParams(axes))]


def _reduce_of_reduce(b: IRBuilder, op: Operation) -> Result:
    inner = _made_by(op.operands[0], op.opdef)
    if inner is None or len(inner.result.uses) != 1:
        return None
    if op.opdef is REDUCE_SUM and _is_float(inner.result):
        return None
    assert isinstance(op.params, ReduceParams) and isinstance(inner.params, ReduceParams)
    axes = tuple(sorted({*op.params.axes, *inner.params.axes}))
    return [b.emit_one(op.opdef, inner.operands[0], params=ReduceParams(axes))]


def _cast_same(_b: IRBuilder, op: Operation) -> Result:
    (x,) = op.operands
    return [x] if x.type == op.result.type else None


_LOSSLESS = frozenset(
    {
        (DType.F32, DType.F64),
        (DType.I32, DType.I64),
        (DType.I32, DType.F64),
        *((DType.I1, wide) for wide in DType),
    }
)
"""Casts after which every value is still told apart exactly."""


def _cast_of_cast(b: IRBuilder, op: Operation) -> Result:
    inner = _operand_of(op.operands[0], CAST)
    if inner is None or (_type(inner).dtype, _type(op.operands[0]).dtype) not in _LOSSLESS:
        return None
    assert isinstance(op.params, CastParams)
    return [cast(b, inner, op.params.dtype)]


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
    Pattern("reshape-same", RESHAPE, _reshape_same),
    Pattern("reshape-of-reshape", RESHAPE, _reshape_of_reshape),
    Pattern("reshape-of-constant", RESHAPE, _move_constant),
    Pattern("reshape-of-broadcast", RESHAPE, _reshape_of_broadcast),
    Pattern("broadcast-same", BROADCAST, _broadcast_same),
    Pattern("broadcast-of-broadcast", BROADCAST, _broadcast_of_broadcast),
    Pattern("broadcast-of-constant", BROADCAST, _move_constant),
    Pattern("transpose-of-constant", TRANSPOSE, _move_constant),
    Pattern("transpose-of-transpose", TRANSPOSE, _transpose_of_transpose),
    Pattern("transpose-of-units", TRANSPOSE, _transpose_of_units),
    Pattern("matmul-of-transpose", MATMUL, _matmul_of_transpose),
    *(Pattern("reduce-units", o, _reduce_units) for o in (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN)),
    *(
        Pattern("reduce-of-reduce", o, _reduce_of_reduce)
        for o in (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN)
    ),
    Pattern("cast-same", CAST, _cast_same),
    Pattern("cast-of-cast", CAST, _cast_of_cast),
    Pattern("elementwise-of-broadcast", None, _elementwise_of_broadcast),
)


def simplify(function: Function, trace: list[Firing] | None = None) -> int:
    """Apply `PATTERNS` to `function` until none fires; how often one did."""
    if function.kind is not RegionKind.SSA or function.arena is not None:
        return 0
    return apply_patterns(function.block, PATTERNS, trace=trace)


@dataclass(frozen=True)
class Simplify(Pass):
    name: ClassVar[str] = "simplify"
    summary: ClassVar[str] = "replace operations by cheaper ones that give the same bits"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    def run(self, module: Module, context: Context) -> PassOutcome:
        before = [len(f.block) for f in module.functions]
        fired = sum(simplify(f, context.trace) for f in module.functions)
        # The driver also drops dead operations on its way, which counts as a change.
        changed = fired > 0 or before != [len(f.block) for f in module.functions]
        return PassOutcome(changed, {"fired": fired})
