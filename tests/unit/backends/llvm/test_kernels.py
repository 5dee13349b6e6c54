"""Kernels on vectors: tails, reductions of every kind, several levels and spaces, in place."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import TARGETS, host_target
from graphc.backends.signature import make_signature
from tests.support.compiling import call, parse
from tests.support.native import check_text, fused, runnable_targets

EXTENTS = [0, 1, 2, 3, 4, 7, 8, 9, 10, 16, 17, 31, 33, 47, 64, 97]

SOFTMAX = """
dim N <= 300
func @f(%x: tensor<Nx{C}x{T}> input) -> (y: tensor<Nx{C}x{T}>) {{
  %m = reduce_max %x {{axes = [1]}} : tensor<Nx1x{T}>
  %mb = broadcast %m {{dims = [N, {C}]}} : tensor<Nx{C}x{T}>
  %d = sub %x, %mb : tensor<Nx{C}x{T}>
  %e = exp %d : tensor<Nx{C}x{T}>
  %s = reduce_sum %e {{axes = [1]}} : tensor<Nx1x{T}>
  %sb = broadcast %s {{dims = [N, {C}]}} : tensor<Nx{C}x{T}>
  %y = div %e, %sb : tensor<Nx{C}x{T}>
  return %y
}}
"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("classes", EXTENTS)
def test_softmax_over_rows_of_any_extent(classes: int, dtype: str) -> None:
    text = fused(SOFTMAX.format(C=classes, T=dtype))
    check_text(text, [{"N": n} for n in (0, 1, 3, 300)])


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_elementwise_over_a_run_time_extent(dtype: str) -> None:
    text = f"""
dim N <= 100
func @f(%x: tensor<Nx{dtype}> input, %y: tensor<Nx{dtype}> input)
    -> (z: tensor<Nx{dtype}>) arena 0 {{
  %z = kernel %x, %y at result:0 : tensor<Nx{dtype}> {{
  ^(%a: tensor<Nx{dtype}>, %b: tensor<Nx{dtype}>):
    %0 = maximum %a, %b : tensor<Nx{dtype}>
    %1 = mul %0, %a : tensor<Nx{dtype}>
    yield %1
  }}
  return %z
}}
"""
    check_text(text, [{"N": n} for n in EXTENTS])


def test_truth_values_are_bytes_in_memory() -> None:
    text = """
dim N <= 50
func @f(%x: tensor<Nxf32> input, %c: tensor<Nxi1> input)
    -> (z: tensor<Nxi1>, w: tensor<Nxf32>) arena 0 {
  %z, %w = kernel %x, %c at result:0, result:1 : tensor<Nxi1>, tensor<Nxf32> {
  ^(%a: tensor<Nxf32>, %b: tensor<Nxi1>):
    %zero = constant {type = tensor<Nxf32>, value = [0.0]} : tensor<Nxf32>
    %0 = greater %a, %zero : tensor<Nxi1>
    %1 = logical_and %0, %b : tensor<Nxi1>
    %2 = select %b, %a, %zero : tensor<Nxf32>
    yield %1, %2
  }
  return %z, %w
}
"""
    check_text(text, [{"N": n} for n in EXTENTS if n <= 50])


REDUCTION = """
dim N <= 40
func @f(%x: tensor<NxAxBx{T}> input) -> (y: tensor<{Y}x{T}>) arena 0 {{
  %y = kernel %x at result:0 : tensor<{Y}x{T}> {{
  ^(%a: tensor<NxAxBx{T}>):
    %0 = reduce_{K} %a {{axes = {axes}}} : tensor<{Y}x{T}>
    yield %0
  }}
  return %y
}}
"""


@pytest.mark.parametrize("kind", ["sum", "max", "min"])
@pytest.mark.parametrize("axes", [[0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2]], ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64"])
def test_reductions_over_any_axes_and_empty_extents(dtype: str, axes: list[int], kind: str) -> None:
    inner = {"A": 3, "B": 19}
    names = ["N", "A", "B"]
    result = "x".join("1" if i in axes else n for i, n in enumerate(names))
    text = REDUCTION.format(T=dtype, Y=result, K=kind, axes=axes)
    for name, extent in inner.items():
        text = text.replace(f"x{name}x", f"x{extent}x").replace(f"<{name}x", f"<{extent}x")
    check_text(text, [{"N": n} for n in (0, 1, 2, 7, 40)], tolerance=1e-4)


@pytest.mark.parametrize(("columns", "is_ahead"), [(97, True), (8, False), (40_000, False)])
def test_the_next_row_is_read_ahead_where_it_fits_a_cache(columns: int, is_ahead: bool) -> None:
    module = parse(fused(SOFTMAX.format(C=columns, T="f32")))
    signature = make_signature(module, module.functions[0])
    text = emit_function(module.functions[0], signature, TARGETS["x86-64-v3"])
    assert ("llvm.prefetch" in text) == is_ahead


EXTREMES = """
func @f(%x: tensor<75x75xf32> input) -> (y: tensor<75x1xf32>, z: tensor<75x1xf32>) {
  %y = reduce_max %x {axes = [1]} : tensor<75x1xf32>
  %z = reduce_min %x {axes = [1]} : tensor<75x1xf32>
  return %y, %z
}
"""


def test_nan_is_the_extreme_of_a_row_wherever_it_stands() -> None:
    x = np.random.default_rng(1).standard_normal((75, 75)).astype(np.float32)
    np.fill_diagonal(x, np.nan)
    got = _run(fused(EXTREMES), x)
    assert np.isnan(got["y"]).all() and np.isnan(got["z"]).all()


EXPONENTIAL = """
func @f(%x: tensor<9x45x{T}> input) -> (y: tensor<9x45x{T}>{result}) {{
  {before}
  %y = exp %d : tensor<9x45x{T}>
  return %y{values}
}}
"""
LESS_THE_MAXIMUM = """
  %m = reduce_max %x {{axes = [1]}} : tensor<9x1x{T}>
  %t = stop_gradient %m : tensor<9x1x{T}>
  %b = broadcast %t {{dims = [9, 45]}} : tensor<9x45x{T}>
  %d = sub %x, %b : tensor<9x45x{T}>
"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_the_exponential_of_a_row_less_its_maximum_has_the_bits_of_any_exponential(
    dtype: str,
) -> None:
    """Its operands are not above 0, so another form of the function stands there."""
    size = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    x = np.random.default_rng(2).uniform(-760, 720, (9, 45)).astype(size)
    x[1:, ::2] /= 100
    x[2] = np.linspace(-110, 0, 45)
    for row, special in enumerate((np.inf, -np.inf, np.nan), 3):
        x[row, 7], x[row, 44] = special, special
    x[6], x[7], x[8] = -np.inf, 0.0, -0.0
    before = LESS_THE_MAXIMUM.format(T=dtype).strip()
    text = EXPONENTIAL.format(
        T=dtype, before=before, result=f", d: tensor<9x45x{dtype}>", values=", %d"
    )
    got = _run(fused(text), x)
    plain = EXPONENTIAL.format(T=dtype, before="", result="", values="").replace("%d", "%x")
    np.testing.assert_array_equal(got["y"], _run(fused(plain), got["d"])["y"])


def _run(text: str, x: np.ndarray) -> dict[str, np.ndarray]:
    module = parse(text)
    (function,) = module.functions
    signature = make_signature(module, function)
    return call(compile_function(function, signature), signature, {"x": x}, {})


def test_a_reduction_over_an_empty_row_gives_its_identity() -> None:
    text = """
dim N <= 9
func @f(%x: tensor<4xNxf32> input) -> (y: tensor<4x1xf32>, z: tensor<4x1xf32>) arena 0 {
  %y, %z = kernel %x at result:0, result:1 : tensor<4x1xf32>, tensor<4x1xf32> {
  ^(%a: tensor<4xNxf32>):
    %0 = reduce_sum %a {axes = [1]} : tensor<4x1xf32>
    %1 = reduce_max %a {axes = [1]} : tensor<4x1xf32>
    yield %0, %1
  }
  return %y, %z
}
"""
    check_text(text, [{"N": n} for n in (0, 1, 8, 9)])


@pytest.mark.parametrize("place", ["first", "middle", "rest"])
@pytest.mark.parametrize("kind", ["max", "min", "sum"])
def test_reductions_pass_nan_on_wherever_it_stands(kind: str, place: str) -> None:
    text = REDUCTION.format(T="f32", Y="Nx1x1", K=kind, axes=[1, 2])
    module = parse(text.replace("xA", "x5").replace("xB", "x7"))
    (function,) = module.functions
    signature = make_signature(module, function)
    x = np.ones((2, 5, 7), np.float32)
    x[0].reshape(-1)[{"first": 0, "middle": 17, "rest": 34}[place]] = np.nan
    for target in runnable_targets():
        compiled = compile_function(function, signature, target)
        y = call(compiled, signature, {"x": x}, {"N": 2})["y"].ravel()
        assert np.isnan(y).tolist() == [True, False], target.isa


def test_results_of_different_spaces_are_each_written_once() -> None:
    """The [1,5] update is in place: repeated once per row it would come out wrong."""
    text = """
dim N <= 30
func @f(%x: tensor<Nx5xf32> input, %w: tensor<1x5xf32> state)
    -> (y: tensor<Nx5xf32>, v: tensor<1x5xf32> updates %w, r: tensor<Nx1xf32>) arena 0 {
  %y, %v, %r = kernel %x, %w at result:0, argument:1, result:2
      : tensor<Nx5xf32>, tensor<1x5xf32>, tensor<Nx1xf32> {
  ^(%a: tensor<Nx5xf32>, %b: tensor<1x5xf32>):
    %0 = broadcast %b {dims = [N, 5]} : tensor<Nx5xf32>
    %1 = mul %a, %0 : tensor<Nx5xf32>
    %2 = add %b, %b : tensor<1x5xf32>
    %3 = reduce_sum %1 {axes = [1]} : tensor<Nx1xf32>
    yield %1, %2, %3
  }
  return %y, %v, %r
}
"""
    check_text(text, [{"N": 0}, {"N": 30}])


def test_an_update_in_place_of_an_operand_read_at_the_same_map() -> None:
    text = """
func @f(%w: tensor<7x9xf32> parameter, %g: tensor<7x9xf32> input)
    -> (w2: tensor<7x9xf32> updates %w) arena 0 {
  %v = kernel %w, %g at argument:0 : tensor<7x9xf32> {
  ^(%a: tensor<7x9xf32>, %b: tensor<7x9xf32>):
    %0 = sub %a, %b : tensor<7x9xf32>
    yield %0
  }
  return %v
}
"""
    check_text(text)


def test_positions_constants_and_extents() -> None:
    text = """
dim N <= 30
func @f(%x: tensor<Nx11xf32> input) -> (y: tensor<Nx11xf32>, i: tensor<Nx11xi64>) arena 0 {
  %y, %i = kernel %x at result:0, result:1 : tensor<Nx11xf32>, tensor<Nx11xi64> {
  ^(%a: tensor<Nx11xf32>):
    %n = extent {dim = N, type = tensor<1x1xf32>} : tensor<1x1xf32>
    %nb = broadcast %n {dims = [N, 11]} : tensor<Nx11xf32>
    %c = constant {type = tensor<1x11xf32>,
      value = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, inf]} : tensor<1x11xf32>
    %cb = broadcast %c {dims = [N, 11]} : tensor<Nx11xf32>
    %r = iota {type = tensor<Nx11xf32>, axis = 0} : tensor<Nx11xf32>
    %k = iota {type = tensor<Nx11xi64>, axis = 1} : tensor<Nx11xi64>
    %kf = cast %k {dtype = f32} : tensor<Nx11xf32>
    %0 = add %a, %nb : tensor<Nx11xf32>
    %1 = add %0, %cb : tensor<Nx11xf32>
    %2 = add %1, %r : tensor<Nx11xf32>
    %3 = mul %2, %kf : tensor<Nx11xf32>
    yield %3, %k
  }
  return %y, %i
}
"""
    check_text(text, [{"N": n} for n in (0, 1, 30)])


def test_a_kernel_of_rank_zero() -> None:
    text = """
func @f(%x: tensor<f32> input) -> (y: tensor<f32>) arena 0 {
  %y = kernel %x at result:0 : tensor<f32> {
  ^(%a: tensor<f32>):
    %0 = tanh %a : tensor<f32>
    yield %0
  }
  return %y
}
"""
    check_text(text)


def test_a_value_may_be_yielded_twice_and_an_argument_too() -> None:
    text = """
func @f(%x: tensor<13xf32> input)
    -> (y: tensor<13xf32>, z: tensor<13xf32>, w: tensor<13xf32>) arena 0 {
  %y, %z, %w = kernel %x at result:0, result:1, result:2
      : tensor<13xf32>, tensor<13xf32>, tensor<13xf32> {
  ^(%a: tensor<13xf32>):
    %0 = neg %a : tensor<13xf32>
    yield %0, %0, %a
  }
  return %y, %z, %w
}
"""
    check_text(text)


def test_a_long_row_is_computed_again_and_a_short_one_kept() -> None:
    """No result can hold the exponential here; a row of 16 KiB may lie on the stack, not more."""
    text = """
func @f(%x: tensor<3x{C}xf32> input) -> (y: tensor<3x1xf32>) {{
  %e = exp %x : tensor<3x{C}xf32>
  %s = reduce_sum %e {{axes = [1]}} : tensor<3x1xf32>
  %b = broadcast %s {{dims = [3, {C}]}} : tensor<3x{C}xf32>
  %q = div %e, %b : tensor<3x{C}xf32>
  %y = reduce_max %q {{axes = [1]}} : tensor<3x1xf32>
  return %y
}}
"""
    for columns, is_kept in ((4096, True), (4097, False)):
        planned = fused(text.format(C=columns))
        module = check_text(planned)
        signature = make_signature(module, module.functions[0])
        emitted = emit_function(module.functions[0], signature, host_target())
        assert ("alloca" in emitted) is is_kept


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.isa)
def test_every_target_compiles_and_gives_the_same_text_twice(target: object) -> None:
    module = parse(fused(SOFTMAX.format(C=37, T="f32")))
    signature = make_signature(module, module.functions[0])
    first = emit_function(module.functions[0], signature, target)  # type: ignore[arg-type]
    second = emit_function(module.functions[0], signature, target)  # type: ignore[arg-type]
    assert first == second
    assert engine.object_code(first, target)  # type: ignore[arg-type]


def test_no_library_function_is_called() -> None:
    module = parse(fused(SOFTMAX.format(C=1000, T="f32")))
    signature = make_signature(module, module.functions[0])
    for target in TARGETS.values():
        text = emit_function(module.functions[0], signature, target)
        called = {
            line.split()[1]
            for line in engine.assembly(text, target).splitlines()
            if line.strip().startswith("call")
        }
        assert all(name.startswith("graphc.") for name in called), called
