"""`graphc.epoch`: where it is written, what it copies, and that it touches nothing else."""

from __future__ import annotations

import os
from unittest.mock import patch

import numpy as np
import pytest

from graphc.backends import native
from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.entries import EPOCH
from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import TARGETS
from graphc.backends.native import NativeFunction, row_bytes
from graphc.backends.signature import make_signature
from graphc.ir.evaluate import evaluate
from graphc.runtime.signature import Signature, runs_epochs
from tests.support.compiling import parse
from tests.support.guarded_memory import GuardedMemory, Side
from tests.support.native import fused, random_arguments, runnable_targets

STEP = """
dim N <= 40
func @step(%x: tensor<Nx{rows}x{type}> input, %t: tensor<Nx5x{type}> input,
           %w: tensor<5x{rows}x{type}> parameter, %r: tensor<1x1x{type}> hyperparameter)
    -> (loss: tensor<1x1x{type}>, w2: tensor<5x{rows}x{type}> updates %w) {
  %z = matmul %x, %w {transpose_b = true} : tensor<Nx5x{type}>
  %d = sub %z, %t : tensor<Nx5x{type}>
  %q = mul %d, %d : tensor<Nx5x{type}>
  %loss = reduce_sum %q {axes = [0, 1]} : tensor<1x1x{type}>
  %g = matmul %d, %x {transpose_a = true} : tensor<5x{rows}x{type}>
  %rb = broadcast %r {dims = [5, {rows}]} : tensor<5x{rows}x{type}>
  %s = mul %g, %rb : tensor<5x{rows}x{type}>
  %w2 = sub %w, %s : tensor<5x{rows}x{type}>
  return %loss, %w2
}
"""
SAMPLES, SIZE = 23, 10
ORDERS = {
    "shuffled": np.random.default_rng(1).permutation(SAMPLES),
    "in order": np.arange(SAMPLES),
    "first minibatch in order": np.array([5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0, 22, 3]),
    "one sample": np.array([22]),
}


def step_text(rows: int, dtype: str) -> str:
    filled = STEP.replace("{rows}", str(rows)).replace("{type}", dtype)
    return fused(filled)


def whole_data(signature: Signature, order: np.ndarray) -> dict[str, np.ndarray]:
    """Arguments of a run: rates differ from minibatch to minibatch."""
    given = random_arguments(signature, {"N": SAMPLES})
    count = -(-len(order) // SIZE)
    given["r"] = np.linspace(0.001, 0.002, count).astype(given["r"].dtype)
    return given


def expected_run(
    text: str, given: dict[str, np.ndarray], order: np.ndarray
) -> tuple[np.ndarray, list[float]]:
    """The parameter and the losses, by the references."""
    (function,) = parse(text).functions
    w, losses = given["w"], list[float]()
    for k, first in enumerate(range(0, len(order), SIZE)):
        rows = order[first : first + SIZE]
        call = {"x": given["x"][rows], "t": given["t"][rows], "w": w}
        results = evaluate(function, {**call, "r": given["r"][[[k]]]}, {"N": len(rows)})
        losses.append(float(results["loss"][0, 0]))
        w = results["w2"]
    return w, losses


@pytest.mark.parametrize("name", ORDERS)
@pytest.mark.parametrize(("rows", "dtype"), [(1, "f32"), (13, "f32"), (784, "f32"), (3, "f64")])
def test_a_run_is_the_step_over_the_chosen_rows(rows: int, dtype: str, name: str) -> None:
    text, order = step_text(rows, dtype), ORDERS[name]
    module = parse(text)
    signature = make_signature(module, module.functions[0])
    for target in runnable_targets():
        given = whole_data(signature, order)
        w, losses = expected_run(text, given, order)
        compiled = compile_function(module.functions[0], signature, target)
        assert compiled.run_minibatches is not None
        found, done = np.zeros(len(losses), given["w"].dtype), np.zeros(1, np.int64)
        compiled.run_minibatches(list(given.values()), [found], order, SIZE, done)
        assert done[0] == len(losses)
        np.testing.assert_allclose(found, losses, rtol=1e-3)
        np.testing.assert_allclose(given["w"], w, rtol=1e-3, atol=1e-4)


def test_rows_that_follow_one_another_are_not_copied() -> None:
    module = parse(step_text(13, "f32"))
    signature = make_signature(module, module.functions[0])
    compiled = compile_function(module.functions[0], signature)
    workspaces = compiled._tables().rows_of(SIZE)
    assert compiled.run_minibatches is not None
    for name, is_copied in (("in order", False), ("one sample", False), ("shuffled", True)):
        order = ORDERS[name]
        for workspace in workspaces.values():
            workspace[:] = 0xAB
        given = whole_data(signature, order)
        results = [np.zeros(3, np.float32)]
        done = np.zeros(1, np.int64)
        compiled.run_minibatches(list(given.values()), results, order, SIZE, done)
        assert [bool((workspace != 0xAB).any()) for workspace in workspaces.values()] == [
            is_copied
        ] * 2, name


@pytest.mark.parametrize("side", ["end", "start"])
@pytest.mark.parametrize(("rows", "dtype"), [(1, "f32"), (13, "f32"), (300, "f64")])
def test_nothing_is_touched_outside_the_arrays(rows: int, dtype: str, side: Side) -> None:
    """Runs in a forked child: a stray access is a signal there, a wrong number an exit code."""
    text, order = step_text(rows, dtype), ORDERS["first minibatch in order"]
    module = parse(text)
    signature = make_signature(module, module.functions[0])
    given = whole_data(signature, order)
    expected = expected_run(text, given, order)
    for target in runnable_targets():
        compiled = compile_function(module.functions[0], signature, target)
        child = os.fork()
        if child == 0:
            os._exit(exit_code_guarded(compiled, given, expected, order, side))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, target.isa


def exit_code_guarded(
    compiled: NativeFunction,
    given: dict[str, np.ndarray],
    expected: tuple[np.ndarray, list[float]],
    order: np.ndarray,
    side: Side,
) -> int:
    w, losses = expected
    memory = GuardedMemory(side)

    def guarded(array: np.ndarray, *, is_read: bool) -> np.ndarray:
        buffer, copy = memory.like(array)
        copy[...] = array
        if is_read:
            buffer.protect()
        return copy

    arrays = [guarded(array, is_read=name != "w") for name, array in given.items()]
    chosen = guarded(order.astype(np.int64), is_read=True)
    found = guarded(np.zeros(len(losses), w.dtype), is_read=False)
    done = guarded(np.zeros(1, np.int64), is_read=False)
    assert compiled.run_minibatches is not None
    with patch.object(native, "aligned_bytes", lambda size, _: memory.bytes(size, 64).array):
        compiled.run_minibatches(arrays, [found], chosen, SIZE, done)
    good = (
        done[0] == len(losses)
        and np.allclose(found, losses, rtol=1e-3)
        and np.allclose(arrays[2], w, rtol=1e-3, atol=1e-4)
        and not memory.problems()
    )
    return 0 if good else 1


@pytest.mark.parametrize("isa", list(TARGETS))
def test_every_target_gets_code(isa: str) -> None:
    module = parse(step_text(784, "f32"))
    signature = make_signature(module, module.functions[0])
    text = emit_function(module.functions[0], signature, TARGETS[isa])
    assert f"{EPOCH}:" in engine.assembly(text, TARGETS[isa])
    assert f"<{TARGETS[isa].machine.vector_bits // 8} x i8>" in text


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%r: tensor<1x1xf32> hyperparameter", "%r: tensor<1x1xf32> parameter"),
        ("dim N <= 40", "dim N <= 40\ndim M <= 8"),
        ("loss: tensor<1x1xf32>", "loss: tensor<Nx5xf32>"),
    ],
    ids=["no settings", "two dims", "a result per sample"],
)
def test_other_functions_are_called_one_by_one(old: str, new: str) -> None:
    text = STEP.replace("{rows}", "13").replace("{type}", "f32").replace(old, new)
    text = text.replace("return %loss", "return %q") if "Nx5" in new else text
    module = parse(text)
    signature = make_signature(module, module.functions[0])
    assert not runs_epochs(signature)


def test_a_training_step_runs_epochs() -> None:
    module = parse(STEP.replace("{rows}", "13").replace("{type}", "f32"))
    signature = make_signature(module, module.functions[0])
    assert runs_epochs(signature)
    assert [row_bytes(a) for a in signature.arguments[:2]] == [52, 20]
