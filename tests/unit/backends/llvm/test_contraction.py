"""The mode `contraction`: where fused multiply-add may be, and what its absence means for bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.backends.llvm.target import X86_64, host_target
from graphc.ir.core import ContractionMode
from graphc.ir.printer import print_module
from graphc.ir.types import DType
from graphc.support.diagnostics import GraphcError
from tests.support.commands import graphc
from tests.support.compiling import call, compile_for, load_backend, parse
from tests.support.llvm_probe import probe

TEXT = """
func @f(%a: tensor<7x2xf32> input, %b: tensor<2x9xf32> input, %x: tensor<1x19xf32> input)
  -> (p: tensor<7x9xf32>, e: tensor<1x19xf32>) contraction {mode} {{
  %p = matmul %a, %b : tensor<7x9xf32>
  %e = {word} %x : tensor<1x19xf32>
  return %p, %e
}}
"""
NETWORK = "f = Input(2)\nw = Parameter(3, 2, init=fixedValue, value=0.5)\nz = Exp(Times(w, f))\n"
MODES: tuple[ContractionMode, ...] = ("fma", "off")


def arguments() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    shapes = {"a": (7, 2), "b": (2, 9), "x": (1, 19)}
    return {n: rng.normal(size=s).astype(np.float32) for n, s in shapes.items()}


def computed(mode: ContractionMode, word: str = "exp") -> dict[str, np.ndarray]:
    backend = load_backend("llvm")
    assert not isinstance(backend, str)
    compiled, signature = compile_for(backend, parse(TEXT.format(mode=mode, word=word)))
    return call(compiled, signature, arguments(), {})


def test_off_rounds_products_and_their_sum_each_by_itself() -> None:
    a, b = arguments()["a"], arguments()["b"]
    wanted = a[:, :1] * b[:1] + a[:, 1:] * b[1:]
    np.testing.assert_array_equal(computed("off")["p"], wanted)


@pytest.mark.skipif(not host_target().machine.has_fma, reason="this machine has no FMA")
def test_fma_rounds_a_product_and_its_sum_together() -> None:
    a, b = (arguments()[n].astype(np.float64) for n in "ab")
    # The first product is rounded, the second one is added exactly.
    first = (a[:, :1] * b[:1]).astype(np.float32)
    wanted = (first + a[:, 1:] * b[1:]).astype(np.float32)
    got = computed("fma")["p"]
    np.testing.assert_array_equal(got, wanted)
    assert (got != computed("off")["p"]).any()


@pytest.mark.parametrize("word", ["exp", "expm1", "log1p", "tanh", "sigmoid", "erf", "sin"])
def test_without_contraction_functions_have_the_bits_of_the_oldest_target(word: str) -> None:
    x = arguments()["x"]
    run = probe(X86_64, lambda s, v: getattr(s, word)(v), [DType.F32], DType.F32)
    np.testing.assert_array_equal(computed("off", word)["e"][0], run(x[0]))


def test_the_mode_is_a_part_of_the_text_of_a_function() -> None:
    module = parse(TEXT.format(mode="off", word="exp"))
    assert module.functions[0].contraction == "off"
    assert "contraction off {" in print_module(module)
    assert "contraction" not in print_module(parse(TEXT.format(mode="fma", word="exp")))


def test_an_unknown_mode_in_a_text_is_an_error() -> None:
    with pytest.raises(GraphcError, match="contraction is one of fma, off, tf32, bf16, got `on`"):
        parse(TEXT.format(mode="on", word="exp"))


def test_an_unknown_mode_is_a_bad_option() -> None:
    with pytest.raises(GraphcError, match="contraction is one of fma, off, tf32, bf16, got 'on'"):
        gc.compile(gc.loads(NETWORK), outputs="z", contraction="on")  # type: ignore[arg-type]


def test_commands_take_the_mode(tmp_path: Path) -> None:
    model = tmp_path / "net.ndl"
    model.write_text(NETWORK, encoding="utf-8")
    texts = {
        mode: graphc(
            *("compile", model, "--nodes", "z", "--target", "x86-64-v3"),
            *("--emit", "ll", "--contraction", mode, "-o", "-"),
        ).out
        for mode in MODES
    }
    assert "@llvm.fma" in texts["fma"]
    assert "fmul" in texts["off"]
    assert "@llvm.fma" not in texts["off"]
