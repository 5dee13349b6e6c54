"""Drawings of networks."""

from __future__ import annotations

import shutil

import pytest

import graphc as gc
from graphc.driver.prepare import prepare
from graphc.model.picture import network_picture, svg


def drawn(text: str) -> list[str]:
    model = gc.loads(text).model
    prepare(model)
    return network_picture(model.graph).splitlines()


def test_nodes_show_name_function_and_size_and_edges_lead_to_the_reader() -> None:
    lines = drawn("x=Input(4, tag=feature)\nW=Parameter(3, 0)\nz=Times(W, x, tag=output)\n")
    assert '  n0 [label="x\\nInput 4x*", fillcolor=lightblue];' in lines
    assert '  n1 [label="W\\nParameter 3x4", fillcolor=gray90];' in lines
    assert '  n2 [label="z\\nTimes 3x*", fillcolor=palegreen];' in lines
    assert "  n0 -> n2;" in lines
    assert "  { rank=source; n0; n1; }" in lines


def test_the_edge_into_a_delay_is_dotted() -> None:
    lines = drawn("x=Input(3)\nh=Plus(x, d)\nd=PastValue(3, h)\n")
    dotted = [line for line in lines if "dotted" in line]
    assert dotted == ["  n1 -> n2 [style=dotted, constraint=false];"]


def test_the_edge_into_a_delay_outside_a_cycle_counts_for_the_layout() -> None:
    lines = drawn("x=Input(3)\nd=PastValue(3, x)\n")
    assert "  n0 -> n1 [style=dotted];" in lines
    assert not any("cluster" in line for line in lines)


def test_each_loop_is_a_box_that_says_its_direction() -> None:
    lines = drawn(
        "x=Input(3)\nh=Plus(x, d)\nd=PastValue(3, h)\ng=Plus(h, f)\nf=FutureValue(3, g)\n"
    )
    boxes = "\n".join(lines).split("subgraph cluster_")[1:]
    assert [box.partition('label="')[2].partition('"')[0] for box in boxes] == [
        "loop forward in time",
        "loop backward in time",
    ]
    assert [box.splitlines()[3].strip() for box in boxes] == ["n1; n2;", "n3; n4;"]


def test_graphviz_draws_the_picture() -> None:
    if shutil.which("dot") is None:
        pytest.skip("Graphviz is not installed")
    model = gc.loads("x=Input(3)\nh=Plus(x, d)\nd=PastValue(3, h)\n").model
    prepare(model)
    assert "loop forward in time" in svg(network_picture(model.graph))


def test_without_graphviz_a_drawing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(gc.GraphcError, match="requires the program `dot`"):
        svg("digraph {}")


def test_a_node_read_twice_by_one_reader_has_one_edge() -> None:
    lines = drawn("x=Input(3)\ny=Plus(x, x)\n")
    assert lines.count("  n0 -> n1;") == 1


def test_names_cannot_leave_their_label() -> None:
    net = gc.Network()
    net.input('a"];\nevil\\', 2)
    (line,) = [s for s in network_picture(net.model.graph).splitlines() if "label" in s]
    assert line == '  n0 [label="a\\"];?evil\\\\\\nInput 2x*"];'


def test_images_are_shown_with_their_sizes() -> None:
    lines = drawn("x=ImageInput(9, 8, 2)\ny=MaxPooling(x, 3, 2, 3, 2)\nr=RowSlice(0, 1, y)\n")
    assert '  n0 [label="x\\nInput 144x*\\nimage 9x8x2"];' in lines
    assert '  n1 [label="y\\nMaxPooling 24x*\\nimage 3x4x2"];' in lines
    assert '  n2 [label="r\\nRowSlice 1x*"];' in lines
