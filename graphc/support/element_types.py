"""Element types in numpy: its types by our names, and numbers of one as elements of another.

What conversion means, for every backend:

* to an integer of a float: towards zero, saturating, nan to 0; of an integer: the low bits
* to a float: the nearest number, of two the even one
* to a truth value: whether it is not zero
"""

from __future__ import annotations

import numpy as np

from graphc.support.short_types import SHORT_TYPES

Array = np.ndarray

NUMPY_DTYPES: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "i1": np.dtype(np.bool_),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype([("bf16", np.uint16)]),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    **{name: np.dtype([(name, np.uint8)]) for name in SHORT_TYPES},
}
"""Of what numpy lacks, bf16 and types of 8 bits and fewer, a record with the bytes of a number."""

PACKAGE_NAMES = {"bfloat16": "bf16"} | {t.package: name for name, t in SHORT_TYPES.items()}
"""Our names of types by those of packages that bring them to numpy."""

_BF16 = NUMPY_DTYPES["bf16"]


def lacking_name(dtype: np.dtype) -> str | None:
    """Our name of a type that numpy lacks, of a record or as a package brings it; else None."""
    if not dtype.names:
        return PACKAGE_NAMES.get(dtype.name)
    return dtype.names[0] if NUMPY_DTYPES.get(dtype.names[0]) == dtype else None


def type_text(dtype: np.dtype) -> str:
    """The name of a type, for messages."""
    return str(dtype) if not dtype.names else lacking_name(dtype) or str(dtype)


def as_numbers(x: Array) -> Array:
    """Numbers of types that numpy lacks as f32 or i32, all others as they are."""
    name = lacking_name(x.dtype)
    if name is None:
        return x
    if name in SHORT_TYPES:
        codes = np.ascontiguousarray(x).view(np.uint8).reshape(x.shape)
        return SHORT_TYPES[name].numbers(codes)
    bits = np.ascontiguousarray(x).view(np.uint16).astype(np.uint32)
    return (bits << np.uint32(16)).view(np.float32).reshape(x.shape)


def as_type(x: Array, target: np.dtype) -> Array:
    """The elements in another type."""
    x = as_numbers(x)
    with np.errstate(all="ignore"):
        if target.names and target != _BF16:
            return SHORT_TYPES[target.names[0]].codes(x).view(target)
        if target == _BF16:
            return _as_bf16(x)
        if target == np.bool_:
            return x != 0
        if x.dtype.kind == "f" and target.kind in "iu":
            return _as_integer(x, target)
        return x.astype(target)


def _as_integer(x: Array, target: np.dtype) -> Array:
    info = np.iinfo(target)
    wide = x.astype(np.float32) if x.dtype == np.float16 else x
    is_high, is_low = wide >= info.max, wide <= info.min
    inside = np.where(is_high | is_low | np.isnan(wide), 0, wide).astype(target)
    return np.where(is_high, info.max, np.where(is_low, info.min, inside)).astype(target)


def _as_bf16(x: Array) -> Array:
    if x.dtype.kind != "f":
        x = x.astype(np.float64)
    bits = np.ascontiguousarray(x.astype(np.float32)).view(np.uint32).reshape(x.shape)
    if x.dtype == np.float64:
        # Rounded once: towards zero, and then the last digit says that some were lost.
        back = bits.view(np.float32).astype(np.float64)
        odd = bits - (np.abs(back) > np.abs(x)) | np.uint32(1)
        bits = np.where((back != x) & ~np.isnan(x), odd, bits).astype(np.uint32)
    raised = np.asarray(bits >> np.uint32(16))  # of one number numpy makes no array
    raised &= np.uint32(1)
    raised += np.uint32(0x7FFF)
    raised += bits
    is_nan = np.isnan(x)
    if is_nan.any():
        raised[is_nan] = 0x7FC00000
    raised >>= np.uint32(16)
    return raised.astype(np.uint16).view(_BF16)
