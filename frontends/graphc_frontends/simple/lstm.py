"""LSTM and CLASSLSTM: layers of long short-term memory with peepholes (book 2.6.2.1, 3.2.1).

In LSTM a layer is the toolkit's LSTM node (`composite_lstm.py`), in CLASSLSTM its parts are
parameters of their own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphc_frontends.simple.composite_lstm import composite_lstm
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
            number = layer if layer > has_table else 0
            h, starts = _matrix_layer(parts, number, x, (rows, size))
            biases |= starts
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


def _matrix_layer(
    parts: Parts, number: int, x: Node, sizes: tuple[int, int]
) -> tuple[Node, dict[str, float]]:
    """A layer as the toolkit's LSTM node, and what the first columns of its matrices start with."""
    options = parts.options
    starts = {
        f"WINPUTGATE{number}": options.input_gate_init_val,
        f"WFORGETGATE{number}": options.forget_gate_init_val,
        f"WOUTPUTGATE{number}": options.output_gate_init_val,
        f"WMEMORYCELLWEIGHT{number}": 0.0,
    }
    inputs, size = sizes
    widths = [inputs + size + 2] * 3 + [inputs + size + 1]
    matrices = [parts.weights(name, size, w) for name, w in zip(starts, widths, strict=True)]
    state = options.default_hidden_activity
    output = composite_lstm(parts.builder, f"LSTM{number}", x, matrices, sizes, state)
    return output, starts


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
