"""What is taken out of a function to be computed early, and that both parts make the whole."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.passes.manager import PassManager
from graphc.passes.split_early import EARLY, EarlyPart, SplitEarly
from tests.support.compiling import parse

TEXT = """
dim N <= 8
func @f(%x: tensor<Nx4xf32> input, %s: tensor<Nx4xf32> input, %W: tensor<4x4xf32> parameter,
        %v: tensor<1x4xf32> parameter) -> (y: tensor<Nx4xf32>, e: tensor<1x4xf32>) {
  %e = exp %v : tensor<1x4xf32>
  %p = matmul %e, %W : tensor<1x4xf32>
  %b = broadcast %p {dims = [N, 4]} : tensor<Nx4xf32>
  %t = tanh %s : tensor<Nx4xf32>
  %u = mul %t, %b : tensor<Nx4xf32>
  %q = mul %x, %u : tensor<Nx4xf32>
  %r = matmul %q, %W : tensor<Nx4xf32>
  %z = add %r, %s : tensor<Nx4xf32>
  %y = add %z, %b : tensor<Nx4xf32>
  return %y, %e
}
"""


def part(
    what: EarlyPart, inputs: tuple[str, ...] = (), text: str = TEXT, *, frozen: bool = True
) -> Module:
    module = parse(text)
    passes = [SplitEarly(inputs, what, frozen)]
    PassManager(passes, verify=True, check_claim=True).run(module, default_context())
    return module


def arguments(module: Module) -> dict[str, str]:
    """The role of each; early values by their place."""
    (f,) = module.functions
    names = [a.name or "" for a in f.arguments]
    return {
        f"early {i}" if n.startswith(EARLY) else n: r
        for i, (n, r) in enumerate(zip(names, f.roles, strict=True))
    }


def results(module: Module) -> list[str]:
    return [r.name for r in module.functions[0].results]


def test_what_depends_on_parameters_alone_is_a_parameter_of_the_rest() -> None:
    early, rest = part("early"), part("rest")
    assert arguments(early) == {"W": "parameter", "v": "parameter"}
    assert arguments(rest) == {
        "x": "input",
        "s": "input",
        "W": "parameter",
        "early 3": "parameter",
        "early 4": "parameter",
    }
    assert results(early) == [a.name for a in rest.functions[0].arguments[3:]]
    assert "exp" not in str(rest)
    assert "broadcast" in str(rest)  # costs nothing, and only the call knows its size


def test_inputs_given_seldom_are_not_taken_by_the_rest() -> None:
    early, rest = part("early", ("s",)), part("rest", ("s",))
    assert arguments(early) == {"s": "input", "W": "parameter", "v": "parameter"}
    assert arguments(rest) == {
        "x": "input",
        "W": "parameter",
        "v": "parameter",
        "early 3": "kept",
        "early 4": "kept",
    }
    assert results(early) == [a.name for a in rest.functions[0].arguments[3:]]
    assert "tanh" not in str(rest)


def test_parameters_that_may_change_are_read_at_every_call() -> None:
    early = part("early", ("s",), frozen=False)
    assert arguments(early) == {"s": "input"}
    assert "mul" not in str(early)


@pytest.mark.parametrize("inputs", [(), ("s",), ("x", "s")])
def test_both_parts_compute_what_the_whole_does(inputs: tuple[str, ...]) -> None:
    rng = np.random.default_rng(1)
    shapes = {"x": (3, 4), "s": (3, 4), "W": (4, 4), "v": (1, 4)}
    given = {n: rng.standard_normal(s).astype(np.float32) for n, s in shapes.items()}

    def run(module: Module, values: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        function = module.functions[0]
        taken = {a.name or "": values[a.name or ""] for a in function.arguments}
        return evaluate(function, taken, {s.name: 3 for s in module.dims})

    early = run(part("early", inputs), given)
    rest = run(part("rest", inputs), given | early)
    for name, value in run(parse(TEXT), given).items():
        np.testing.assert_array_equal(rest[name], value)


def test_names_say_what_is_computed() -> None:
    """A function with more before it has the same names for the same."""
    longer = (
        TEXT.replace("%e = exp", "%a = neg %W : tensor<4x4xf32>\n  %e = exp")
        .replace("%t = tanh", "%c = matmul %x, %a : tensor<Nx4xf32>\n  %t = tanh")
        .replace("%z = add %r, %s", "%z = add %c, %s")
    )
    assert set(results(part("early"))) < set(results(part("early", text=longer)))


def test_a_function_without_anything_early_stays_as_it_is() -> None:
    text = """
func @f(%x: tensor<2x4xf32> input, %W: tensor<4x4xf32> parameter) -> (y: tensor<2x4xf32>) {
  %y = matmul %x, %W : tensor<2x4xf32>
  return %y
}
"""
    assert str(part("rest", text=text)) == str(parse(text))
