"""The kernel level: what remains after `fuse-kernels`, and where results live after `plan-memory`.

    %y = kernel %x, %b schedule {parallel = 0, chunk = 16} at arena:0 : tensor<Nx10xf32> {
    ^(%a: tensor<Nx10xf32>, %c: tensor<1x10xf32>):
      %0 = broadcast %c {dims = [N, 10]} : tensor<Nx10xf32>
      %1 = add %a, %0 : tensor<Nx10xf32>
      yield %1
    }

`kernel`  one fused loop nest. Its body holds tensor operations of one rank whose categories may
          stand in a kernel (`codegen.FUSABLE`) and reads nothing but its arguments; of these it
          may read parts in place, and write results part by part (`parts.py`).
`gemm`    a matrix product into a buffer; `gemm.fused` (`epilogue.py`) with a body for its elements.
`move.*`  a rearrangement of elements into a buffer, one operation for each of the tensor level.
`conv`, `conv.*`  a convolution and its two gradients into a buffer (`convolution.py`); those of
          depthwise ones as on the tensor level (`depthwise.py`).
`pool`, `pool.*`  windows folded, and the gradients of that, into a buffer (`pooling.py`).
`index.*` a sum of looked up products into a buffer, likewise.
`copy`    the same elements in another buffer.
`update_rows`  a learner's rule on some rows of tables (`update_rows.py`).
`reshape` stays as it is: a view of its operand's memory.
`laid`    a view of a parameter that whoever binds the function has transposed in its memory.

`schedule` says how an operation is computed (`schedules.py`), `at` where each result lives
(`ir/placement.py`), which is known from `plan-memory` on.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphc.ir.codegen import FUSABLE, Copy, Kernel, View
from graphc.ir.core import Level, NotDifferentiable, OpDef, Operation, Region, Trait
from graphc.ir.params import NoParams, Params
from graphc.ir.types import TensorType, Type
from graphc.ops import depthwise, indexed, movement, patches, selection
from graphc.ops.contraction import MATMUL
from graphc.ops.control import YIELD
from graphc.ops.parts import misplaced_part
from graphc.ops.prepacking import prepacked_types
from graphc.ops.rules import tensor
from graphc.ops.schedules import (
    ChannelSchedule,
    CopySchedule,
    KernelSchedule,
    LaneSchedule,
    LookupSchedule,
    ProductSchedule,
    check_schedule,
)


def body_results(regions: Sequence[Region], _params: Params) -> Sequence[Type]:
    """The types that the body of a structured operation hands out."""
    terminator = regions[0].block.terminator if regions and regions[0].blocks else None
    return [v.type for v in terminator.operands] if terminator is not None else []


def _check_kernel(op: Operation) -> Iterable[str]:
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        yield "requires one region with one block"
        return
    block = op.regions[0].block
    outside = [v.type for v in op.operands]
    inside = [a.type for a in block.arguments]
    if outside != inside:
        yield f"passes {_list(outside)} but its block takes {_list(inside)}"
    if block.terminator is None or block.terminator.opdef is not YIELD:
        yield "its block must end in `yield`"
    ranks = {t.rank for o in block for v in o.results if isinstance(t := v.type, TensorType)}
    ranks |= {t.rank for t in inside if isinstance(t, TensorType)}
    if len(ranks) > 1:
        yield f"requires values of one rank, got ranks {sorted(ranks)}"
    for inner in block:
        if inner.opdef is YIELD or isinstance(inner.opdef.codegen, FUSABLE):
            continue
        if what := misplaced_part(inner):
            yield f"`{inner.opdef.name}` {what}"
    yield from check_schedule(op)


def _list(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"


KERNEL = OpDef(
    name="kernel",
    summary="one fused loop nest",
    operands=("inputs*",),
    schedule=KernelSchedule,
    infer=lambda _types, _params: [],
    region_types=body_results,
    reference=lambda _params, body, _results, *inputs: body(*inputs),
    check=_check_kernel,
    codegen=Kernel(),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
)
COPY = OpDef(
    name="copy",
    summary="the same elements in another buffer",
    operands=("x",),
    infer=lambda types, _params: [tensor(types[0])],
    reference=lambda _p, x: np.array(x),
    schedule=CopySchedule,
    check=check_schedule,
    codegen=Copy(),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
    traits=frozenset({Trait.PURE}),
)


@dataclass(frozen=True)
class LaidParams(Params):
    """The elements under `dims`, transposed: result dim i is `dims[permutation[i]]`."""

    dims: tuple[int, ...]
    permutation: tuple[int, ...]


def _infer_laid(types: Sequence[Type], params: LaidParams) -> Sequence[Type]:
    (split,) = movement.RESHAPE.infer(types, movement.ReshapeParams(params.dims))
    return movement.TRANSPOSE.infer([split], movement.TransposeParams(params.permutation))


LAID = OpDef(
    name="laid",
    summary="a parameter in another order, which its memory holds already",
    operands=("x",),
    params=LaidParams,
    infer=_infer_laid,
    reference=lambda p, x: np.ascontiguousarray(x.reshape(p.dims).transpose(p.permutation)),
    codegen=View(),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
    equation="y = transpose(reshape(x))",
)


def _buffered(
    op: OpDef, name: str, schedule: type[Params] = LaneSchedule, summary: str = ""
) -> OpDef:
    """The kernel-level form of a tensor operation: the same, into a buffer."""
    return OpDef(
        name=name,
        summary=f"{summary or op.name} into a buffer",
        operands=op.operands,
        params=op.params,
        schedule=schedule,
        infer=op.infer,
        reference=op.reference,
        check=check_schedule,
        codegen=op.codegen,
        vjp=NotDifferentiable.NONE,
        level=Level.KERNEL,
    )


_MOVEMENTS = (
    movement.TRANSPOSE,
    movement.SLICE,
    movement.PAD,
    movement.CONCAT,
    movement.REVERSE,
)
_PATCHES = (patches.PATCHES, patches.OVERLAP_ADD)
_INDEXED = (
    indexed.GATHER,
    indexed.SCATTER_ADD,
    indexed.SPARSE_PRODUCT,
    indexed.SAMPLED_PRODUCT,
    indexed.TRANSPOSED_SPARSE_PRODUCT,
)

GEMM = replace(
    _buffered(MATMUL, "gemm", ProductSchedule, "matrix product"), workspace=prepacked_types
)

FORMS: dict[OpDef, OpDef] = {
    MATMUL: GEMM,
    **{op: _buffered(op, f"move.{op.name}") for op in (*_MOVEMENTS, *_PATCHES)},
    **{op: _buffered(op, f"conv.{op.name}", ChannelSchedule) for op in depthwise.OPS},
    **{op: _buffered(op, f"index.{op.name}", LookupSchedule) for op in _INDEXED},
    selection.TOP_INDICES: _buffered(selection.TOP_INDICES, "index.top_indices", NoParams),
}
"""The kernel-level form of each tensor operation that stands alone, outside kernels."""


OPS = (KERNEL, *FORMS.values(), COPY, LAID)
