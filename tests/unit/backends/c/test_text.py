"""The text of C functions: what people read."""

from __future__ import annotations

import re

import pytest

from graphc.backends.c.emit import emit_function
from graphc.backends.c.target import c_target
from graphc.backends.c.types import literal
from graphc.backends.c.wide import WideModule
from graphc.backends.loops.values import I64, PTR, Val, constant, index, lane_type
from graphc.backends.signature import make_signature
from graphc.support.diagnostics import InternalError
from tests.support.compiling import parse
from tests.support.native import fused

NEST = """
dim N <= 64
func @f(%x: tensor<Nx3xf32> input, %s: tensor<1x1xf32> parameter) -> (y: tensor<Nx3xf32>) {
  %0 = broadcast %s {dims = [N, 3]} : tensor<Nx3xf32>
  %1 = mul %x, %0 : tensor<Nx3xf32>
  %y = abs %1 : tensor<Nx3xf32>
  return %y
}
"""
PRODUCT = """
func @f(%x: tensor<4x5xf32> input, %w: tensor<5x8xf32> parameter) -> (y: tensor<4x8xf32>) {
  %y = matmul %x, %w : tensor<4x8xf32>
  return %y
}
"""


def text_of(module_text: str, target: str) -> str:
    module = parse(fused(module_text))
    function = module.functions[0]
    return emit_function(function, make_signature(module, function), c_target(target))


def written(target: str = "x86-64-v3") -> WideModule:
    return WideModule(c_target(target))


def test_a_nest_is_a_function_with_the_operation_above_it() -> None:
    text = text_of(NEST, "x86-64-v3")
    assert re.search(
        r"/\* `y` = kernel : tensor<Nx3xf32>, <text>:\d+:\d+ \*/\nstatic void nest0\(", text
    )
    assert re.search(r"for \(int64_t i\d+ = 0; i\d+ < \w+; i\d+ \+= \d+\) \{", text)
    assert "f32 *p0 = p0_;" in text
    assert "__builtin_fabsf(" in text
    assert "nest0(" in text.split("graphc_entry")[1]


def test_the_inside_of_a_product_reads_well() -> None:
    text = text_of(PRODUCT, "x86-64-v3")
    body = text.split("static void tile")[1].split("\n}\n")[0]
    (step,) = {line for line in body.splitlines() if "f32x8_fma(f32x8_all(x1)" in line}
    # The sum gets its new value in the line that computes it.
    found = re.fullmatch(r" +(v\d+) = f32x8_fma\(f32x8_all\(x1\), v\d+, (v\d+)\);", step)
    assert found
    assert found[1] == found[2]


def test_machines_without_fused_products_call_no_fma() -> None:
    assert "fma" in text_of(PRODUCT, "x86-64-v3").split("#endif")[-1]
    assert "fma" not in text_of(PRODUCT, "x86-64")


def test_the_same_function_gives_the_same_text() -> None:
    assert text_of(PRODUCT, "aarch64") == text_of(PRODUCT, "aarch64")


def test_what_is_read_once_stands_where_it_is_read_and_what_is_not_read_is_left_out() -> None:
    module = written()
    code = module.body()
    place = code.binary("add nsw", code.binary("mul nsw", Val("%n", I64), index(3)), index(1))
    code.binary("add nsw", place, index(7))
    value = code.load(lane_type("float"), code.offset(Val("%p", PTR), "float", place), 4)
    code.store(value, Val("%p", PTR), 4)
    code.leave()
    module.add("f", (Val("%p", PTR), Val("%n", I64)), code)
    assert module.text().endswith(
        "static void f0(void *p_, int64_t n)\n{\n    f32 *p = p_;\n"
        "    float x1 = p[n * 3 + 1];\n    *p = x1;\n}\n"
    )


def test_no_counter_is_called_as_a_type_is() -> None:
    module = written()
    code = module.body()
    for _ in range(9):
        with code.guarded_loop(index(0), Val("%n", I64), 1, ()) as turn:
            place = code.offset(Val("%p", PTR), "i8", turn.index)
            code.store(constant(1, lane_type("i8")), place, 1)
    code.leave()
    module.add("f", (Val("%p", PTR), Val("%n", I64)), code)
    text = module.text()
    assert "int64_t i7 = 0" in text and "int64_t i9 = 0" in text and "i8 *p = p_" in text
    assert "int64_t i8" not in text


def test_carried_values_are_exchanged_at_once() -> None:
    module = written()
    code = module.body()
    one, two = index(1), index(2)
    with code.guarded_loop(index(0), Val("%n", I64), 1, (one, two)) as turn:
        turn.carried.reverse()
    code.leave([code.binary("sub nsw", *turn.carried)])
    module.add("f", (Val("%n", I64),), code, results=(I64,))
    assert module.text().endswith(
        """{
    int64_t s1 = 1;
    int64_t s2 = 2;
    for (int64_t i1 = 0; i1 < n; i1++) {
        int64_t s3 = s2;
        s2 = s1;
        s1 = s3;
    }
    return s1 - s2;
}
"""
    )


def test_a_vector_wider_than_a_register_is_computed_in_parts() -> None:
    module = written()
    code = module.body()
    wide = lane_type("float", 32)
    value = code.load(wide, Val("%p", PTR), 4)
    code.store(code.binary("fadd", value, constant(1.0, wide)), Val("%p", PTR), 4)
    code.leave()
    module.add("f", (Val("%p", PTR),), code)
    text = module.text()
    assert "f32x32" not in text
    assert len(re.findall(r"f32x8 v\d+ = v\d+ \+ 1\.0f;", text)) == 4


def test_masked_loads_are_refused() -> None:
    code = written().body()
    four = lane_type("float", 4)
    mask = constant(1, lane_type("i1", 4))
    with pytest.raises(InternalError, match="no masked loads"):
        code.load_masked(four, Val("%p", PTR), 4, mask)
    with pytest.raises(InternalError, match="no masked stores"):
        code.store_masked(constant(0.0, four), Val("%p", PTR), 4, mask)


@pytest.mark.parametrize(
    ("value", "element", "text"),
    [
        (0.1, "float", "0.1f"),
        (1e-45, "float", "1e-45f"),
        (-0.0, "double", "-0.0"),
        (float("inf"), "float", "__builtin_inff()"),
        (-float("inf"), "double", "-__builtin_inf()"),
        (float("nan"), "double", '__builtin_nan("")'),
        (1e300, "float", "__builtin_inff()"),
        (-(2**63), "i64", "INT64_MIN"),
        (-(2**31), "i32", "INT32_MIN"),
        (1, "i1", "1"),
    ],
)
def test_constants(value: float, element: str, text: str) -> None:
    assert literal(value, element) == text
