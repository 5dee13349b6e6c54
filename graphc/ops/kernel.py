"""The kernel level: what remains after `fuse-kernels`, and where results live after `plan-memory`.

    %y = kernel %x, %b {at = ["arena:0"]} : tensor<Nx10xf32> {
    ^(%a: tensor<Nx10xf32>, %c: tensor<1x10xf32>):
      %0 = broadcast %c {dims = [N, 10]} : tensor<Nx10xf32>
      %1 = add %a, %0 : tensor<Nx10xf32>
      yield %1
    }

`kernel`  one fused loop nest. Its body holds tensor operations of one rank whose categories may
          stand in a kernel (`codegen.FUSABLE`) and reads nothing but its arguments.
`gemm`    a matrix product into a buffer; `gemm.fused` (`epilogue.py`) with a body for its elements.
`move.*`  a rearrangement of elements into a buffer, one operation for each of the tensor level.
`conv`, `conv.*`  a convolution and its two gradients into a buffer (`convolution.py`).
`pool`, `pool.*`  windows folded, and the gradients of that, into a buffer (`pooling.py`).
`index.*` a sum of looked up products into a buffer, likewise.
`copy`    the same elements in another buffer.
`update_rows`  a learner's rule on some rows of tables (`update_rows.py`).
`reshape` stays as it is: a view of its operand's memory.

`at` says where each result lives (`places.py`). Before `plan-memory` it is empty. `split` says how
the work is cut into parts for threads (`splits.py`); without it the operation is one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np

from graphc.ir.codegen import FUSABLE, Copy, Structured
from graphc.ir.core import Level, NotDifferentiable, OpDef, Operation, Region, Trait
from graphc.ir.params import Params
from graphc.ir.types import TensorType, Type
from graphc.ops import indexed, movement, windows
from graphc.ops.contraction import MATMUL, MatmulParams
from graphc.ops.control import YIELD
from graphc.ops.convolution import ConvImageParams, ConvParams, ConvWeightsParams
from graphc.ops.loop import LoopParams
from graphc.ops.places import check_places
from graphc.ops.pooling import PoolParams, SlopeParams, SpreadParams
from graphc.ops.rules import tensor
from graphc.ops.splits import Setting, check_split
from graphc.ops.update_rows import UpdateRowsParams


@dataclass(frozen=True)
class Placed(Params):
    """Of an operation that has no settings of its own and is one piece."""

    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class KernelParams(Params):
    at: tuple[str, ...] = ()
    split: Setting = ()


@dataclass(frozen=True)
class GemmParams(MatmulParams):
    at: tuple[str, ...] = ()
    split: Setting = ()


@dataclass(frozen=True)
class PlacedTranspose(movement.TransposeParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedSlice(movement.SliceParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedPad(movement.PadParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedConcat(movement.ConcatParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedReverse(movement.ReverseParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedWindows(windows.WindowsParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedOverlapAdd(windows.OverlapAddParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedPut(indexed.PutParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedLookup(indexed.LookupParams):
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class PlacedOuter(indexed.OuterParams):
    at: tuple[str, ...] = ()


PlacedParams = (
    KernelParams
    | GemmParams
    | Placed
    | PlacedTranspose
    | PlacedSlice
    | PlacedPad
    | PlacedConcat
    | PlacedReverse
    | PlacedWindows
    | PlacedOverlapAdd
    | PlacedPut
    | PlacedLookup
    | PlacedOuter
    | ConvParams
    | ConvImageParams
    | ConvWeightsParams
    | PoolParams
    | SlopeParams
    | SpreadParams
    | LoopParams
    | UpdateRowsParams
)


def body_results(regions: Sequence[Region], _params: Params) -> Sequence[Type]:
    """The types that the body of a structured operation hands out."""
    terminator = regions[0].block.terminator if regions and regions[0].blocks else None
    return [v.type for v in terminator.operands] if terminator is not None else []


def _check_kernel(op: Operation) -> Iterable[str]:
    yield from check_places(op)
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
        if inner.opdef is not YIELD and not isinstance(inner.opdef.codegen, FUSABLE):
            yield f"`{inner.opdef.name}` cannot stand in a kernel"
    yield from check_split(op)


def _list(types: Sequence[Type]) -> str:
    return f"({', '.join(map(str, types))})"


def _check_placed(op: Operation) -> Iterable[str]:
    yield from check_places(op)
    yield from check_split(op)


KERNEL = OpDef(
    name="kernel",
    summary="one fused loop nest",
    operands=("inputs*",),
    params=KernelParams,
    infer=lambda _types, _params: [],
    region_types=body_results,
    reference=lambda _params, body, _results, *inputs: body(*inputs),
    check=_check_kernel,
    codegen=Structured(),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
)
COPY = OpDef(
    name="copy",
    summary="the same elements in another buffer",
    operands=("x",),
    params=Placed,
    infer=lambda types, _params: [tensor(types[0])],
    reference=lambda _p, x: np.array(x),
    check=check_places,
    codegen=Copy(),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
    traits=frozenset({Trait.PURE}),
)


def _placed(op: OpDef, name: str, params: type[Params], summary: str = "") -> OpDef:
    """The kernel-level form of a tensor operation: the same, into a buffer."""
    return OpDef(
        name=name,
        summary=f"{summary or op.name} into a buffer",
        operands=op.operands,
        params=params,
        infer=op.infer,
        reference=op.reference,
        check=_check_placed,
        codegen=op.codegen,
        vjp=NotDifferentiable.NONE,
        level=Level.KERNEL,
    )


GEMM = _placed(MATMUL, "gemm", GemmParams, "matrix product")

FORMS: dict[OpDef, OpDef] = {
    MATMUL: GEMM,
    movement.TRANSPOSE: _placed(movement.TRANSPOSE, "move.transpose", PlacedTranspose),
    movement.SLICE: _placed(movement.SLICE, "move.slice", PlacedSlice),
    movement.PAD: _placed(movement.PAD, "move.pad", PlacedPad),
    movement.CONCAT: _placed(movement.CONCAT, "move.concat", PlacedConcat),
    movement.REVERSE: _placed(movement.REVERSE, "move.reverse", PlacedReverse),
    windows.WINDOWS: _placed(windows.WINDOWS, "move.windows", PlacedWindows),
    windows.OVERLAP_ADD: _placed(windows.OVERLAP_ADD, "move.overlap_add", PlacedOverlapAdd),
    indexed.TAKE: _placed(indexed.TAKE, "index.take", Placed),
    indexed.PUT_ADD: _placed(indexed.PUT_ADD, "index.put_add", PlacedPut),
    indexed.LOOKUP_SUM: _placed(indexed.LOOKUP_SUM, "index.lookup_sum", PlacedLookup),
    indexed.LOOKUP_DOT: _placed(indexed.LOOKUP_DOT, "index.lookup_dot", PlacedLookup),
    indexed.LOOKUP_OUTER: _placed(indexed.LOOKUP_OUTER, "index.lookup_outer", PlacedOuter),
}
"""The kernel-level form of each tensor operation that stands alone, outside kernels."""


def kernel_params(op: Operation) -> Params:
    """The settings of `op`, a key of FORMS, for its kernel-level form."""
    given = {f.name: getattr(op.params, f.name) for f in fields(op.params)}  # type: ignore[arg-type]
    return FORMS[op.opdef].params(**given)


OPS = (KERNEL, *FORMS.values(), COPY)
