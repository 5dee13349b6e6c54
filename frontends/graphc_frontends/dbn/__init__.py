"""DBN files, stacks of layers that a tool before the toolkit pretrained, as networks.

    DBN\\n  comment 0  BDBN version layers  gmean gstddev
    BNET   for each layer: kind 0, matrices W, a, b    ENET   [Pu]   EDBN
    a matrix: BMAT name 0 rows cols numbers EMAT

Marks are four letters, text ends with a zero, numbers are little-endian with 4 bytes. A matrix of
more than one column is stored transposed. The layers' names are those of the toolkit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from graphc.support.diagnostics import fail
from graphc_frontends.binary import Bytes

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder, Node

MAGIC = b"DBN\n"
"""What these files begin with."""

_OUTPUT = "perceptron"
_LINEAR = frozenset([_OUTPUT, "rbmisalinearbernoulli"])
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


def load_bytes(builder: GraphBuilder, data: bytes, *, file: str) -> None:
    """Build the network of a DBN file, with its values. GraphcError for what is wrong with it.

    A stack without an output layer gets one of as many rows as its last layer, drawn.
    """
    build(builder, read(data, file), file)


# --- reading --------------------------------------------------------------------------------------


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
    prior = _matrix(reader, "Pu") if layers[-1].kind == _OUTPUT else None
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


# --- building -------------------------------------------------------------------------------------


def build(builder: GraphBuilder, stack: Stack, file: str) -> None:
    """Make the network of a stack, named as the toolkit names it."""
    values: dict[str, np.ndarray] = {}
    x = _normalised(builder, stack, values)
    for index, layer in enumerate(stack.layers):
        is_output = layer.kind == _OUTPUT and index == len(stack.layers) - 1
        values |= {f"W{index}": layer.weights, f"B{index}": layer.bias}
        rows, cols = layer.weights.shape
        x = _affine(builder, x, index, (rows, cols), "HLast" if is_output else None)
        if layer.kind not in _LINEAR:
            x = builder.apply("sigmoid", [x], name=f"H{index + 1}")
    rows = stack.layers[-1].weights.shape[0]
    if stack.prior is None:
        x = _affine(builder, x, len(stack.layers), (rows, rows), "HLast")
    labels = builder.apply("input", settings={"rows": rows}, name="labels", tags=["label"])
    criterion = "cross_entropy_with_softmax"
    builder.apply(criterion, [labels, x], name="CrossEntropyWithSoftmax", tags=["criterion"])
    builder.apply("error_prediction", [labels, x], name="EvalErrorPrediction", tags=["evaluation"])
    if stack.prior is None:
        builder.add_tag(x, "output")
    else:
        values["Prior"] = stack.prior
        prior = builder.apply("mean", [labels], name="Prior")
        log = builder.apply("log", [prior], name="LogOfPrior")
        builder.apply("minus", [x, log], name="ScaledLogLikelihood", tags=["output"])
    builder.sink.raise_if_errors()
    builder.model.adopt(values)


def _normalised(builder: GraphBuilder, stack: Stack, values: dict[str, np.ndarray]) -> Node:
    """The features, with mean and deviation of a frame repeated for every frame of context."""
    rows = stack.layers[0].weights.shape[1]
    frames = rows // len(stack.mean)
    features = builder.apply("input", settings={"rows": rows}, name="features", tags=["feature"])
    mean = builder.apply("mean", [features], name="MeanOfFeatures")
    deviation = builder.apply("inv_std_dev", [features], name="InvStdOfFeatures")
    with np.errstate(divide="ignore"):
        inverse = (1 / stack.deviation).astype(np.float32)
    values["MeanOfFeatures"] = np.tile(stack.mean, (frames, 1))
    values["InvStdOfFeatures"] = np.tile(inverse, (frames, 1))
    op = "per_dim_mean_var_normalization"
    return builder.apply(op, [features, mean, deviation], name="MVNormalizedFeatures")


def _affine(
    builder: GraphBuilder, x: Node, index: int, size: tuple[int, int], name: str | None
) -> Node:
    """W·x + B, called `name` or after its parts."""
    rows, cols = size
    w = builder.apply("parameter", settings={"rows": rows, "cols": cols}, name=f"W{index}")
    zero = {"rows": rows, "init": "fixed_value", "value": 0.0}
    b = builder.apply("parameter", settings=zero, name=f"B{index}")
    product = builder.apply("times", [w, x], name=f"W{index}*H{index}")
    return builder.apply("plus", [product, b], name=name or f"W{index}*H{index}+B{index}")
