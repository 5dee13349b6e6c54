"""Col2Im: what windows of an image hold, added up at the places that they were taken from."""

from __future__ import annotations

from math import prod
from typing import Any

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import dtype_of, known_ints, mistake, shape_of
from graphc_frontends.onnx.windows import Walk, WindowSettings, channels_last, padded, windows


@operator("Col2Im", settings=WindowSettings)
def col2im(x: Any, image_shape: Any, block_shape: Any, *, settings: WindowSettings) -> object:
    """Images of [samples, channels · elements, windows]: the transpose of taking windows."""
    extents = known_ints(image_shape, "the sizes of the image")
    sizes = known_ints(block_shape, "the sizes of windows")
    samples, columns, count = shape_of(x)
    zeros = gc.zeros((samples, columns // prod(sizes), *extents), dtype_of(x))
    walk = settings.walk(zeros, sizes)
    places = walk.places(extents)
    if columns % prod(sizes) or count != prod(places):
        message = (
            f"requires a multiple of {prod(sizes)} columns and {prod(places)} windows of "
            f"{sizes} in an image of {extents}, got {columns} and {count}"
        )
        raise mistake("shape-mismatch", message)
    _, transposed = gc.vjp(lambda images: _unfolded(images, walk, shape_of(x)), zeros)
    return transposed(x)[0]


def _unfolded(images: Any, walk: Walk, shape: tuple[Any, ...]) -> Any:
    """The elements of each window in a column, those of a channel together."""
    count = len(walk.sizes)
    seen = windows(padded(channels_last(images), walk), walk)
    order = (0, 1 + 2 * count, *range(1 + count, 1 + 2 * count), *range(1, 1 + count))
    return gc.reshape(gc.transpose(seen, order), shape)
