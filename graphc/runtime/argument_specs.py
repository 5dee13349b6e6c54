"""What a call has to know of one array of a signature: its place, what is accepted for it, and how
that is converted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphc.runtime.class_numbers import (
    NUMBER,
    are_class_numbers,
    check_classes,
    one_hot,
    require_classes,
)
from graphc.runtime.device_arrays import DeviceArray
from graphc.runtime.signature import GRADIENT, NUMPY_DTYPES, Argument, LabelInput, Result, Shape
from graphc.runtime.sparse import SparseRows, sparse_rows
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.element_types import as_numbers, as_type, lacking_name, type_text

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class ArgumentSpec:
    """An argument or a fresh result, with what is looked up once and needed at every call.

    place       among the arguments, or among the fresh results
    fixed       the shape where it holds no dim
    is_number   callers get it as one number
    is_state    the learner keeps it from call to call
    is_updated  the function writes into it
    classes     more than 0: of labels, which may be given as one-hot rows of so many or as class
                numbers
    is_numbered the function takes these
    below       more than 0: whole numbers of classes, all of them below it
    is_checked  the function looks itself whether they are numbers of classes
    other       of labels: what a function takes for the other kind
    """

    name: str
    place: int
    dtype: np.dtype
    shape: Shape
    fixed: tuple[int, ...] | None
    is_number: bool = False
    is_state: bool = False
    is_updated: bool = False
    classes: int = 0
    is_numbered: bool = False
    below: int = 0
    is_checked: bool = False
    other: ArgumentSpec | None = None

    @staticmethod
    def of(
        place: int,
        array: Argument | Result,
        updated: Collection[str | None] = (),
        *,
        numbers: bool = True,
        label: LabelInput | None = None,
    ) -> ArgumentSpec:
        """`updated`: the names of what the function writes into; `numbers`: one row and one column
        are a number; `label`: what there is to know of it as an input of labels."""
        sizes = tuple(d for d in array.shape if isinstance(d, int))
        fixed = sizes if len(sizes) == len(array.shape) else None
        spec = ArgumentSpec(
            array.name,
            place,
            NUMPY_DTYPES[array.dtype],
            array.shape,
            fixed,
            is_number=numbers and fixed == (1, 1) and not array.name.startswith(GRADIENT),
            is_state=isinstance(array, Argument) and array.role == "state",
            is_updated=array.name in updated,
        )
        return spec if label is None else _of_labels(spec, label)

    @property
    def to_look_at(self) -> int:
        """The number of classes, where who calls the function has to look at their numbers."""
        return 0 if self.is_checked else self.below or (self.classes if self.is_numbered else 0)

    def taking(self, numbered: bool | None) -> ArgumentSpec:
        """Of labels what is taken for class numbers, or for rows; None: either."""
        is_other = self.other is not None and numbered is not None and numbered != self.is_numbered
        return self.other if is_other and self.other is not None else self


def _of_labels(spec: ArgumentSpec, label: LabelInput) -> ArgumentSpec:
    classes, is_numbered = label.classes, label.is_numbered
    if is_numbered:
        shape, dtype = (*spec.shape, classes), NUMPY_DTYPES[label.dtype]
    else:
        shape, dtype = spec.shape[:-1], NUMBER
    other = replace(spec, dtype=dtype, shape=shape, classes=classes, is_numbered=not is_numbered)
    return replace(spec, classes=classes, is_numbered=is_numbered, other=other)


@dataclass(frozen=True, slots=True)
class SparseArgumentSpec:
    """A sparse input of `rows` numbers a sample or step, which is two arguments."""

    name: str
    rows: int
    indices: ArgumentSpec
    values: ArgumentSpec

    def read(self, value: object) -> SparseRows:
        """`value` in any of the accepted forms; GraphcError `input`."""
        return sparse_rows(self.name, value, self.rows)


Input = ArgumentSpec | SparseArgumentSpec


def read_array(spec: ArgumentSpec, value: object, sizes: dict[str, int]) -> Array:
    """`value` as the array that the input needs; its sizes are noted in `sizes`."""
    if isinstance(value, DeviceArray):
        return _on_device(spec, value, sizes)
    array = value if type(value) is np.ndarray else as_array(spec, value)
    if spec.classes:
        array = labels_of(spec, array)
    note_shape(spec, array.shape, sizes)
    if spec.below and (array.dtype != spec.dtype or not spec.is_checked):
        require_classes(spec.name, array, spec.below)  # before another type changes them
    if array.dtype != spec.dtype:
        array = convert(spec, array)
    flags = array.flags
    return array if flags.c_contiguous and flags.aligned else np.array(array, order="C")


def labels_of(spec: ArgumentSpec, array: Array, sequence: int | None = None) -> Array:
    """Class numbers as the function takes them, checked unless it does that; another array as it
    is.

    sequence  they are the steps of the one with this number, not samples
    """
    if not spec.classes or not are_class_numbers(array):
        return array
    if not spec.is_numbered:
        return one_hot(spec.name, array, spec.classes, spec.dtype, sequence)
    if spec.is_checked:
        return array.astype(spec.dtype, copy=False)
    return check_classes(spec.name, array, spec.classes, sequence)


def _on_device(spec: ArgumentSpec, array: DeviceArray, sizes: dict[str, int]) -> Array:
    """An array of a device, which is taken where it lies."""
    note_shape(spec, array.shape, sizes)
    if array.dtype != spec.dtype:
        message = f"input {spec.name} requires {wanted(spec)}, got {array.dtype} on the GPU"
        raise fail("input", f"{message}: convert it there")
    return array  # type: ignore[return-value]  # functions that take such arrays expect them


def note_shape(spec: ArgumentSpec, shape: tuple[int, ...], sizes: dict[str, int]) -> None:
    """Note the sizes of dims that an input of this shape has; GraphcError `input` if it does not
    fit."""
    if len(shape) != len(spec.shape):
        raise wrong_shape(spec, shape, sizes)
    for dim, size in zip(spec.shape, shape, strict=True):
        if size != (dim if isinstance(dim, int) else sizes.get(dim, size)):
            raise wrong_shape(spec, shape, sizes)
    sizes.update((d, n) for d, n in zip(spec.shape, shape, strict=True) if isinstance(d, str))


def as_array(spec: ArgumentSpec, value: object) -> Array:
    """`value` as an array of anything; GraphcError `input` if it is none."""
    if hasattr(value, "tocsr"):  # numpy would make an array of one object out of it
        raise fail(
            "input",
            f"input {spec.name} requires {wanted(spec)}, got a sparse matrix: give its toarray(), "
            "or declare the input as SparseInput",
        )
    try:
        return np.asarray(value)
    except (ValueError, TypeError) as problem:
        message = f"input {spec.name} requires {wanted(spec)}, got no array: {problem}"
        items: Sequence[object] = value if isinstance(value, list) else ()
        if _takes_samples(spec) and any(getattr(item, "ndim", 0) == 2 for item in items):
            message += _FOR_SEQUENCES
        raise fail("input", message) from None


def convert(spec: ArgumentSpec, array: Array) -> Array:
    """Other numbers as the declared element type; text, objects and complex numbers are refused."""
    kinds = _ACCEPTED.get(spec.dtype.kind, "b")
    if not array.dtype.names and lacking_name(array.dtype) is not None:
        array = as_numbers(array)
    if array.dtype.kind not in kinds:
        raise fail(
            "input",
            f"input {spec.name} requires {wanted(spec)}, got elements of {array.dtype}",
        )
    if spec.dtype.names:
        return as_type(array, spec.dtype)
    if spec.dtype.kind in "iu":
        _require_range(spec, array)
    with np.errstate(over="ignore"):  # a number too large for f32 is infinite, as anywhere else
        return array.astype(spec.dtype, order="C")


def _require_range(spec: ArgumentSpec, array: Array) -> None:
    """GraphcError `input` for whole numbers that the declared type does not have."""
    if array.size and not np.can_cast(array.dtype, spec.dtype):
        limits = np.iinfo(spec.dtype)
        least, most = int(array.min()), int(array.max())
        wrong = least if least < limits.min else most
        if not limits.min <= wrong <= limits.max:
            raise fail("input", f"input {spec.name} requires {wanted(spec)}, got {wrong}")


_ACCEPTED = {"f": "fiub", "V": "fiub", "i": "iub", "u": "iub"}
"""The kinds of numpy's types that are converted to those of a kind."""


def wrong_shape(
    spec: ArgumentSpec, shape: tuple[int, ...], sizes: Mapping[str, int]
) -> GraphcError:
    """The error for an array of this shape, with what may have been meant."""
    message = f"input {spec.name} requires {wanted(spec)}, got shape {shape}"
    if len(shape) == 1 and len(spec.shape) == 2 and shape[0] == spec.shape[1]:
        message += "; for one sample x pass x[None, :]"
    elif len(shape) == 3 and _takes_samples(spec):
        message += _FOR_SEQUENCES
    elif len(shape) == len(spec.shape):
        for dim, size in zip(spec.shape, shape, strict=True):
            if isinstance(dim, str) and sizes.get(dim, size) != size:
                message += f"; {dim} is {sizes[dim]} in another input"
        if len(shape) == 2 and shape[0] == spec.shape[1]:
            message += "; one row per sample, so perhaps x.T"
    return fail("input", message)


_FOR_SEQUENCES = "; for sequences give time= when compiling, training or measuring"


def _takes_samples(spec: ArgumentSpec) -> bool:
    """Whether it has a row for each sample, and no time."""
    return len(spec.shape) == 2 and isinstance(spec.shape[0], str)


def wanted(spec: ArgumentSpec) -> str:
    """What the spec requires, in words."""
    shape = f"shape ({', '.join(map(str, spec.shape))})"
    if spec.is_numbered:
        return f"class numbers of {shape}"
    shape = f"{shape} of {type_text(spec.dtype)}"
    return f"{shape} or class numbers (integers) in one dimension" if spec.classes else shape
