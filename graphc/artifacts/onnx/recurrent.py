"""A cell as one node of ONNX: LSTM, GRU or RNN, with the weights of its gates joined."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from graphc.artifacts.onnx.affine import Part
from graphc.artifacts.onnx.cells import Cell, Start, Vector
from graphc.artifacts.onnx.graph import Graph
from graphc.ir.core import Operation
from graphc.ir.types import Dim, DType
from graphc.ops.loop import LoopParts, loop_parts

PEEPHOLES = (0, 1, 2)
"""The gates of an LSTM that may see its cell: input, output and forget."""


def write_cell(g: Graph, op: Operation, cell: Cell) -> None:
    """The node, and its outputs without the axis of directions, of which there is one."""
    parts = loop_parts(op)
    samples, hidden = parts.initial[0].tensor.dims
    inputs = cell.input.tensor.dims[-1]
    assert isinstance(hidden, int)
    assert isinstance(inputs, int)
    names = [
        _steps(g, cell, [parts.params.count, samples, inputs]),
        _stacked(g, [p for gate in cell.gates for p in gate.inputs], [1, -1, inputs]),
        _stacked(g, [p for gate in cell.gates for p in gate.states], [1, -1, hidden]),
        _biases(g, cell, hidden),
        g.file.lengths if cell.lengths else "",
        *(_start(g, start, parts) for start in cell.starts),
    ]
    if any(gate.peephole is not None for gate in cell.gates):
        names.append(_vectors(g, [cell.gates[i].peephole for i in PEEPHOLES], hidden))
    while not names[-1]:
        names.pop()
    made = g.several(
        cell.operator,
        names,
        1 + len(cell.carried),
        hidden_size=hidden,
        activations=list(cell.activations),
        **({"direction": "reverse"} if parts.params.backward else {}),
        **({"linear_before_reset": 1} if cell.inner else {}),
    )
    for result in parts.stacks:
        g.hold(result, g.node("Squeeze", made[0], g.sizes([1])))
    for k, name in zip(cell.carried, made[1:], strict=True):
        g.hold(parts.final[k], g.node("Squeeze", name, g.sizes([0])))


def _steps(g: Graph, cell: Cell, dims: Sequence[Dim]) -> str:
    """The input under these dims."""
    x = g.whole(cell.input)
    return x if cell.input.tensor.dims == tuple(dims) else g.reshape(x, dims)


def _biases(g: Graph, cell: Cell, hidden: int) -> str:
    """Those of the inputs, then those of the states; '' without any."""
    of_inputs, of_states = zip(*(gate.biases for gate in cell.gates), strict=True)
    both = [*of_inputs, *of_states]
    return _vectors(g, both, hidden) if any(v is not None for v in both) else ""


def _vectors(g: Graph, vectors: Sequence[Vector | None], hidden: int) -> str:
    """One after the other as [1, all], zeros where there is none."""
    pieces: list[str] = []
    known: list[Part] = []
    for vector in [*vectors, ()]:
        known += vector or ()
        if not vector and known:
            pieces.append(_stacked(g, known, [-1]))
            known = []
        if vector is None:
            pieces.append(g.array(np.zeros(hidden, np.float32)))
    joined = g.node("Concat", *pieces, axis=0) if len(pieces) > 1 else pieces[0]
    return g.reshape(joined, [1, len(vectors) * hidden])


def _stacked(g: Graph, parts: Sequence[Part], dims: Sequence[int]) -> str:
    """The parts one after the other along the first axis that is not 1, under these dims; -1 for
    all that is left."""
    pieces = [_piece(g, part, dims[1:]) for part in _joined(parts)]
    joined = g.node("Concat", *pieces, axis=0) if len(pieces) > 1 else pieces[0]
    return g.node("Reshape", joined, g.sizes(dims))


def _joined(parts: Sequence[Part]) -> list[Part]:
    """Neighbours in one array as one part."""
    found: list[Part] = []
    for part in parts:
        last = found[-1] if found else None
        if last is not None and (last.value, last.axis, last.stop) == (
            *(part.value, part.axis, part.start),
        ):
            found[-1] = replace(last, stop=part.stop)
        else:
            found.append(part)
    return found


def _piece(g: Graph, part: Part, rest: Sequence[int]) -> str:
    """A part as [rows, …]."""
    dims, made = part.value.tensor.dims, g.whole(part.value)
    if (part.start, part.stop) != (0, dims[part.axis]):
        made = g.cut(made, part.axis, part.start, part.stop)
    if any(d != 1 for d in dims[: part.axis]):
        order = [part.axis, *(i for i in range(len(dims)) if i != part.axis)]
        made = g.transpose(made, order)
        dims = tuple(dims[i] for i in order)
    columns = list(rest[1:])
    wanted = (part.stop - part.start, *columns)
    return made if (wanted[0], *dims[1:]) == wanted else g.reshape(made, wanted)


def _start(g: Graph, start: Start, parts: LoopParts) -> str:
    """A state before the first step, [1, samples, units]; '' for zeros."""
    dims = [1, *parts.initial[0].tensor.dims]
    if start.value is not None:
        return g.reshape(g.whole(start.value), dims)
    return g.full(g.number(start.number, DType.F32), dims) if start.number else ""
