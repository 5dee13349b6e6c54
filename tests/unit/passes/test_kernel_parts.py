"""Kernels that read slices where they are, and write joined values where they stand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.driver.pipelines import PIPELINES
from graphc.ir.core import Operation
from graphc.ir.traversal import walk
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.choose_schedule import ChooseSchedule
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature, concrete_shape
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import (
    KERNEL_PIPELINE,
    RUN_HERE,
    call,
    compile_for,
    load_backend,
    parse,
)
from tests.support.cuda.emulator import emulated_machine
from tests.support.kernel_rules import broken_rules

NATIVE = [name for name in RUN_HERE if name != "reference"]

GATES = """
func @f(%x: tensor<Nx60xTYPE> input, %b: tensor<1x60xTYPE> input, %c: tensor<Nx15xTYPE> input)
    -> (h: tensor<Nx15xTYPE>, g: tensor<Nx45xTYPE>) {
  %0 = broadcast %b {dims = [N, 60]} : tensor<Nx60xTYPE>
  %z = add %x, %0 : tensor<Nx60xTYPE>
  %1 = slice %z {starts = [0, 0], stops = [N, 15], steps = [1, 1]} : tensor<Nx15xTYPE>
  %2 = slice %z {starts = [0, 15], stops = [N, 30], steps = [1, 1]} : tensor<Nx15xTYPE>
  %3 = slice %z {starts = [0, 45], stops = [N, 60], steps = [1, 1]} : tensor<Nx15xTYPE>
  %i = sigmoid %1 : tensor<Nx15xTYPE>
  %f = tanh %2 : tensor<Nx15xTYPE>
  %o = mul %3, %c : tensor<Nx15xTYPE>
  %h = mul %i, %f : tensor<Nx15xTYPE>
  %g = concat %i, %h, %o {axis = 1} : tensor<Nx45xTYPE>
  return %h, %g
}
"""
LATER_AXES = """
func @f(%x: tensor<Nx7x5x3xTYPE> input, %r: tensor<12xNxTYPE> input)
    -> (y: tensor<Nx6x5x3xTYPE>, s: tensor<Nx3x5x1xTYPE>, m: tensor<4xNxTYPE>) {
  %a = slice %x {starts = [0, 1, 0, 0], stops = [N, 4, 5, 3], steps = [1, 1, 1, 1]} : SOME
  %b = slice %x {starts = [0, 4, 0, 0], stops = [N, 7, 5, 3], steps = [1, 1, 1, 1]} : SOME
  %p = mul %a, %b : SOME
  %q = exp %a : SOME
  %y = concat %p, %q {axis = 1} : tensor<Nx6x5x3xTYPE>
  %s = reduce_sum %p {axes = [3]} : tensor<Nx3x5x1xTYPE>
  %c = slice %r {starts = [3, 0], stops = [7, N], steps = [1, 1]} : tensor<4xNxTYPE>
  %d = slice %r {starts = [8, 0], stops = [12, N], steps = [1, 1]} : tensor<4xNxTYPE>
  %m = add %c, %d : tensor<4xNxTYPE>
  return %y, %s, %m
}
"""
FOLDED = """
func @f(%x: tensor<Nx34xTYPE> input) -> (y: tensor<Nx34xTYPE>, s: tensor<1x17xTYPE>) {
  %a = slice %x {starts = [0, 17], stops = [N, 34], steps = [1, 1]} : tensor<Nx17xTYPE>
  %b = slice %x {starts = [0, 0], stops = [N, 17], steps = [1, 1]} : tensor<Nx17xTYPE>
  %m = reduce_max %a {axes = [1]} : tensor<Nx1xTYPE>
  %n = broadcast %m {dims = [N, 17]} : tensor<Nx17xTYPE>
  %d = sub %a, %n : tensor<Nx17xTYPE>
  %e = exp %d : tensor<Nx17xTYPE>
  %f = mul %e, %b : tensor<Nx17xTYPE>
  %y = concat %f, %e {axis = 1} : tensor<Nx34xTYPE>
  %s = reduce_sum %f {axes = [0]} : tensor<1x17xTYPE>
  return %y, %s
}
"""
FUNCTIONS = {
    "gates": GATES,
    "later axes": LATER_AXES.replace("SOME", "tensor<Nx3x5x3xTYPE>"),
    "folded": FOLDED,
}


def _text(name: str, dtype: str = "f32", bound: int = 9) -> str:
    return f"dim N <= {bound}\n" + FUNCTIONS[name].replace("TYPE", dtype)


def _kernels(text: str, passes: str = KERNEL_PIPELINE) -> list[Operation]:
    module = parse(text)
    PassManager(pipeline(passes), verify=True).run(module, default_context())
    assert broken_rules(module.functions[0]) == []
    return list(walk(module.functions[0]))


def _names(text: str, passes: str = KERNEL_PIPELINE) -> list[str]:
    kinds = [op.opdef.name for op in _kernels(text, passes)]
    return [kind for kind in kinds if kind.startswith(("move.", "kernel"))]


def _run(backend: str, text: str, n: int) -> dict[str, np.ndarray]:
    found = load_backend(backend)
    assert not isinstance(found, str)
    compiled, signature = compile_for(found, parse(text))
    return call(compiled, signature, _arguments(signature, n), {"N": n})


def _arguments(signature: Signature, n: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(n)
    made: dict[str, np.ndarray] = {}
    for argument in signature.arguments:
        numbers = rng.standard_normal(concrete_shape(argument.shape, {"N": n}))
        made[argument.name] = numbers.astype(argument.dtype.replace("f", "float"))
    return made


TYPED = [(b, d) for b in NATIVE for d in ("f32", "f64") if (b, d) != ("c", "f64")]
"""C is written as LLVM's text is."""


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("backend", "dtype"), TYPED)
def test_values(backend: str, name: str, dtype: str) -> None:
    for n in (0, 1, 9):
        text = _text(name, dtype)
        found, wanted = _run(backend, text, n), _run("reference", text, n)
        for key, value in wanted.items():
            close = {"f32": 1e-6, "f64": 1e-13}[dtype]
            np.testing.assert_allclose(found[key], value, rtol=close, atol=close)


@pytest.mark.parametrize("name", ["gates", "later axes"])
def test_work_that_is_cut_has_the_same_bits(name: str) -> None:
    """Large enough for chunks: what runs on threads is what runs at once."""
    text = _text(name, bound=4000)
    whole, cut = KERNEL_PIPELINE, KERNEL_PIPELINE.replace("plan", "split-work,plan")
    assert any("parallel" in str(op.schedule) for op in _kernels(text, cut))
    results: list[dict[str, np.ndarray]] = []
    for passes in (whole, cut):
        module = parse(text)
        PassManager(pipeline(passes), verify=True).run(module, default_context())
        backend = load_backend("llvm")
        assert not isinstance(backend, str)
        compiled, signature = compile_for(backend, module)
        results.append(call(compiled, signature, _arguments(signature, 1000), {"N": 1000}))
    for key, value in results[0].items():
        assert value.tobytes() == results[1][key].tobytes()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_nothing_is_moved(name: str) -> None:
    assert "move.slice" not in _names(_text(name))
    assert "move.concat" not in _names(_text(name))


def test_gates_are_one_kernel() -> None:
    """With the sum before them, which is never in memory as a whole."""
    assert _names(_text("gates")) == ["kernel"]


def test_what_overlaps_is_computed_once() -> None:
    text = _text("gates").replace(
        "starts = [0, 15], stops = [N, 30]", "starts = [0, 10], stops = [N, 25]"
    )
    assert _names(text) == ["kernel", "kernel"]  # the sum, then the gates


def test_slices_for_others_are_moved() -> None:
    text = (
        _text("gates").replace("return %h", "return %1").replace("%3 = slice %z", "%3 = slice %x")
    )
    assert _names(text) == ["kernel", "move.slice", "kernel"]


def test_every_second_element_is_moved() -> None:
    one, other = "stops = [N, 15], steps = [1, 1]", "stops = [N, 29], steps = [1, 2]"
    text = _text("gates").replace(one, other)
    assert "move.slice" in _names(text)


def test_a_gpu_moves_slices() -> None:
    text = _text("gates")
    kinds = _names(text, PIPELINES["gpu-kernels"])
    assert kinds.count("move.slice") == 3
    assert kinds.count("move.concat") == 1


def test_a_gpu_says_what_it_cannot_run() -> None:
    module = parse(_text("gates"))
    passes = [*pipeline(KERNEL_PIPELINE), ChooseSchedule(emulated_machine("sm_80"))]
    with pytest.raises(GraphcError, match="a GPU requires a kernel that reads and writes whole"):
        PassManager(passes).run(module, default_context())


def _lstm(stacked: bool) -> Callable[..., Any]:
    def loss(w: Any, r: Any, xs: Any) -> Any:
        def step(carried: Any, x: Any) -> Any:
            h, c = carried
            width = r.shape[0]
            parts = [slice(k * width, (k + 1) * width) for k in range(4)]
            if stacked:
                z = x @ w + h @ r
                i, f, o, g = (z[:, p] for p in parts)
            else:
                i, f, o, g = (x @ w[:, p] + h @ r[:, p] for p in parts)
            c = gc.sigmoid(f) * c + gc.sigmoid(i) * gc.tanh(g)
            h = gc.sigmoid(o) * gc.tanh(c)
            return (h, c), h

        zeros = gc.zeros((xs.shape[1], r.shape[0]), "f64")
        _, hs = gc.scan(step, (zeros, zeros), xs)
        return (hs * hs).sum()

    return loss


@pytest.mark.parametrize("backend", NATIVE)
def test_stacked_gates_are_the_gates(backend: str) -> None:
    rng = np.random.default_rng(5)
    arguments = (
        rng.standard_normal((3, 20)),
        rng.standard_normal((5, 20)),
        rng.standard_normal((4, 2, 3)),
    )
    found, wanted = (
        gc.value_and_grad(gc.function(_lstm(stacked), backend=name), (0, 1, 2))(*arguments)
        for stacked, name in ((True, backend), (False, "reference"))
    )
    np.testing.assert_allclose(found[0], wanted[0], rtol=1e-12)
    for ours, theirs in zip(found[1], wanted[1], strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-10, atol=1e-12)
