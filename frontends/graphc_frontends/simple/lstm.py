"""LSTM and CLASSLSTM: layers of long short-term memory with peepholes (book 2.6.2.1, 3.2.1).

The toolkit has an LSTM layer as one node with four matrices, each of bias, weights of the input,
weights of the layer's last output and, for gates, a peephole from the cell in its columns. Here the
matrices are the same and elementary nodes, called `LSTM0.…`, read their columns. In CLASSLSTM the
parts are parameters of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from graphc_frontends.simple.parts import Parts

if TYPE_CHECKING:
    from graphc.builder import Node


def lstm(parts: Parts) -> None:
    """LSTM layers (the first one always, others where they are recurrent), a product, criteria."""
    options = parts.options
    sizes, last = options.layer_sizes, options.hidden
    has_table = int(options.lookup_table_order > 0)
    x = parts.looked_up(parts.features(sparse=options.sparse_input))
    outputs = [x]
    biases: dict[str, float] = {}
    rows = _input_rows(parts)
    for layer in range(has_table, last):
        size = sizes[layer + 1]
        if layer == has_table or layer + 1 in options.recurrent_layer:
            made = _matrix_layer(parts, layer if layer > has_table else 0, x, rows, size)
            biases |= made.biases
            h = made.output
        else:
            u = parts.weights(f"U{layer}", size, rows)
            b = parts.bias(f"B{layer}", size)
            h = parts.nonlinear(parts.plus(parts.times(u, x), b), layer)
        x = parts.dropped(h)
        outputs.append(x)
        rows = size
    x = _direct_connections(parts, outputs, x)
    w = parts.weights(f"W{last}", sizes[-1], sizes[-2])
    labels = parts.labels(sizes[-1])
    parts.criteria(labels, parts.times(w, x))
    output = parts.times(w, x, "outputs")
    parts.output_or_likelihood(output, labels, None)
    parts.node("softmax", output, name="PosteriorProb")
    _set_biases(parts, biases)


def class_lstm(parts: Parts) -> None:
    """LSTM layers of elementary nodes over a table of words, and criteria over classes of words."""
    sizes, last = parts.options.layer_sizes, parts.options.hidden
    x = parts.looked_up(parts.features(sparse=True))
    outputs = [x]
    rows = _input_rows(parts)
    for layer in range(1, last):
        h = _elementary_layer(parts, layer if layer > 1 else 0, x, rows, sizes[layer + 1])
        x = parts.dropped(h)
        outputs.append(x)
        rows = sizes[layer + 1]
    x = _direct_connections(parts, outputs, x)
    # Words are columns: those of a class lie side by side.
    w = parts.weights(f"W{last}", sizes[-2], sizes[-1])
    parts.class_criteria(x, w, sizes[-2])
    output = parts.node("times", parts.node("transpose", w), x, name="outputs", tags=["output"])
    parts.node("softmax", output, name="PosteriorProb")


def _input_rows(parts: Parts) -> int:
    """Rows of what the first layer reads: features, or the vectors of so many words."""
    options = parts.options
    order = options.lookup_table_order
    return options.layer_sizes[1] * order if order else options.layer_sizes[0]


def _direct_connections(parts: Parts, outputs: list[Node], to: Node) -> Node:
    """`to` with what layers add to it directly, scaled by a number that starts at 0.01."""
    options = parts.options
    sizes, has_table = options.layer_sizes, int(options.lookup_table_order > 0)
    for index, layer in enumerate(options.direct_connect):
        place = max(layer - has_table, 0)  # with a table, layers 0 and 1 are what it gives
        rows = _input_rows(parts) if place == 0 else sizes[layer]
        d = parts.weights(f"D{index}", sizes[-2], rows)
        h = parts.nonlinear(parts.times(d, outputs[place]), min(index, options.hidden - 1))
        scalar = parts.bias(f"SV{index}", 1, 0.01)
        to = parts.plus(to, parts.node("scale", scalar, h, name=f"S{index}"))
    return to


# --- a layer of four matrices -------------------------------------------------------------------


@dataclass(frozen=True)
class _MatrixLayer:
    """A layer's output, and what the first columns of its matrices start with."""

    output: Node
    biases: dict[str, float]


@dataclass(frozen=True)
class _Columns:
    """The parts of a matrix [bias | input | last output | peephole], as nodes."""

    parts: Parts
    prefix: str
    transposed: Node
    inputs: int
    size: int

    def bias(self) -> Node:
        return self._column(0, "b")

    def peephole(self) -> Node:
        return self._column(1 + self.inputs + self.size, "peephole")

    def applied(self, x: Node, past: Node) -> Node:
        """Wx·x + Wh·past + b."""
        wx = self._rows(1, self.inputs, "Wx")
        wh = self._rows(1 + self.inputs, self.size, "Wh")
        node = self.parts.node
        of_x = node("transpose_times", wx, x, name=f"{self.prefix}.Wx*x")
        of_past = node("transpose_times", wh, past, name=f"{self.prefix}.Wh*h")
        both = node("plus", of_x, of_past, name=f"{self.prefix}.Wx*x+Wh*h")
        return node("plus", both, self.bias(), name=f"{self.prefix}.sum")

    def _rows(self, start: int, count: int, name: str) -> Node:
        return self.parts.node(
            "row_slice", self.transposed, name=f"{self.prefix}.{name}", start_row=start,
            num_rows=count,
        )  # fmt: skip

    def _column(self, index: int, name: str) -> Node:
        row = self._rows(index, 1, f"{name}'")
        return self.parts.node("transpose", row, name=f"{self.prefix}.{name}")


def _matrix_layer(parts: Parts, number: int, x: Node, inputs: int, size: int) -> _MatrixLayer:
    """The toolkit's LSTM node. Its cell is `default_hidden_activity` before the first step, its
    output 0; the peephole of the output gate reads the cell as it is after the step."""
    options = parts.options
    starts = {
        f"WINPUTGATE{number}": options.input_gate_init_val,
        f"WFORGETGATE{number}": options.forget_gate_init_val,
        f"WOUTPUTGATE{number}": options.output_gate_init_val,
        f"WMEMORYCELLWEIGHT{number}": 0.0,
    }
    prefix = f"LSTM{number}"
    widths = [inputs + size + 2] * 3 + [inputs + size + 1]
    matrices = [parts.weights(name, size, w) for name, w in zip(starts, widths, strict=True)]
    columns: list[_Columns] = []
    for matrix, role in zip(matrices, ("input", "forget", "output", "cell"), strict=True):
        name = f"{prefix}.{role}"
        turned = parts.node("transpose", matrix, name=f"{name}.W'")
        columns.append(_Columns(parts, name, turned, inputs, size))
    in_gate, forget_gate, out_gate, cell_input = columns
    past_h = parts.past(size, default=0.0, name=f"{prefix}.pastH")
    past_c = parts.past(size, name=f"{prefix}.pastC")

    def gate(columns: _Columns, state: Node) -> Node:
        seen = parts.node("diag_times", columns.peephole(), state, name=f"{columns.prefix}.seen")
        total = parts.plus(columns.applied(x, past_h), seen, f"{columns.prefix}.all")
        return parts.node("sigmoid", total, name=columns.prefix)

    candidate = parts.node("tanh", cell_input.applied(x, past_h), name=cell_input.prefix)
    let_in = parts.node("element_times", gate(in_gate, past_c), candidate, name=f"{prefix}.new")
    kept = parts.node("element_times", gate(forget_gate, past_c), past_c, name=f"{prefix}.kept")
    cell = parts.plus(kept, let_in, f"{prefix}.c")
    squashed = parts.node("tanh", cell, name=f"{prefix}.tanhC")
    output = parts.node("element_times", gate(out_gate, cell), squashed, name=prefix)
    parts.bind([past_h], output)
    parts.bind([past_c], cell)
    return _MatrixLayer(output, starts)


def _set_biases(parts: Parts, biases: dict[str, float]) -> None:
    """Let the first column of these matrices, which are drawn, start with one value."""
    parts.builder.sink.raise_if_errors()
    values = parts.builder.parameters
    for name, value in biases.items():
        values[name][:, 0] = value


# --- a layer of parameters of their own ---------------------------------------------------------


def _elementary_layer(parts: Parts, number: int, x: Node, inputs: int, size: int) -> Node:
    """A layer as the toolkit writes it out in nodes; gates have the first layer's nonlinearity."""
    options = parts.options
    wx = {g: parts.weights(f"WX{g.upper()}{number}", size, inputs) for g in "oifc"}
    starts = {
        "o": options.output_gate_init_val,
        "c": 0.0,
        "i": options.input_gate_init_val,
        "f": options.forget_gate_init_val,
    }
    b = {g: parts.bias(f"b{g}{number}", size, start) for g, start in starts.items()}
    wh: dict[str, Node] = {}
    wc: dict[str, Node] = {}
    for g in "ifo":
        wh[g] = parts.weights(f"WH{g.upper()}{number}", size, size)
        wc[g] = parts.weights(f"WC{g.upper()}{number}", size, 1)
    wh["c"] = parts.weights(f"WHC{number}", size, size)
    past_h = {g: parts.past(size) for g in "ifoc"}
    past_c = {g: parts.past(size) for g in "ifc"}

    def gate(g: str, state: Node) -> Node:
        from_input = parts.plus(parts.times(wx[g], x), b[g])
        from_past = parts.plus(from_input, parts.times(wh[g], past_h[g]))
        return parts.nonlinear(parts.plus(from_past, parts.node("diag_times", wc[g], state)), 0)

    recurrent = parts.plus(parts.times(wh["c"], past_h["c"]), b["c"])
    candidate = parts.node("tanh", parts.plus(parts.times(wx["c"], x), recurrent))
    if not options.const_input_gate_value:
        candidate = parts.node("element_times", gate("i", past_c["i"]), candidate)
    kept = past_c["c"]
    if not options.const_forget_gate_value:
        kept = parts.node("element_times", gate("f", past_c["f"]), kept)
    cell = parts.plus(kept, candidate)
    output = parts.node("tanh", cell)
    if not options.const_output_gate_value:
        output = parts.node("element_times", gate("o", cell), output)
    parts.bind([*past_h.values()], output)
    parts.bind([*past_c.values()], cell)
    return output
