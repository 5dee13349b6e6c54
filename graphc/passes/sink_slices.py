"""Slices before arithmetic, for `fuse-kernels`: what only parts are read of is computed in parts.

    %z = add %g, %h : tensor<Nx16xf32>                     %a = slice %g … : tensor<Nx8xf32>
    %i = slice %z … : tensor<Nx8xf32>              =>      %b = slice %h … : tensor<Nx8xf32>
    %f = slice %z … : tensor<Nx8xf32>                      %i = add %a, %b : tensor<Nx8xf32>
                                                           …
So the kernels that read the parts read `%g` and `%h` in place, and `%z` is never in memory. Only
where the parts do not overlap, so that no element is computed twice. O(operations).
"""

from __future__ import annotations

from itertools import pairwise

from graphc.ir.codegen import FUSABLE, Elementwise
from graphc.ir.core import Block, IRBuilder, Operation, Value
from graphc.ir.rewriter import Pattern, apply_patterns
from graphc.ir.types import Dim
from graphc.ops.constant import CONSTANT, ConstantParams
from graphc.ops.movement import SLICE, SliceParams
from graphc.ops.parts import Part, part_taken
from graphc.ops.reduction import BROADCAST, broadcast
from graphc.passes.matching import Result, operand_of, splat


def sink_slices(block: Block) -> int:
    """Rewrite the block; how many operations are computed in parts now."""
    return apply_patterns(block, (Pattern("slice-of-elementwise", SLICE, _of_elementwise),))


def _of_elementwise(b: IRBuilder, op: Operation) -> Result:
    made, part = op.operands[0].op, part_taken(op)
    if part is None or made is None or not isinstance(made.opdef.codegen, Elementwise):
        return None
    if not _is_read_in_parts(made.result, part.axis):
        return None
    parts = [_cut(b, v, op, part) for v in made.operands]
    return [b.emit_one(made.opdef, *parts, params=made.params)]


def _is_read_in_parts(value: Value, axis: int) -> bool:
    """Whether only kernels read it, and each element at most one of them."""
    ranges: list[tuple[int, int]] = []
    for user in value.users():
        part = part_taken(user)
        if part is None or part.axis != axis:
            return False
        if not all(isinstance(u.opdef.codegen, FUSABLE) for u in user.result.users()):
            return False
        ranges.append((part.start, part.start + part.extent))
    return all(stop <= begin for (_, stop), (begin, _) in pairwise(sorted(ranges)))


def _cut(b: IRBuilder, value: Value, op: Operation, part: Part) -> Value:
    """What the slice `op` takes of a value as large as its operand."""
    dims = op.result.tensor.dims
    if splat(value) is not None:
        one = value.definition.params_as(ConstantParams).value[:1]
        return b.emit_one(CONSTANT, params=ConstantParams(value.tensor.with_dims(dims), one))
    spread = operand_of(value, BROADCAST)
    if spread is None:
        return b.emit_one(SLICE, value, params=op.params)
    if spread.tensor.dims[part.axis] == 1:
        return broadcast(b, spread, dims)
    return broadcast(b, b.emit_one(SLICE, spread, params=_along(op, spread, part.axis)), dims)


def _along(op: Operation, value: Value, axis: int) -> SliceParams:
    """The slice `op` takes along the axis, of a value with other extents besides."""
    params = op.params_as(SliceParams)
    stops: list[Dim] = list(value.tensor.dims)
    stops[axis] = params.stops[axis]
    return SliceParams(params.starts, tuple(stops), params.steps)
