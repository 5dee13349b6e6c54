"""Shrinking modules: what is left still holds, is legal, and has nothing that could go."""

from __future__ import annotations

import re

import numpy as np
import pytest

import graphc as gc
from graphc.driver.options import CompileOptions
from graphc.driver.reduce import reduce_module
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ir.printer import print_module
from graphc.ir.traversal import walk
from graphc.ir.types import TensorType
from graphc.learn.stages import module_at
from tests.support.text_form import broken_rules, legal

NETWORK = """
x = Input(3, tag=feature)
l = Input(3, tag=label)
W = Parameter(3, 3)
t = Times(W, d)
h = Plus(x, t)
d = PastValue(3, h)
z = Sigmoid(h, tag=output)
c = SquareError(l, z, tag=criterion)
"""


def reduced(module: Module, *words: str) -> Module:
    """The smallest module whose text has all the words; every candidate is checked to be legal."""
    texts: list[str] = []

    def holds(text: str) -> bool:
        legal(text)
        texts.append(text)
        return all(word in text for word in words)

    before = print_module(module)
    made = reduce_module(module, holds, lambda _: None)
    assert print_module(module) == before
    assert len(texts) == len(set(texts))
    assert broken_rules(made) == []
    assert all(word in print_module(made) for word in words)
    return made


def kinds(module: Module) -> list[str]:
    return [op.opdef.name for op in walk(module)]


@pytest.mark.parametrize("train", [False, True])
def test_of_a_whole_step_one_operation_is_left(train: bool) -> None:
    module = module_at(gc.loads(NETWORK).model, "tensor", CompileOptions(), train=train)
    made = reduced(module, "= sigmoid ")
    working = [k for k in kinds(made) if k not in ("constant", "return")]
    assert working == ["sigmoid"]
    assert len(made.functions[0].results) <= 1
    assert made.functions[0].arguments == []
    assert {dim.bound for dim in made.dims} <= {1}


def test_what_is_looked_for_inside_a_loop_comes_out_of_it() -> None:
    module = module_at(gc.loads(NETWORK).model, "tensor", CompileOptions())
    assert "loop" in kinds(module)
    made = reduced(module, "= matmul ")
    assert "loop" not in kinds(made)
    assert "loop" in kinds(reduced(module, "= loop "))


def test_kernels_lose_their_places_and_what_they_do_not_need() -> None:
    module = module_at(gc.loads(NETWORK).model, "kernels", CompileOptions(), train=True)
    made = reduced(module, "= kernel ", "= reduce_sum ")
    assert made.functions[0].arena is None
    assert "gemm" not in kinds(made)
    (kernel,) = [op for op in walk(made) if op.opdef.name == "kernel"]
    assert len(kernel.results) == 1
    assert len(kernel.operands) <= 1
    assert "= gemm" in print_module(reduced(module, "= gemm", " at arena:"))


def test_networks_are_cut_down_to_the_nodes_that_matter() -> None:
    made = reduced(module_at(gc.loads(NETWORK).model, "nodes", CompileOptions()), "node.sigmoid")
    assert sorted(kinds(made)) == ["node.input", "node.sigmoid"]
    cycle = reduced(
        module_at(gc.loads(NETWORK).model, "nodes", CompileOptions()), "node.past_value"
    )
    assert len(kinds(cycle)) == 2


def test_bounds_become_as_small_as_they_may() -> None:
    text = """
dim N <= 200
dim M <= 50
func @f(%x: tensor<NxMxf32> input) -> (y: tensor<NxMxf32>) {
  %y = exp %x : tensor<NxMxf32>
  return %y
}
"""

    def holds(given: str) -> bool:
        bounds = {name: int(n) for name, n in re.findall(r"dim (\w) <= (\d+)", given)}
        return "exp" in given and bounds.get("N", 0) >= 3

    made = reduce_module(legal(text), holds, lambda _: None)
    assert {dim.name: dim.bound for dim in made.dims if dim.name == "N"} == {"N": 3}
    assert all(dim.bound == 1 for dim in made.dims if dim.name == "M")


def test_other_functions_and_updates_go() -> None:
    text = """
func @f(%w: tensor<2xf32> parameter, %g: tensor<2xf32> input) -> (w: tensor<2xf32> updates %w) {
  %0 = sub %w, %g : tensor<2xf32>
  return %0
}

func @g(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {
  %0 = exp %x : tensor<2xf32>
  return %0
}
"""
    made = reduced(legal(text), "= sub ")
    assert [f.name for f in made.functions] == ["f"]
    assert "updates" not in print_module(made)
    kept = reduced(legal(text), "updates %w")
    assert kinds(kept) in (["return"], ["constant", "return"])
    assert len(kept.functions[0].arguments) == 1


def results(module: Module) -> list[bytes]:
    """Of the only function, for arguments that depend on its types alone."""
    function = module.functions[0]
    sizes = {dim.name: dim.bound for dim in module.dims}
    rng = np.random.default_rng(0)
    arguments: dict[str, np.ndarray] = {}
    for a in function.arguments:
        assert isinstance(a.type, TensorType)
        numbers = rng.uniform(0, 2, a.type.shape(sizes))
        arguments[a.name or ""] = numbers.astype(a.type.dtype.numpy)
    with np.errstate(all="ignore"):
        return [r.tobytes() for r in evaluate(function, arguments, sizes).values()]


def is_miscompiled(text: str) -> bool:
    """Whether a pass that turns every difference round shows in the results."""
    wrong = legal(text)
    if len(wrong.functions[0].results) == 0:
        return False
    for op in walk(wrong):
        if op.opdef.name == "sub":
            op.set_operands(reversed(op.operands))
    return results(legal(text)) != results(wrong)


@pytest.mark.parametrize(
    "criterion", ["SquareError(l, z)", "CrossEntropyWithSoftmax(l, z)", "Logistic(l, y)"]
)
@pytest.mark.parametrize("train", [False, True])
def test_a_wrong_pass_is_left_with_the_operation_that_it_gets_wrong(
    criterion: str, train: bool
) -> None:
    text = (
        "x = Input(3, tag=feature)\nl = Input(3, tag=label)\nW = Parameter(3, 3)\n"
        "m = Minus(x, W1)\nW1 = Parameter(3, 1)\nz = Times(W, m)\ny = Sigmoid(z)\n"
        f"c = {criterion}\nCriteriaNodes = (c)\n"
    )
    options = CompileOptions(batch=4)
    module = module_at(gc.loads(text).model, "tensor", options, train=train)
    assert is_miscompiled(print_module(module))
    small = reduce_module(module, is_miscompiled, lambda _: None)
    assert is_miscompiled(print_module(small))
    assert kinds(small).count("sub") == 1
    assert len(kinds(small)) <= 5 < len(kinds(module))


def test_few_runs_are_enough_for_much_that_does_not_matter() -> None:
    body = "".join(f"  %{i + 1} = neg %{i} : tensor<2xf32>\n" for i in range(500))
    text = (
        "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {\n"
        f"  %0 = exp %x : tensor<2xf32>\n{body}  return %500\n}}\n"
    )
    runs: list[str] = []

    def holds(given: str) -> bool:
        runs.append(given)
        return "exp" in given

    assert len(reduce_module(legal(text), holds, lambda _: None).functions[0].block) <= 4
    assert len(runs) < 40


def test_an_interrupt_gives_the_smallest_so_far() -> None:
    runs: list[str] = []

    def holds(text: str) -> bool:
        runs.append(text)
        if len(runs) == 4:
            raise KeyboardInterrupt
        return "sigmoid" in text

    said: list[str] = []
    module = module_at(gc.loads(NETWORK).model, "tensor", CompileOptions())
    made = reduce_module(module, holds, said.append)
    assert said[-1] == "interrupted: this is the smallest so far"
    assert print_module(made) in runs[:3]
