"""Whole functions: views, moves, copies, places in memory, updates; and no access out of bounds."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable

import numpy as np
import pytest

from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import Target
from graphc.backends.native import NativeFunction
from graphc.backends.signature import make_signature
from graphc.runtime.signature import Signature
from tests.support.compiling import parse
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import check_text, fused, random_arguments, runnable_targets

TRAINING = """
dim N <= 40
func @step(%x: tensor<Nx13xf32> input, %t: tensor<Nx5xf32> input,
           %w: tensor<5x13xf32> parameter, %r: tensor<1x1xf32> hyperparameter)
    -> (loss: tensor<1x1xf32>, w2: tensor<5x13xf32> updates %w) {
  %z = matmul %x, %w {transpose_b = true} : tensor<Nx5xf32>
  %y = sigmoid %z : tensor<Nx5xf32>
  %d = sub %y, %t : tensor<Nx5xf32>
  %q = mul %d, %d : tensor<Nx5xf32>
  %loss = reduce_sum %q {axes = [0, 1]} : tensor<1x1xf32>
  %g = matmul %d, %x {transpose_a = true} : tensor<5x13xf32>
  %rb = broadcast %r {dims = [5, 13]} : tensor<5x13xf32>
  %s = mul %g, %rb : tensor<5x13xf32>
  %w2 = sub %w, %s : tensor<5x13xf32>
  return %loss, %w2
}
"""

MOVES = """
dim N <= 40
func @moves(%x: tensor<Nx7x9xf32> input)
    -> (a: tensor<9x7xNxf32>, b: tensor<Nx3x9xf32>, c: tensor<Nx9x13xf32>, d: tensor<Nx7x9xf32>,
        e: tensor<Nx5x6x3x4xf32>, f: tensor<Nx7x9xf32>, g: tensor<Nx14x9xf32>) {
  %a = transpose %x {permutation = [2, 1, 0]} : tensor<9x7xNxf32>
  %b = slice %x {starts = [0, 1, 0], stops = [N, 7, 9], steps = [1, 2, 1]} : tensor<Nx3x9xf32>
  %c = pad %x {low = [0, 1, 4], high = [0, 1, 0], inner = [0, 0, 0]} : tensor<Nx9x13xf32>
  %d = reverse %x {axes = [0, 2]} : tensor<Nx7x9xf32>
  %e = patches %x {axis = 1, sizes = [3, 4], strides = [1, 1]} : tensor<Nx5x6x3x4xf32>
  %f = overlap_add %e {axis = 1, extents = [7, 9], strides = [1, 1]} : tensor<Nx7x9xf32>
  %g = concat %x, %d {axis = 1} : tensor<Nx14x9xf32>
  return %a, %b, %c, %d, %e, %f, %g
}
"""


@pytest.mark.parametrize("permutation", list(itertools.permutations(range(3))), ids=str)
@pytest.mark.parametrize("dtype", ["f32", "f64", "i64", "i1"])
def test_transpositions_of_any_axes(permutation: tuple[int, ...], dtype: str) -> None:
    names = ["N", "3", "5"]
    result = f"tensor<{'x'.join(names[i] for i in permutation)}x{dtype}>"
    text = f"""
dim N <= 9
func @f(%x: tensor<Nx3x5x{dtype}> input) -> (y: {result}) arena 0 {{
  %y = move.transpose %x {{permutation = {list(permutation)}}} at result:0 : {result}
  return %y
}}
"""
    check_text(text, [{"N": n} for n in (0, 1, 9)])


@pytest.mark.parametrize("dtype", ["f32", "f64", "i32", "i64", "i1"])
def test_copies_of_any_type_and_size(dtype: str) -> None:
    text = f"""
dim N <= 9
func @f(%x: tensor<Nx3x{dtype}> input) -> (y: tensor<Nx3x{dtype}>) arena 0 {{
  %y = copy %x at result:0 : tensor<Nx3x{dtype}>
  return %y
}}
"""
    check_text(text, [{"N": n} for n in (0, 1, 9)])


def test_a_reshape_is_the_same_memory() -> None:
    text = """
func @f(%b: tensor<5x1xf32> input) -> (y: tensor<1x5xf32>, z: tensor<5xf32>) arena 64 {
  %r = reshape %b {dims = [1, 5]} : tensor<1x5xf32>
  %y = copy %r at result:0 : tensor<1x5xf32>
  %s = reshape %y {dims = [5]} : tensor<5xf32>
  %t = copy %s at arena:0 : tensor<5xf32>
  %z = copy %t at result:1 : tensor<5xf32>
  return %y, %z
}
"""
    check_text(text)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_a_training_step_updates_its_parameter(dtype: str) -> None:
    text = fused(TRAINING.replace("f32", dtype))
    check_text(text, [{"N": n} for n in (0, 1, 7, 40)], tolerance=2e-4)


def test_equal_pieces_share_one_function() -> None:
    text = """
func @f(%x: tensor<7xf32> input) -> (y: tensor<7xf32>, z: tensor<7xf32>) arena 0 {
  %y = copy %x at result:0 : tensor<7xf32>
  %z = copy %x at result:1 : tensor<7xf32>
  return %y, %z
}
"""
    module = check_text(text)
    function = module.functions[0]
    emitted = emit_function(function, make_signature(module, function), runnable_targets()[0])
    assert emitted.count("define internal") == 1


def test_only_the_entry_is_visible_whatever_the_function_is_called() -> None:
    text = """
func @"main\\") { evil" (%x: tensor<7xf32> input) -> (y: tensor<7xf32>) arena 0 {
  %y = copy %x at result:0 : tensor<7xf32>
  return %y
}
"""
    module = check_text(text)
    function = module.functions[0]
    emitted = emit_function(function, make_signature(module, function), runnable_targets()[0])
    assert "evil" not in emitted


def test_read_only_and_empty_arrays_are_taken() -> None:
    compiled, signature = training_step()
    arguments = random_arguments(signature, {"N": 0})
    arguments["x"].flags.writeable = False
    loss = np.full((1, 1), 7, np.float32)
    compiled(list(arguments.values()), [loss], {"N": 0})
    assert loss.tolist() == [[0.0]]


def test_calls_from_many_threads_do_not_meet() -> None:
    compiled, signature = training_step()
    expected: dict[int, bytes] = {}
    seen: dict[int, set[bytes]] = {i: set() for i in range(4)}

    def work(number: int, into: Callable[[bytes], None], rounds: int) -> None:
        given = random_arguments(signature, {"N": 33}, seed=number)
        start = given["w"].copy()
        loss = np.empty((1, 1), np.float32)
        for _ in range(rounds):
            given["w"][:] = start
            compiled(list(given.values()), [loss], {"N": 33})
            into(loss.tobytes() + given["w"].tobytes())

    for i in seen:
        work(i, lambda result, i=i: expected.__setitem__(i, result), 1)
    threads = [threading.Thread(target=work, args=(i, seen[i].add, 200)) for i in seen]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {i: {result} for i, result in expected.items()}


def training_step(target: Target | None = None) -> tuple[NativeFunction, Signature]:
    module = parse(fused(TRAINING))
    signature = make_signature(module, module.functions[0])
    return compile_function(module.functions[0], signature, target), signature


NARROWED = """
dim N <= 40
func @f(%y: tensor<Nx17xi64> input) -> (a: tensor<17xi32>,
       b: tensor<Nx17xi32>) {
  %three = constant {type = tensor<1x1xi64>, value = [3]} : tensor<1x1xi64>
  %row = broadcast %three {dims = [1, 17]} : tensor<1x17xi64>
  %most = reduce_max %row {axes = [0], ties = "all"} : tensor<1x17xi64>
  %flat = reshape %most {dims = [17]} : tensor<17xi64>
  %a = cast %flat {dtype = i32} : tensor<17xi32>
  %b = cast %y {dtype = i32} : tensor<Nx17xi32>
  return %a, %b
}
"""
"""A row of whole vectors and one element, cut from a wider type."""


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("count", [1, 6, 39])
@pytest.mark.parametrize("text", [TRAINING, MOVES, NARROWED], ids=["training", "moves", "narrowed"])
def test_nothing_is_touched_outside_the_arrays(text: str, count: int, side: Side) -> None:
    module = parse(fused(text))
    function = module.functions[0]
    signature = make_signature(module, function)
    sizes = {"N": count}
    given = random_arguments(signature, sizes)
    for target in runnable_targets():
        code = exit_code_guarded(function, signature, target, given, sizes, side)
        assert code == 0, target.isa


def test_another_array_for_a_parameter_is_noticed() -> None:
    compiled, signature = training_step()
    first = random_arguments(signature, {"N": 7}, seed=1)
    second = random_arguments(signature, {"N": 7}, seed=2)
    before = first["w"].copy()
    loss = np.empty((1, 1), np.float32)
    compiled(list(first.values()), [loss], {"N": 7})
    after = first["w"].copy()
    assert not np.array_equal(before, after)
    compiled(list(second.values()), [loss], {"N": 7})
    np.testing.assert_array_equal(first["w"], after)
