"""MEL in tests: networks to edit, and what became of them, written down plainly."""

from __future__ import annotations

import textwrap

import graphc as gc
from graphc.builder import GraphBuilder
from graphc.ops.nodes.layout import display_name
from graphc.support.diagnostics import Diagnostic
from graphc_frontends.network import Network

MACROS = """
Layer(x, rows, cols) { W = Parameter(rows, cols)  B = Parameter(rows)  T = Times(W, x)
                       P = Plus(T, B)  S = Sigmoid(P) }
"""

TEXT = """
features = Input(4, tag=feature)
labels = Input(3, tag=label)
L1 = Layer(features, 5, 4)
CE = Layer(L1, 3, 5)
criterion = SquareError(labels, CE, tag=criteria)
OutputNodes = (CE)
"""


def network(text: str = TEXT) -> Network:
    """A small network, its values drawn."""
    net = gc.loads(text, macros=MACROS)
    assert isinstance(net, Network)
    assert len(net.parameters) > 0
    return net


def shape(net: GraphBuilder) -> dict[str, str]:
    """Each node as `Times(L1.W, features)`, its tags after a `#` each, by name."""
    found: dict[str, str] = {}
    for node in net.nodes:
        inputs = ", ".join(
            "?" if (node.operation, i) in net.model.unset else v.name or ""
            for i, v in enumerate(node.operation.operands)
        )
        tags = "".join(f" #{tag}" for tag in node.tags)
        found[node.name] = f"{display_name(node.operation.opdef)}({inputs}){tags}"
    return found


def changes(before: dict[str, str], after: dict[str, str]) -> dict[str, str | None]:
    """What is new or other in `after`; None for what is gone."""
    changed: dict[str, str | None] = {n: t for n, t in after.items() if before.get(n) != t}
    return changed | {name: None for name in before if name not in after}


def edited(text: str, net: Network | None = None) -> dict[str, str | None]:
    """What the commands of a text change in the network `m`, the default model."""
    net = net or network()
    before = shape(net)
    gc.edits(textwrap.dedent(text), macros=MACROS, models={"m": net})
    return changes(before, shape(net))


def problems(text: str, **models: GraphBuilder) -> list[str]:
    """The errors of a text as `line:column slug: message`."""
    try:
        gc.edits(textwrap.dedent(text), macros=MACROS, models=models)
    except gc.GraphcError as error:
        return [_line(d) for d in error.diagnostics]
    return []


def _line(diagnostic: Diagnostic) -> str:
    span = diagnostic.span
    place = f"{span.line}:{span.column}" if span is not None else "0:0"
    return f"{place} {diagnostic.slug}: {diagnostic.message}"
