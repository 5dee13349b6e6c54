"""Gradients of minibatches handed out, for training algorithms that have a loop of their own.

    slopes = gc.gradients(net, batch=1000, precision="f64")
    value, by_name = slopes(features=x, labels=t)
    value, vector = slopes.at(slopes.point - 0.1 * direction, features=x, labels=t)

All trained parameters are one vector, `point`, for algorithms that see a function of many variables
(book 5.3). Values and gradients are of the criterion's sum over the minibatch, as everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from graphc.driver import pipelines
from graphc.driver.compile import bind, bounds_for
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.ir.types import DType
from graphc.learn.epoch import no_samples
from graphc.learn.evaluate import require_sums
from graphc.learn.step import (
    STEP_LIMIT,
    checked_dropout,
    checked_seed,
    trainable_parameters,
    training_outputs,
)
from graphc.model.model import Model
from graphc.ops.nodes.training import DROPOUT_RATE, STEP
from graphc.runtime.executable import Executable, Results
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail

Array = np.ndarray


class MinibatchGradient(NamedTuple):
    """The criterion's sum over a minibatch, and its gradient: (rows, cols) by parameter."""

    value: float
    gradients: Mapping[str, Array]


class PointGradient(NamedTuple):
    """The criterion's sum over a minibatch, and its gradient as one vector."""

    value: float
    gradient: Array


class Gradients:
    """What `gc.gradients` makes: call it with a minibatch, `slopes(features=x, labels=t)`.

    It computes what a training step does, but moves no parameter: that is left to whoever calls.
    Parameters are the live ones of the network, so `net.parameters`, `point` and a training step
    that is compiled beside it all speak of the same.

    parameters    the names of the trained parameters, in the order of the vector
    results       what the last call computed: the criteria and evaluation nodes
    steps         calls so far; with the seed it decides what Dropout sets to zero. Set it back for
                  the same objective again
    dropout_rate  share of elements that Dropout nodes set to zero, in [0, 1)
    """

    def __init__(
        self,
        executable: Executable,
        model: Model,
        criterion: str,
        parameters: Sequence[str],
        dropout_rate: float,
    ) -> None:
        self._executable = executable
        self._model = model
        self._dropout_rate = dropout_rate
        self._taken = {a.name for a in executable.signature.with_role("hyperparameter")}
        self.criterion = criterion
        self.parameters = tuple(parameters)
        self.results = Results({})
        self.steps = 0

    def __call__(self, /, **inputs: object) -> MinibatchGradient:
        """A minibatch's sum and gradients, at the parameters as they are. GraphcError `input` for a
        bad input."""
        self.results = self._executable.run(inputs, self._numbers)
        self.steps = (self.steps + 1) % STEP_LIMIT
        slopes = self.results.gradients
        found = {name: slopes[name] for name in self.parameters}
        return MinibatchGradient(float(self.results[self.criterion]), found)

    def at(self, point: object, /, **inputs: object) -> PointGradient:
        """The same with all parameters as one vector: they are moved to `point` and stay there."""
        self.point = point
        value, gradients = self(**inputs)
        return PointGradient(value, self.flat(gradients))

    def flat(self, by_name: Mapping[str, Array]) -> Array:
        """Arrays by parameter as one vector, in the order of `parameters`, row by row."""
        return np.concatenate([np.ravel(by_name[name]) for name in self.parameters])

    @property
    def point(self) -> Array:
        """All trained parameters as one vector, a copy in the function's element type."""
        return self.flat(self._model.values)

    @point.setter
    def point(self, point: object) -> None:
        """Move the parameters. GraphcError `input` for another length, with nothing moved."""
        arrays = [self._model.values[name] for name in self.parameters]
        count = sum(a.size for a in arrays)
        try:
            given = np.asarray(point)
        except ValueError as problem:
            message = f"a point requires {count} numbers in one vector: {problem}"
            raise fail("input", message) from None
        if given.shape != (count,) or given.dtype.kind not in "fiu":
            got = f"{given.dtype}{list(given.shape)}"
            raise fail("input", f"a point requires {count} numbers in one vector, got {got}")
        ends = np.cumsum([a.size for a in arrays])
        for array, part in zip(arrays, np.split(given, ends[:-1]), strict=True):
            with np.errstate(over="ignore"):  # too large for f32 is infinite
                array[...] = part.reshape(array.shape)

    @property
    def dropout_rate(self) -> float:
        return self._dropout_rate

    @dropout_rate.setter
    def dropout_rate(self, rate: float) -> None:
        self._dropout_rate = checked_dropout(rate)

    @property
    def signature(self) -> Signature:
        return self._executable.signature

    def _numbers(self, samples: int) -> dict[str, float]:
        if samples == 0:
            raise no_samples()
        numbers = {DROPOUT_RATE: self._dropout_rate, STEP: self.steps}
        return {name: numbers[name] for name in self._taken}


def compile_gradients(
    model: Model,
    options: CompileOptions,
    *,
    criterion: str | None = None,
    dropout: float = 0.0,
    seed: int = 0,
) -> Gradients:
    """The gradients of `criterion`, by default the first criterion node, with respect to every
    parameter that a training would move."""
    checked_dropout(dropout)
    checked_seed(seed)
    infer(model)
    outputs = training_outputs(model, criterion)
    require_sums(model, outputs)
    draw(model)
    model.convert(options.precision)
    trained = trainable_parameters(model, outputs[0])
    if options.precision is DType.F32:
        model.forget_exact(trained)

    def passes(model: Model, options: CompileOptions) -> list[pipelines.Pass]:
        return pipelines.training_gradients(
            outputs,
            trained,
            options.precision,
            bounds_for(model, outputs, options),
            seed=int(seed),
            recompute=options.recompute,
            contraction=options.contraction,
        )

    executable = bind(model, passes, options)
    return Gradients(executable, model, outputs[0], trained, dropout)
