"""Differences of modules: small for a small edit, none for the same, never none otherwise."""

from __future__ import annotations

import random
import re

import numpy as np
import pytest

import graphc as gc
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.ir.difference import dim_lines, module_difference, with_context
from graphc.ir.evaluate import evaluate
from graphc.learn.stages import Stage, module_at
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.random_functions import RandomFunction, make_function
from tests.support.text_form import parsed


def lines(a: Module, b: Module, *, places: bool = False) -> list[str]:
    """The lines that differ."""
    found = [*dim_lines(a, b)]
    for each in module_difference(a, b, places=places):
        found += each.lines
    return [f"{x.mark} {x.text}" for x in found if x.mark != " "]


def at(text: str, stage: Stage, *, train: bool = False) -> Module:
    return module_at(gc.loads(text).model, stage, CompileOptions(), train=train)


def chain(length: int, extra: int | None = None) -> str:
    """A chain of layers, with one more node behind layer `extra`."""
    nodes = ["h0 = Input(4, tag=feature)"]
    for i in range(length):
        nodes.append(f"W{i} = Parameter(4, 4)")
        nodes.append(f"t{i} = Times(W{i}, h{i})")
        name = f"s{i}" if i == extra else f"h{i + 1}"
        nodes.append(f"{name} = Tanh(t{i})")
        if i == extra:
            nodes.append(f"h{i + 1} = Sigmoid(s{i})")
    return "\n".join([*nodes, f"OutputNodes = (h{length})"])


@pytest.mark.parametrize("stage", ["nodes", "tensor"])
def test_one_node_in_the_middle_of_a_chain_is_one_line_and_its_readers(stage: Stage) -> None:
    found = lines(at(chain(60), stage), at(chain(60, extra=29), stage))
    assert len(found) == 3
    assert [line[0] for line in found].count("+") == 2
    assert any("sigmoid" in line for line in found)


def test_one_node_changes_the_kernel_that_it_is_in() -> None:
    found = lines(at(chain(20), "kernels"), at(chain(20, extra=9), "kernels"))
    assert len(found) == 3
    assert {re.sub(r" .*", "", line.partition("= ")[2]) for line in found} == {"sigmoid", ""}


def test_a_training_step_differs_where_the_edit_is() -> None:
    criterion = "\nl = Input(4, tag=label)\nc = SquareError(l, h20, tag=criterion)\n"
    steps = [at(chain(20, extra) + criterion, "tensor", train=True) for extra in (None, 9)]
    whole = sum(len(m.functions[0].block) for m in steps)
    assert 0 < len(lines(*steps)) <= 12 < whole / 20


def test_what_is_added_and_removed_is_said_with_its_body_and_its_arguments() -> None:
    a = """
dim N <= 4
func @f(%x: tensor<Nx2xf32> input) -> (y: tensor<Nx2xf32>) {
  %a = neg %x : tensor<Nx2xf32>
  return %a
}
"""
    b = """
dim N <= 8
func @f(%x: tensor<Nx2xf32> input, %w: tensor<Nx2xf32> parameter)
  -> (y: tensor<Nx2xf32>, z: tensor<Nx2xf32>) {
  %a = neg %x : tensor<Nx2xf32>
  %k = kernel %w : tensor<Nx2xf32> {
  ^(%v: tensor<Nx2xf32>):
    %e = exp %v : tensor<Nx2xf32>
    yield %e
  }
  return %a, %k
}
"""
    assert lines(parsed(a), parsed(b)) == [
        "- dim N <= 4",
        "+ dim N <= 8",
        "+ argument %w: tensor<Nx2xf32> parameter",
        "+ result z: tensor<Nx2xf32> = %k",
        "+ %k = kernel %w : tensor<Nx2xf32> {",
        "+ %e = exp %w : tensor<Nx2xf32>",
        "+ yield %e",
        "+ }",
    ]
    gone = lines(parsed(b), parsed(a))
    assert sorted(line[2:] for line in gone) == sorted(
        line[2:] for line in lines(parsed(a), parsed(b))
    )


LOOP = """
dim T <= 4
func @f(%h: tensor<2xf32> input) -> (y: tensor<2xf32>) {
  %y = loop %h, %h {count = T, sequences = 0, carried = 1} : tensor<2xf32> {
  ^(%whole: tensor<2xf32>, %before: tensor<2xf32>):
    %now = sub %whole, %before : tensor<2xf32>
    yield %now
  }
  return %y
}
"""


def test_a_value_that_is_read_whole_and_carried_is_two_things_in_the_body() -> None:
    other = LOOP.replace("sub %whole, %before", "sub %before, %whole")
    found = lines(parsed(LOOP), parsed(other))
    assert [line[0] for line in found] == ["-", "+"]
    assert lines(parsed(LOOP), parsed(LOOP)) == []


PLAIN = """
func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {
  %a = neg %x : tensor<2xf32>
  %b = exp %x : tensor<2xf32>
  %c = sub %a, %b : tensor<2xf32>
  return %c
}
"""


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("sub %a, %b", "sub %b, %a"),
        ("exp %x", "exp %a"),
        ("return %c", "return %a"),
        ("(y:", "(z:"),
        ("%x: tensor<2xf32> input", "%x: tensor<2xf32> parameter"),
        ("neg", "tanh"),
        ("@f", "@g"),
    ],
)
def test_every_edit_shows(old: str, new: str) -> None:
    found = lines(parsed(PLAIN), parsed(PLAIN.replace(old, new)))
    assert {line[0] for line in found} == {"-", "+"}
    assert len(found) <= 4


def test_order_and_names_inside_do_not_count() -> None:
    swapped = PLAIN.splitlines()
    swapped[2], swapped[3] = swapped[3], swapped[2]
    assert lines(parsed(PLAIN), parsed("\n".join(swapped))) == []
    assert lines(parsed(PLAIN), parsed(PLAIN.replace("%a", "%0").replace("%c", "%other"))) == []


def test_names_of_nodes_count() -> None:
    text = "x = Input(2)\nh = Tanh(x)\nz = Plus(h, x)\n"
    found = lines(at(text, "nodes"), at(text.replace("h", "g").replace("Tang", "Tanh"), "nodes"))
    assert [line[:4] for line in found if "tanh" in line] == ["- %h", "+ %g"]


def test_places_in_memory_count_when_asked_for() -> None:
    a = PLAIN.replace("= neg %x", "= copy %x at arena:0").replace(
        "(y: tensor<2xf32>)", "(y: tensor<2xf32>) arena 128"
    )
    b = a.replace("arena:0", "arena:64")
    assert lines(parsed(a), parsed(b)) == []
    assert [x[0] for x in lines(parsed(a), parsed(b), places=True)] == ["-", "+"]


def test_functions_of_one_module_alone_are_shown_whole() -> None:
    both = PLAIN + PLAIN.replace("@f", "@g")
    found = lines(parsed(both), parsed(both + PLAIN.replace("@f", "@h")))
    assert found[0] == "+ func @h"
    assert {line[0] for line in found} == {"+"}
    assert len(found) == 6
    assert lines(parsed(both), parsed(both)) == []


def results(module: Module, made: RandomFunction) -> list[bytes]:
    with np.errstate(all="ignore"):
        found = evaluate(module.functions[0], made.arguments, made.sizes)
    return [array.tobytes() for array in found.values()]


@pytest.mark.parametrize("seed", range(60))
def test_no_difference_means_the_same_results_and_all_operations_are_accounted_for(
    seed: int,
) -> None:
    rng = random.Random(seed)
    made = make_function(seed, operations=25)
    other = clone_module(made.module)
    passes = rng.choice(["", "cse", "simplify,dce", "fuse-patches,fuse-kernels,fuse-epilogues"])
    PassManager(pipeline(passes)).run(other, default_context())
    if passes == "":
        pairs = [
            op
            for op in other.functions[0].block
            if len(op.operands) == 2
            and op.operands[0] is not op.operands[1]
            and op.operands[0].type == op.operands[1].type
        ]
        if pairs:
            op = rng.choice(pairs)
            op.set_operands(reversed(op.operands))
    (found,) = module_difference(made.module, other)
    for module, extra in ((made.module, "removed"), (other, "added")):
        counted = sum(found.counts[k] for k in ("same", "moved", "changed", extra))  # type: ignore[index]
        assert counted == len(module.functions[0].block) - 1
    if found.is_empty:
        assert results(made.module, made) == results(other, made)
    (none,) = module_difference(other, clone_module(other))
    assert none.is_empty


def test_context_keeps_what_lines_stand_inside_of() -> None:
    (found,) = module_difference(at(chain(20), "kernels"), at(chain(20, extra=9), "kernels"))
    texts = [(x.mark, x.depth, x.text) for x in with_context(found.lines, 0)]
    assert texts[0] == (" ", 0, "func @main")
    opened = [text for mark, _, text in texts if mark == " " and text.endswith("{")]
    assert len(opened) == 1
    assert (" ", 1, "}") in texts
    assert len(texts) <= 9


def test_bodies_whose_arguments_are_not_the_operands_are_compared() -> None:
    text = """
func @f(%x: tensor<4x3xf32> input, %w: tensor<3x5xf32> parameter, %b: tensor<1x5xf32> parameter)
  -> (y: tensor<4x5xf32>) {
  %y = gemm.fused %x, %w, %b schedule {parallel = "cols", chunk = 5} : tensor<4x5xf32> {
  ^(%product: tensor<4x5xf32>, %row: tensor<1x5xf32>):
    %all = broadcast %row {dims = [4, 5]} : tensor<4x5xf32>
    %sum = add %product, %all : tensor<4x5xf32>
    %tanh = tanh %sum : tensor<4x5xf32>
    yield %tanh
  }
  return %y
}
"""
    assert lines(parsed(text), parsed(text)) == []
    assert lines(parsed(text), parsed(text.replace("= tanh", "= exp"))) == [
        "- %tanh = tanh %sum : tensor<4x5xf32>",
        "+ %tanh = exp %sum : tensor<4x5xf32>",
    ]


def test_names_in_bodies_do_not_depend_on_names_around_them() -> None:
    body = """
  %NAME = kernel %x : tensor<2xf32> {
  ^(%a: tensor<2xf32>):
    %e = OP %a : tensor<2xf32>
    yield %e
  }
"""
    head = "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>, z: tensor<2xf32>) {"
    text = head + body.replace("NAME", "k") + body.replace("NAME", "l") + "  return %k, %l\n}\n"
    a = text.replace("OP", "exp")
    b = text.replace("OP", "exp", 1).replace("OP", "tanh")
    assert lines(parsed(a), parsed(b)) == [
        "- %e = exp %x : tensor<2xf32>",
        "+ %e = tanh %x : tensor<2xf32>",
    ]


def test_a_long_chain_takes_no_recursion() -> None:
    body = "".join(f"  %{i + 1} = neg %{i} : tensor<2xf32>\n" for i in range(3000))
    text = (
        "func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {\n"
        f"  %0 = exp %x : tensor<2xf32>\n{body}  return %3000\n}}\n"
    )
    found = lines(parsed(text), parsed(text.replace("exp", "tanh")))
    assert len(found) == 2
