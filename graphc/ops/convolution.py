"""Products with windows at the kernel level: no window is ever copied.

    conv          x [.., E.., C..], w [S.., C.., F..]          -> y [.., P.., F..]
    conv.image    y [.., P.., F..], w [S.., F.., S, C..]       -> x [.., E.., C..]
    conv.weights  x [.., E.., C..], y [.., P.., F..]           -> w [S.., C.., F..]

P windows of S elements over each walked extent E, `strides` apart; C are what an image has at each
place, F what the result has. The first is `matmul` of `windows`, the second `overlap_add` of a
product, the third a product of windows over all places: each of the three is what the derivative of
another one needs. The weights of `conv.image` have F before their last size, so that the elements
of a window that lie together in x lie together there too.

`fuse-windows` makes them; `at` says where a result lives (`places.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import Role, WindowProduct
from graphc.ir.core import Array, Level, NotDifferentiable, OpDef, Reference
from graphc.ir.params import Params
from graphc.ir.types import Dim, TensorType, Type, TypeRuleError
from graphc.ops.places import check_places
from graphc.ops.rules import FLOATS, dims_text, require_dtype, tensor
from graphc.ops.windows import (
    OverlapAddParams,
    WindowsParams,
    overlap_add_reference,
    positions,
    windows_reference,
)

Sizes = tuple[int, ...]


@dataclass(frozen=True)
class ConvParams(Params):
    """`axis`: the first of the axes that are walked; one stride for each."""

    axis: int
    strides: tuple[int, ...]
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConvImageParams(Params):
    """`extents`: those of the walked axes in the result."""

    axis: int
    extents: tuple[int, ...]
    strides: tuple[int, ...]
    at: tuple[str, ...] = ()


@dataclass(frozen=True)
class ConvWeightsParams(Params):
    """`sizes`: of the windows."""

    axis: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    at: tuple[str, ...] = ()


AnyConvParams = ConvParams | ConvImageParams | ConvWeightsParams


@dataclass(frozen=True, slots=True)
class ConvShape:
    """The extents of a convolution by their role, whichever of the three it is.

    lead      dims before the walked ones, walked over again for each
    extents, sizes, strides, places   one of each per walked axis: of the image, of the windows,
              between them, and how many there are
    channels, features   dims behind them: of the image, of the result
    """

    lead: tuple[Dim, ...]
    extents: Sizes
    channels: Sizes
    sizes: Sizes
    strides: Sizes
    places: Sizes
    features: Sizes


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
    lead = a.dims[:axis]
    middle = _known(a.dims[axis : axis + walked], a, 0)
    behind = _known(a.dims[axis + walked :], a, 0)
    match params:
        case ConvParams():
            count = walked + len(behind)
            weights = _known(b.dims, b, 1)
            sizes, features = weights[:walked], weights[count:]
            fits = weights[walked:count] == behind and len(features) > 0
            shape = _shape(lead, middle, behind, sizes, params.strides, features)
        case ConvImageParams():
            weights = _known(b.dims, b, 1)
            last = walked - 1 + len(behind)
            sizes = (*weights[: walked - 1], *weights[last : last + 1])
            channels = weights[last + 1 :]
            shape = _shape(lead, params.extents, channels, sizes, params.strides, behind)
            fits = weights[walked - 1 : last] == behind and len(behind) > 0
            fits = fits and len(weights) > last and shape.places == middle
        case ConvWeightsParams():
            features = _known(b.dims[axis + walked :], b, 1)
            shape = _shape(lead, middle, behind, params.sizes, params.strides, features)
            fits = b.dims == (*lead, *shape.places, *features) and len(features) > 0
    if not fits:
        raise TypeRuleError(
            f"requires the parts of one convolution, got {a} and {b}",
            operand=1,
            slug="shape-mismatch",
        )
    return shape


def _known(dims: Sequence[Dim], type: TensorType, operand: int) -> Sizes:
    if not all(isinstance(d, int) for d in dims):
        raise TypeRuleError(f"requires known extents {dims_text(dims)} in {type}", operand=operand)
    return tuple(d for d in dims if isinstance(d, int))


def _shape(
    lead: tuple[Dim, ...],
    extents: Sizes,
    channels: Sizes,
    sizes: Sizes,
    strides: Sizes,
    features: Sizes,
) -> ConvShape:
    fits = len(extents) == len(sizes) == len(strides)
    if not fits or any(not 1 <= s <= e for s, e in zip(sizes, extents, strict=True)):
        raise TypeRuleError(
            f"requires windows that fit into {dims_text(extents)}, got {dims_text(sizes)}",
            slug="bad-value",
        )
    places = tuple(map(positions, extents, sizes, strides))
    return ConvShape(lead, extents, channels, sizes, strides, places, features)


def _infer(types: Sequence[Type], params: Params) -> Sequence[Type]:
    shape = conv_shape(params, types)
    match params:
        case ConvParams():
            dims = (*shape.lead, *shape.places, *shape.features)
        case ConvImageParams():
            dims = (*shape.lead, *shape.extents, *shape.channels)
        case _:
            dims = (*shape.sizes, *shape.channels, *shape.features)
    return [tensor(types[0]).with_dims(dims)]


# --- references: products with copied windows -----------------------------------------------------


def _conv_reference(p: ConvParams, x: Array, w: Array) -> Array:
    walked = len(p.strides)
    patches = windows_reference(WindowsParams(p.axis, w.shape[:walked], p.strides), x)
    return np.tensordot(patches, w, x.ndim - p.axis)


def _image_reference(p: ConvImageParams, y: Array, w: Array) -> Array:
    walked = len(p.strides)
    features = y.ndim - p.axis - walked
    ordered = np.moveaxis(w, range(walked - 1, walked - 1 + features), range(features))
    patches = np.tensordot(y, ordered, features)
    return overlap_add_reference(OverlapAddParams(p.axis, p.extents, p.strides), patches)


def _weights_reference(p: ConvWeightsParams, x: Array, y: Array) -> Array:
    patches = windows_reference(WindowsParams(p.axis, p.sizes, p.strides), x)
    over = tuple(range(p.axis + len(p.strides)))
    return np.tensordot(patches, y, (over, over))


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
        infer=_infer,
        reference=reference,
        check=check_places,
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
CONV_IMAGE = _conv(
    "conv.image",
    "products of results with weights, added where their windows lie in an image, into a buffer",
    ("y", "w"),
    ConvImageParams,
    "image",
    _image_reference,
    "x[.., e, c] = Σ y[.., p, f] w[s, f, c] over stride p + s = e",
)
CONV_WEIGHTS = _conv(
    "conv.weights",
    "products of windows with results, added over all places, into a buffer",
    ("x", "y"),
    ConvWeightsParams,
    "weights",
    _weights_reference,
    "w[s, c, f] = Σ x[.., stride p + s, c] y[.., p, f]",
)

OPS = (CONV, CONV_IMAGE, CONV_WEIGHTS)
