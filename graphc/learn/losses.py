"""Losses and other measures of a program's output: functions of arrays `(output, labels)`, whose
numbers are added up over the samples. Users choose them by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphc.ir.types import Dim
from graphc.support.arguments import kind_of
from graphc.support.diagnostics import fail, suggestion
from graphc.tensor import functions
from graphc.tensor.tensor import Tensor

LEAST_PROBABILITY = 1e-37
NO_CLASS = 2**31 - 1

Loss = Callable[[Any, Any], Any]
"""(output, labels) -> losses, which are added up."""

_log, _maximum, _softplus = (functions.FUNCTIONS[n] for n in ("log", "maximum", "softplus"))


def _softmax_cross_entropy(output: Tensor, labels: Tensor) -> Any:
    logs = functions.log_softmax(output)
    return -_at_labels(logs, labels, "softmax_cross_entropy")


def _cross_entropy(output: Tensor, labels: Tensor) -> Any:
    logs = _log(_maximum(output, LEAST_PROBABILITY))
    return -_at_labels(logs, labels, "cross_entropy")


def _at_labels(logs: Any, labels: Tensor, loss: str) -> Any:
    """What the labels choose: shares of the classes, or the numbers of classes."""
    sizes = logs.value.tensor.dims
    classes = _class_count(loss, logs)
    if labels.value.tensor.dtype.is_float:
        _require_shape(loss, labels, sizes)
        return logs * labels
    _require_shape(loss, labels, sizes[:-1])
    numbers = functions.arange(classes, dtype=labels.dtype)
    return functions.where(functions.expand_dims(labels, -1) == numbers, logs, 0.0)


def _squared_error(output: Tensor, labels: Tensor) -> Any:
    _require_shape("squared_error", labels, output.value.tensor.dims)
    return functions.square(output - labels) * 0.5


def _sigmoid_cross_entropy(output: Tensor, labels: Tensor) -> Any:
    _require_shape("sigmoid_cross_entropy", labels, output.value.tensor.dims)
    return _softplus(output) - output * labels


def _classification_error(output: Tensor, labels: Tensor) -> Any:
    """1 for each sample whose largest output, of several the first, is not where the label is."""
    what, sizes = "classification_error", output.value.tensor.dims
    classes = _class_count(what, output)
    if labels.value.tensor.dtype.is_float:
        _require_shape(what, labels, sizes)
        wanted = _largest(labels, classes)
    else:
        _require_shape(what, labels, sizes[:-1])
        wanted = functions.cast(labels, "i32")
    wrong = _largest(output, classes) != wanted
    return functions.where(wrong, 1.0, functions.full((), 0.0, dtype=output.dtype))


def _largest(x: Tensor, classes: int) -> Any:
    """The place of the first maximum along the last axis, i32; none where it is nan."""
    top = functions.max(x, axis=-1, keepdims=True)
    places = functions.arange(classes, dtype="i32")
    return functions.min(functions.where(x == top, places, NO_CLASS), axis=-1)


def _class_count(what: str, output: Any) -> int:
    sizes = output.value.tensor.dims
    classes = sizes[-1] if sizes else None
    if not isinstance(classes, int):
        raise fail("shape-mismatch", f"{what} requires classes along the last axis, got {sizes}")
    return classes


def _require_shape(loss: str, labels: Tensor, sizes: Sequence[Dim]) -> None:
    if labels.value.tensor.dims != tuple(sizes):
        wanted = "x".join(map(str, sizes)) or "one number"
        message = f"{loss} requires labels of {wanted}, got {labels.value.tensor}"
        raise fail("shape-mismatch", message)


LOSSES: Mapping[str, Loss] = {
    "softmax_cross_entropy": _softmax_cross_entropy,
    "cross_entropy": _cross_entropy,
    "squared_error": _squared_error,
    "sigmoid_cross_entropy": _sigmoid_cross_entropy,
}

OF_CLASSES = frozenset(("softmax_cross_entropy", "cross_entropy", "classification_error"))
"""Those for which labels that are whole numbers are numbers of classes."""

MEASURES: Mapping[str, Loss] = {**LOSSES, "classification_error": _classification_error}


def loss_of(loss: object) -> Loss:
    """The loss of a name, or the function itself. GraphcError for anything else."""
    return _chosen(loss, LOSSES, "loss")


def measure_of(measure: object) -> Loss:
    """The measure of a name, which may be a loss too, or the function itself. GraphcError for
    anything else."""
    return _chosen(measure, MEASURES, "measure")


def _chosen(given: object, known: Mapping[str, Loss], what: str) -> Loss:
    if callable(given):
        return given
    if not isinstance(given, str):
        message = f"{what} requires a name or a function of output and labels, got {kind_of(given)}"
        raise fail("argument-type", message)
    if given not in known:
        message = f"there is no {what} `{given}`; known: {', '.join(known)}"
        raise fail("undefined-name", f"{message}{suggestion(given, known)}")
    return known[given]
