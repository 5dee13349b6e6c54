"""Factors in bf16: what is rounded, how often and where, and the bits of products of these."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from graphc.driver.pipelines import ROUND
from graphc.ir.core import Function, Operation
from graphc.ir.traversal import walk
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.compiling import RUN_HERE, call, compile_for, load_backend, parse

CHAIN = """
func @f(%x: tensor<4x6xf32> input, %w: tensor<5x6xf32> parameter, %d: tensor<4x5xf32> input)
  -> (y: tensor<4x5xf32>, g: tensor<5x6xf32>, s: tensor<4x6xf32>) {
  %y = matmul %x, %w {transpose_b = true} : tensor<4x5xf32>
  %g = matmul %d, %x {transpose_a = true} : tensor<5x6xf32>
  %s = add %x, %x : tensor<4x6xf32>
  return %y, %g, %s
}
"""
WINDOWS = """
func @f(%x: tensor<2x9x3xf32> input, %w: tensor<3x3x4xf32> parameter) -> (y: tensor<2x9x4xf32>) {
  %0 = pad %x {low = [0, 1, 0], high = [0, 1, 0], inner = [0, 0, 0], value = 0.0}
      : tensor<2x11x3xf32>
  %1 = patches %0 {axis = 1, sizes = [3], strides = [1]} : tensor<2x9x3x3xf32>
  %y = matmul %1, %w {contract = 2} : tensor<2x9x4xf32>
  return %y
}
"""
STEPS = """
func @f(%w: tensor<3x3xf32> parameter, %x: tensor<5x2x3xf32> input, %h: tensor<2x3xf32> input)
  -> (y: tensor<2x3xf32>) {
  %y = loop %w, %x, %h {count = 5, sequences = 1, carried = 1} : tensor<2x3xf32> {
  ^(%v: tensor<3x3xf32>, %xt: tensor<2x3xf32>, %carry: tensor<2x3xf32>):
    %0 = matmul %carry, %v : tensor<2x3xf32>
    %1 = add %xt, %0 : tensor<2x3xf32>
    yield %1
  }
  return %y
}
"""


def rounded(text: str, passes: str = ROUND) -> Function:
    module = parse(text)
    PassManager(pipeline(passes), verify=True, check_claim=True).run(module, default_context())
    (function,) = module.functions
    return function


def named(function: Function, name: str) -> list[Operation]:
    return [op for op in walk(function) if op.opdef.name == name]


def in_bf16(x: np.ndarray) -> np.ndarray:
    """By the fraction's bits in f64: for numbers that are neither tiny nor large."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(fraction * 256) / 256, exponent)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).normal(size=shape).astype(np.float32)


def test_what_several_products_read_is_rounded_once_and_other_readers_keep_it() -> None:
    function = rounded(CHAIN)
    assert len(named(function, "round_bf16")) == 3
    (total,) = named(function, "add")
    assert total.operands == (function.argument("x"),) * 2


def test_windows_and_what_lies_around_them_are_made_of_rounded_elements() -> None:
    function = rounded(WINDOWS)
    images, weights = (op.operands[0] for op in named(function, "round_bf16"))
    assert {images, weights} == {function.argument("x"), function.argument("w")}
    assert len(named(function, "patches")) == 1
    assert len(named(rounded(WINDOWS, f"{ROUND},fuse-patches"), "conv")) == 1


def test_weights_of_steps_are_rounded_before_the_loop() -> None:
    function = rounded(STEPS)
    weights, carried = named(function, "round_bf16")
    assert weights.operands == (function.argument("w"),)
    assert carried.block is not function.block


def test_products_of_f64_stay() -> None:
    assert not named(rounded(CHAIN.replace("f32", "f64")), "round_bf16")


@pytest.mark.parametrize("backend", RUN_HERE)
def test_products_and_their_gradients_are_those_of_rounded_factors(backend: str) -> None:
    a, b = normal(33, 300), normal(300, 17, 1)[..., 0]
    product = gc.function(lambda a, b: a @ b, backend=backend, precision="bf16")
    exact = in_bf16(a) @ in_bf16(b)
    assert product(a, b).dtype == np.float32
    np.testing.assert_allclose(product(a, b), exact, rtol=1e-5, atol=1e-4)
    assert np.abs(exact - a.astype(np.float64) @ b).max() > 0.05
    slope = gc.grad(gc.function(lambda a, b: gc.sum(a @ b), backend=backend, precision="bf16"))
    wanted = np.broadcast_to(in_bf16(b).sum(axis=1), a.shape)
    np.testing.assert_allclose(slope(a, b), wanted, rtol=1e-5, atol=1e-5)


def test_fused_multiply_add_makes_no_difference_to_products_of_rounded_factors() -> None:
    backend = load_backend("llvm")
    assert not isinstance(backend, str)
    arrays = {"x": normal(4, 6), "w": normal(5, 6), "d": normal(4, 5)}
    found = []
    for mode in ("fma", "off"):
        module = parse(CHAIN.replace(") {", f") contraction {mode} {{", 1))
        PassManager(pipeline(ROUND)).run(module, default_context())
        found.append(call(*compile_for(backend, module), arrays, {}))
    np.testing.assert_array_equal(found[0]["y"], found[1]["y"])
    np.testing.assert_array_equal(found[0]["g"], found[1]["g"])
