"""The signature of a function in the IR."""

# ruff: noqa: E501  # the text form has one line per function head

from __future__ import annotations

from graphc.backends.signature import make_signature
from graphc.runtime.signature import Argument, Dimension, Result
from tests.support.compiling import parse

TEXT = """\
dim N <= 256

func @step(%x: tensor<Nx4xf32> input, %W: tensor<4x4xf32> parameter, %rate: tensor<1x1xf64> hyperparameter) -> (z: tensor<Nx4xf32>, W1: tensor<4x4xf32> updates %W) arena 128 {
  return %x, %W
}
"""


def test_arguments_keep_their_order_role_and_symbols() -> None:
    module = parse(TEXT)
    assert make_signature(module, module.functions[0]).arguments == (
        Argument("x", "f32", ("N", 4), "input"),
        Argument("W", "f32", (4, 4), "parameter"),
        Argument("rate", "f64", (1, 1), "hyperparameter"),
    )


def test_results_say_what_they_update() -> None:
    module = parse(TEXT)
    assert make_signature(module, module.functions[0]).results == (
        Result("z", "f32", ("N", 4)),
        Result("W1", "f32", (4, 4), "W"),
    )


def test_dims_and_the_arena_come_from_the_module_and_the_plan() -> None:
    module = parse(TEXT)
    signature = make_signature(module, module.functions[0])
    assert signature.dims == (Dimension("N", 256),)
    assert signature.arena_bytes == 128
