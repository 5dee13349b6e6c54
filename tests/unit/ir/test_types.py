"""Types: how they print, what they count, and sizes of symbols."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.dims import part_of, product_of, size_product, size_quotient
from graphc.ir.types import (
    SAMPLES,
    Dim,
    DType,
    Image,
    MatrixType,
    Symbol,
    TensorType,
    bound_of,
    fixed_size,
    size_of,
)
from graphc.support.diagnostics import InternalError

N = Symbol("N", 256)


@pytest.mark.parametrize(
    ("dtype", "size", "numpy"),
    [
        (DType.F32, 4, np.float32),
        (DType.F64, 8, np.float64),
        (DType.I32, 4, np.int32),
        (DType.I64, 8, np.int64),
        (DType.I1, 1, np.bool_),
    ],
)
def test_an_element_type_has_its_numpy_type_and_size(
    dtype: DType, size: int, numpy: type[np.generic]
) -> None:
    assert dtype.itemsize == size
    assert dtype.numpy == np.dtype(numpy)


def test_floats_unsigned_and_stored_types_say_so() -> None:
    assert [d.value for d in DType if d.is_float] == [
        *("f32", "f64", "f16", "bf16"),
        *("f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1fn"),
    ]
    assert [d.value for d in DType if d.is_unsigned] == [*("u8", "u16", "u32", "u64", "u4", "u2")]
    stored = {d.value: d.computed.value for d in DType if d is not d.computed}
    floats = ("f16", "bf16", "f8e4m3fn", "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "f4e2m1fn")
    integers = ("i8", "i16", "u8", "u16", "i4", "u4", "i2", "u2")
    assert stored == dict.fromkeys(floats, "f32") | dict.fromkeys(integers, "i32") | dict.fromkeys(
        ("u32", "u64"), "i64"
    )


@pytest.mark.parametrize(
    ("type", "text"),
    [
        (TensorType((N, 64), DType.F32), "tensor<Nx64xf32>"),
        (TensorType((), DType.I1), "tensor<i1>"),
        (TensorType((0, 1), DType.I64), "tensor<0x1xi64>"),
        (MatrixType(64, SAMPLES), "matrix<64x*>"),
        (MatrixType(None, None), "matrix<?x?>"),
        (MatrixType(10, 1), "matrix<10x1>"),
        (MatrixType(24, SAMPLES, Image(4, 3, 2)), "matrix<24x* image 4x3x2>"),
        (MatrixType(24, None, Image(24, 1, 1)), "matrix<24x? image 24x1x1>"),
    ],
)
def test_types_print_as_the_text_form_has_them(type: TensorType | MatrixType, text: str) -> None:
    assert str(type) == text


def test_sizes_are_counted_with_every_symbol_at_its_bound() -> None:
    type = TensorType((N, 3, N), DType.F64)
    assert type.bound_elements == 256 * 3 * 256
    assert type.bound_bytes == 8 * type.bound_elements
    assert type.symbols() == (N, N)


def test_counting_elements_does_not_wrap_around() -> None:
    assert TensorType((2**40, 2**40), DType.F32).bound_elements == 2**80


def test_a_scalar_has_one_element() -> None:
    assert TensorType((), DType.F32).bound_elements == 1


def test_the_shape_of_a_call_replaces_symbols_by_their_sizes() -> None:
    assert TensorType((N, 4), DType.F32).shape({"N": 7}) == (7, 4)


def test_a_plain_size_is_its_own_bound_and_size() -> None:
    assert (bound_of(5), size_of(5, {})) == (5, 5)
    assert (bound_of(N), size_of(N, {"N": 3})) == (256, 3)


def test_symbols_of_other_bounds_make_other_types() -> None:
    assert TensorType((N,), DType.F32) != TensorType((Symbol("N", 8),), DType.F32)


@pytest.mark.parametrize(
    ("type", "known"),
    [
        (MatrixType(1, 1), True),
        (MatrixType(1, SAMPLES), True),
        (MatrixType(None, SAMPLES), False),
        (MatrixType(1, None), False),
    ],
)
def test_a_matrix_is_known_when_rows_and_columns_are(type: MatrixType, known: bool) -> None:
    assert type.is_known is known


def test_an_image_makes_another_type_of_one_size() -> None:
    plain, image = MatrixType(6, 1), MatrixType(6, 1, Image(3, 2, 1))
    assert plain != image != MatrixType(6, 1, Image(2, 3, 1))
    assert plain.size == image.size == (6, 1)


def test_an_image_has_a_row_for_each_channel_of_each_pixel() -> None:
    assert Image(28, 27, 3).rows == 28 * 27 * 3


def test_a_size_that_has_to_be_a_number_is_given_as_one() -> None:
    assert fixed_size(3) == 3
    for unknown in (Symbol("N", 4), SAMPLES, None):
        with pytest.raises(InternalError, match="has to be a number"):
            fixed_size(unknown)


# --- sizes ---------------------------------------------------------------------------------------

T, S = Symbol("T", 8), Symbol("S", 4)


def test_products_of_sizes() -> None:
    assert size_product([]) == 1
    assert size_product([2, 3]) == 6
    assert size_product([T]) == T
    assert size_product([T, 1]) == T
    assert size_product([T, 0]) == 0
    assert size_product([T, S]) == size_product([S, T]) == product_of("ST", (S, T))
    assert size_product([4, T]) == part_of("T4", T, 1, 4)
    assert size_product([size_product([T, S]), 2]) == product_of("ST2", (S, T), 1, 2)


@pytest.mark.parametrize(
    ("whole", "part", "wanted"),
    [
        ([6], [2], 3),
        ([6], [4], None),
        ([0], [3], 0),
        ([6], [0], None),
        ([0], [0], None),
        ([T, S], [T], S),
        ([T, 6], [T, 3], 2),
        ([T, 6], [4], None),
        ([T], [S], None),
        ([T, T], [T], T),
        ([4], [T], None),
    ],
)
def test_quotients_of_sizes(whole: list[Dim], part: list[Dim], wanted: Dim | None) -> None:
    assert size_quotient(whole, part) == wanted
