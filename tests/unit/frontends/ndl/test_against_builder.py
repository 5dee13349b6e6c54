"""The front end and the real builder: the table's ops exist, take what it gives, and agree on
defaults; and broken programs do not upset the builder either."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from graphc.builder import GraphBuilder
from graphc.support.diagnostics import render
from graphc_frontends import ndl
from graphc_frontends.ndl.functions import FUNCTIONS, Function, Option

SUPPORTED = [function for function in FUNCTIONS if function.op is not None]
HEAD = "x = Input(3, tag=feature)\nl = Input(3, tag=label)\nm = Mean(x)\ns = InvStdDev(x)\n"
PLACES = {"mean": "m", "invStdDev": "s", "labels": "l", "scaleFactor": "2"}


def build(text: str) -> GraphBuilder:
    builder = GraphBuilder()
    ndl.load(builder, text, file="net.ndl")
    return builder


def call(function: Function, options: str) -> str:
    arguments = [
        PLACES.get(p.name, "x") if p.kind == "node" else "3"
        for p in function.positionals
        if not p.optional
    ]
    return f"y = {function.names[0]}({', '.join(arguments)}{options})"


@pytest.mark.parametrize("function", SUPPORTED, ids=lambda f: f.names[0])
def test_the_builder_takes_every_supported_function(function: Function) -> None:
    builder = build(HEAD + call(function, ""))
    assert not builder.sink.diagnostics, render(builder.sink.diagnostics)
    made = builder.find("y")
    assert made is not None
    assert made.op == function.op


def with_options() -> list[tuple[Function, Option]]:
    return [(f, o) for f in SUPPORTED for o in f.options if o.default != ""]


@pytest.mark.parametrize(("function", "option"), with_options())
def test_the_defaults_of_the_table_are_those_of_the_op(function: Function, option: Option) -> None:
    given_default = build(HEAD + call(function, f", {option.name}={option.default}"))
    assert not given_default.sink.diagnostics
    assert str(given_default) == str(build(HEAD + call(function, "")))


@given(st.randoms(use_true_random=False))
@settings(max_examples=100, deadline=None)
def test_a_damaged_program_does_not_upset_the_builder(rng: random.Random) -> None:
    text = f"{HEAD}F(a) {{ t=Times(W, a); W=Parameter(3, 3); F=Plus(t, p) }}\n"
    text += "p=PastValue(3, q.t)\nq=F(x)\nCE=CrossEntropyWithSoftmax(l, q, tag=criteria)\n"
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(text))
        text = text[:start] + rng.choice(["", "x", ",", "(", "3", "\n"]) + text[start + 1 :]
    assert isinstance(str(build(text)), str)
