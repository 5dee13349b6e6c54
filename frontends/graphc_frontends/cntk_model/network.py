"""From the records of the toolkit's model file to a network with its values.

Nodes stand in the file in the order of their names; here each stands behind what it reads, as far
as cycles let it. A constant is a parameter that is not learned, as in the file.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from graphc.support.diagnostics import GraphcError, fail
from graphc.support.graphs import strongly_connected_components
from graphc_frontends.cntk_model.layouts import LSTM
from graphc_frontends.cntk_model.reading import ModelRecord, NodeRecord
from graphc_frontends.simple.composite_lstm import composite_lstm

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder

_NEGATIVES = "cos_distance_with_negative_samples"


def build(builder: GraphBuilder, model: ModelRecord, file: str) -> None:
    """Make the nodes, connect them, give them their tags and values."""
    records = {record.name.lower(): record for record in model.nodes}
    if len(records) != len(model.nodes):
        raise _bad(file, "two nodes have the same name")
    inputs = {name.lower(): sources for name, sources in model.inputs.items()}
    for name, source in ((n, s) for n, sources in inputs.items() for s in sources):
        if name not in records or source.lower() not in records:
            raise _bad(file, f"`{name}` reads `{source}`, one of which is no node")
    for record in _ordered(records, inputs):
        sources = inputs.get(record.name.lower(), ())
        if record.layout.op == LSTM:
            _add_lstm(builder, record, sources, records, file)
            continue
        settings = _settings(record, sources, records, file)
        count = 2 if record.layout.op == _NEGATIVES else len(sources)
        builder.apply(record.layout.op or "", [None] * count, settings, name=record.name)
    builder.sink.raise_if_errors()
    for record in model.nodes:
        if record.layout.op != LSTM:
            _connect(builder, record, inputs.get(record.name.lower(), ()))
    for tag, name in model.roots:
        node = builder.find(name)
        if node is None:
            raise _bad(file, f"`{name}` is to be a {tag} node, and is no node")
        builder.add_tag(node, tag)
    builder.model.adopt(_values(model, file))
    builder.sink.raise_if_errors()


def _add_lstm(
    builder: GraphBuilder,
    record: NodeRecord,
    sources: tuple[str, ...],
    records: dict[str, NodeRecord],
    file: str,
) -> None:
    """The toolkit's LSTM node: x, then the matrices of the gates and of the cell."""
    if len(sources) != 5:
        raise _bad(file, f"`{record.name}` requires 5 inputs, got {len(sources)}")
    x, *matrices = (builder.find(source) for source in sources)
    values = [records[source.lower()].value for source in sources[1:]]
    if x is None or any(value is None for value in values):
        message = "an LSTM can be read whose input is in no cycle with it and whose matrices are"
        raise fail("not-supported", f"{file}: {message} parameters, `{record.name}` is another")
    shapes = [value.shape for value in values if value is not None]
    rows = shapes[0][0]
    inputs = shapes[0][1] - rows - 2
    wanted = [(rows, inputs + rows + 2)] * 3 + [(rows, inputs + rows + 1)]
    if inputs < 1 or shapes != wanted:
        message = f"`{record.name}` requires matrices of sizes {wanted}, got {shapes}"
        raise _bad(file, message)
    state = record.settings["state"]
    assert isinstance(state, float)
    found = [matrix for matrix in matrices if matrix is not None]
    composite_lstm(builder, record.name, x, found, (inputs, rows), state)


def _ordered(
    records: dict[str, NodeRecord], inputs: dict[str, tuple[str, ...]]
) -> list[NodeRecord]:
    def sources(name: str) -> list[str]:
        return [source.lower() for source in inputs.get(name, ())]

    parts = strongly_connected_components(records, sources)
    return [records[name] for part in parts for name in part]


def _connect(builder: GraphBuilder, record: NodeRecord, sources: tuple[str, ...]) -> None:
    node = builder.find(record.name)
    assert node is not None
    for index in range(len(node.operation.operands)):
        source = builder.find(sources[index])
        assert source is not None
        builder.set_operand(node, index, source)


def _settings(
    record: NodeRecord, sources: tuple[str, ...], records: dict[str, NodeRecord], file: str
) -> dict[str, object]:
    """The settings of the node that a record becomes."""
    settings = dict(record.settings)
    if record.layout.op in ("input", "sparse_input"):
        return _input_settings(settings)
    if record.layout.op == _NEGATIVES:
        if len(sources) != 4:
            raise _bad(file, f"`{record.name}` requires 4 inputs, got {len(sources)}")
        numbers = [_whole_number(records[source.lower()], file) for source in sources[2:]]
        return dict(zip(("shift", "negatives"), numbers, strict=True))
    return settings


def _input_settings(settings: dict[str, object]) -> dict[str, object]:
    """An image, or plain rows: for these the toolkit writes 1, rows, 1 or sizes that it has not."""
    rows, *sizes = (settings[name] for name in ("rows", "width", "height", "channels"))
    width, height, channels = (size if isinstance(size, int) else 0 for size in sizes)
    if width * height * channels != rows or (width, height, channels) == (1, rows, 1):
        return {"rows": rows}
    return {"width": width, "height": height, "channels": channels}


def _whole_number(record: NodeRecord, file: str) -> int:
    """The value of a constant that counts something."""
    value = record.value
    if value is None or value.size != 1 or not float(value[0, 0]).is_integer():
        raise _bad(file, f"`{record.name}` requires a whole number as its value")
    return int(value[0, 0])


def _values(model: ModelRecord, file: str) -> dict[str, np.ndarray]:
    """The values of parameters and of computed statistics, by the node's name."""
    values: dict[str, np.ndarray] = {}
    for record in model.nodes:
        value = record.value
        if value is None or not record.is_computed:
            continue
        size = tuple(record.settings.get(name, value.shape[i]) for i, name in _SIZES)
        if value.shape != size or not value.size:
            found = "x".join(map(str, value.shape))
            wanted = "x".join(map(str, size))
            raise _bad(file, f"`{record.name}` requires a value of {wanted} numbers, got {found}")
        values[record.name] = value
    return values


_SIZES = ((0, "rows"), (1, "cols"))


def _bad(file: str, message: str) -> GraphcError:
    return fail("bad-model-file", f"{file}: {message}")
