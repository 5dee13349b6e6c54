"""`gemm.fused`: a matrix product whose elements go through a body before they are stored.

    %y = gemm.fused %x, %w, %b {transpose_b = true} schedule {parallel = "cols", chunk = 128} : … {
    ^(%z: tensor<Nx256xf32>, %c: tensor<1x256xf32>):
      %0 = broadcast %c {dims = [N, 256]} : tensor<Nx256xf32>
      %1 = add %z, %0 : tensor<Nx256xf32>
      %2 = sigmoid %1 : tensor<Nx256xf32>
      yield %2
    }

The first argument of the body is the product, the others are the operands behind `a` and `b`. The
product itself is stored nowhere, unless the body hands it out. On a processor it is made in the
chunks of its schedule, so many rows or columns each, and the body runs on a chunk as soon as that
is finished; on a GPU it runs on each element of a tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from graphc.ir.codegen import FUSABLE, FusedProduct, Position, Reduction
from graphc.ir.core import Array, Block, Level, NotDifferentiable, OpDef, Operation, Value
from graphc.ir.params import Params
from graphc.ir.types import Type
from graphc.ops.contraction import Groups, MatmulParams, groups, infer_matmul, matmul_reference
from graphc.ops.control import YIELD
from graphc.ops.kernel import body_results
from graphc.ops.prepacking import prepacked_types
from graphc.ops.reduction import ReduceParams
from graphc.ops.schedules import ProductSchedule, check_schedule, schedule_of


def product_groups(op: Operation) -> Groups:
    """Which dims of the product are its rows and which its columns."""
    return groups(op.params_as(MatmulParams), op.operands[0].tensor, op.operands[1].tensor)


def body_misfit(body: Block, roles: Groups) -> str:
    """What keeps the body from following a product part by part; "" if nothing.

    Along the rows every value has all of the product's dims or none (extents of 1), and so along
    the columns: then each element belongs to a row, to a column, to one element or to all of the
    product. Sums over all rows are final only behind the last row of a part; the body cannot read
    them.
    """
    terminator = body.terminator
    if terminator is None or terminator.opdef is not YIELD:
        return "no `yield` at the end"
    product = (*roles.rows, *roles.cols)
    for value in (*body.arguments, *(v for op in body for v in op.results)):
        if what := _misfit(value, roles, len(product)):
            return what
    for value in terminator.operands:
        if value.tensor.dims != product and not _is_reduction(value):
            return f"a result {value.type}, neither as large as the product nor a sum over its rows"
    return ""


def _misfit(value: Value, roles: Groups, rank: int) -> str:
    type = value.tensor
    if type.rank != rank:
        return f"{type}, which has not the product's rank"
    at = len(roles.rows)
    for own, whole in ((type.dims[:at], roles.rows), (type.dims[at:], roles.cols)):
        if own != whole and any(dim != 1 for dim in own):
            return f"{type}, which has neither all of {'x'.join(map(str, whole))} nor 1"
    op = value.op
    if op is not None and not isinstance(op.opdef.codegen, FUSABLE):
        return f"`{op.opdef.name}`, which cannot stand in a kernel"
    if op is not None and isinstance(op.opdef.codegen, Position) and rank > 2:
        return "a position in a product of tensors"
    return _reduction_misfit(value, roles) if _is_reduction(value) else ""


def _reduction_misfit(value: Value, roles: Groups) -> str:
    op = value.definition
    source = op.operands[0].tensor
    if source.dims[: len(roles.rows)] != roles.rows:
        return "a reduction of what does not vary along the rows"
    folded = {axis for axis in op.params_as(ReduceParams).axes if source.dims[axis] != 1}
    if folded != {axis for axis, dim in enumerate(roles.rows) if dim != 1}:
        return "a reduction over anything but all rows"
    if any(user.opdef is not YIELD for user in value.users()):
        return "a reduction that the body reads"
    return ""


def has_sums(body: Block) -> bool:
    """Whether a body sums over rows."""
    return any(isinstance(op.opdef.codegen, Reduction) for op in body)


def _is_reduction(value: Value) -> bool:
    return value.op is not None and isinstance(value.op.opdef.codegen, Reduction)


def _check(op: Operation) -> Iterable[str]:
    yield from check_schedule(op)
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        yield "requires one region with one block"
        return
    params = op.params_as(MatmulParams)
    schedule = schedule_of(op)
    block = op.regions[0].block
    product = infer_matmul([v.type for v in op.operands[:2]], params)[0]
    outside = [product, *(v.type for v in op.operands[2:])]
    inside = [a.type for a in block.arguments]
    if outside != inside:
        yield f"passes ({_list(outside)}) but its block takes ({_list(inside)})"
        return
    if params.batch:
        yield "requires a product without a batch"
    elif what := body_misfit(block, product_groups(op)):
        yield f"requires a body that follows the product, got {what}"
    elif schedule is not None and schedule.parallel == "rows" and has_sums(block):
        yield "requires chunks of columns for sums over the rows"


def _reference(
    params: MatmulParams,
    body: Callable[..., tuple[Array, ...]],
    _results: Sequence[Array],
    a: Array,
    b: Array,
    *inputs: Array,
) -> tuple[Array, ...]:
    return body(matmul_reference(params, a, b), *inputs)


def _infer(types: Sequence[Type], params: Params) -> Sequence[Type]:
    assert isinstance(params, MatmulParams)
    infer_matmul(types[:2], params)
    return []


def _list(types: Iterable[Type]) -> str:
    return ", ".join(map(str, types))


GEMM_FUSED = OpDef(
    name="gemm.fused",
    summary="a matrix product whose elements go through a body before they are stored",
    operands=("a", "b", "inputs*"),
    params=MatmulParams,
    schedule=ProductSchedule,
    infer=_infer,
    region_types=body_results,
    reference=_reference,
    check=_check,
    workspace=prepacked_types,
    codegen=FusedProduct(),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
)

OPS = (GEMM_FUSED,)
