"""A drawing as SVG: by Graphviz, or where that is not installed by a layout of networkx.

Without Graphviz every box stands in the layer above all that it reads, and the multipartite layout
places the layers. It is less careful about crossings, and dashed outlines stand for frames.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from html import escape
from statistics import fmean
from typing import TYPE_CHECKING, NamedTuple

from graphc.model.drawing import Arrow, Drawing, Shape, dot_text
from graphc.support.diagnostics import fail

if TYPE_CHECKING:
    import networkx as nx

CHARACTER = 7.5  # width of a letter of the 12 px font, generously
LINE, PADDING = 16.0, 12.0
GAP, RISE = 24.0, 56.0  # between boxes of a layer, and between layers
SWEEPS = 4  # up and down over the layers, to bring boxes near to what they read


class Place(NamedTuple):
    """The middle of a box, and its size."""

    x: float
    y: float
    width: float
    height: float


def svg(drawing: Drawing) -> str:
    """The drawing as SVG; GraphcError `toolchain` where Graphviz is installed but fails."""
    program = shutil.which("dot")
    if program is None:
        return plain_svg(drawing)
    made = subprocess.run(
        [program, "-Tsvg"],
        input=dot_text(drawing),
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    if made.returncode:
        raise fail("toolchain", f"`dot` failed with {made.returncode}: {made.stderr.strip()}")
    return made.stdout


def plain_svg(drawing: Drawing) -> str:
    """The drawing, with signals flowing upwards."""
    places = _places(drawing)
    width = max((p.x + p.width / 2 for p in places), default=0.0) + GAP
    height = max((p.y + p.height / 2 for p in places), default=0.0) + GAP
    labels = {i: frame.label for frame in drawing.frames for i in frame.members}
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        'font-family="Helvetica,sans-serif" font-size="12">',
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z"/></marker></defs>',
    ]
    lines += [_curve(arrow, places) for arrow in drawing.arrows]
    for i, shape in enumerate(drawing.shapes):
        lines += _box(shape, places[i], labels.get(i))
    return "\n".join([*lines, "</svg>", ""])


def _box(shape: Shape, place: Place, label: str | None) -> list[str]:
    x, y = place.x - place.width / 2, place.y - place.height / 2
    dashes = ' stroke-dasharray="5 3"' if label else ""
    fill = _colour(shape.fill or "white")
    outline, pen = (shape.outline, 3) if shape.outline else ("black", 1)
    first = place.y - LINE * (len(shape.lines) - 1) / 2 + 4
    texts = [
        f'<text x="{place.x:.1f}" y="{first + LINE * i:.1f}" text-anchor="middle">'
        f"{escape(''.join(c if c.isprintable() else '?' for c in text))}</text>"
        for i, text in enumerate(shape.lines)
    ]
    return [
        f"<g>{f'<title>{escape(label)}</title>' if label else ''}",
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{place.width:.1f}" height="{place.height:.1f}" '
        f'rx="6" fill="{fill}" stroke="{outline}" stroke-width="{pen}"{dashes}/>',
        *texts,
        "</g>",
    ]


def _curve(arrow: Arrow, places: Sequence[Place]) -> str:
    """From the top of the source to the bottom of the target."""
    source, target = places[arrow.source], places[arrow.target]
    x1, y1 = source.x, source.y - source.height / 2
    x2, y2 = target.x, target.y + target.height / 2
    bend = RISE / 2
    dots = ' stroke-dasharray="2 3"' if arrow.dotted else ""
    colour, pen = (arrow.colour, 2) if arrow.colour else ("black", 1)
    return (
        f'<path d="M{x1:.1f} {y1:.1f}C{x1:.1f} {y1 - bend:.1f} {x2:.1f} {y2 + bend:.1f} '
        f'{x2:.1f} {y2:.1f}" fill="none" stroke="{colour}" stroke-width="{pen}"{dots} '
        'marker-end="url(#tip)"/>'
    )


def _colour(name: str) -> str:
    """Of Graphviz's names the one that SVG does not have."""
    return "#e5e5e5" if name == "gray90" else name


def _places(drawing: Drawing) -> list[Place]:
    import networkx as nx  # 0.2 s that only drawings cost (docs/decisions/002)

    sizes = [
        (CHARACTER * max(map(len, s.lines), default=0) + PADDING, LINE * len(s.lines) + PADDING)
        for s in drawing.shapes
    ]
    layers = _layers(_reads(drawing))
    widest = max((len(layer) for layer in layers), default=0)
    placed: nx.DiGraph[int] = nx.DiGraph()
    for number, layer in enumerate(layers):
        placed.add_nodes_from(layer, layer=number)
    # This scale leaves neighbours at the distance 1.
    scale = max(len(layers) - 1, widest - 1) / 2
    spots = nx.multipartite_layout(placed, subset_key="layer", align="horizontal", scale=scale)
    columns = [float(spots[i][0]) for i in range(len(sizes))]
    step = max((width for width, _ in sizes), default=0.0) + GAP
    left = min(columns, default=0.0)
    middle = _heights([max(sizes[i][1] for i in layer) for layer in layers])
    level = {i: number for number, layer in enumerate(layers) for i in layer}
    return [
        Place((columns[i] - left + 0.5) * step, middle[level[i]], *size)
        for i, size in enumerate(sizes)
    ]


def _heights(tallest: Sequence[float]) -> list[float]:
    """The middle of each layer: the last one is on top."""
    middle: list[float] = []
    below = GAP
    for height in reversed(tallest):
        middle.append(below + height / 2)
        below += height + RISE
    return middle[::-1]


def _reads(drawing: Drawing) -> nx.DiGraph[int]:
    """What counts for the layout."""
    import networkx as nx

    graph: nx.DiGraph[int] = nx.DiGraph()
    graph.add_nodes_from(range(len(drawing.shapes)))
    graph.add_edges_from((a.source, a.target) for a in drawing.arrows if not a.backward)
    return graph


def _layers(graph: nx.DiGraph[int]) -> list[list[int]]:
    """The shapes of each layer, neighbours near each other."""
    import networkx as nx

    # A network that is not right yet may have a cycle without a delay: that is one layer.
    whole = nx.condensation(graph)
    layers = [
        sorted(i for part in generation for i in whole.nodes[part]["members"])
        for generation in nx.topological_generations(whole)
    ]
    spots: dict[int, float] = {}
    for layer in layers:
        _spread(layer, spots)
    for sweep in range(SWEEPS):
        near = graph.pred if sweep % 2 == 0 else graph.succ
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            middle = {i: fmean([spots[j] for j in near[i]] or [spots[i]]) for i in layer}
            layer.sort(key=middle.__getitem__)
            _spread(layer, spots)
    return layers


def _spread(layer: Sequence[int], spots: dict[int, float]) -> None:
    """Positions at distance 1, around 0."""
    for place, i in enumerate(layer):
        spots[i] = place - (len(layer) - 1) / 2
