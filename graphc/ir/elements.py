"""Numbers as elements of arrays: conversion between all element types, in numpy.

What `cast` means, for the operation's reference, constants and the judges of tests:

* to an integer of a float: towards zero, saturating, nan to 0; of an integer: the low bits
* to a float: the nearest number, of two the even one
* to a truth value: whether it is not zero
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.ir.types import DType

Array = np.ndarray

BFLOAT16 = "bfloat16"
"""What packages that bring bf16 to numpy call it."""

_BF16 = DType.BF16.numpy
DTYPES = {dtype.numpy: dtype for dtype in DType}


def converted(x: Array, dtype: DType) -> Array:
    """The elements in another type; f32 or f64 of bf16 first, which numpy does not know."""
    x = as_numbers(x)
    target = dtype.numpy
    with np.errstate(all="ignore"):
        if dtype is DType.BF16:
            return _as_bf16(x)
        if dtype is DType.I1:
            return x != 0
        if x.dtype.kind == "f" and target.kind in "iu":
            return _as_integer(x, target)
        return x.astype(target)


def as_numbers(x: Array) -> Array:
    """Numbers of bf16 as f32, all others as they are."""
    if x.dtype != _BF16 and x.dtype.name != BFLOAT16:
        return x
    bits = np.ascontiguousarray(x).view(np.uint16).astype(np.uint32)
    return (bits << np.uint32(16)).view(np.float32).reshape(x.shape)


def as_array(x: Array, dtype: DType) -> Array:
    """A copy in another type, in the order of C."""
    return np.array(converted(x, dtype), order="C")


def dtype_of(x: Array) -> DType:
    """The element type that an array of ours has."""
    return DTYPES[x.dtype]


def stored(values: Sequence[bool | int | float], dtype: DType) -> Array:
    """Python's numbers as an array of one axis."""
    if dtype in (DType.BF16, DType.F16):
        return converted(np.array(values, np.float64), dtype)
    with np.errstate(all="ignore"):
        return np.array(values, dtype.numpy)


def element_bytes(values: Sequence[bool | int | float], dtype: DType) -> bytes:
    """The elements as they lie in memory, the low byte first."""
    array = stored(values, dtype)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()


def _as_integer(x: Array, target: np.dtype) -> Array:
    info = np.iinfo(target)
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    is_high, is_low = wide >= info.max, wide <= info.min
    inside = np.where(is_high | is_low | np.isnan(wide), 0, wide).astype(target)
    return np.where(is_high, info.max, np.where(is_low, info.min, inside)).astype(target)


def _as_bf16(x: Array) -> Array:
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    narrow = x.astype(np.float32)
    if x.dtype == np.float64:  # rounded once: a number between two of f32 is never a tie of bf16
        back = narrow.astype(np.float64)
        bits = narrow.view(np.uint32) - (np.abs(back) > np.abs(x))
        is_inexact = (back != x) & ~np.isnan(x)
        narrow = np.where(is_inexact, bits | np.uint32(1), narrow.view(np.uint32))
        narrow = narrow.astype(np.uint32).view(np.float32)
    bits = np.ascontiguousarray(narrow).view(np.uint32).reshape(narrow.shape)
    raised = bits + (np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1)))
    kept = np.where(np.isnan(narrow), np.uint32(0x7FC00000), raised) >> np.uint32(16)
    return kept.astype(np.uint16).view(_BF16)
