"""The orders in which whoever binds a function lays the matrices of the model, for its code."""

from __future__ import annotations

import numpy as np


def in_panels(matrix: np.ndarray, width: int) -> np.ndarray:
    """[panels, k, width] of [k, n]: its columns side by side, each panel's rows one after another.

    Where `width` does not divide n, the last panel is of the last columns, some of which are in the
    one before too.
    """
    k, n = matrix.shape
    whole = n // width * width
    panels = matrix[:, :whole].reshape(k, -1, width).transpose(1, 0, 2)
    return panels if whole == n else np.concatenate([panels, matrix[None, :, n - width :]])


def in_pairs(panels: np.ndarray) -> np.ndarray:
    """i32[panels, pairs, width] of f32[panels, k, width]: two rows of a panel in one, as numbers of
    bf16, the earlier one in the upper half; behind an odd number of rows there is a zero."""
    even = np.pad(panels.astype(np.float32), ((0, 0), (0, panels.shape[1] % 2), (0, 0)))
    bits = even.view(np.uint32)
    raised = bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))
    rounded = np.where(np.isnan(even), bits | np.uint32(0x400000), raised)
    pairs = rounded[:, 0::2] & np.uint32(0xFFFF0000) | rounded[:, 1::2] >> np.uint32(16)
    return pairs.view(np.int32)


def transformed(weights: np.ndarray) -> np.ndarray:
    """[blocks, 16, channels, columns] of [blocks, 3, 3, channels, columns]: G g Gᵀ of each window
    g, with the bits of native code (`backends/loops/winograd.py`)."""
    half = weights.dtype.type(0.5)
    for axis in (1, 2):
        first, middle, last = np.moveaxis(weights, axis, 0)
        around = first + last
        parts = first, half * (around + middle), half * (around - middle), last
        weights = np.stack(parts, axis)
    return weights.reshape(weights.shape[0], 16, *weights.shape[3:])
