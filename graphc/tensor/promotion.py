"""Element types: which arrays are taken, and what type two operands meet in.

Truth values < integers < floating-point numbers. An operand of a lower kind is converted to the
other's type, integers meet in the smallest type that holds the numbers of both, and a plain Python
number takes the array's type: f32 times 0.5 stays f32. Different floating-point types do not mix,
nor u64 with signed integers: one has to be cast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np

from graphc.ir.elements import lacking_name
from graphc.ir.types import DType, TypeRuleError

Array = np.ndarray
Number = bool | int | float | np.generic


class PlainArray(np.ndarray):
    """Numbers whose floating-point type is that of what they meet, as with a plain number."""


_EXACT = {d.numpy: d for d in DType}
_BYTES = {DType.I4: DType.I8, DType.I2: DType.I8, DType.U4: DType.U8, DType.U2: DType.U8}
_NAMES = {d.value: d for d in DType}


def element_type(dtype: np.dtype) -> DType:
    """The type that elements of a numpy type have here. Raises TypeRuleError for other types."""
    found = _known(dtype) or _EXACT.get(dtype.newbyteorder("="))
    if found is None:
        raise TypeRuleError(
            f"requires an array of floats, integers or truth values, got one of {dtype}",
            slug="argument-type",
        )
    return found


def _known(dtype: np.dtype) -> DType | None:
    """The type here, also of those that a package brings to numpy."""
    name = None if dtype.names else lacking_name(dtype)
    return _EXACT.get(dtype) if name is None else DType(name)


def named_type(given: object) -> DType:
    """The type that a user names: "f32", np.float32, "float64", float, …"""
    if isinstance(given, DType):
        return given
    if isinstance(given, str) and given in _NAMES:
        return _NAMES[given]
    try:
        dtype = np.dtype(given)  # type: ignore[arg-type]  # whatever numpy accepts
        found = _known(dtype)
    except TypeError:
        found = None
    if found is None:
        raise TypeRuleError(
            f"requires an element type, one of {', '.join(_NAMES)}, got {given!r}", slug="bad-value"
        )
    return found


def is_number(given: object) -> TypeGuard[Number]:
    """Whether `given` is a plain number: it takes the element type of what it meets."""
    return isinstance(given, bool | int | float | np.bool_ | np.integer | np.floating)


def common_type(types: Sequence[DType], numbers: Sequence[Number], default: DType) -> DType:
    """What operands of these types and these plain numbers meet in; `default`: of plain floats."""
    floats = sorted({t.value for t in types if t.is_float})
    if len(floats) > 1:
        raise TypeRuleError(
            f"requires one floating-point type, got {' and '.join(floats)}; "
            "convert one of them with gc.cast",
            slug="ill-typed",
        )
    if floats:
        return DType(floats[0])
    if any(isinstance(n, float | np.floating) for n in numbers):
        return default
    integers = {t for t in types if t is not DType.I1}
    if integers:
        return _common_integer(integers)
    if any(not isinstance(n, bool | np.bool_) for n in numbers):
        return DType.I64
    return DType.I1


def _common_integer(types: Iterable[DType]) -> DType:
    """The smallest integer type that holds the numbers of all, of 8 bits or more if they differ."""
    first, *others = types
    if not others:
        return first
    types = {_BYTES.get(t, t) for t in types}
    found = _EXACT[np.result_type(*(t.numpy for t in types))]
    if found.is_float:
        names = " and ".join(sorted(t.value for t in types))
        raise TypeRuleError(
            f"requires integers that meet in one type, got {names}; convert one of them with "
            "gc.cast",
            slug="ill-typed",
        )
    return found


def number_as(number: Number, type: DType) -> bool | int | float:
    """`number` as a constant's element of this type."""
    if type is DType.I1:
        return bool(number)
    if type.is_float:
        try:
            return float(number)
        except OverflowError:
            raise TypeRuleError(
                f"requires a number that fits {type}, got a whole number that is too large",
                slug="bad-value",
            ) from None
    whole = int(number)
    least, most = type.limits
    if not least <= whole <= most:
        raise TypeRuleError(f"requires a number that fits {type}, got {whole}", slug="bad-value")
    return whole
