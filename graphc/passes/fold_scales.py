"""Multiplies weights that are known before all calls, in place of what they make: a batch
normalisation behind a convolution or a product.

    %0 = matmul %patches, %w {contract = 3} : tensor<Nx8x8x16xf32>   // %w, %s, %t: parameters
    %1 = broadcast %s {…} : tensor<Nx8x8x16xf32>                      // one for each channel
    %2 = mul %0, %1 : tensor<Nx8x8x16xf32>
    %3 = broadcast %t {…} : tensor<Nx8x8x16xf32>
    %y = add %2, %3 : tensor<Nx8x8x16xf32>
 =>
    %0 = broadcast %s {…} : tensor<3x3x3x16xf32>
    %1 = mul %w, %0 : tensor<3x3x3x16xf32>                     // computed once (`split-early`)
    %2 = matmul %patches, %1 {contract = 3} : tensor<Nx8x8x16xf32>
    %3 = broadcast %t {…} : tensor<Nx8x8x16xf32>
    %y = add %2, %3 : tensor<Nx8x8x16xf32>

A chain of sums, differences, products and quotients, each with a number or with one known element
for each channel, is one factor and one summand. The factor goes into the weights of what the chain
begins with: a product, a depthwise convolution, either of them transposed, behind reshapes,
transpositions, zeros around images, and where groups are joined. It may run for parameters that do
not change alone, and after what differentiates: the weights that a gradient belongs to are gone.

An element was rounded after its sum, now each weight is before: it differs by at most a few units
of rounding of the sum of its products' magnitudes, as much as another order of the sum would.
Where a factor is 0, infinite or nan, an infinite or nan sum may become another one of these or 0.

Leaves alone: values with other readers, weights or factors that a call decides, chains that only
add, blocks inside of loops. O(operations · length of a chain).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, RegionKind, Value
from graphc.ir.types import Dim, TensorType
from graphc.ops.constant import constant
from graphc.ops.contraction import MATMUL, MatmulParams
from graphc.ops.depthwise import DEPTHWISE, DEPTHWISE_DATA_GRAD
from graphc.ops.elementwise import ADD, DIV, MUL, NEG, SUB, add, div, mul, neg, sub
from graphc.ops.movement import (
    CONCAT,
    PAD,
    RESHAPE,
    SLICE,
    TRANSPOSE,
    ConcatParams,
    PadParams,
    SliceParams,
    TransposeParams,
    concat,
    reshape,
    slice_axis,
    transpose,
)
from graphc.ops.patches import OVERLAP_ADD, OverlapAddParams
from graphc.ops.reduction import BROADCAST, broadcast
from graphc.passes.analysis.early_values import early_values
from graphc.passes.eliminate_dead_code import remove_dead_operations
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.matching import made_by, splat

Known = Collection[Value]
Narrow = tuple[Dim, ...]
"""Dims of what a wider array is combined with: its own or 1."""
Scaled = Callable[[IRBuilder, Value], Value]
"""Makes a value times a factor, whose dims are narrow, of what makes the value."""


def fold_scales(function: Function) -> int:
    """Rewrite `function`, whose parameters do not change; how many chains lost their factor."""
    if function.kind is not RegionKind.SSA:
        return 0
    known = early_values(function)
    count = 0
    for op in reversed(list(function.block)):
        if op.opdef in _STEPS and op.result.has_uses and op.result not in known:
            count += _fold(op, known)
    if count:
        remove_dead_operations(function)
    return count


def _fold(op: Operation, known: Known) -> bool:
    chain = _chain(op.result, known)
    if not any(step.opdef in (MUL, DIV) for step in chain.steps):
        return False
    start, rank = chain.start, chain.start.tensor.rank
    factors = [s.small.narrow for s in chain.steps if s.opdef in (MUL, DIV) and s.small]
    scaled = _scaled(start, _widest([*factors, (1,) * rank]), known)
    if scaled is None:
        return False
    b = IRBuilder.before(op)
    factor, summand = _folded(b, chain)
    value = _moved(b, scaled(b, factor), chain)
    if summand is not None:
        value = add(b, value, _moved(b, broadcast(b, summand, start.tensor.dims), chain))
    op.replace_with([value])
    return True


def _moved(b: IRBuilder, value: Value, chain: _Chain) -> Value:
    """As the end of the chain lies."""
    for move in reversed(chain.moves):
        value = b.emit_one(move.opdef, value, params=move.params)
    return value


# --- chains ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Small:
    """A number, or a known array of dims that are those of the wide one or 1.

    changes  the reshapes and transpositions that give it its dims
    """

    source: Value | float
    narrow: Narrow
    wide: tuple[Dim, ...]
    changes: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def reshaped(self, dims: tuple[Dim, ...]) -> _Small | None:
        """Next to the same elements with other dims."""
        if dims == self.wide:
            return self
        narrow = _regrouped(self.narrow, self.wide, dims)
        if narrow is None:
            return None
        change = ("reshape", tuple(d for d in narrow if isinstance(d, int)))
        return replace(self, narrow=narrow, wide=dims, changes=(*self.changes, change))

    def transposed(self, order: tuple[int, ...]) -> _Small:
        narrow, wide = (tuple(dims[i] for i in order) for dims in (self.narrow, self.wide))
        changes = (*self.changes, ("transpose", order))
        return replace(self, narrow=narrow, wide=wide, changes=changes)

    def built(self, b: IRBuilder, like: Value) -> Value:
        if not isinstance(self.source, Value):
            return constant(b, self.source, TensorType(self.narrow, like.tensor.dtype))
        value = self.source
        for kind, numbers in self.changes:
            value = (reshape if kind == "reshape" else transpose)(b, value, numbers)
        return value


@dataclass(frozen=True)
class _Step:
    """`opdef(x, small)`; `swapped`: `opdef(small, x)`; without `small`: `opdef(x)`."""

    opdef: object
    small: _Small | None
    swapped: bool = False


@dataclass(frozen=True)
class _Chain:
    """`start`, through `steps`, the first one first, and then `moves`, the last one first."""

    start: Value
    steps: tuple[_Step, ...] = ()
    moves: tuple[Operation, ...] = ()


_STEPS = (ADD, SUB, MUL, DIV, NEG)


def _chain(value: Value, known: Known) -> _Chain:
    """The longest one that ends with `value`."""
    longest = chain = _Chain(value)
    while chain.start is value or len(chain.start.uses) == 1:
        op = chain.start.op
        below = _below(op, chain, known) if op is not None else None
        if below is None:
            break
        chain = below
        if op is not None and op.opdef in _STEPS:
            longest = chain
    return longest


def _below(op: Operation, chain: _Chain, known: Known) -> _Chain | None:
    """The chain with `op`, which makes its start, in it."""
    if op.opdef is NEG:
        return replace(chain, start=op.operands[0], steps=(_Step(NEG, None), *chain.steps))
    if op.opdef in _STEPS:
        for place in (1, 0) if op.opdef is not DIV else (1,):
            small = _small(op.operands[place], known)
            if small is not None:
                step = _Step(op.opdef, small, place == 0)
                return replace(chain, start=op.operands[1 - place], steps=(step, *chain.steps))
        return None
    if op.opdef not in (RESHAPE, TRANSPOSE):
        return None
    steps: list[_Step] = []
    for step in chain.steps:
        small = step.small and _before(op, step.small)
        if step.small is not None and small is None:
            return None
        steps.append(replace(step, small=small))
    return _Chain(op.operands[0], tuple(steps), (*chain.moves, op))


def _before(move: Operation, small: _Small) -> _Small | None:
    """What is next to the result of a reshape or transposition, next to its operand."""
    if move.opdef is RESHAPE:
        return small.reshaped(move.operands[0].tensor.dims)
    order = move.params_as(TransposeParams).permutation
    return small.transposed(tuple(order.index(i) for i in range(len(order))))


def _small(value: Value, known: Known) -> _Small | None:
    """`value`, if it repeats what is known."""
    dims, number = value.tensor.dims, splat(value)
    if number is not None:
        return _Small(float(number), (1,) * len(dims), dims)
    source = value
    while (op := made_by(source, RESHAPE)) is not None:
        source = op.operands[0]
    repeat = made_by(source, BROADCAST)
    if repeat is None:
        return _Small(value, dims, dims) if value in known else None
    (narrow,) = repeat.operands
    if narrow not in known:
        return None
    return _Small(narrow, narrow.tensor.dims, source.tensor.dims).reshaped(dims)


def _regrouped(narrow: Narrow, wide: Sequence[Dim], dims: Sequence[Dim]) -> Narrow | None:
    """Narrow dims for `dims`, to which `wide` are reshaped: in each group of axes that hold the
    same elements all of them or none are whole."""
    made: list[Dim] = []
    i = j = 0
    while i < len(wide) or j < len(dims):
        first, new = i, j
        if i < len(wide) and j < len(dims) and wide[i] == dims[j]:
            i, j = i + 1, j + 1
        else:
            before = after = 1
            while before != after or (i, j) == (first, new):
                from_wide = before < after or (before == after and i < len(wide))
                rest = wide[i:] if from_wide else dims[j:]
                if not rest or not isinstance(rest[0], int) or rest[0] < 1:
                    return None
                if from_wide:
                    before, i = before * rest[0], i + 1
                else:
                    after, j = after * rest[0], j + 1
        own, around = narrow[first:i], wide[first:i]
        if all(n == 1 for n in own):
            made += [1] * (j - new)
        elif tuple(own) == tuple(around):
            made += dims[new:j]
        else:
            return None
    return tuple(made)


def _widest(dims: Sequence[Narrow]) -> Narrow:
    """Those that all of them can be repeated to."""
    return tuple(next((d for d in axis if d != 1), 1) for axis in zip(*dims, strict=True))


def _folded(b: IRBuilder, chain: _Chain) -> tuple[Value, Value | None]:
    """The factor and the summand that the steps come to; None for no summand."""
    like = chain.start
    factor: Value | None = None
    summand: Value | None = None
    for step in chain.steps:
        small = step.small.built(b, like) if step.small is not None else None
        if small is None or (step.opdef is SUB and step.swapped):
            factor = _one_like(b, -1.0, like) if factor is None else neg(b, factor)
            summand = neg(b, summand) if summand is not None else None
        if small is None:
            continue
        if step.opdef is MUL or step.opdef is DIV:
            if step.opdef is DIV and factor is None:
                factor = _one_like(b, 1.0, like)
            rule = mul if step.opdef is MUL else div
            factor = small if factor is None else _combined(b, rule, factor, small)
            summand = _combined(b, rule, summand, small) if summand is not None else None
        elif step.opdef is SUB and not step.swapped:
            minus = neg(b, small) if summand is None else None
            summand = minus or _combined(b, sub, summand or small, small)
        else:
            summand = small if summand is None else _combined(b, add, summand, small)
    assert factor is not None
    return factor, summand


def _one_like(b: IRBuilder, number: float, like: Value) -> Value:
    """One element that can stand next to all of `like`."""
    return constant(b, number, TensorType((1,) * like.tensor.rank, like.tensor.dtype))


def _combined(
    b: IRBuilder, rule: Callable[[IRBuilder, Value, Value], Value], x: Value, y: Value
) -> Value:
    dims = _widest([x.tensor.dims, y.tensor.dims])
    return rule(b, broadcast(b, x, dims), broadcast(b, y, dims))


# --- what takes a factor --------------------------------------------------------------------------


def _scaled(value: Value, narrow: Narrow, known: Known) -> Scaled | None:
    """How `value` comes times a factor of these dims; None where it cannot, or has more readers."""
    op = value.op
    if op is None or len(value.uses) != 1:
        return None
    if op.opdef is MATMUL:
        return _scaled_product(op, narrow, known)
    if op.opdef is DEPTHWISE or op.opdef is DEPTHWISE_DATA_GRAD:
        x, w = op.operands
        if w not in known or any(n != 1 for n in narrow[:-1]):
            return None
        return lambda b, s: b.emit_one(op.opdef, x, _times(b, w, s, ()), params=op.params)
    if op.opdef is CONCAT:
        return _scaled_parts(op, narrow, known)
    before = _operand_dims(op, narrow)
    inner = _scaled(op.operands[0], before, known) if before is not None else None
    if before is None or inner is None:
        return None
    return lambda b, s: b.emit_one(op.opdef, inner(b, _changed(b, op, s, before)), params=op.params)


def _scaled_product(op: Operation, narrow: Narrow, known: Known) -> Scaled | None:
    params, (x, w) = op.params_as(MatmulParams), op.operands
    rows = x.tensor.rank - params.contract
    over_rows, over_cols = narrow[params.batch : rows], narrow[rows:]
    batch, inner = narrow[: params.batch], (1,) * params.contract
    if w in known and all(n == 1 for n in over_rows):
        last = (over_cols, inner) if params.transpose_b else (inner, over_cols)
        dims = (*batch, *last[0], *last[1])
        return lambda b, s: b.emit_one(MATMUL, x, _times(b, w, s, dims), params=params)
    if x in known and all(n == 1 for n in over_cols):
        last = (inner, over_rows) if params.transpose_a else (over_rows, inner)
        dims = (*batch, *last[0], *last[1])
        return lambda b, s: b.emit_one(MATMUL, _times(b, x, s, dims), w, params=params)
    return None


def _scaled_parts(op: Operation, narrow: Narrow, known: Known) -> Scaled | None:
    """Of what is joined, each part by its own part of the factor."""
    axis = op.params_as(ConcatParams).axis
    parts = [_scaled(v, _part_dims(narrow, axis, v), known) for v in op.operands]
    found = [p for p in parts if p is not None]
    if len(found) != len(parts):
        return None
    sizes = [v.tensor.dims[axis] for v in op.operands]

    def make(b: IRBuilder, s: Value) -> Value:
        made: list[Value] = []
        start = 0
        for part, size in zip(found, sizes, strict=True):
            is_whole = s.tensor.dims[axis] != 1 and isinstance(size, int)
            stop = start + size if isinstance(size, int) else start
            made.append(part(b, slice_axis(b, s, axis, start, stop) if is_whole else s))
            start = stop
        return concat(b, made, axis)

    return make


def _part_dims(narrow: Narrow, axis: int, part: Value) -> Narrow:
    if narrow[axis] == 1:
        return narrow
    return (*narrow[:axis], part.tensor.dims[axis], *narrow[axis + 1 :])


def _operand_dims(op: Operation, narrow: Narrow) -> Narrow | None:
    """Those next to the operand of an operation that moves elements, which are then multiplied as
    they were next to its result."""
    (x,) = op.operands if len(op.operands) == 1 else (None,)
    if x is None:
        return None
    dims, whole = x.tensor.dims, [i for i, n in enumerate(narrow) if n != 1]
    if op.opdef is RESHAPE:
        return _regrouped(narrow, op.result.tensor.dims, dims)
    if op.opdef is TRANSPOSE:
        order = op.params_as(TransposeParams).permutation
        return tuple(narrow[order.index(i)] for i in range(len(order)))
    if op.opdef is SLICE:
        cut = op.params_as(SliceParams)
        kept = [(cut.starts[i], cut.stops[i], cut.steps[i]) == (0, dims[i], 1) for i in whole]
        return narrow if all(kept) else None
    if op.opdef is PAD:
        around = op.params_as(PadParams)
        amounts = [n for i in whole for n in (around.low[i], around.high[i], around.inner[i])]
        return narrow if around.value == 0.0 and not any(amounts) else None
    if op.opdef is OVERLAP_ADD:
        walk = op.params_as(OverlapAddParams)
        behind = walk.axis + len(walk.strides)
        if any(n != 1 for n in narrow[walk.axis : behind]):
            return None
        return (*narrow[:behind], *(1,) * len(walk.strides), *narrow[behind:])
    return None


def _changed(b: IRBuilder, op: Operation, factor: Value, dims: Narrow) -> Value:
    """The factor next to the operand of `op`."""
    if op.opdef is TRANSPOSE:
        order = op.params_as(TransposeParams).permutation
        return transpose(b, factor, [order.index(i) for i in range(len(order))])
    return reshape(b, factor, dims)


def _times(b: IRBuilder, weights: Value, factor: Value, dims: Narrow) -> Value:
    """Weights times a factor that has, with `dims`, an axis for each of theirs."""
    own = weights.tensor.dims
    narrow = dims or (*(1,) * (len(own) - 1), factor.tensor.dims[-1])
    return mul(b, weights, broadcast(b, reshape(b, factor, narrow), own))


@dataclass(frozen=True)
class FoldScales(Pass):
    name: ClassVar[str] = "fold-scales"
    summary: ClassVar[str] = "multiply weights that do not change in place of their products"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    changes_gradients: ClassVar[bool] = True

    def run(self, module: Module, context: Context) -> PassOutcome:
        count = sum(fold_scales(f) for f in module.functions)
        return PassOutcome(changed=count > 0, counters={"folded": count})
