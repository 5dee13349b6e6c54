"""Types of values: element types, dimensions with bounds, tensors, and node-level matrices.

tensor<Nx64xf32>   N is a `Symbol`: bounded (`dim N <= 256` in the module), decided by each call,
                   or made of others (`dim N = T * S`, `dim P = (T - 1) / 2`; see `dims.py`)
matrix<64x*>       a node: 64 rows, one column per sample; `?` is a size not inferred yet, `3*` are
                   three columns per sample, `*/2` one for every two
matrix<784x* image 28x28x1>   the same with columns that are images: width, height, channels
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction

import numpy as np

from graphc.ir.dims import (
    DIM_NAME as DIM_NAME,
)
from graphc.ir.dims import (
    Dim,
    Symbol,
    bound_elements,
)
from graphc.ir.dims import (
    bound_of as bound_of,
)
from graphc.support.diagnostics import InternalError
from graphc.support.element_types import NUMPY_DTYPES
from graphc.support.short_types import SHORT_FLOATS, SHORT_INTEGERS, SHORT_TYPES


class DType(Enum):
    """Element types; the value is the name in the text form.

    Operations compute with the first five. The others lie in memory, are moved and converted, and
    computed with as elements of their type `computed` (docs/numerics.md).
    """

    F32 = "f32"
    F64 = "f64"
    I32 = "i32"
    I64 = "i64"
    I1 = "i1"
    F16 = "f16"
    BF16 = "bf16"
    I8 = "i8"
    I16 = "i16"
    U8 = "u8"
    U16 = "u16"
    U32 = "u32"
    U64 = "u64"
    F8E4M3FN = "f8e4m3fn"
    F8E4M3FNUZ = "f8e4m3fnuz"
    F8E5M2 = "f8e5m2"
    F8E5M2FNUZ = "f8e5m2fnuz"
    F4E2M1FN = "f4e2m1fn"
    I4 = "i4"
    U4 = "u4"
    I2 = "i2"
    U2 = "u2"

    @property
    def numpy(self) -> np.dtype:
        """numpy's type; of those that it lacks a record with the bytes of a number."""
        return NUMPY_DTYPES[self.value]

    @property
    def itemsize(self) -> int:
        return self.numpy.itemsize

    @property
    def is_float(self) -> bool:
        return self.value.startswith(("f", "bf"))

    @property
    def is_unsigned(self) -> bool:
        return self.value.startswith("u")

    @property
    def bits(self) -> int:
        """How many a number has; those of a byte that it has not are 0."""
        short = SHORT_TYPES.get(self.value)
        return 8 * self.itemsize if short is None else short.bits

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the largest number of an integer type."""
        if self.value in SHORT_INTEGERS:
            return SHORT_INTEGERS[self.value].limits
        info = np.iinfo(self.numpy)
        return int(info.min), int(info.max)

    @property
    def computed(self) -> DType:
        """What elements of this type are computed with as: it holds all of their numbers, and of
        u64 the bits."""
        return _COMPUTED.get(self, self)

    def __str__(self) -> str:
        return self.value


_COMPUTED = {
    DType.F16: DType.F32,
    DType.BF16: DType.F32,
    DType.I8: DType.I32,
    DType.I16: DType.I32,
    DType.U8: DType.I32,
    DType.U16: DType.I32,
    DType.U32: DType.I64,
    DType.U64: DType.I64,
    **{DType(name): DType.F32 for name in SHORT_FLOATS},
    **{DType(name): DType.I32 for name in SHORT_INTEGERS},
}


def fixed_size(dim: object) -> int:
    """The dimension, of a tensor or a matrix, where only one that is a number can come."""
    if isinstance(dim, int):
        return dim
    raise InternalError(f"the dimension {dim} has to be a number")


def size_of(dim: Dim, sizes: Mapping[str, int]) -> int:
    """The dimension's value in a call where the symbols have these sizes; those that follow from
    others may be left out."""
    if not isinstance(dim, Symbol):
        return dim
    formula = dim.formula
    if formula is None or dim.name in sizes:
        return sizes[dim.name]
    return formula.value({part.name: size_of(part, sizes) for part in dim.parts})


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dense row-major array."""

    dims: tuple[Dim, ...]
    dtype: DType

    @property
    def rank(self) -> int:
        return len(self.dims)

    @property
    def bound_elements(self) -> int:
        """Number of elements with every symbol at its bound."""
        return bound_elements(self.dims)

    @property
    def bound_bytes(self) -> int:
        return self.bound_elements * self.dtype.itemsize

    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(d for d in self.dims if isinstance(d, Symbol))

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape in a call where the symbols have these sizes."""
        return tuple(size_of(d, sizes) for d in self.dims)

    def with_dims(self, dims: Iterable[Dim]) -> TensorType:
        return TensorType(tuple(dims), self.dtype)

    def with_dtype(self, dtype: DType) -> TensorType:
        return TensorType(self.dims, dtype)

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{d}x' for d in self.dims)}{self.dtype}>"


@dataclass(frozen=True, slots=True)
class Samples:
    """The column count of a node that has `times` columns for every `each` samples: one per
    sample, as inputs have, or what Reshape makes of them. Without common divisors."""

    times: int = 1
    each: int = 1

    @staticmethod
    def of(ratio: Fraction) -> Samples:
        """So many columns for each sample."""
        return Samples(ratio.numerator, ratio.denominator)

    @property
    def ratio(self) -> Fraction:
        return Fraction(self.times, self.each)

    def __str__(self) -> str:
        return (
            f"{'' if self.times == 1 else self.times}*{'' if self.each == 1 else f'/{self.each}'}"
        )


SAMPLES = Samples()
MatrixDim = int | Samples | None  # None: not inferred yet


@dataclass(frozen=True, slots=True)
class Image:
    """How the rows of a column are the pixels of an image; the book's [channel, row, column].

    Channel `c` of the pixel in image row `y` and image column `x` is row `c + channels (y +
    height x)`: in C order a column is a tensor [width, height, channels].
    """

    width: int
    height: int
    channels: int

    @property
    def rows(self) -> int:
        return self.width * self.height * self.channels

    def __str__(self) -> str:
        return f"{self.width}x{self.height}x{self.channels}"


@dataclass(frozen=True, slots=True)
class MatrixType:
    """A node's value as NDL sees it: rows and columns, no element type yet.

    `image`: what each column is an image of, if it is one; then `rows` is `image.rows`.
    """

    rows: int | None
    cols: MatrixDim
    image: Image | None = None

    @property
    def size(self) -> tuple[int | None, MatrixDim]:
        """Rows and columns alone, for comparisons that no image takes part in."""
        return self.rows, self.cols

    @property
    def is_known(self) -> bool:
        return self.rows is not None and self.cols is not None

    @property
    def has_samples(self) -> bool:
        """Whether the columns are samples, or as many as follow from their number."""
        return isinstance(self.cols, Samples)

    @property
    def is_per_sample(self) -> bool:
        """Whether there is one column per sample."""
        return self.cols == SAMPLES

    def __str__(self) -> str:
        image = f" image {self.image}" if self.image is not None else ""
        return f"matrix<{_matrix_dim(self.rows)}x{_matrix_dim(self.cols)}{image}>"


def _matrix_dim(dim: MatrixDim) -> str:
    return "?" if dim is None else str(dim)


Type = TensorType | MatrixType


class TypeRuleError(Exception):
    """Raised by a type rule: what the operation requires, and what came.

    `operand` points at the operand to blame, so that the message can show where it was made.
    """

    def __init__(self, message: str, *, operand: int | None = None, slug: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.operand = operand
        self.slug = slug or "ill-typed"
