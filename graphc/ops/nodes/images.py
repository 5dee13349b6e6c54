"""Nodes over images: convolution and pooling.

An operand's columns are images, as its type says (`Image`): inputs of that kind and Reshape begin
it, shape inference carries it on, and every node here says what its own columns are images of. In
memory a minibatch is a tensor [N, width, height, channels]; windows over width and height, then a
product or a reduction, are all there is to it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Array, ExpandRule, IRBuilder, Operation, Reference, Value
from graphc.ir.types import (
    DType,
    Image,
    MatrixType,
    Type,
    TypeRuleError,
    bound_elements,
    fixed_size,
)
from graphc.ops.constant import full_like
from graphc.ops.contraction import matmul
from graphc.ops.depthwise import depthwise
from graphc.ops.elementwise import div
from graphc.ops.movement import pad, reshape, transpose
from graphc.ops.nodes.layout import (
    MAX_ROWS,
    NodeParams,
    by_column,
    from_columns,
    matrix,
    merged,
    node_def,
    node_type,
    operand_types,
    require_no_samples,
)
from graphc.ops.patches import patches
from graphc.ops.reduction import reduce_max, reduce_sum


@dataclass(frozen=True)
class ConvolutionParams(NodeParams):
    """Sizes in pixels; `width` counts image columns, `height` image rows.

    `zero_padding`: the image is surrounded by zeros, and the window stands with its middle on every
    pixel (every `subsample`-th) that it can; without, it stays inside the image.
    `groups`: input and output channels are cut into so many; an output reads those of its group.
    """

    kernel_width: int
    kernel_height: int
    output_channels: int
    horizontal_subsample: int
    vertical_subsample: int
    zero_padding: bool = False
    groups: int = 1
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class PoolingParams(NodeParams):
    """Sizes in pixels; `width` counts image columns, `height` image rows."""

    window_width: int
    window_height: int
    step_width: int
    step_height: int
    tags: tuple[str, ...] = ()


@dataclass(frozen=True)
class Walk:
    """How a window goes along one axis: `size` pixels, `stride` apart, the first at `-before`.

    `after`: how many pixels the last window sticks out beyond the end.
    """

    count: int
    size: int
    stride: int
    before: int = 0
    after: int = 0


def inner_walk(extent: int, size: int, stride: int) -> Walk:
    """Windows that lie inside the image."""
    return Walk((extent - size) // stride + 1, size, stride)


def padded_walk(extent: int, size: int, stride: int) -> Walk:
    """Windows around pixels; an even window, which has no middle, is tried once more at the end."""
    count = (extent - size % 2) // stride + 1
    before = size // 2
    after = max(0, (count - 1) * stride + size - before - extent)
    return Walk(count, size, stride, before, after)


# --- what the nodes here require ------------------------------------------------------------------


def _require_sizes(**sizes: int) -> None:
    for name, size in sizes.items():
        if not 1 <= size <= MAX_ROWS:
            what = name.replace("_", " ")
            raise TypeRuleError(f"requires a {what} from 1 to {MAX_ROWS}, got {size}")


def _image_of(type: MatrixType, operand: int) -> Image | None:
    """What the columns are images of; None while their size is not known."""
    if type.image is None and type.is_known:
        raise TypeRuleError(
            f"requires columns that are images, got {type}; ImageInput makes such a node, and "
            "Reshape with imageWidth, imageHeight and imageChannels says it of another",
            operand=operand,
            slug="shape-mismatch",
        )
    return type.image


def _require_fit(image: Image, width: int, height: int, what: str, operand: int) -> None:
    if width > image.width or height > image.height:
        raise TypeRuleError(
            f"requires a {what} of at most {image.width}x{image.height} for the image {image}, "
            f"got {width}x{height}",
            operand=operand,
            slug="shape-mismatch",
        )


def _columns_of(image: Image, type: MatrixType) -> MatrixType:
    """As many columns as `type` has, each an image."""
    if image.rows > MAX_ROWS:
        raise TypeRuleError(f"requires a result of at most {MAX_ROWS} rows, got {image.rows}")
    return MatrixType(image.rows, type.cols, image)


# --- between nodes and tensors of images ----------------------------------------------------------


def _as_images(b: IRBuilder, x: Value, type: MatrixType) -> Value:
    """A node as a tensor [columns, width, height, channels]."""
    image = type.image
    assert image is not None
    columns = by_column(b, x, type)
    dims = (columns.tensor.dims[0], image.width, image.height, image.channels)
    return reshape(b, columns, dims)


def _as_node(b: IRBuilder, y: Value, type: MatrixType) -> Value:
    """A tensor [columns, …] of as many elements as a node of this type has."""
    assert type.rows is not None
    return from_columns(b, reshape(b, y, (y.tensor.dims[0], type.rows)), type)


def _windows_of(b: IRBuilder, images: Value, axis: int, across: Walk, down: Walk) -> Value:
    """[.., out width, out height, window width, window height, channels], walked from `axis` on."""
    low, high = (
        (*(0,) * axis, *zeros, 0)
        for zeros in ((across.before, down.before), (across.after, down.after))
    )
    return patches(
        b,
        pad(b, images, low, high),
        axis,
        (across.size, down.size),
        (across.stride, down.stride),
    )


# --- Convolution ----------------------------------------------------------------------------------


def _walks(p: ConvolutionParams, image: Image) -> tuple[Walk, Walk]:
    walk = padded_walk if p.zero_padding else inner_walk
    return (
        walk(image.width, p.kernel_width, p.horizontal_subsample),
        walk(image.height, p.kernel_height, p.vertical_subsample),
    )


def _infer_convolution(types: Sequence[Type], params: ConvolutionParams) -> Sequence[Type]:
    weight, source = matrix(types[0]), matrix(types[1])
    p = params
    _require_sizes(
        kernel_width=p.kernel_width,
        kernel_height=p.kernel_height,
        number_of_output_channels=p.output_channels,
        horizontal_subsample=p.horizontal_subsample,
        vertical_subsample=p.vertical_subsample,
        number_of_groups=p.groups,
    )
    if p.horizontal_subsample > p.kernel_width or p.vertical_subsample > p.kernel_height:
        raise TypeRuleError(
            f"requires subsampling by at most the kernel's {p.kernel_width}x{p.kernel_height}, "
            f"got {p.horizontal_subsample}x{p.vertical_subsample}"
        )
    require_no_samples(weight, "a weight", 0)
    image = _image_of(source, 1)
    if image is None:
        return [MatrixType(None, source.cols)]
    _require_fit(image, p.kernel_width, p.kernel_height, "kernel", 1)
    if image.channels % p.groups or p.output_channels % p.groups:
        raise TypeRuleError(
            f"requires groups that divide the channels of {source} and the {p.output_channels} "
            f"output channels, got {p.groups}",
            operand=1,
            slug="shape-mismatch",
        )
    wanted = _weight_type(p, image)
    if merged(weight, wanted).size != wanted.size:
        raise TypeRuleError(
            f"requires a weight {wanted} (output channels x kernel width · kernel height · "
            f"input channels of a group) for {source}, got {weight}",
            operand=0,
            slug="shape-mismatch",
        )
    across, down = _walks(p, image)
    return [_columns_of(Image(across.count, down.count, p.output_channels), source)]


def _weight_type(p: ConvolutionParams, image: Image) -> MatrixType:
    window = p.kernel_width * p.kernel_height
    return MatrixType(p.output_channels, window * (image.channels // p.groups))


def _refine_convolution(
    types: Sequence[MatrixType], params: ConvolutionParams
) -> Sequence[MatrixType]:
    """The weight's size follows from the settings and the image's channels."""
    weight, source = types
    if source.image is None or source.image.channels % max(params.groups, 1):
        return [merged(weight, MatrixType(params.output_channels, None)), source]
    return [merged(weight, _weight_type(params, source.image)), source]


def _expand_convolution(
    b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType
) -> Value:
    p, source = op.params_as(ConvolutionParams), operand_types(op)[1]
    assert source.image is not None
    weight, x = operands
    channels = source.image.channels
    images, walks = _as_images(b, x, source), _walks(p, source.image)
    if p.groups == 1:
        windows = _windows_of(b, images, 1, *walks)
        y = matmul(b, windows, _kernels(b, weight, p, channels), transpose_b=True, contract=3)
    elif p.groups == channels == p.output_channels:
        y = _by_channel(b, images, _kernels(b, weight, p, channels), walks)
    else:
        y = _by_group(b, images, _kernels(b, weight, p, channels), p.groups, walks)
    return _as_node(b, y, node_type(op))


def _kernels(b: IRBuilder, weight: Value, p: ConvolutionParams, channels: int) -> Value:
    """[outputs, width, height, channels of a group].

    A kernel's columns are [channel, column, row] with the row fastest, an image's pixels [column,
    row, channel]: the small one of the two is brought to the order of the other.
    """
    kernel = (p.output_channels, channels // p.groups, p.kernel_width, p.kernel_height)
    return transpose(b, reshape(b, weight, kernel), (0, 2, 3, 1))


def _by_channel(b: IRBuilder, images: Value, kernel: Value, walks: tuple[Walk, Walk]) -> Value:
    """Every channel of the images with the kernel of its own, [channels, width, height, 1]."""
    channels, width, height, _ = kernel.tensor.dims
    aside = transpose(b, reshape(b, kernel, (channels, width, height)), (1, 2, 0))
    strides, low, high = (
        tuple(getattr(walk, name) for walk in walks) for name in ("stride", "before", "after")
    )
    return depthwise(b, images, aside, 1, strides, low, high, (1, 1))


def _by_group(
    b: IRBuilder, images: Value, kernel: Value, groups: int, walks: tuple[Walk, Walk]
) -> Value:
    """One product for each group, of images and kernels of its channels alone."""
    *pixels, channels = images.tensor.dims
    outputs, *window = kernel.tensor.dims
    of_group = fixed_size(channels) // groups, fixed_size(outputs) // groups
    apart = transpose(b, reshape(b, images, (*pixels, groups, of_group[0])), (3, 0, 1, 2, 4))
    kernels = reshape(b, kernel, (groups, of_group[1], *window))
    windows = _windows_of(b, apart, 2, *walks)
    y = matmul(b, windows, kernels, transpose_b=True, contract=3, batch=1)
    return transpose(b, y, (1, 2, 3, 0, 4))


def _convolution_reference(
    p: ConvolutionParams, types: Sequence[MatrixType], weight: Array, y: Array
) -> Array:
    image = types[1].image
    assert image is not None
    width, height, channels = image.width, image.height, image.channels
    # Zeros wide enough for every window; the first one begins `left`, `top` outside the image.
    left, top = (p.kernel_width // 2, p.kernel_height // 2) if p.zero_padding else (0, 0)
    shape = (width + 2 * p.kernel_width, height + 2 * p.kernel_height, channels, y.shape[1])
    plane = np.zeros(shape, y.dtype)
    for column, row, channel in np.ndindex(width, height, channels):
        plane[column + left, row + top, channel] = y[channel + channels * (row + height * column)]
    lost_x, lost_y = p.kernel_width, p.kernel_height
    if p.zero_padding:
        lost_x, lost_y = lost_x % 2, lost_y % 2
    out_width = (width - lost_x) // p.horizontal_subsample + 1
    out_height = (height - lost_y) // p.vertical_subsample + 1
    value = np.empty((p.output_channels * out_width * out_height, y.shape[1]), y.dtype)
    inputs, outputs = channels // p.groups, p.output_channels // p.groups
    is_depthwise = 1 < p.groups == channels == p.output_channels  # such read no zeros around
    for column, row, group in np.ndindex(out_width, out_height, p.groups):
        first_x, first_y = column * p.horizontal_subsample, row * p.vertical_subsample
        packed = np.empty((weight.shape[1], y.shape[1]), y.dtype)
        is_read = np.ones(weight.shape[1], np.bool_)
        for channel, i, j in np.ndindex(inputs, p.kernel_width, p.kernel_height):
            at = channel * p.kernel_width * p.kernel_height + j + i * p.kernel_height
            packed[at] = plane[first_x + i, first_y + j, group * inputs + channel]
            inside = 0 <= first_x + i - left < width and 0 <= first_y + j - top < height
            is_read[at] = inside or not is_depthwise
        begin = p.output_channels * (row + out_height * column) + group * outputs
        kernels = weight[group * outputs : (group + 1) * outputs]
        value[begin : begin + outputs] = kernels[:, is_read] @ packed[is_read]
    return value


# --- pooling --------------------------------------------------------------------------------------


def _infer_pooling(types: Sequence[Type], params: PoolingParams) -> Sequence[Type]:
    source, p = matrix(types[0]), params
    _require_sizes(
        window_width=p.window_width,
        window_height=p.window_height,
        step_width=p.step_width,
        step_height=p.step_height,
    )
    image = _image_of(source, 0)
    if image is None:
        return [MatrixType(None, source.cols)]
    _require_fit(image, p.window_width, p.window_height, "window", 0)
    across, down = _pooling_walks(p, image)
    return [_columns_of(Image(across.count, down.count, image.channels), source)]


def _pooling_walks(p: PoolingParams, image: Image) -> tuple[Walk, Walk]:
    return (
        inner_walk(image.width, p.window_width, p.step_width),
        inner_walk(image.height, p.window_height, p.step_height),
    )


def _expand_pooling(emit: Callable[[IRBuilder, Value], Value]) -> ExpandRule:
    """`emit` reduces axes 3 and 4, those of the window."""

    def expand(b: IRBuilder, op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
        (source,), (x,) = operand_types(op), operands
        assert source.image is not None
        walks = _pooling_walks(op.params_as(PoolingParams), source.image)
        patches = _windows_of(b, _as_images(b, x, source), 1, *walks)
        return _as_node(b, emit(b, patches), node_type(op))

    return expand


def _largest(b: IRBuilder, patches: Value) -> Value:
    return reduce_max(b, patches, (3, 4))


def _mean(b: IRBuilder, patches: Value) -> Value:
    size = bound_elements(patches.tensor.dims[3:5])
    total = reduce_sum(b, patches, (3, 4))
    return div(b, total, full_like(b, float(size), total))


def _pooling_reference(reduce: Callable[[Array], Array]) -> Reference:
    """`reduce` makes one row of all rows of a window."""

    def reference(p: PoolingParams, types: Sequence[MatrixType], x: Array) -> Array:
        image = types[0].image
        assert image is not None
        out_width = (image.width - p.window_width) // p.step_width + 1
        out_height = (image.height - p.window_height) // p.step_height + 1
        value = np.empty((out_width * out_height * image.channels, x.shape[1]), x.dtype)
        for column, row, channel in np.ndindex(out_width, out_height, image.channels):
            rows = [
                channel
                + image.channels
                * (row * p.step_height + j + image.height * (column * p.step_width + i))
                for i, j in np.ndindex(p.window_width, p.window_height)
            ]
            value[channel + image.channels * (row + out_height * column)] = reduce(x[rows])
        return value

    return reference


CONVOLUTION = node_def(
    "convolution",
    "each kernel's product with every window of an image, the kernel not turned round",
    ("weight", "image"),
    params=ConvolutionParams,
    infer=_infer_convolution,
    refine=_refine_convolution,
    typed_reference=_convolution_reference,
    expand=_expand_convolution,
    constraints=(
        "C1 the columns of image are images",
        "C2 weight is output channels x (kernel width · kernel height · input channels of a group)",
        "C3 the kernel is no larger than the image, subsampling no larger than the kernel",
        "C4 groups divide the channels of image and the output channels",
    ),
    equation=(
        "V_lij = Σ_k Σ_mn K_klmn Y_k,(i s + m - p),(j t + n - q), s and t the subsampling, p and q "
        "half the kernel with zero padding, else 0; k over the channels of the group of l"
    ),
    source="book equations 2.162 to 2.166, 4.1.4.34; sizes with padding: toolkit",
)
MAX_POOLING = node_def(
    "max_pooling",
    "the maximum of every window of an image; the slope goes to every element that attains it",
    ("m",),
    params=PoolingParams,
    infer=_infer_pooling,
    typed_reference=_pooling_reference(lambda window: np.max(window, axis=0)),
    expand=_expand_pooling(_largest),
    constraints=("C1 the columns of m are images", "C2 the window is no larger than the image"),
    equation="V_lij = max_mn X_l,(i s + m),(j t + n), s and t the steps",
    source="book equation 2.170, 4.1.4.35",
)
AVERAGE_POOLING = node_def(
    "average_pooling",
    "the mean of every window of an image",
    ("m",),
    params=PoolingParams,
    infer=_infer_pooling,
    typed_reference=_pooling_reference(lambda window: np.sum(window, axis=0) / len(window)),
    expand=_expand_pooling(_mean),
    constraints=("C1 the columns of m are images", "C2 the window is no larger than the image"),
    equation="V_lij = (1/K) Σ_mn X_l,(i s + m),(j t + n), K the window's size, s and t the steps",
    source="book equation 2.172, 4.1.4.35",
)

OPS = (CONVOLUTION, MAX_POOLING, AVERAGE_POOLING)
