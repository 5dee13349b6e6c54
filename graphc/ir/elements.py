"""Python's numbers and numpy's arrays as elements of our types, also of those that numpy lacks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from graphc.ir.types import DType
from graphc.support.element_types import as_numbers as as_numbers
from graphc.support.element_types import as_type
from graphc.support.element_types import lacking_name as lacking_name

Array = np.ndarray

DTYPES = {dtype.numpy: dtype for dtype in DType}
"""Our types by numpy's."""


def converted(x: Array, dtype: DType) -> Array:
    """The elements in another type; `graphc.support.element_types` says what becomes what."""
    return as_type(x, dtype.numpy)


def as_array(x: Array, dtype: DType) -> Array:
    """A copy in another type, in the order of C."""
    return np.array(converted(x, dtype), order="C")


def dtype_of(x: Array) -> DType:
    """The element type that an array of ours has."""
    return DTYPES[x.dtype]


def stored(values: Sequence[bool | int | float], dtype: DType) -> Array:
    """Python's numbers as an array of one axis."""
    if dtype.numpy.names or dtype is DType.F16:
        return converted(np.array(values, np.float64), dtype)
    with np.errstate(all="ignore"):
        return np.array(values, dtype.numpy)


def element_bytes(values: Sequence[bool | int | float], dtype: DType) -> bytes:
    """The elements as they lie in memory, the low byte first."""
    array = stored(values, dtype)
    return array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
