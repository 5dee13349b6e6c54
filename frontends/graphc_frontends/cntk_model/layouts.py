"""The nodes of the toolkit's model files as data: what each kind writes, and which node it becomes.

A record in the file is the kind, the name, then the node's own fields; most kinds have none. Kinds
that this version knows but has no node for are listed too, so that the nodes behind them can be
read and all of them be reported at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from graphc.builder import NODE_FUNCTIONS

Kind = Literal["size", "integer", "flag", "number", "matrix"]
"""8 bytes without sign; 4 bytes with sign; one byte; a number of the model's element type; a
matrix."""


LSTM = "lstm"
"""In place of a node's name: such a record becomes several nodes."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field; `setting` is the node's name for it, None if nothing is made of it."""

    name: str
    kind: Kind
    setting: str | None = None
    since: int = 1
    """The version of the format that has it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A kind of node; `op` None if this version has no such node."""

    op: str | None
    fields: tuple[Field, ...] = ()


def _sizes(*settings: str) -> tuple[Field, ...]:
    return tuple(Field(setting, "size", setting) for setting in settings)


_INPUT = (
    Field("rows", "size", "rows"),
    Field("cols", "size"),
    *_sizes("width", "height", "channels"),
)
_PARAMETER = (
    Field("needGradient", "flag", "need_gradient"),
    Field("rows", "size", "rows"),
    Field("cols", "size", "cols"),
    Field("value", "matrix"),
)
_DELAY = (
    Field("timeStep", "integer", "time_step"),
    Field("rows", "size", "rows"),
    Field("cols", "size"),
    Field("initial activation", "number", "default_hidden_activity", since=2),
)
_STATISTIC = (Field("hasComputed", "flag"), Field("value", "matrix"))
_POOLING = _sizes("window_width", "window_height", "step_width", "step_height")
_CONVOLUTION = (
    *_sizes("kernel_width", "kernel_height", "horizontal_subsample", "vertical_subsample"),
    *_sizes("output_channels"),
    Field("zeroPadding", "flag", "zero_padding"),
    Field("maxTempMemSizeInSamples", "size"),
)
_LSTM = (
    Field("inputDim", "size", since=2),
    Field("outputDim", "size", since=2),
    Field("default state", "number", "state"),
)

_BY_HAND: Mapping[str, Layout] = {
    "InputValue": Layout("input", _INPUT),
    "SparseInputValue": Layout("sparse_input", _INPUT),
    "LearnableParameter": Layout("parameter", _PARAMETER),
    "SparseLearnableParameter": Layout(None, _PARAMETER),
    "Reshape": Layout(
        "reshape", _sizes("num_rows", "image_width", "image_height", "image_channels")
    ),
    "RowSlice": Layout("row_slice", _sizes("start_row", "num_rows")),
    "RowStack": Layout("row_stack"),
    "RowRepeat": Layout("row_repeat", _sizes("num_repeats")),
    "PastValue": Layout("past_value", _DELAY),
    "Delay": Layout("past_value", _DELAY),
    "FutureValue": Layout("future_value", _DELAY),
    "Convolution": Layout("convolution", _CONVOLUTION),
    "MaxPooling": Layout("max_pooling", _POOLING),
    "AveragePooling": Layout("average_pooling", _POOLING),
    "Mean": Layout("mean", _STATISTIC),
    "InvStdDev": Layout("inv_std_dev", _STATISTIC),
    "CosDistanceWithNegativeSamples": Layout("cos_distance_with_negative_samples"),
    "LSTM": Layout(LSTM, _LSTM),
    "StrideTimes": Layout(None),
    "DummyCriterion": Layout(None),
    "Parallel": Layout(None),
    "PairNetwork": Layout(None, (Field("rows", "size"), Field("cols", "size"))),
    "SequenceWithSoftmax": Layout(None),
    "SequenceDecoder": Layout(None),
    "NoiseContrastiveEstimation": Layout(None),
    "NCEBasedCrossEntropyWithSoftmax": Layout(None),
}

LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {name: Layout(f.op) for f in NODE_FUNCTIONS for name in f.names} | dict(_BY_HAND)
)
"""By the kind as files spell it."""
