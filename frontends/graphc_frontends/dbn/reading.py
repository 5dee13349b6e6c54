"""From the bytes of a DBN file to a stack of layers, each length checked before it is used.

    DBN\\n  comment 0  BDBN version layers  gmean gstddev
    BNET   for each layer: kind 0, matrices W, a, b    ENET   [Pu]   EDBN
    a matrix: BMAT name 0 rows cols numbers EMAT

Marks are four letters, text ends with a zero, numbers are little-endian with 4 bytes. A matrix of
more than one column is stored transposed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from graphc.support.diagnostics import fail
from graphc_frontends.binary import Bytes

OUTPUT = "perceptron"
"""The kind of an output layer; as the last layer it makes a stack complete."""

_LARGEST = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer's kind, its weights (outputs, inputs) and its bias (outputs, 1)."""

    kind: str
    weights: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True, slots=True)
class Stack:
    """A whole file; `prior` are the labels' frequencies if the last layer is an output layer."""

    mean: np.ndarray
    deviation: np.ndarray
    layers: tuple[Layer, ...]
    prior: np.ndarray | None

    @property
    def is_complete(self) -> bool:
        """Whether the last layer is an output layer."""
        return self.layers[-1].kind == OUTPUT


def read(data: bytes, file: str) -> Stack:
    """What a file holds. GraphcError `bad-model-file` with the byte where it goes wrong."""
    reader = Bytes(data, file)
    _mark(reader, "DBN\n")
    reader.text("latin-1", "the comment")
    _mark(reader, "BDBN")
    reader.signed("the version")
    count = reader.signed("the number of layers")
    if not 1 <= count <= reader.left:
        raise reader.bad(f"one layer or more is required, got {count}")
    mean, deviation = _matrix(reader, "gmean"), _matrix(reader, "gstddev")
    _mark(reader, "BNET")
    layers = tuple(_layer(reader) for _ in range(count))
    _mark(reader, "ENET")
    prior = _matrix(reader, "Pu") if layers[-1].kind == OUTPUT else None
    _mark(reader, "EDBN")
    stack = Stack(mean, deviation, layers, prior)
    _check(stack, file)
    return stack


def _mark(reader: Bytes, name: str) -> None:
    start = reader.at
    if bytes(reader.take(4, f"the mark {name.strip()}")) != name.encode("ascii"):
        reader.at = start
        raise reader.bad(f"the mark {name.strip()} is required")


def _layer(reader: Bytes) -> Layer:
    kind = reader.text("latin-1", "the kind of a layer")
    weights, bias, _ = (_matrix(reader, name) for name in ("W", "a", "b"))
    return Layer(kind, weights, bias)


def _matrix(reader: Bytes, name: str) -> np.ndarray:
    _mark(reader, "BMAT")
    found = reader.text("latin-1", f"the name of the matrix {name}")
    if found != name:
        raise reader.bad(f"the matrix {name} is required, got `{found[:40]}`")
    rows, cols = (reader.signed(f"the size of {name}") for _ in range(2))
    if not (1 <= rows <= _LARGEST and 1 <= cols <= _LARGEST):
        raise reader.bad(f"{name} requires at least one row and column, got {rows}x{cols}")
    value = reader.numbers(rows, cols, 4, name).reshape(rows, cols)
    _mark(reader, "EMAT")
    return value if cols == 1 else np.ascontiguousarray(value.T)


def _check(stack: Stack, file: str) -> None:
    """Sizes have to fit together."""
    frame, width = len(stack.mean), stack.layers[0].weights.shape[1]
    sizes = [
        ("gstddev", stack.deviation.shape, (frame, 1)),
        ("gmean", stack.mean.shape, (frame, 1)),
    ]
    for index, layer in enumerate(stack.layers):
        rows = layer.weights.shape[0]
        sizes.append((f"W of layer {index}", layer.weights.shape, (rows, width)))
        sizes.append((f"a of layer {index}", layer.bias.shape, (rows, 1)))
        width = rows
    if stack.prior is not None:
        sizes.append(("Pu", stack.prior.shape, (width, 1)))
    for name, found, wanted in sizes:
        if found != wanted:
            raise fail("bad-model-file", f"{file}: {name} requires {wanted}, got {found}")
    inputs = stack.layers[0].weights.shape[1]
    if inputs % frame:
        message = f"W of layer 0 requires columns for frames of {frame} numbers, got {inputs}"
        raise fail("bad-model-file", f"{file}: {message}")
