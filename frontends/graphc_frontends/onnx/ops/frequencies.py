"""Fourier transforms and what goes with them. A transform is a product with a known matrix, whose
cost grows with the square of its length; a complex number is a pair along the last axis."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.reading import element_type
from graphc_frontends.onnx.values import (
    axis_of,
    dtype_of,
    fixed,
    known,
    known_number,
    mistake,
    rank_of,
    shape_of,
)


@operator("DFT", 17)
def dft_17(x: Any, length: Any = None, *, axis: int, inverse: int, onesided: int) -> object:
    return _transformed(x, length, axis_of(axis, rank_of(x)), bool(inverse), bool(onesided))


@operator("DFT", 20)
def dft(x: Any, length: Any = None, axis: Any = None, *, inverse: int, onesided: int) -> object:
    place = -2 if axis is None else int(known_number(axis, "the axis"))
    return _transformed(x, length, axis_of(place, rank_of(x)), bool(inverse), bool(onesided))


def _transformed(x: Any, length: Any, axis: int, inverse: bool, onesided: bool) -> Any:
    """The transform along one axis, of so many elements: more are cut off, missing ones are 0."""
    rank = rank_of(x)
    given, parts = fixed([shape_of(x)[axis], shape_of(x)[-1]], "a transform")
    if parts not in (1, 2) or axis == rank - 1:
        message = f"requires real or complex numbers along the last axis, got {shape_of(x)}"
        raise mistake("shape-mismatch", message)
    size = 2 * (given - 1) if inverse and onesided else given
    if length is not None:
        size = int(known_number(length, "the length"))
    if size < 1:
        raise mistake("bad-value", f"requires a length of at least 1, got {size}")
    most = size // 2 + 1 if inverse and onesided else size
    used = min(given, most)
    matrix = _matrix(used, parts, size, inverse, onesided)
    order = [*(i for i in range(rank - 1) if i != axis), axis, rank - 1]
    rows = gc.transpose(x, order)[(slice(None),) * (rank - 2) + (slice(0, used),)]
    lead = shape_of(rows)[:-2]
    flat = gc.reshape(rows, (*lead, used * parts))
    made = flat @ matrix.reshape(used * parts, -1).astype(dtype_of(x))
    whole = gc.reshape(made, (*lead, *matrix.shape[2:]))
    return gc.transpose(whole, [order.index(i) for i in range(rank)])


def _matrix(used: int, parts: int, size: int, inverse: bool, onesided: bool) -> np.ndarray:
    """[elements, their parts, elements of the result, their parts]."""
    results = size // 2 + 1 if onesided and not inverse else size
    turns = np.outer(np.arange(used), np.arange(results)) % size / size
    waves = np.exp((2j if inverse else -2j) * np.pi * turns)
    if inverse:
        waves /= size
    if inverse and onesided:  # the other half is the conjugate, whose sum with it is real
        twice = np.arange(used)
        waves *= np.where((twice == 0) | (2 * twice == size), 1, 2)[:, None]
    of_parts = np.stack([waves, 1j * waves][:parts], 1)
    made = np.stack([of_parts.real, of_parts.imag], -1)
    return made[..., :1] if inverse and onesided else made


@operator("STFT", 17)
def stft(
    signal: Any, step: Any, window: Any = None, length: Any = None, *, onesided: int
) -> object:
    """Transforms of the windows of signals: [samples, windows, frequencies, 2]."""
    wave = gc.expand_dims(signal, -1) if rank_of(signal) == 2 else signal
    if length is not None:
        size = int(known_number(length, "the length of a frame"))
    else:
        size = fixed([shape_of(wave)[1] if window is None else shape_of(window)[0]], "a frame")[0]
    if window is not None and shape_of(window) != (size,):
        message = f"requires a window of the frame's {size} elements, got {shape_of(window)}"
        raise mistake("shape-mismatch", message)
    frames = gc.windows(wave, size, int(known_number(step, "the step")), 1)
    if window is not None:
        frames = frames * gc.reshape(window, (size, 1))
    return _transformed(frames, None, 2, inverse=False, onesided=bool(onesided))


@operator("MelWeightMatrix", 17)
def mel_weight_matrix(
    bands: Any, length: Any, rate: Any, lowest: Any, highest: Any, *, output_datatype: int
) -> object:
    """[frequencies of a transform, bands]: triangles whose corners are even steps of mel apart."""
    count, size, hertz = (
        int(known_number(v, w))
        for v, w in ((bands, "the bands"), (length, "the length"), (rate, "the rate"))
    )
    edges = [float(known(v, "a frequency").reshape(())) for v in (lowest, highest)]
    low, high = (2595 * np.log10(1 + f / 700) for f in edges)
    mel = low + np.arange(count + 2) * (high - low) / (count + 2)
    corners = ((size + 1) * 700 * (10 ** (mel / 2595) - 1) // hertz).astype(int)
    made = np.zeros((size // 2 + 1, count))
    for band in range(count):
        first, middle, last = corners[band : band + 3]
        rising, falling = np.arange(first, middle + 1), np.arange(middle, last)
        made[rising, band] = (rising - first) / (middle - first) if middle > first else 1
        made[falling, band] = (last - falling) / max(last - middle, 1)
    return made.astype(element_type(output_datatype))
