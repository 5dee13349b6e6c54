"""Types that are only stored, in the text form and in what the verifier says of them."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.elements import DTYPES, as_numbers, converted, stored
from graphc.ir.printer import print_module
from graphc.ir.types import DType
from graphc.ir.verifier import verify_module
from graphc.support.diagnostics import DiagnosticSink, GraphcError
from graphc.support.element_types import NUMPY_DTYPES
from tests.support.compiling import parse

TEXT = """\
dim N <= 8

func @f(%x: tensor<Nx2x{0}> input) -> (y: tensor<Nx3x{0}>, z: tensor<Nx2xf32>) {{
  %c = constant {{type = tensor<1x2x{0}>, value = [1{1}, 3{1}]}} : tensor<1x2x{0}>
  %y = pad %x {{low = [0, 0], high = [0, 1], inner = [0, 0], value = 2.0}} : tensor<Nx3x{0}>
  %z = cast %x {{dtype = f32}} : tensor<Nx2xf32>
  return %y, %z
}}
"""

STORED = [d for d in DType if d is not d.computed]


@pytest.mark.parametrize("dtype", STORED, ids=str)
def test_the_text_of_a_type_reads_back(dtype: DType) -> None:
    text = print_module(parse(TEXT.format(dtype, ".0" if dtype.is_float else "")))
    assert f"tensor<Nx3x{dtype}>" in text
    assert print_module(parse(text)) == text


def _verified(text: str) -> None:
    sink = DiagnosticSink()
    verify_module(parse(text), sink)
    sink.raise_if_errors()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("%y = add %x, %x : tensor<4xf16>", "requires elements of f32, f64, i32, i64, got"),
        ("%y = neg %x : tensor<4xf16>", "requires elements of f32, f64, i32, i64, got"),
        ("%y = exp %x : tensor<4xf16>", "requires elements of f32, f64, got"),
        ("%y = reduce_sum %x {axes = [0]} : tensor<1xf16>", "requires elements of f32, f64"),
    ],
)
def test_arithmetic_on_stored_elements_is_refused(line: str, said: str) -> None:
    result = line.split(" : ")[1]
    text = f"func @f(%x: tensor<4xf16> input) -> (y: {result}) {{\n  {line}\n  return %y\n}}\n"
    with pytest.raises(GraphcError) as raised:
        _verified(text)
    assert said in str(raised.value)


@pytest.mark.parametrize(("dtype", "number"), [("u8", 256), ("i8", -129), ("u64", -1)])
def test_a_constant_beyond_its_type_is_refused(dtype: str, number: int) -> None:
    settings = f"{{type = tensor<1x{dtype}>, value = [{number}]}}"
    text = f"func @f() -> (y: tensor<1x{dtype}>) {{\n  %y = constant {settings} : tensor<1x{dtype}>"
    with pytest.raises(GraphcError, match=f"requires values that fit {dtype}"):
        _verified(f"{text}\n  return %y\n}}\n")


def test_numpy_has_a_type_of_its_own_for_each() -> None:
    assert {*NUMPY_DTYPES} == {d.value for d in DType}
    assert len(DTYPES) == len(DType)


def test_numbers_of_bf16_are_the_upper_halves_of_those_of_f32() -> None:
    given = [1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-40, 3.4e38, 1e300, 2.0**-134]
    bits = stored(given, DType.BF16).view(np.uint16)
    assert [hex(b) for b in bits] == [
        *("0x3f80", "0x3f80", "0x3f82", "0x3f81", "0x7f80", "0x7f80", "0x0")
    ]
    every = np.arange(2**16, dtype=np.uint16).view(DType.BF16.numpy)
    numbers = as_numbers(every)
    again = converted(numbers, DType.BF16).view(np.uint16)
    same = (again == every.view(np.uint16)) | np.isnan(numbers)
    assert same.all()
