"""Networks as NDL: what is written reads back to the same network, name for name.

The judge compares nodes field by field and shares nothing with the writer or with graphc's own
pairing of modules.
"""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.builder import GraphBuilder
from graphc.driver.prepare import infer
from tests.conformance.node_table import ROWS, NodeRow
from tests.support.random_networks import random_network

EXAMPLES = Path(__file__).parents[4] / "examples"
MACROS = EXAMPLES / "lstm.ndl"
NETWORKS = sorted(path for path in EXAMPLES.rglob("*.ndl") if path != MACROS)
Described = dict[str, object]


def described(network: GraphBuilder) -> list[Described]:
    """Every node as plain data, in order: name, op, operands by name, settings, size."""
    infer(network.model)
    nodes: list[Described] = []
    for operation in network.model.graph.block:
        settings = {f.name: getattr(operation.params, f.name) for f in fields(operation.params)}
        if settings.get("width"):
            settings["rows"] = 0  # says what the image's sizes say
        settings.pop("computed", None)
        nodes.append(
            {
                "name": operation.result.name,
                "op": operation.opdef.name,
                "operands": [value.name for value in operation.operands],
                "settings": settings,
                "type": str(operation.result.type),
            }
        )
    return nodes


def require_round_trip(network: GraphBuilder) -> str:
    assert isinstance(network, gc.Network)
    text = network.to_ndl()
    again = gc.loads(text)
    assert described(again) == described(network)
    assert isinstance(again, gc.Network)
    text = network.to_ndl()  # with the sizes that were left to be found
    assert again.to_ndl() == text
    return text


@pytest.mark.parametrize("path", NETWORKS, ids=lambda path: path.name)
def test_an_example_reads_back(path: Path) -> None:
    has_own_macros = path.parent.name in ("digits", "images", "mnist")
    variables = re.findall(r"\$(\w+)\$", path.read_text(encoding="utf-8"))
    given = dict.fromkeys(variables, 4)
    macros = [] if has_own_macros else [MACROS]
    assert require_round_trip(gc.load(path, macros=macros, defines=given))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.op)
def test_every_node_of_the_table_reads_back(row: NodeRow) -> None:
    network = gc.Network()
    for index, use in enumerate(row.uses):
        operands = [
            network.apply(leaf.op, settings=leaf.arguments, name=f"u{index}_{place}")
            for place, leaf in enumerate(use.leaves)
        ]
        if row.op not in ("input", "sparse_input", "parameter"):
            network.apply(row.op, operands, use.settings, name=f"v{index}")
    assert not network.sink.diagnostics
    finite = [u for u in row.uses if not np.isnan(u.settings.get("value", 0.0))]  # pyright: ignore
    if len(finite) == len(row.uses):
        assert require_round_trip(network)
    else:
        with pytest.raises(gc.GraphcError, match="NDL has no word for nan"):
            network.to_ndl()


@pytest.mark.parametrize("seed", range(60))
def test_a_random_network_reads_back(seed: int) -> None:
    made = random_network(seed)
    if made is not None:
        network = gc.Network(made.builder.model)
        require_round_trip(network)


@pytest.mark.parametrize(
    "name",
    ["L1.W", "W0*features+B0", "OutputNodes", "load", "run", "1st", "two words", "a=b", "a,b;c",
     "(x)", "[y]", "é", "1e5", "c#", "#c", "x" * 300, "$", "a'b", "a\\b"],
)  # fmt: skip
def test_names_that_are_no_names_of_ndl(name: str) -> None:
    network = gc.Network()
    x = network.input("x", 3)
    y = network.tanh(x, name=name, tag="output")
    network.sigmoid(y)
    if name == "$":
        with pytest.raises(gc.GraphcError, match="not-supported"):
            network.to_ndl()
    else:
        assert require_round_trip(network)


@pytest.mark.parametrize("name", ['a"b', "a\nb", "a #b", "$a$", "a\tb", "a(#"])
def test_a_name_that_ndl_cannot_hold_is_an_error_that_names_it(name: str) -> None:
    network = gc.Network()
    network.tanh(network.input(name, 3), name='"too"')
    with pytest.raises(gc.GraphcError) as caught:
        network.to_ndl()
    messages = [d.message for d in caught.value.diagnostics]
    assert len(messages) == 2
    assert repr(name) in messages[0]


def test_settings_of_a_parameter_and_several_tags() -> None:
    network = gc.Network()
    network.parameter("W", 2, 3, init="fixedValue", value=-1e-300, need_gradient=False)
    network.parameter("G", 2, 3, init="gaussian", init_value_scale=float("inf"))
    network.image_parameter("I", 4, 3, 2, init="uniform")
    network.constant(-0.25, 2, 3, name="C")
    network.tanh(network.input("x", 3), name="y", tag=["output", "evaluation"])
    assert require_round_trip(network).splitlines() == [
        "W = LearnableParameter(2, 3, needGradient=false, init=fixedValue, value=-1e-300)",
        "G = LearnableParameter(2, 3, init=gaussian, initValueScale=1#INF)",
        "I = ImageParameter(4, 3, 2)",
        "C = Constant(-0.25, rows=2, cols=3)",
        "x = InputValue(3)",
        "y = Tanh(x, tag=evaluation, tag=output)",
    ]


@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_values_beside_the_text_are_read_back_bit_for_bit(tmp_path: Path, precision: str) -> None:
    network = gc.Network()
    x = network.input("x", 3, tag="feature")
    w = network.parameter("L1.W", 2, 3, init="gaussian")
    v = network.parameter("l1*w", 2, 2, init="fixedValue", value=0.1)
    network.times(v, network.times(w, x), name="y", tag="output")
    network.parameters["L1.W"] = [[0.1, -1e-30, 3e38], [1 / 3, 2.5e-310, float(2**60)]]
    network.save_ndl(tmp_path / "net.ndl", values=True)
    again = gc.load(tmp_path / "net.ndl")
    assert sorted(p.name for p in (tmp_path / "net-values").iterdir()) == [
        "0-L1.W.txt",
        "1-l1_w.txt",
    ]
    data = np.random.default_rng(1).standard_normal((5, 3))
    got = [gc.compile(n, "y", precision=precision)(x=data)["y"] for n in (network, again)]
    assert np.array_equal(got[0], got[1])


def test_a_text_without_values_draws_them_in_the_same_order(tmp_path: Path) -> None:
    network = gc.Network()
    network.parameter("b", 4, 2)
    network.parameter("a", 3, 2, init="gaussian")
    network.save_ndl(tmp_path / "net.ndl")
    again = gc.load(tmp_path / "net.ndl")
    for name in ("a", "b"):
        assert np.array_equal(network.parameters[name], again.parameters[name])
    assert [p.name for p in tmp_path.iterdir()] == ["net.ndl"]


def test_nothing_is_written_of_a_network_that_ndl_cannot_say(tmp_path: Path) -> None:
    network = gc.Network()
    network.parameter('"', 4, 2)
    with pytest.raises(gc.GraphcError):
        network.save_ndl(tmp_path / "net.ndl", values=True)
    assert not list(tmp_path.iterdir())
