"""What the numpy backend writes: the text, and that it computes what the IR says."""

# ruff: noqa: E501  # the text form has one line per function head

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.numpy import BACKEND
from graphc.backends.numpy.emit import emit_function
from graphc.backends.numpy.runtime import NumpyFunction, library_text
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType
from graphc.support.diagnostics import InternalError
from tests.support.compiling import call, compile_for, parse


def emitted(text: str) -> str:
    module = parse(text)
    (function,) = module.functions
    return library_text(emit_function(function, [d.name for d in module.dims], function.name))


def agree(text: str, arguments: dict[str, np.ndarray], **sizes: int) -> None:
    """The planned function gives bit for bit what the references say."""
    module = parse(text)
    expected = evaluate(module.functions[0], arguments, sizes)
    got = call(*compile_for(BACKEND, module), arguments, sizes)
    for name, value in expected.items():
        np.testing.assert_array_equal(got[name], value, err_msg=name)


def kernel(body: str, *, rows: int = 100_000, results: str = "result:0") -> str:
    """A function of x and y, f32[N, 4] and f32[1, 4], whose one kernel has this body."""
    return f"""\
dim N <= {rows}

func @f(%x: tensor<Nx4xf32> state, %y: tensor<1x4xf32> input) -> (r: tensor<Nx4xf32>) arena 0 {{
  %r = kernel %x, %y at {results} : tensor<Nx4xf32> {{
  ^(%a: tensor<Nx4xf32>, %b: tensor<1x4xf32>):
    %c = broadcast %b {{dims = [N, 4]}} : tensor<Nx4xf32>
{body}
  }}
  return %r
}}
"""


def state_and_input(rows: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    x = rng.integers(-9, 9, (rows, 4)).astype(np.float32)
    return {"x": x, "y": np.array([[1, 2, 3, 4]], np.float32)}


CHAIN = kernel(
    """\
    %0 = add %a, %c : tensor<Nx4xf32>
    %1 = mul %0, %0 : tensor<Nx4xf32>
    %2 = sub %1, %a : tensor<Nx4xf32>
    yield %2"""
)


def test_a_chain_runs_in_blocks_of_rows() -> None:
    text = emitted(CHAIN)
    assert "for start in range(0, N, 16384):" in text
    assert "x_block = x[start:stop]" in text


def test_a_function_that_fits_the_cache_has_no_loop() -> None:
    assert "for start" not in emitted(CHAIN.replace("100000", "100"))


def test_temporaries_are_used_again() -> None:
    text = emitted(CHAIN)
    assert "t0 = " in text
    assert "t1" not in text


@pytest.mark.parametrize("rows", [0, 1, 16383, 16384, 16385, 50000])
def test_blocks_cover_every_row_once(rows: int) -> None:
    agree(CHAIN, state_and_input(rows), N=rows)


def test_what_does_not_vary_over_rows_is_computed_before_the_loop() -> None:
    text = emitted(
        kernel(
            """\
    %0 = exp %c : tensor<Nx4xf32>
    %1 = add %a, %0 : tensor<Nx4xf32>
    %2 = mul %1, %1 : tensor<Nx4xf32>
    yield %2"""
        )
    )
    assert text.index("np.exp(y") < text.index("for start")


SUMS = """\
dim N <= 100000

func @f(%x: tensor<Nx3xi64> input) -> (s: tensor<1x3xi64>, m: tensor<1x1xi64>, r: tensor<Nx1xi64>) arena 0 {
  %s, %m, %r = kernel %x at result:0, result:1, result:2 : tensor<1x3xi64>, tensor<1x1xi64>, tensor<Nx1xi64> {
  ^(%a: tensor<Nx3xi64>):
    %0 = add %a, %a : tensor<Nx3xi64>
    %1 = reduce_sum %0 {axes = [0]} : tensor<1x3xi64>
    %2 = reduce_max %0 {axes = [0, 1]} : tensor<1x1xi64>
    %3 = reduce_min %0 {axes = [1]} : tensor<Nx1xi64>
    yield %1, %2, %3
  }
  return %s, %m, %r
}
"""


@pytest.mark.parametrize("rows", [0, 1, 40000])
def test_reductions_over_rows_are_accumulated_over_blocks(rows: int) -> None:
    assert "for start" in emitted(SUMS)
    x = np.random.default_rng(0).integers(-99, 99, (rows, 3))
    agree(SUMS, {"x": x}, N=rows)


IN_PLACE = [
    # The result lies on x, and x is read after it could have been written.
    """\
    %0 = add %a, %c : tensor<Nx4xf32>
    %1 = mul %0, %c : tensor<Nx4xf32>
    %2 = sub %1, %a : tensor<Nx4xf32>
    yield %2""",
    # A helper reads its operands after it has begun to write.
    """\
    %0 = less %a, %c : tensor<Nx4xi1>
    %1 = select %0, %c, %a : tensor<Nx4xf32>
    yield %1""",
    """\
    %0 = sigmoid %a : tensor<Nx4xf32>
    yield %0""",
    # Nothing is computed.
    """\
    yield %c""",
    """\
    yield %a""",
]


@pytest.mark.parametrize("body", IN_PLACE)
@pytest.mark.parametrize("rows", [3, 100_000])
def test_a_kernel_may_write_over_what_it_reads(body: str, rows: int) -> None:
    text = kernel(body, rows=rows, results="argument:0").replace(
        "(r: tensor<Nx4xf32>)", "(r: tensor<Nx4xf32> updates %x)"
    )
    agree(text, state_and_input(rows), N=rows)


EXCHANGE = """\
func @f(%x: tensor<5xf32> state, %y: tensor<5xf32> state) -> (x1: tensor<5xf32> updates %x, y1: tensor<5xf32> updates %y) arena 0 {
  %p, %q = kernel %x, %y at argument:0, argument:1 : tensor<5xf32>, tensor<5xf32> {
  ^(%a: tensor<5xf32>, %b: tensor<5xf32>):
    yield %b, %a
  }
  return %p, %q
}
"""


def test_two_arguments_can_exchange_their_values() -> None:
    x = np.arange(5, dtype=np.float32)
    agree(EXCHANGE, {"x": x, "y": -x})


TWICE = """\
func @f(%x: tensor<5xf32> state) -> (x1: tensor<5xf32> updates %x, y: tensor<5xf32>, z: tensor<5xf32>) arena 0 {
  %p, %q, %r = kernel %x at argument:0, result:1, result:2 : tensor<5xf32>, tensor<5xf32>, tensor<5xf32> {
  ^(%a: tensor<5xf32>):
    %0 = neg %a : tensor<5xf32>
    yield %0, %0, %a
  }
  return %p, %q, %r
}
"""


def test_a_value_may_be_handed_out_twice_beside_the_argument_it_overwrites() -> None:
    agree(TWICE, {"x": np.arange(5, dtype=np.float32)})


INDICES = """\
dim N <= 100000

func @f(%x: tensor<Nx4xf32> input) -> (r: tensor<Nx4xf32>) arena 0 {
  %r = kernel %x at result:0 : tensor<Nx4xf32> {
  ^(%a: tensor<Nx4xf32>):
    %0 = iota {type = tensor<Nx4xf32>, axis = 0} : tensor<Nx4xf32>
    %1 = iota {type = tensor<Nx4xf32>, axis = 1} : tensor<Nx4xf32>
    %2 = extent {dim = N, type = tensor<1x1xf32>} : tensor<1x1xf32>
    %3 = broadcast %2 {dims = [N, 4]} : tensor<Nx4xf32>
    %4 = constant {type = tensor<1x4xf32>, value = [1.0, -0.0, inf, 0.1]} : tensor<1x4xf32>
    %5 = broadcast %4 {dims = [N, 4]} : tensor<Nx4xf32>
    %6 = add %0, %1 : tensor<Nx4xf32>
    %7 = mul %6, %3 : tensor<Nx4xf32>
    %8 = add %7, %5 : tensor<Nx4xf32>
    %9 = maximum %8, %a : tensor<Nx4xf32>
    yield %9
  }
  return %r
}
"""


@pytest.mark.parametrize("rows", [0, 2, 60000])
def test_positions_sizes_and_constants_are_those_of_the_whole_not_of_a_block(rows: int) -> None:
    agree(INDICES, {"x": np.zeros((rows, 4), np.float32)}, N=rows)


MATRICES = """\
dim N <= 16

func @f(%x: tensor<Nx6xf64> input, %W: tensor<3x6xf64> parameter) -> (z: tensor<3xNxf64>, v: tensor<Nx2x3xf64>) arena 1024 {
  %h = gemm %x, %W {transpose_b = true} at arena:0 : tensor<Nx3xf64>
  %t = move.transpose %h {permutation = [1, 0]} at result:0 : tensor<3xNxf64>
  %r = reshape %x {dims = [N, 2, 3]} : tensor<Nx2x3xf64>
  %c = copy %r at result:1 : tensor<Nx2x3xf64>
  return %t, %c
}
"""


@pytest.mark.parametrize("rows", [0, 1, 16])
def test_products_transpositions_views_and_copies(rows: int) -> None:
    x = np.arange(rows * 6, dtype=np.float64).reshape(rows, 6)
    agree(MATRICES, {"x": x, "W": np.arange(18.0).reshape(3, 6)}, N=rows)


HOSTILE = """\
func @"import os"(%"x'; import os #": tensor<2xf32> input, %np: tensor<2xf32> input, %"class": tensor<2xf32> input) -> ("a\\nb": tensor<2xf32>) arena 0 {
  %"1 + 1" = kernel %"x'; import os #", %np, %"class" at result:0 : tensor<2xf32> {
  ^(%a: tensor<2xf32>, %b: tensor<2xf32>, %c: tensor<2xf32>):
    %0 = add %a, %b : tensor<2xf32>
    %1 = add %0, %c : tensor<2xf32>
    yield %1
  }
  return %"1 + 1"
}
"""


def test_names_of_a_network_cannot_become_code() -> None:
    text = emitted(HOSTILE)
    assert "def import_os(arena, x___import_os__, np_2, class_2, a_b):" in text
    agree(
        HOSTILE,
        {n: np.ones(2, np.float32) for n in ("x'; import os #", "np", "class")},
    )


def test_a_function_without_a_memory_plan_is_refused() -> None:
    module = parse("func @f() {\n  return\n}\n")
    with pytest.raises(InternalError, match="no memory plan"):
        emit_function(module.functions[0], [], "f")


def test_the_source_of_a_compiled_function_can_be_read() -> None:
    compiled, _ = compile_for(BACKEND, parse(CHAIN))
    assert isinstance(compiled, NumpyFunction)
    assert compiled.source.startswith("import base64\n\nimport numpy as np\n")
    assert DType.F32.value in compiled.source


def test_sizes_and_constants_are_reduced_like_any_array() -> None:
    text = """\
dim N <= 4

func @f(%x: tensor<Nx1xf32> input) -> (y: tensor<1x1xf32>, z: tensor<1x1xf32>) {
  %e = extent {dim = N, type = tensor<1x1xf32>} : tensor<1x1xf32>
  %y = reduce_min %e {axes = [1]} : tensor<1x1xf32>
  %k = constant {type = tensor<1x1xf32>, value = [3.0]} : tensor<1x1xf32>
  %z = reduce_sum %k {axes = [0, 1]} : tensor<1x1xf32>
  return %y, %z
}
"""
    agree(text, {"x": np.zeros((3, 1), np.float32)}, N=3)
