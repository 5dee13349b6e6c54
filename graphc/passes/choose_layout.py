"""Takes transpositions away by computing what lies between them in another order of axes.

    %0 = transpose %y {permutation = [0, 3, 1, 2]} : tensor<1x8x4x4xf32>
    %1 = exp %0 : tensor<1x8x4x4xf32>
    %2 = transpose %1 {permutation = [0, 2, 3, 1]} : tensor<1x4x4x8xf32>
 =>
    %2 = exp %y : tensor<1x4x4x8xf32>

Operations that do the same in any order of axes (element-wise ones, broadcasts, reductions,
slices, pads, concats, reversals) and hand values to each other make up a region. A region is
computed in the order before a transposition that it reads, or behind one that reads it, if fewer
bytes are transposed then: what else comes in is transposed on its way, and so is what goes out.
Models with channels before the other axes of images, as in ONNX files, have convolutions and
poolings between two transpositions, which meet the next ones here.

Where that makes no difference a region stays as it was written. The best order is taken of each
region, one after the other. O(operations + operands · orders).

Leaves alone: kernels, products, windows, reshapes. Sums over axes in another order may round
differently.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeVar

from graphc.ir.codegen import Elementwise
from graphc.ir.context import Context
from graphc.ir.core import Block, IRBuilder, Level, Module, Operation, Value
from graphc.ir.params import Params
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import Dim
from graphc.ops.constant import CONSTANT, ConstantParams
from graphc.ops.movement import (
    CONCAT,
    PAD,
    REVERSE,
    SLICE,
    TRANSPOSE,
    ConcatParams,
    PadParams,
    ReverseParams,
    SliceParams,
    TransposeParams,
    reshape,
    transpose,
)
from graphc.ops.reduction import (
    BROADCAST,
    REDUCE_MAX,
    REDUCE_MIN,
    REDUCE_SUM,
    BroadcastParams,
    ReduceParams,
)
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.matching import made_by, splat

T = TypeVar("T")
Order = tuple[int, ...]
"""A permutation: axis i of a region as it is is axis `order[i]` of it in another order."""

_IN_ANY_ORDER = frozenset(
    (BROADCAST, CONCAT, PAD, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, REVERSE, SLICE)
)


def choose_layouts(block: Block) -> int:
    """Compute regions of a block in other orders of axes; how many of them."""
    if not any(op.opdef is TRANSPOSE for op in block):
        return 0
    count = 0
    for region in _regions(block):
        order = _best_order(region)  # now: the one before may have taken its transpositions
        if order is not None:
            _reorder(region, order)
            count += 1
    return count


# --- regions --------------------------------------------------------------------------------------


def _is_member(op: Operation) -> bool:
    if op.opdef.level is Level.KERNEL or len(op.results) != 1 or not op.operands:
        return False
    return op.opdef in _IN_ANY_ORDER or isinstance(op.opdef.codegen, Elementwise)


def _regions(block: Block) -> list[list[Operation]]:
    """The members of each region, in the order of the block."""
    leader: dict[Operation, Operation] = {}

    def find(op: Operation) -> Operation:
        while leader[op] is not op:
            leader[op] = leader[leader[op]]
            op = leader[op]
        return op

    for op in block:
        if not _is_member(op):
            continue
        leader[op] = op
        for value in op.operands:
            if value.op is not None and value.op in leader:
                leader[find(value.op)] = find(op)
    regions: dict[Operation, list[Operation]] = {}
    for op in leader:
        regions.setdefault(find(op), []).append(op)
    return list(regions.values())


def _inputs(region: Sequence[Operation]) -> list[Value]:
    own = set(region)
    return list(dict.fromkeys(v for op in region for v in op.operands if v.op not in own))


def _readers(op: Operation, own: set[Operation]) -> Iterator[Operation]:
    """What reads the result of a member outside of its region."""
    return (user for user in dict.fromkeys(op.result.users()) if user not in own)


# --- choosing -------------------------------------------------------------------------------------


def _best_order(region: Sequence[Operation]) -> Order | None:
    """The order in which fewer bytes are transposed, the fewest of all; None if there is none."""
    own = set(region)
    inputs = _inputs(region)
    outside = {op: list(_readers(op, own)) for op in region}
    orders: dict[Order, None] = {}
    for value in inputs:
        source, order = _source(value)
        if source is not value:
            orders[order] = None
    block = region[0].block
    for readers in outside.values():
        for reader in readers:
            if _is_transposition(reader, block):
                orders[_inverse(_order_of(reader))] = None
    if not orders:
        return None
    identity = tuple(range(region[0].result.tensor.rank))
    now, *costs = (_cost(inputs, outside, own, order) for order in (identity, *orders))
    least = min(costs)
    return list(orders)[costs.index(least)] if least < now else None


def _cost(
    inputs: Sequence[Value],
    outside: dict[Operation, list[Operation]],
    own: set[Operation],
    order: Order,
) -> int:
    """Bytes that are transposed before, inside and behind a region in another order."""
    total, back = 0, _inverse(order)
    for value in inputs:
        source, before = _source(value)
        needed = {_then(before, back)} if splat(value) is None else set()
        if source is not value and any(user not in own for user in value.users()):
            needed.add(before)
        total += sum(_moved_bytes(source, each) for each in needed)
    for op, readers in outside.items():
        block = op.block
        behind = {_order_of(r) if _is_transposition(r, block) else None for r in readers}
        for permutation in behind:
            whole = order if permutation is None else _then(order, permutation)
            dims = [op.result.tensor.dims[i] for i in back]
            total += 0 if _keeps(dims, whole) else op.result.tensor.bound_bytes
    return total


def _source(value: Value) -> tuple[Value, Order]:
    """What a value is a transposition of, and how; itself, and nothing, for others."""
    made = made_by(value, TRANSPOSE)
    if made is None:
        return value, tuple(range(value.tensor.rank))
    return made.operands[0], _order_of(made)


def _moved_bytes(value: Value, order: Order) -> int:
    return 0 if _keeps(value.tensor.dims, order) else value.tensor.bound_bytes


def _keeps(dims: Sequence[Dim], order: Order) -> bool:
    """Whether a permutation leaves the elements where they are."""
    moved = [i for i in order if dims[i] != 1]
    return moved == sorted(moved)


def _is_transposition(op: Operation, block: Block | None) -> bool:
    return op.opdef is TRANSPOSE and op.block is block


def _order_of(op: Operation) -> Order:
    return op.params_as(TransposeParams).permutation


def _inverse(order: Order) -> Order:
    return tuple(order.index(i) for i in range(len(order)))


def _then(first: Order, second: Order) -> Order:
    """Of one transposition after the other."""
    return tuple(first[i] for i in second)


# --- rewriting ------------------------------------------------------------------------------------


def _reorder(region: Sequence[Operation], order: Order) -> None:
    own, back = set(region), _inverse(order)
    inside: dict[Value, Value] = {}
    for op in region:
        b = IRBuilder.before(op)
        for value in op.operands:
            if value not in inside:
                inside[value] = _brought_in(b, value, back)
        params = _in_order(op.params, order)
        made = b.emit_one(op.opdef, *(inside[v] for v in op.operands), params=params)
        made.call_like(op.result)
        inside[op.result] = made
        _hand_out(b, op, made, order, own)
    for op in reversed(region):
        op.erase()


def _brought_in(b: IRBuilder, value: Value, back: Order) -> Value:
    """A value from outside in the axes of the region."""
    if splat(value) is not None:
        params = value.definition.params_as(ConstantParams)
        type = params.type.with_dims(tuple(params.type.dims[i] for i in back))
        return b.emit_one(CONSTANT, params=ConstantParams(type, params.value[:1]))
    source, before = _source(value)
    return _moved(b, source, _then(before, back))


def _hand_out(b: IRBuilder, op: Operation, made: Value, order: Order, own: set[Operation]) -> None:
    """Give those outside of the region what they read of a member."""
    whole: Value | None = None
    for reader in list(_readers(op, own)):
        if _is_transposition(reader, op.block):
            there = IRBuilder.before(reader)
            reader.replace_with([_moved(there, made, _then(order, _order_of(reader)))])
            continue
        if whole is None:
            whole = _moved(b, made, order)
            whole.call_like(op.result)
        for index, value in enumerate(reader.operands):
            if value is op.result:
                reader.set_operand(index, whole)


def _moved(b: IRBuilder, value: Value, order: Order) -> Value:
    """The transposed value: a view where no element moves."""
    if _keeps(value.tensor.dims, order):
        return reshape(b, value, [value.tensor.dims[i] for i in order])
    return transpose(b, value, order)


def _in_order(params: Params, order: Order) -> Params:
    """The settings of a member for axes in another order."""
    back = _inverse(order)

    def each(numbers: tuple[T, ...]) -> tuple[T, ...]:
        return tuple(numbers[i] for i in back) if numbers else numbers

    match params:
        case ReduceParams(axes=axes) | ReverseParams(axes=axes):
            return replace(params, axes=tuple(sorted(order[a] for a in axes)))
        case ConcatParams(axis=axis):
            return ConcatParams(order[axis])
        case BroadcastParams(dims=dims):
            return BroadcastParams(each(dims))
        case SliceParams():
            return SliceParams(
                each(params.starts), each(params.stops), each(params.steps), each(params.behind)
            )
        case PadParams():
            low, high, inner = each(params.low), each(params.high), each(params.inner)
            return PadParams(low, high, inner, params.value)
        case _:
            return params


@dataclass(frozen=True)
class ChooseLayout(Pass):
    name: ClassVar[str] = "choose-layout"
    summary: ClassVar[str] = "compute between transpositions in the order of axes before them"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    def run(self, module: Module, context: Context) -> PassOutcome:
        blocks = [block for f in module.functions for block in straight_blocks(f)]
        count = sum(map(choose_layouts, blocks))
        return PassOutcome(changed=count > 0, counters={"regions": count})
