"""Boxes with text and arrows between them: what a picture of a graph is made of.

`dot_text` writes it for Graphviz; `svg.py` draws it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Shape:
    """A box: its lines of text, its fill and the colour of its outline, if not the usual."""

    lines: tuple[str, ...]
    fill: str | None = None
    outline: str | None = None


@dataclass(frozen=True, slots=True)
class Arrow:
    """From one shape to another, by their numbers.

    backward  against the flow: it does not count for the layout
    """

    source: int
    target: int
    dotted: bool = False
    backward: bool = False
    colour: str | None = None


@dataclass(frozen=True, slots=True)
class Frame:
    """A dashed line round some shapes, with a label."""

    label: str
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Drawing:
    """`leaves` are the shapes that stand at the bottom, where the signals come from."""

    shapes: Sequence[Shape]
    arrows: Sequence[Arrow]
    frames: Sequence[Frame] = field(default=())
    leaves: Sequence[int] = field(default=())


def dot_text(drawing: Drawing) -> str:
    """The text of a Graphviz digraph."""
    lines = [
        "strict digraph network {",
        "  rankdir=BT;",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="Helvetica"];',
        '  edge [fontname="Helvetica", fontsize=10];',
    ]
    lines += [f"  n{i} [{_attributes(shape)}];" for i, shape in enumerate(drawing.shapes)]
    for place, frame in enumerate(drawing.frames):
        lines += _cluster(place, frame)
    for arrow in drawing.arrows:
        styles = ["style=dotted"] if arrow.dotted else []
        styles += ["constraint=false"] if arrow.backward else []
        styles += [f"color={arrow.colour}", "penwidth=2"] if arrow.colour else []
        style = f" [{', '.join(styles)}]" if styles else ""
        lines.append(f"  n{arrow.source} -> n{arrow.target}{style};")
    if drawing.leaves:
        lines.append(f"  {{ rank=source; {'; '.join(f'n{i}' for i in drawing.leaves)}; }}")
    return "\n".join([*lines, "}", ""])


def _attributes(shape: Shape) -> str:
    label = "\\n".join(map(_escaped, shape.lines))
    fill = f", fillcolor={shape.fill}" if shape.fill else ""
    outline = f", color={shape.outline}, penwidth=3" if shape.outline else ""
    return f'label="{label}"{fill}{outline}'


def _cluster(place: int, frame: Frame) -> list[str]:
    return [
        f"  subgraph cluster_{place} {{",
        f'    label="{_escaped(frame.label)}"; style="rounded,dashed"; color=gray50; '
        "fontcolor=gray30;",
        '    fontname="Helvetica"; fontsize=11; labeljust=l;',
        f"    {'; '.join(f'n{i}' for i in frame.members)};",
        "  }",
    ]


def _escaped(text: str) -> str:
    """Text inside a quoted string of Graphviz: no quote, backslash or line end gets through."""
    plain = "".join(c if c.isprintable() else "?" for c in text)
    return plain.replace("\\", "\\\\").replace('"', '\\"')
