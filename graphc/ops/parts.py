"""Parts of arrays that kernels read and write in place.

    %h = kernel %g : tensor<Nx8xf32> {                 two gates of 8 columns, side by side
    ^(%a: tensor<Nx16xf32>):
      %0 = slice %a {starts = [0, 0], stops = [N, 8], steps = [1, 1]} : tensor<Nx8xf32>
      %1 = slice %a {starts = [0, 8], stops = [N, 16], steps = [1, 1]} : tensor<Nx8xf32>
      %2 = mul %0, %1 : tensor<Nx8xf32>
      yield %2
    }

A kernel runs over the dims of the parts, not over those of the array around them. So an argument
that is cut is read in no other way, and what `concat` joins is a result and read by nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.ir.codegen import Reduction
from graphc.ir.core import Block, Operation, Value
from graphc.ir.types import TensorType, fixed_size
from graphc.ops.control import YIELD
from graphc.ops.movement import CONCAT, SLICE, ConcatParams, SliceParams, cuts_open_axis

LEAST = 2
"""Elements of a part along its axis: a single one has neighbours along another axis, which are
apart in memory."""


@dataclass(frozen=True, slots=True)
class Part:
    """So many elements from `start` on, along one axis of an array of type `whole`."""

    axis: int
    start: int
    extent: int
    whole: TensorType


def part_taken(op: Operation) -> Part | None:
    """The part of its operand that a `slice` is; None for one that is none, and others."""
    if op.opdef is not SLICE or len(op.results) != 1 or cuts_open_axis(op):
        return None
    params, (x,), taken = op.params_as(SliceParams), op.operands, op.result.tensor.dims
    cut = [i for i, (d, t) in enumerate(zip(x.tensor.dims, taken, strict=True)) if d != t]
    if len(cut) != 1 or any(step != 1 for step in params.steps):
        return None
    (axis,) = cut
    extent = taken[axis]
    if not isinstance(extent, int) or extent < LEAST:
        return None
    return Part(axis, fixed_size(params.starts[axis]), extent, x.tensor)


def parts_joined(op: Operation) -> tuple[Part, ...]:
    """Where the operands of a `concat` stand in its result, if they are of one type; else ()."""
    if op.opdef is not CONCAT or len(op.operands) < 2:
        return ()
    axis, type = op.params_as(ConcatParams).axis, op.operands[0].tensor
    extent = type.dims[axis]
    if any(v.type != type for v in op.operands) or not isinstance(extent, int) or extent < LEAST:
        return ()
    return tuple(Part(axis, i * extent, extent, op.result.tensor) for i in range(len(op.operands)))


def walked_values(body: Block) -> list[Value]:
    """The values whose dims the kernel of a body runs over: all but arrays with parts."""
    whole = {op.operands[0] for op in body if part_taken(op)}
    made = (v for op in body if not parts_joined(op) for v in op.results)
    return [*(v for v in body.arguments if v not in whole), *made]


def has_parts(body: Block) -> bool:
    """Whether a kernel reads or writes parts of arrays."""
    return any(part_taken(op) or parts_joined(op) for op in body)


def misplaced_part(op: Operation) -> str:
    """Why an operation of a body is no part of an argument, nor a result of parts; "" if it is."""
    if part_taken(op):
        (x,) = op.operands
        if x.op is not None or not all(part_taken(user) for user in x.users()):
            return "takes a part of what is no argument, or is read whole too"
        return ""
    if not parts_joined(op):
        return "cannot stand in a kernel"
    if any(user.opdef is not YIELD for user in op.result.users()):
        return "joins parts that the body reads"
    folds = (v.op is not None and isinstance(v.op.opdef.codegen, Reduction) for v in op.operands)
    return "joins what is folded" if any(folds) else ""
