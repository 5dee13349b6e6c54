"""Operators that are random while training: for inference they do nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import known_number, shape_of, unsupported


@operator("Dropout", 7)
def dropout_7(x: Any, *, ratio: float) -> object:
    return x, _all_true(x)


@operator("Dropout", 12)
def dropout(x: Any, ratio: Any = None, training: Any = None, *, seed: int | None = None) -> object:
    """Of a training graph too where nothing is dropped."""
    if training is not None and bool(known_number(training, "training_mode")):
        share = 0.5 if ratio is None else float(known_number(ratio, "the ratio"))
        if share:
            raise unsupported("a Dropout that drops, with training_mode true,")
    return x, _all_true(x)


def _all_true(x: Any) -> object:
    sizes = shape_of(x)
    if all(isinstance(n, int) for n in sizes):
        return np.ones(sizes, bool)  # type: ignore[arg-type]
    return gc.cast(gc.ones(sizes), "i1")
