"""Rearrangements in LLVM: every way of moving, against the references, on wide and narrow targets.

What each operation gives on all shapes is the conformance test's; here are the sizes at which one
way of moving ends and the next begins.
"""

from __future__ import annotations

import pytest

from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.target import X86_64_V3
from graphc.backends.signature import make_signature
from tests.support.compiling import parse
from tests.support.native import check_text, fused


def moved(op: str, settings: str, given: str, made: str, dtype: str = "f32") -> str:
    """A function of one rearrangement, planned."""
    dims = "dim N <= 300" if "N" in given else ""
    return fused(f"""
{dims}
func @f(%x: tensor<{given}x{dtype}> input) -> (y: tensor<{made}x{dtype}>) {{
  %y = {op} %x {{{settings}}} : tensor<{made}x{dtype}>
  return %y
}}
""")


def written(text: str) -> str:
    """The LLVM text for eight lanes."""
    module = parse(text)
    (function,) = module.functions
    return emit_function(function, make_signature(module, function), X86_64_V3)


SAMPLES = [{"N": n} for n in (0, 1, 3, 4, 15, 16, 17, 33, 63, 64, 65, 255, 300)]


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i1"])
def test_a_run_as_long_as_there_are_samples(dtype: str) -> None:
    """Several vectors a turn, single vectors, then every rest."""
    settings = "starts = [1, 0], stops = [3, N], steps = [1, 1]"
    check_text(moved("slice", settings, "3xN", "2xN", dtype), SAMPLES)


@pytest.mark.parametrize("dtype", ["f32", "i64", "i1"])
def test_a_run_backwards(dtype: str) -> None:
    check_text(moved("reverse", "axes = [1]", "3xN", "3xN", dtype), SAMPLES)


@pytest.mark.parametrize("length", [1, 2, 3, 5, 8, 31, 64, 65, 200, 513, 1025])
def test_a_run_of_known_length(length: int) -> None:
    settings = f"starts = [0, 1], stops = [3, {length + 1}], steps = [1, 1]"
    check_text(moved("slice", settings, f"3x{length + 2}", f"3x{length}"))
    check_text(moved("reverse", "axes = [1]", f"3x{length}", f"3x{length}", "f64"))


@pytest.mark.parametrize("length", [1, 3, 4, 5, 33, 150])
def test_elements_that_are_apart(length: int) -> None:
    settings = f"starts = [0, 0], stops = [3, {2 * length}], steps = [1, 2]"
    check_text(moved("slice", settings, f"3x{2 * length}", f"3x{length}"))
    check_text(
        moved(
            "pad",
            "low = [0, 0], high = [0, 0], inner = [0, 1]",
            f"3x{length}",
            f"3x{2 * length - 1}",
        )
    )


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i1"])
@pytest.mark.parametrize("rows", [1, 3, 4, 8, 16, 17, 37])
def test_a_matrix_is_transposed_by_blocks_and_rests(rows: int, dtype: str) -> None:
    samples = [{"N": n} for n in (0, 1, 4, 8, 15, 16, 17, 50)]
    check_text(moved("transpose", "permutation = [1, 0]", f"Nx{rows}", f"{rows}xN", dtype), samples)
    check_text(moved("transpose", "permutation = [1, 0]", f"{rows}x19", f"19x{rows}", dtype))


def test_blocks_inside_other_loops() -> None:
    text = moved("transpose", "permutation = [3, 1, 2, 0]", "9x2xNx17", "17x2xNx9")
    check_text(text, [{"N": n} for n in (0, 1, 5)])


def test_a_transposition_exchanges_blocks_in_registers() -> None:
    text = moved("transpose", "permutation = [1, 0]", "64x64", "64x64")
    assert written(text).count("shufflevector") == 8 * 3  # eight vectors, three rounds


def test_axes_that_stay_together_are_one_loop() -> None:
    text = moved("transpose", "permutation = [1, 0, 2, 3]", "2x3x16x16", "3x2x16x16")
    llvm = written(text)
    assert llvm.count("phi") <= 3
    assert "<8 x float>" in llvm


def test_short_windows_are_written_out() -> None:
    settings = "axis = 1, sizes = [3, 5], strides = [1, 1]"
    llvm = written(moved("patches", settings, "Nx28x28", "Nx26x24x3x5"))
    assert llvm.count("store <4 x float>") == 3
    assert llvm.count("store float") == 3
    assert llvm.count(" phi ") == 3  # samples, rows, columns


def test_sums_are_in_the_order_of_the_box() -> None:
    """Rounding tells: the references add window by window."""
    settings = "axis = 1, extents = [12, 11], strides = [1, 1]"
    check_text(moved("overlap_add", settings, "Nx8x8x5x4", "Nx12x11"), [{"N": 3}], tolerance=0.0)


@pytest.mark.parametrize("dtype", ["i32", "i64", "i1"])
def test_whole_numbers_and_truth_values_are_added(dtype: str) -> None:
    settings = "axis = 0, extents = [20], strides = [2]"
    check_text(moved("overlap_add", settings, "8x5x3", "20x3", dtype))


@pytest.mark.parametrize(("value", "dtype"), [("1.5", "i32"), ("-2.0", "i1"), ("0.1", "f64")])
def test_a_padding_is_a_number_of_the_element_type(value: str, dtype: str) -> None:
    settings = f"low = [2, 0], high = [0, 1], inner = [0, 0], value = {value}"
    check_text(moved("pad", settings, "3x40", "5x41", dtype))


def test_one_function_serves_equal_movements() -> None:
    text = fused("""
func @f(%x: tensor<5x6xf32> input, %y: tensor<5x6xf32> input)
    -> (a: tensor<6x5xf32>, b: tensor<6x5xf32>) {
  %a = transpose %x {permutation = [1, 0]} : tensor<6x5xf32>
  %b = transpose %y {permutation = [1, 0]} : tensor<6x5xf32>
  return %a, %b
}
""")
    assert written(text).count("define internal") == 1
