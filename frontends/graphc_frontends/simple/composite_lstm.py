"""The toolkit's LSTM node, written out in elementary nodes (book 2.6.2.1).

The toolkit has a layer as one node with four matrices: for the input gate, the forget gate, the
output gate and the cell's input. Their columns are [bias | input | last output | peephole], without
the last one for the cell. Here the matrices are the same, and elementary nodes called after the
layer, such as `LSTM0.forget`, read their columns. With W[…] for the columns of a gate's matrix

    i = σ(Wx·x + Wh·h' + p∘c' + b)      f alike      o = σ(Wx·x + Wh·h' + p∘c + b)
    c = f∘c' + i∘tanh(Wx·x + Wh·h' + b)              h = o∘tanh(c)

where ' is one step before: 0 for h and a default for c before the first step. The peephole of the
output gate reads the new cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder, Node

ROLES = ("input", "forget", "output", "cell")
"""What the matrices are of, in their order."""


def composite_lstm(
    builder: GraphBuilder,
    name: str,
    x: Node,
    matrices: Sequence[Node],
    sizes: tuple[int, int],
    state: float,
) -> Node:
    """The nodes of a layer; the last one, which is called `name`, is its output.

    matrices  one for each of `ROLES`
    sizes     rows of `x` and rows of the layer
    state     the cell before the first step
    """
    past_h = _past(builder, f"{name}.pastH", sizes[1], 0.0)
    past_c = _past(builder, f"{name}.pastC", sizes[1], state)
    in_gate, forget_gate, out_gate, cell_input = (
        _Matrix(builder, f"{name}.{role}", matrix, *sizes)
        for role, matrix in zip(ROLES, matrices, strict=True)
    )
    total = cell_input.applied(x, past_h)
    candidate = builder.apply("tanh", [total], name=cell_input.name)
    let_in = in_gate.gate(x, past_h, past_c)
    new = builder.apply("element_times", [let_in, candidate], name=f"{name}.new")
    keep = forget_gate.gate(x, past_h, past_c)
    kept = builder.apply("element_times", [keep, past_c], name=f"{name}.kept")
    cell = builder.apply("plus", [kept, new], name=f"{name}.c")
    squashed = builder.apply("tanh", [cell], name=f"{name}.tanhC")
    let_out = out_gate.gate(x, past_h, cell)
    output = builder.apply("element_times", [let_out, squashed], name=name)
    builder.set_operand(past_h, 0, output)
    builder.set_operand(past_c, 0, cell)
    return output


def _past(builder: GraphBuilder, name: str, rows: int, default: float) -> Node:
    settings = {"rows": rows, "default_hidden_activity": default}
    return builder.apply("past_value", [None], settings, name=name)


@dataclass(frozen=True)
class _Matrix:
    """One of the matrices; the nodes that read it are called `name.…`, what it gives `name`."""

    builder: GraphBuilder
    name: str
    matrix: Node
    inputs: int
    size: int

    def gate(self, x: Node, past: Node, state: Node) -> Node:
        """σ of what is applied and of the peephole's view of the cell."""
        applied = self.applied(x, past)
        peephole = self._column(1 + self.inputs + self.size, "peephole")
        seen = self.builder.apply("diag_times", [peephole, state], name=f"{self.name}.seen")
        total = self.builder.apply("plus", [applied, seen], name=f"{self.name}.all")
        return self.builder.apply("sigmoid", [total], name=self.name)

    def applied(self, x: Node, past: Node) -> Node:
        """Wx·x + Wh·past + b."""
        apply, name = self.builder.apply, self.name
        turned = apply("transpose", [self.matrix], name=f"{name}.W'")
        wx = self._rows(turned, 1, self.inputs, "Wx")
        wh = self._rows(turned, 1 + self.inputs, self.size, "Wh")
        of_x = apply("transpose_times", [wx, x], name=f"{name}.Wx*x")
        of_past = apply("transpose_times", [wh, past], name=f"{name}.Wh*h")
        both = apply("plus", [of_x, of_past], name=f"{name}.Wx*x+Wh*h")
        return apply("plus", [both, self._column(0, "b")], name=f"{name}.sum")

    def _rows(self, turned: Node, start: int, count: int, name: str) -> Node:
        """Some columns of the matrix, as rows."""
        settings = {"start_row": start, "num_rows": count}
        return self.builder.apply("row_slice", [turned], settings, name=f"{self.name}.{name}")

    def _column(self, index: int, name: str) -> Node:
        turned = self.builder.find(f"{self.name}.W'")
        assert turned is not None
        row = self._rows(turned, index, 1, f"{name}'")
        return self.builder.apply("transpose", [row], name=f"{self.name}.{name}")
