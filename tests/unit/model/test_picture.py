"""Drawings of networks."""

from __future__ import annotations

import shutil
from xml.etree import ElementTree

import pytest

import graphc as gc
from graphc.driver.prepare import prepare
from graphc.model.drawing import Drawing
from graphc.model.picture import network_drawing, network_picture
from graphc.model.svg import svg


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
    assert "loop forward in time" in svg(network_drawing(model.graph))


SVG = "{http://www.w3.org/2000/svg}"


def plain(text: str, monkeypatch: pytest.MonkeyPatch) -> ElementTree.Element:
    """The drawing of a network where Graphviz is not installed."""
    monkeypatch.setenv("PATH", "")
    model = gc.loads(text).model
    prepare(model)
    return ElementTree.fromstring(svg(network_drawing(model.graph)))


def boxes(drawing: ElementTree.Element) -> dict[str, tuple[float, float, float, float]]:
    """Left, right, top and bottom of the box with this first line."""
    found: dict[str, tuple[float, float, float, float]] = {}
    for group in drawing.iter(f"{SVG}g"):
        rect = group.find(f"{SVG}rect")
        assert rect is not None
        x, y, width, height = (float(rect.get(k) or "") for k in ("x", "y", "width", "height"))
        found[group.findtext(f"{SVG}text") or ""] = (x, x + width, y, y + height)
    return found


CHAIN = "x=Input(4, tag=feature)\nW=Parameter(3, 0)\nt=Times(W, x)\nz=Tanh(t, tag=output)\n"


def test_without_graphviz_every_box_stands_above_what_it_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = plain(CHAIN, monkeypatch)
    found = boxes(drawing)
    assert set(found) == {"x", "W", "t", "z"}
    top, bottom = 2, 3
    assert found["z"][bottom] < found["t"][top]
    assert found["t"][bottom] < min(found["x"][top], found["W"][top])
    arrows = [path for path in drawing.findall(f"{SVG}path") if path.get("marker-end")]
    assert len(arrows) == 3


def test_without_graphviz_no_boxes_overlap_and_all_are_in_the_picture(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = CHAIN + "".join(f"a{i}=Plus(t, z)\n" for i in range(7)) + "s=Plus(a0, a6)\n"
    drawing = plain(text, monkeypatch)
    found = list(boxes(drawing).values())
    width, height = float(drawing.get("width") or ""), float(drawing.get("height") or "")
    for i, (left, right, top, bottom) in enumerate(found):
        assert left >= 0
        assert top >= 0
        assert right <= width
        assert bottom <= height
        for other in found[:i]:
            beside = right < other[0] or left > other[1]
            assert beside or bottom < other[2] or top > other[3]


def test_without_graphviz_a_loop_is_dashed_and_says_its_direction(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawing = plain("x=Input(3)\nh=Plus(x, d)\nd=PastValue(3, h)\n", monkeypatch)
    titles = {g.findtext(f"{SVG}text"): g.findtext(f"{SVG}title") for g in drawing.iter(f"{SVG}g")}
    loop = "loop forward in time"
    assert titles == {"x": None, "h": loop, "d": loop}


@pytest.mark.parametrize("text", ["x=Input(3)\n", "x=Input(3)\ny=Plus(x, y)\n"])
def test_without_graphviz_one_node_and_wrong_cycles_are_drawn(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    assert "Input" in svg(network_drawing(gc.loads(text).model.graph))
    assert svg(Drawing([], [])).endswith("</svg>\n")


def test_without_graphviz_names_cannot_leave_their_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    net = gc.Network()
    net.input("</text><a>\x07&", 2)
    drawing = ElementTree.fromstring(svg(network_drawing(net.model.graph)))
    assert [t.text for t in drawing.iter(f"{SVG}text")] == ["</text><a>?&", "Input 2x*"]


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
