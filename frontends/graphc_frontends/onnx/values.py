"""What flows between nodes while an ONNX graph is read.

A value is *known* where it is a numpy array: a constant, or what follows from constants and sizes.
Sizes that a call decides stand in known arrays of Python objects. Everything else is traced. What
is computed of known values alone is computed with numpy, at once and in ONNX's own element types;
what is traced with the functions of arrays, whose names are numpy's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeGuard

import numpy as np

import graphc as gc
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.element_types import lacking_name
from graphc.support.short_types import SHORT_INTEGERS
from graphc.tensor.caller import caller_location
from graphc.tensor.program_builder import Symbol
from graphc.tensor.tensor import Tensor
from graphc_frontends.onnx.reading import brought_types

Known = np.ndarray[Any, Any]
Dim = int | Symbol


@dataclass(frozen=True, eq=False, repr=False)
class Weight(Tensor):
    """A parameter, whose array is known to what can only be compiled for one value; or sizes of a
    call as floats, which are known as sizes."""

    array: Known


class NeedsValue(Exception):
    """A handler has to know a value that only calls give.

    count  the name of a size that could be given in its place
    """

    def __init__(self, value: Tensor, what: str, count: str = "") -> None:
        super().__init__(what)
        self.value = value
        self.what = what
        self.count = count


def mistake(slug: str, message: str) -> GraphcError:
    """The error at the node that is being read."""
    return fail(slug, message, caller_location())


def unsupported(what: str) -> GraphcError:
    return mistake("not-supported", f"{what} is not supported")


# --- known values --------------------------------------------------------------------------------


def is_known(value: object) -> TypeGuard[Known]:
    return isinstance(value, np.ndarray)


def known(value: object, what: str, count: str = "") -> Known:
    """The array of a value that has to be known; `what` it is, for the message."""
    if isinstance(value, Weight):
        return value.array
    if isinstance(value, Tensor):
        raise NeedsValue(value, what, count)
    if is_known(value):
        return value
    raise mistake("argument-type", f"{what} requires an array")


def known_number(value: object, what: str) -> Any:
    """A Python number."""
    array = known(value, what)
    if array.size != 1:
        raise mistake("shape-mismatch", f"{what} requires one number, got {array.size}")
    return array.reshape(-1)[0].item() if array.dtype != object else array.reshape(-1)[0]


def known_sizes(value: object, what: str) -> list[Dim]:
    """A list of whole numbers and of sizes that a call decides."""
    return [n if isinstance(n, Symbol) else int(n) for n in known(value, what).reshape(-1)]


def known_ints(value: object, what: str) -> list[int]:
    """A list of whole numbers."""
    found = known_sizes(value, what)
    for n in found:
        if isinstance(n, Symbol):
            raise unsupported(f"{what} that depends on the size {n}, which each call decides,")
    return [n for n in found if isinstance(n, int)]


def as_sizes(dims: Iterable[Dim]) -> Known:
    """A known list of sizes, as Shape gives it."""
    return settled(np.array([*dims], dtype=object).reshape(-1))


def settled(array: Known) -> Known:
    """Without sizes of a call in it an array of sizes is one of integers."""
    if array.dtype != object or any(isinstance(n, Symbol) for n in array.reshape(-1)):
        return array
    return array.astype(np.int64)


def shape_of(value: Any) -> tuple[Dim, ...]:
    return tuple(value.shape)


def product_of(sizes: Iterable[Dim]) -> Any:
    """How many elements there are."""
    total: Any = 1
    for n in sizes:
        total = total * n
    return total


def numbered(size: Dim) -> Any:
    """0, 1, … before a size."""
    return gc.arange(size) if isinstance(size, Symbol) else np.arange(size, dtype=np.int64)


def along(size: Dim, rank: int, axis: int) -> Any:
    """The numbers of the elements of an axis, to compute with arrays of that rank."""
    shape: list[Dim] = [1] * rank
    shape[axis] = size
    numbers = numbered(size)
    return of(numbers).reshape(numbers, shape)


def rank_of(value: Any) -> int:
    return len(value.shape)


def dtype_of(value: Any) -> np.dtype[Any]:
    """The element type; of sizes that of ONNX's shapes."""
    if value.dtype == object:
        return np.dtype(np.int64)
    return brought_types()[value.dtype.names[0]] if value.dtype.names else value.dtype


def is_float(value: Any) -> bool:
    """Whether the elements are floats."""
    dtype = dtype_of(value)
    name = lacking_name(dtype)
    return dtype.kind == "f" if name is None else name not in SHORT_INTEGERS


# --- computing -----------------------------------------------------------------------------------


def of(*values: object) -> ModuleType | Any:
    """What computes with these values: numpy where all are known, else graphc."""
    return np if all(v is None or is_known(v) for v in values) else gc


def computed(*values: Any) -> tuple[Any, ...]:
    """Operands of one type; where one is traced, sizes of a call are numbers that it computes."""
    if all(v is None or is_known(v) for v in values):
        return values
    return with_numbers(*values)


def with_numbers(*values: Any, dtype: Any = np.int64) -> tuple[Any, ...]:
    """Operands of one type, in which sizes of a call are traced numbers; `dtype` is the type where
    all are sizes."""
    kinds = [v.dtype for v in values if v is not None and v.dtype != object]
    kind = kinds[0] if kinds else np.dtype(dtype)
    return tuple(_numbers(v, kind) for v in values)


def _numbers(value: Any, dtype: Any) -> Any:
    if not is_known(value) or value.dtype != object:
        return value
    listed = gc.stack([*value.reshape(-1)])
    return gc.cast(gc.reshape(listed, value.shape), dtype)


def has_sizes(*values: Any) -> bool:
    """Whether a known array holds sizes that a call decides."""
    return any(is_known(v) and v.dtype == object for v in values)


def fixed(sizes: Sequence[Dim], what: str) -> list[int]:
    """Sizes that have to be the same in every call."""
    for n in sizes:
        if isinstance(n, Symbol):
            raise unsupported(f"{what} over an axis of the size {n}, which each call decides,")
    return [n for n in sizes if isinstance(n, int)]


def axis_of(axis: int, rank: int) -> int:
    """An axis counted from the front."""
    if not -rank <= axis < max(rank, 1):
        raise mistake("bad-value", f"requires an axis from {-rank} to {rank - 1}, got {axis}")
    return axis % rank if rank else 0
