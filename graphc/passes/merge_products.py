"""Joins products that share a factor, of which the other one is a matrix that was there before.

    %i = matmul %x, %Wi {transpose_b = true} : tensor<Nx8xf32>
    %f = matmul %x, %Wf {transpose_b = true} : tensor<Nx8xf32>
 =>
    %W = concat %Wi, %Wf {axis = 0} : tensor<16x4xf32>
    %p = matmul %x, %W {transpose_b = true} : tensor<Nx16xf32>
    %i = slice %p {starts = [0, 0], stops = [N, 8], steps = [1, 1]} : tensor<Nx8xf32>
    %f = slice %p {starts = [0, 8], stops = [N, 16], steps = [1, 1]} : tensor<Nx8xf32>

The gates of a recurrent cell, the projections of attention, two layers that read the same one: one
product reads `%x` once and has more columns to share among tiles and threads. It runs before what
differentiates, so gradients are joined too: what flows back to `%x` is one product of all parts
side by side, with their sum inside, and the gradient of `%W` is one product.

Matrices are parameters of the function, transposed or not, and in a loop what no step changes:
those are joined before the outermost loop that they come from. Parameters stay where they are and
keep their names; to join them is a copy of each call, before all calls where they are `frozen`.

Leaves alone: parameters that are trained beside those that are not, so that nobody computes a
gradient for nothing; products over a batch or of more than one contracted dim; where gradients are
taken, products with a sparse input, whose gradients change the rows alone that it looks up, and
outside of loops matrices that are together too large for a near cache; elsewhere, outside of loops,
matrices that are not frozen, and products of one row, which take as long as reading their matrix.

Each number of a product has the sum it had, bit for bit. Of what flows back to `%x` the sums of all
parts are one, in the order of the parameters: its last bits differ (docs/numerics.md).
O(operations + operands).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.codegen import Loop
from graphc.ir.context import Context
from graphc.ir.core import Block, Function, IRBuilder, Module, Operation, RegionKind, Value
from graphc.ir.traversal import walk
from graphc.ir.types import fixed_size
from graphc.ops.contraction import MATMUL, MatmulParams, matmul
from graphc.ops.indexed import SCATTER_ADD
from graphc.ops.loop import loop_parts
from graphc.ops.movement import (
    CONCAT,
    RESHAPE,
    SLICE,
    TRANSPOSE,
    ConcatParams,
    TransposeParams,
    concat,
    reshape,
    slice_axis,
)
from graphc.ops.parts import part_taken
from graphc.passes.invariants import Invariant
from graphc.passes.loop_editing import close_loop, open_loop
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.matching import made_by
from graphc.passes.trim_loops import trim_loops
from graphc.support.source import UNKNOWN, merge_locations

MATRIX_TRANSPOSED = TransposeParams((1, 0))

MOST_COPIED_BYTES = 512 * 1024
"""Of matrices that are joined in each call for a single product: half of a second-level cache."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A product that may be part of another one.

    matrix      the factor of its own, as it was before it was transposed
    place       of that factor among the operands
    transposed  whether the product reads it transposed
    """

    op: Operation
    matrix: Value
    place: int
    transposed: bool

    @property
    def shared(self) -> Value:
        return self.op.operands[1 - self.place]

    @property
    def shared_transposed(self) -> bool:
        params = self.op.params_as(MatmulParams)
        return params.transpose_a if self.place == 1 else params.transpose_b

    @property
    def axis(self) -> int:
        """Of the matrix: what the product does not sum over."""
        return int(self.transposed == (self.place == 0))

    @property
    def extent(self) -> int:
        return fixed_size(self.matrix.tensor.dims[self.axis])

    @property
    def is_row(self) -> bool:
        """Whether it takes as long as reading its matrix, whole or in parts."""
        return self.op.result.tensor.bound_elements <= self.extent

    @property
    def is_sparse(self) -> bool:
        """Whether it will look up rows of its matrix, and its gradient adds to those alone."""
        value = self.shared
        while (op := value.op) is not None and op.opdef in (RESHAPE, SLICE, TRANSPOSE):
            value = op.operands[0]
        return made_by(value, SCATTER_ADD) is not None


def merge_products(
    function: Function, trained: Collection[str] = (), *, frozen: bool = False
) -> dict[str, int]:
    """Rewrite `function`; how many products are part of a larger one now, and of how many arrays
    loops read less.

    trained  names of what gradients are taken of; none if none is taken
    frozen   no parameter ever changes
    """
    if function.kind is not RegionKind.SSA:
        return {"products": 0, "reads": 0}
    count = reads = 0
    # Inner loops first: what is joined for them is lifted out of the outer ones too.
    for loop in reversed([op for op in walk(function) if isinstance(op.opdef.codegen, Loop)]):
        sources = _sources(loop)
        kinds = _kinds(sources, function, trained)
        count += _merge_in(loop.regions[0].block, kinds, math.inf, rows=bool(trained))
        reads += _lift_joined(loop)
    roles = zip(function.arguments, function.roles, strict=True)
    parameters = {a: (a.name in trained,) for a, role in roles if role == "parameter"}
    # What flows back has the same bits for any batch, whether anything is frozen or not.
    most = MOST_COPIED_BYTES if trained else math.inf if frozen else 0
    count += _merge_in(function.block, parameters, most, rows=bool(trained))
    for loop in [op for op in walk(function) if isinstance(op.opdef.codegen, Loop)]:
        reads += _read_wholes(loop)
    if count or reads:
        trim_loops(function)
    return {"products": count, "reads": reads}


def _sources(loop: Operation) -> dict[Value, Value]:
    """What the steps of a loop read whole, and what it is outside of all loops around."""
    parts = loop_parts(loop)
    found = dict(zip(parts.shared, parts.invariants, strict=True))
    around = _loop_around(loop)
    if around is None:
        return found
    outer = _sources(around)
    return {inner: outer.get(value, value) for inner, value in found.items()}


def _kinds(
    sources: Mapping[Value, Value], function: Function, trained: Collection[str]
) -> dict[Value, object]:
    """What a loop reads whole, in the order of the function's arguments, and of what kind it is."""
    last = len(function.arguments)

    def place(value: Value) -> int:
        source = sources[value]
        return source.index if source.owner is function.block else last

    return {v: (place(v) < last, sources[v].name in trained) for v in sorted(sources, key=place)}


def _loop_around(op: Operation) -> Operation | None:
    region = op.block.region if op.block is not None else None
    owner = region.owner if region is not None else None
    if isinstance(owner, Operation) and isinstance(owner.opdef.codegen, Loop):
        return owner
    return None


# --- products -------------------------------------------------------------------------------------


def _merge_in(block: Block, kinds: Mapping[Value, object], most_bytes: float, *, rows: bool) -> int:
    """Merge the products of a block with these matrices; only those of one kind are joined, up to
    so many bytes. `rows`: gradients are taken, so products of a single row too, and none of sparse
    inputs."""
    groups: dict[object, dict[Value, _Member]] = {}
    order = {value: index for index, value in enumerate(kinds)}
    for op in block:
        member = _member(op, kinds)
        if member is not None and (not member.is_sparse if rows else not member.is_row):
            key = (member.shared, member.place, member.transposed, member.shared_transposed)
            group = groups.setdefault((*key, kinds[member.matrix]), {})
            group.setdefault(member.matrix, member)
    merged = [
        [*group.values()]
        for group in groups.values()
        if len(group) > 1 and sum(m.tensor.bound_bytes for m in group) <= most_bytes
    ]
    for group in merged:
        _merge(group[0].op, sorted(group, key=lambda m: order[m.matrix]))
    return sum(len(group) for group in merged)


def _member(op: Operation, matrices: Collection[Value]) -> _Member | None:
    """The product of something with one of the matrices that `op` is."""
    if op.opdef is not MATMUL:
        return None
    params = op.params_as(MatmulParams)
    if params.contract != 1 or params.batch:
        return None
    for place, reads_transposed in ((1, params.transpose_b), (0, params.transpose_a)):
        value = op.operands[place]
        turned = made_by(value, TRANSPOSE)
        if turned is not None and turned.params == MATRIX_TRANSPOSED:
            value = turned.operands[0]
        else:
            turned = None
        if value in matrices and _is_matrix(value):
            return _Member(op, value, place, reads_transposed != (turned is not None))
    return None


def _is_matrix(value: Value) -> bool:
    dims = value.tensor.dims
    return len(dims) == 2 and all(isinstance(d, int) and d > 0 for d in dims)


def _merge(first: Operation, group: Sequence[_Member]) -> None:
    """One product in the place of the first of these, and parts of it in the place of each."""
    like, b = group[0], IRBuilder.before(first)
    b.location = merge_locations([m.op.location for m in group])
    # Without a place in the network: the gradient's parts are parts of updates, not of products.
    with b.at(UNKNOWN):
        matrix = concat(b, [m.matrix for m in group], like.axis)
    matrix.label = "joined"
    if like.place == 1:
        flags = {"transpose_a": like.shared_transposed, "transpose_b": like.transposed}
        whole = matmul(b, like.shared, matrix, **flags)
    else:
        flags = {"transpose_a": like.transposed, "transpose_b": like.shared_transposed}
        whole = matmul(b, matrix, like.shared, **flags)
    axis = whole.tensor.rank - 1 if like.place == 1 else 0
    parts: list[Value] = []
    start = 0
    for member in group:
        with b.at(member.op.location):
            parts.append(slice_axis(b, whole, axis, start, start + member.extent))
        start += member.extent
    for member, part in zip(group, parts, strict=True):
        member.op.replace_with([part])


# --- loops ----------------------------------------------------------------------------------------


def _lift_joined(loop: Operation) -> int:
    """Join matrices that a loop reads whole before it; how many of those there are."""
    parts = loop_parts(loop)
    outside = dict(zip(parts.shared, parts.invariants, strict=True))
    joined = [
        op for op in parts.block if op.opdef is CONCAT and all(v in outside for v in op.operands)
    ]
    if not joined:
        return 0
    draft, b = open_loop(loop), IRBuilder.before(loop)
    for op in joined:
        with b.at(op.location):
            whole = concat(b, [outside[v] for v in op.operands], op.params_as(ConcatParams).axis)
        whole.label = op.result.label
        op.replace_with([draft.add_invariant(whole)])
    draft.refresh()
    close_loop(draft)
    return len(joined)


def _read_wholes(loop: Operation) -> int:
    """Let steps that read all parts of an array read its elements, and take the parts themselves;
    how many parts."""
    parts = loop_parts(loop)
    found = dict(zip(parts.elements, map(_cut, parts.sequences), strict=True))
    covered = {cut.source: 0 for cut in found.values() if cut is not None}
    for cut in sorted((c for c in found.values() if c is not None), key=lambda c: c.start):
        if covered[cut.source] == cut.start:
            covered[cut.source] = cut.stop
    whole_sources = {v for v, stop in covered.items() if stop == v.tensor.dims[-1]}
    cuts = {v: cut for v, cut in found.items() if cut is not None and cut.source in whole_sources}
    if not cuts:
        return 0
    draft, b = open_loop(loop), IRBuilder.before(loop)
    inner = IRBuilder(draft.block, draft.block.first)
    wholes: dict[Value, Value] = {}
    for element, cut in cuts.items():
        if cut.source not in wholes:
            dims = (parts.params.count, *element.tensor.dims[:-1], cut.source.tensor.dims[-1])
            wholes[cut.source] = draft.add_sequence(reshape(b, cut.source, dims))
        with inner.at(cut.op.location):
            whole = wholes[cut.source]
            part = slice_axis(inner, whole, whole.tensor.rank - 1, cut.start, cut.stop)
        part.label = element.called
        element.replace_all_uses(part)
    draft.refresh()
    close_loop(draft)
    return len(cuts)


@dataclass(frozen=True, slots=True)
class _Cut:
    """What an array is of another one: the elements from `start` to `stop` of its last axis."""

    op: Operation
    source: Value
    start: int
    stop: int


def _cut(value: Value) -> _Cut | None:
    """What a sequence is a part of, maybe in another shape with the same last axis."""
    op = made_by(value, SLICE)
    if op is None and (reshaped := made_by(value, RESHAPE)) is not None:
        op = made_by(reshaped.operands[0], SLICE)
    part = part_taken(op) if op is not None else None
    if op is None or part is None or part.axis != part.whole.rank - 1:
        return None
    if value.tensor.dims[-1] != part.extent:
        return None
    return _Cut(op, op.operands[0], part.start, part.start + part.extent)


@dataclass(frozen=True)
class MergeProducts(Pass):
    """`trained`: names of the parameters whose gradients are taken; `frozen`: none ever changes."""

    name: ClassVar[str] = "merge-products"
    summary: ClassVar[str] = "make one product of those that share a factor"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    trained: tuple[str, ...] = ()
    frozen: bool = False

    def run(self, module: Module, context: Context) -> PassOutcome:
        found = [merge_products(f, self.trained, frozen=self.frozen) for f in module.functions]
        counters = {name: sum(f[name] for f in found) for name in ("products", "reads")}
        return PassOutcome(any(counters.values()), counters)
