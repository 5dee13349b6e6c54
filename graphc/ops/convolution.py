"""Products with windows at the kernel level: no window is ever copied.

    conv              x [.., E.., C..], w [S.., C.., F..]          -> y [.., P.., F..]
    conv.data_grad    y [.., P.., F..], w [S.., F.., S, C..]       -> x [.., E.., C..]
    conv.weight_grad  x [.., E.., C..], y [.., P.., F..]           -> w [S.., C.., F..]

P windows of S elements over each walked extent E, `strides` apart; C are what an image has at each
place, F what the result has. The first is `matmul` of `patches`, the second `overlap_add` of a
product, the third a product of windows over all output positions: each of the three is what the
derivative of another one needs. The weights of `conv.data_grad` have F before their last size, so
that the elements of a window that lie together in x lie together there too.

With a `block` of b the weights lie in blocks of so many F, for `conv.data_grad` of C, of which
there is one dim: w [F/b, S.., C.., b] and [S.., C/b, F.., b].

With `low` and `high`, one number for each walked axis, an image is surrounded by so many zeros: its
workspace has room for one such image, for each chunk where the operation is cut (for each image,
where chunks are parts of the result of one). Where the sum of `conv.weight_grad` is cut by images,
each chunk has sums of its own there too, which are added in the end, the first chunk's first.

By Winograd's algorithm the workspace of `conv` has the transformed weights too, unless they are a
parameter that lies so, and for each chunk the tiles and products of a block; parts of features
share the tiles of their image. `conv.data_grad` is then a `conv` of the results with turned
weights, so it is the results that have zeros around them; `conv.weight_grad` has tiles and sums of
16 products for each chunk.

`fuse-patches` makes them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphc.ir.codegen import Role, WindowProduct
from graphc.ir.core import Array, Level, NotDifferentiable, OpDef, Operation, Reference
from graphc.ir.params import Params
from graphc.ir.types import Dim, TensorType, Type, TypeRuleError, bound_elements
from graphc.ops.patches import (
    OverlapAddParams,
    PatchesParams,
    overlap_add_reference,
    patches_reference,
    positions,
)
from graphc.ops.rules import FLOATS, dims_text, require_dtype, tensor
from graphc.ops.schedules import ConvSchedule, WeightGradSchedule, check_schedule, schedule_of

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class ConvParams(Params):
    """`axis`: the first of the axes that are walked; one stride for each."""

    axis: int
    strides: tuple[int, ...]
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    block: int = 0


@dataclass(frozen=True)
class ConvDataGradParams(Params):
    """`extents`: those of the walked axes in the result."""

    axis: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()
    block: int = 0


@dataclass(frozen=True)
class ConvWeightGradParams(Params):
    """`sizes`: of the windows."""

    axis: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    low: tuple[int, ...] = ()
    high: tuple[int, ...] = ()


AnyConvParams = ConvParams | ConvDataGradParams | ConvWeightGradParams


@dataclass(frozen=True, slots=True)
class ConvShape:
    """The extents of a convolution by their role, whichever of the three it is.

    lead      dims before the walked ones, walked over again for each
    extents, sizes, strides   of each walked axis: the image with its zeros, a window, a step
    output_positions   how many windows there are along each walked axis
    low, high   how many zeros there are before and after
    channels, features   dims behind them: of the image, of the result
    """

    lead: tuple[Dim, ...]
    extents: Sizes
    channels: Sizes
    sizes: Sizes
    strides: Sizes
    output_positions: Sizes
    features: Sizes
    low: Sizes
    high: Sizes
    block: int = 0

    @property
    def is_padded(self) -> bool:
        """Whether there are zeros around an image."""
        return any((*self.low, *self.high))

    def turned(self) -> ConvShape:
        """Of strides of 1: the convolution of results with zeros around them, by weights turned
        upside down in each walked axis, that is this one's gradient to its images."""
        low, high = (
            tuple(s - 1 - n for s, n in zip(self.sizes, zeros, strict=True))
            for zeros in (self.low, self.high)
        )
        ends = zip(self.output_positions, low, high, strict=True)
        inner = zip(self.extents, self.low, self.high, strict=True)
        return replace(
            self,
            extents=tuple(map(sum, ends)),
            channels=self.features,
            output_positions=tuple(e - a - z for e, a, z in inner),
            features=self.channels,
            low=low,
            high=high,
        )


def conv_shape(params: Params, types: Sequence[Type]) -> ConvShape:
    """What the operands' types and the settings say. Raises TypeRuleError."""
    a, b = tensor(types[0], 0), tensor(types[1], 1)
    require_dtype(a, FLOATS)
    if a.dtype != b.dtype:
        raise TypeRuleError(f"requires operands of one element type, got {a} and {b}", operand=1)
    assert isinstance(params, AnyConvParams)
    axis, walked = params.axis, len(params.strides)
    if not 1 <= walked <= 2 or not 0 <= axis <= a.rank - walked or min(params.strides) < 1:
        raise TypeRuleError(
            f"requires strides of at least 1 for one or two axes from {axis} on, within the rank "
            f"{a.rank}, got {list(params.strides)}"
        )
    low, high = (amounts or (0,) * walked for amounts in (params.low, params.high))
    fits = len(params.low) == len(params.high) and len(low) == len(high) == walked
    if not fits or min((*low, *high)) < 0:
        raise TypeRuleError(
            f"requires low and high of at least 0 for {walked} axes, got {dims_text(params.low)} "
            f"and {dims_text(params.high)}",
            slug="bad-value",
        )
    around = _Around(a.dims[:axis], params.strides, low, high)
    middle = _known(a.dims[axis : axis + walked], a, 0)
    behind = _known(a.dims[axis + walked :], a, 0)
    match params:
        case ConvParams():
            count = walked + len(behind)
            weights = _conv_weight_grad(_known(b.dims, b, 1), params.block)
            sizes, features = weights[:walked], weights[count:]
            fits = weights[walked:count] == behind and len(features) > 0
            wanted = f"weights of {walked} sizes, the channels {dims_text(behind)} and features"
            shape = around.shape(middle, behind, sizes, features)
        case ConvDataGradParams():
            weights = _image_weights(_known(b.dims, b, 1), walked, params.block)
            last = walked - 1 + len(behind)
            sizes = (*weights[: walked - 1], *weights[last : last + 1])
            channels = weights[last + 1 :]
            shape = around.shape(params.extents, channels, sizes, behind)
            fits = weights[walked - 1 : last] == behind and len(behind) > 0
            fits = fits and len(weights) > last and shape.output_positions == middle
            wanted = (
                f"{dims_text(shape.output_positions)} windows over {dims_text(shape.extents)} and "
                f"weights of "
                f"the features {dims_text(behind)}, last of them before one size"
            )
        case ConvWeightGradParams():
            features = _known(b.dims[axis + walked :], b, 1)
            shape = around.shape(middle, behind, params.sizes, features)
            before = (*a.dims[:axis], *shape.output_positions)
            fits = b.dims == (*before, *features) and len(features) > 0
            wanted = f"results of dims {dims_text(before)} and features"
    if not fits:
        raise TypeRuleError(
            f"requires {wanted}, got {a} and {b}",
            operand=1,
            slug="shape-mismatch",
        )
    block = 0 if isinstance(params, ConvWeightGradParams) else params.block
    return replace(shape, block=block)


def _conv_weight_grad(dims: Sizes, block: int) -> Sizes:
    """Dims of the weights of `conv` without blocks: [S.., C.., F]."""
    if not block:
        return dims
    if len(dims) < 3 or dims[-1] != block:
        raise _not_in_blocks(dims, block)
    return (*dims[1:-1], dims[0] * block)


def _image_weights(dims: Sizes, walked: int, block: int) -> Sizes:
    """Dims of the weights of `conv.data_grad` without blocks: [S.., F.., S, C]."""
    if not block:
        return dims
    if len(dims) < walked + 3 or dims[-1] != block:
        raise _not_in_blocks(dims, block)
    sizes, features = dims[:walked], dims[walked + 1 : -1]
    return (*sizes[:-1], *features, sizes[-1], dims[walked] * block)


def _not_in_blocks(dims: Sizes, block: int) -> TypeRuleError:
    return TypeRuleError(
        f"requires weights in blocks of {block}, got dims {dims_text(dims)}", operand=1
    )


def _known(dims: Sequence[Dim], type: TensorType, operand: int) -> Sizes:
    if not all(isinstance(d, int) for d in dims):
        raise TypeRuleError(
            f"requires known extents, got {dims_text(dims)} in {type}", operand=operand
        )
    return tuple(d for d in dims if isinstance(d, int))


@dataclass(frozen=True, slots=True)
class _Around:
    """What all three have in common."""

    lead: tuple[Dim, ...]
    strides: Sizes
    low: Sizes
    high: Sizes

    def shape(self, inner: Sizes, channels: Sizes, sizes: Sizes, features: Sizes) -> ConvShape:
        """`inner`: extents of the image without zeros."""
        if len(inner) != len(sizes) or len(sizes) != len(self.strides):
            raise TypeRuleError(
                f"requires one size and one extent for each axis, got {dims_text(sizes)} and "
                f"{dims_text(inner)}"
            )
        extents = tuple(sum(parts) for parts in zip(inner, self.low, self.high, strict=True))
        if any(not 1 <= s <= e for s, e in zip(sizes, extents, strict=True)):
            raise TypeRuleError(
                f"requires windows that fit into {dims_text(extents)}, got {dims_text(sizes)}",
                slug="bad-value",
            )
        output_positions = tuple(map(positions, extents, sizes, self.strides))
        return ConvShape(
            self.lead,
            extents,
            channels,
            sizes,
            self.strides,
            output_positions,
            features,
            self.low,
            self.high,
        )


def _infer(types: Sequence[Type], params: Params) -> Sequence[Type]:
    shape = conv_shape(params, types)
    match params:
        case ConvParams():
            dims = (*shape.lead, *shape.output_positions, *shape.features)
        case ConvDataGradParams():
            dims = (*shape.lead, *params.extents, *shape.channels)
        case _:
            dims = (*shape.sizes, *shape.channels, *shape.features)
    return [tensor(types[0]).with_dims(dims)]


def _workspace(op: Operation) -> Sequence[TensorType]:
    """An image with zeros around it, and sums of weights: of each chunk. A GPU needs neither."""
    if isinstance(op.schedule, ConvSchedule | WeightGradSchedule) and op.schedule.grid is not None:
        return []
    types = [v.type for v in op.operands]
    shape, chunks, made = conv_shape(op.params, types), chunk_count(op), list[TensorType]()
    by_winograd = (
        isinstance(op.schedule, ConvSchedule | WeightGradSchedule) and op.schedule.winograd
    )
    if by_winograd and isinstance(op.params, ConvDataGradParams):
        shape = shape.turned()
    image = (chunks, *shape.extents, *shape.channels)
    if shape.is_padded:
        made.append(tensor(types[0]).with_dims(image))
    if sums_chunks(op):
        made.append(tensor(types[0]).with_dims((chunks, *tensor(op.result.type).dims)))
    if by_winograd:
        made += [tensor(types[0]).with_dims(dims) for dims in _winograd_memory(shape, op, chunks)]
    return made


def _winograd_memory(shape: ConvShape, op: Operation, chunks: int) -> list[Sizes]:
    """Dims of transformed weights, and of the tiles and products of a block in each chunk; of the
    gradient to weights these and the sums of a chunk."""
    schedule = op.schedule
    assert isinstance(schedule, ConvSchedule | WeightGradSchedule)
    channels, outputs = math.prod(shape.channels), math.prod(shape.features)
    down = -(-shape.output_positions[-1] // 2)
    tiles = max(schedule.columns // 2, 1) * down
    of_tile = channels + 2 * schedule.lanes
    if isinstance(schedule, WeightGradSchedule):
        return [(chunks, 16, tiles * of_tile + channels * outputs)]
    made: list[Sizes] = []
    if not schedule.transformed:
        block = shape.block or outputs
        made.append((outputs // block, 16, channels, block))
    if schedule.feature_parts > 1:
        all_tiles = down * -(-shape.output_positions[0] // 2)
        made.append((chunks, 16, all_tiles, channels))
        of_tile -= channels
    parts = schedule.column_parts * schedule.feature_parts
    return [*made, (chunks * parts, 16, tiles, of_tile)]


def chunk_count(op: Operation) -> int:
    """The chunks of a convolution at the bounds of its dims."""
    schedule, shape = schedule_of(op), conv_shape(op.params, [v.type for v in op.operands])
    if schedule is None:
        return 1
    if schedule.parallel == "rows":
        return math.prod(shape.sizes[:-1]) * column_rows(shape) // schedule.chunk
    return -(-bound_elements(shape.lead) // schedule.chunk)


def sums_chunks(op: Operation) -> bool:
    """Whether the result is the sum of those of the chunks: weights, cut by images."""
    schedule = schedule_of(op)
    return isinstance(schedule, WeightGradSchedule) and schedule.parallel == "images"


# --- references: products with copied windows -----------------------------------------------------


def _padded(p: AnyConvParams, x: Array) -> Array:
    amounts = [(0, 0)] * x.ndim
    for i, pair in enumerate(zip(p.low, p.high, strict=True)):
        amounts[p.axis + i] = pair
    return np.pad(x, amounts)


def _conv_reference(p: ConvParams, x: Array, w: Array) -> Array:
    x = _padded(p, x)
    if p.block:
        w = np.moveaxis(w, 0, -2)
        w = w.reshape((*w.shape[:-2], -1))
    sizes = w.shape[: len(p.strides)]
    patches = patches_reference(PatchesParams(p.axis, sizes, p.strides), x)
    return np.tensordot(patches, w, x.ndim - p.axis)


def _image_reference(p: ConvDataGradParams, y: Array, w: Array) -> Array:
    walked = len(p.strides)
    if p.block:
        w = np.moveaxis(w, (walked - 1, walked), (-3, -2))
        w = w.reshape((*w.shape[:-2], -1))
    features = y.ndim - p.axis - walked
    ordered = np.moveaxis(w, range(walked - 1, walked - 1 + features), range(features))
    patches = np.tensordot(y, ordered, features)
    low, high = (amounts or (0,) * walked for amounts in (p.low, p.high))
    extents = tuple(sum(parts) for parts in zip(p.extents, low, high, strict=True))
    x = overlap_add_reference(OverlapAddParams(p.axis, extents, p.strides), patches)
    inside = tuple(slice(n, n + e) for n, e in zip(low, p.extents, strict=True))
    return np.array(x[(*(slice(None),) * p.axis, *inside)])


def _weights_reference(p: ConvWeightGradParams, x: Array, y: Array) -> Array:
    x = _padded(p, x)
    patches = patches_reference(PatchesParams(p.axis, p.sizes, p.strides), x)
    over = tuple(range(p.axis + len(p.strides)))
    return np.tensordot(patches, y, (over, over))


def _check_parts(op: Operation) -> Iterable[str]:
    """Of `conv` and `conv.data_grad`: what is wrong with a schedule that cuts single images."""
    yield from check_schedule(op)
    schedule = op.schedule_as(ConvSchedule)
    across, features = schedule.column_parts, schedule.feature_parts
    if schedule.winograd and not schedule.lanes:
        yield "`winograd` requires `lanes` and `columns`"
    if schedule.transformed and not (schedule.winograd and isinstance(op.params, ConvParams)):
        yield "`transformed` is for weights of a `conv` with `winograd`"
    if (across, features) == (1, 1):
        return
    if not isinstance(op.params, ConvParams) or (schedule.parallel, schedule.chunk) != (
        "images",
        1,
    ):
        yield "parts of an image are those of a `conv` in chunks of 1 image"
        return
    shape = conv_shape(op.params, [v.type for v in op.operands])
    columns = shape.output_positions[0] if len(shape.sizes) > 1 else 1
    if not 1 <= across <= columns:
        yield f"1 to {columns} parts of columns, got {across}"
    whole = math.prod(shape.features) // (shape.block or 1)
    if features < 1 or whole % features:
        yield f"parts of features divide {whole}, got {features}"


def _check_weights(op: Operation) -> Iterable[str]:
    yield from check_schedule(op)
    schedule = op.schedule_as(WeightGradSchedule)
    if schedule.winograd and not schedule.lanes:
        yield "`winograd` requires `lanes` and `columns`"
    if schedule.parallel == "rows" and schedule.chunk > 0:
        shape = conv_shape(op.params, [v.type for v in op.operands])
        if column_rows(shape) % schedule.chunk:
            yield (
                f"a chunk has to divide the {column_rows(shape)} rows of one column of a window, "
                f"got {schedule.chunk}"
            )


def column_rows(shape: ConvShape) -> int:
    """Rows of weights that belong to one column of a window: they lie together in an image."""
    return math.prod((shape.sizes[-1], *shape.channels))


def _conv(
    name: str,
    summary: str,
    operands: tuple[str, str],
    params: type[Params],
    role: Role,
    reference: Reference,
    equation: str,
) -> OpDef:
    return OpDef(
        name=name,
        summary=summary,
        operands=operands,
        params=params,
        schedule=WeightGradSchedule if role == "weight_grad" else ConvSchedule,
        infer=_infer,
        reference=reference,
        check=_check_weights if role == "weight_grad" else _check_parts,
        workspace=_workspace,
        codegen=WindowProduct(role),
        vjp=NotDifferentiable.NONE,
        level=Level.KERNEL,
        equation=equation,
    )


CONV = _conv(
    "conv",
    "product of every window of an image with weights, into a buffer",
    ("x", "w"),
    ConvParams,
    "result",
    _conv_reference,
    "y[.., p, f] = Σ x[.., stride p + s, c] w[s, c, f]",
)
CONV_DATA_GRAD = _conv(
    "conv.data_grad",
    "products of results with weights, added where their windows lie in an image, into a buffer",
    ("y", "w"),
    ConvDataGradParams,
    "data_grad",
    _image_reference,
    "x[.., e, c] = Σ y[.., p, f] w[s, f, c] over stride p + s = e",
)
CONV_WEIGHT_GRAD = _conv(
    "conv.weight_grad",
    "products of windows with results, added over all places, into a buffer",
    ("x", "y"),
    ConvWeightGradParams,
    "weight_grad",
    _weights_reference,
    "w[s, c, f] = Σ x[.., stride p + s, c] y[.., p, f]",
)

OPS = (CONV, CONV_DATA_GRAD, CONV_WEIGHT_GRAD)
