"""`check_training_gradient`: a network's gradients, as they are trained by, against differences.

What is checked is the training step itself, in f64: with a learner that keeps the gradients and
moves nothing. So nodes that are different in training (Dropout, BatchNormalization) are checked as
they are there; every call is the first one, so that what is random in it is the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from graphc.driver.options import CompileOptions
from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType
from graphc.learn.numbers import Number, Update
from graphc.learn.rated import RatedLearner
from graphc.learn.step import TrainingStep, compile_training_step
from graphc.model.model import Model
from graphc.ops.learners import Rule
from graphc.support.diagnostics import fail

ELEMENTS = 50
DIGITS = 6
STEP = 1e-5


@dataclass(frozen=True)
class ParameterSlope:
    """The derivative of the criterion's sum with respect to one element of a parameter."""

    parameter: str
    index: tuple[int, ...]
    computed: float
    difference: float

    def allowed(self, digits: int) -> float:
        """How far the two may lie apart where so many digits count (the toolkit's rule):
        10^-digits, times the power of ten above them where both are above 1."""
        smaller = min(abs(self.computed), abs(self.difference))
        power = math.ceil(math.log10(smaller)) if smaller > 0 else 0
        return 10.0 ** (max(0, power) - digits)

    def excess(self, digits: int) -> float:
        """The distance over what is allowed; above 1 it fails, and so it does where it is no
        number."""
        distance = abs(self.computed - self.difference)
        return distance / self.allowed(digits) if math.isfinite(distance) else math.inf

    def __str__(self) -> str:
        place = f"element {list(self.index)} of `{self.parameter}`"
        return f"{place}: {self.computed:.9g} computed, {self.difference:.9g} by differences"


@dataclass(frozen=True)
class TrainingGradientReport:
    """What was compared. `str` of it is for reading."""

    criterion: str
    slopes: tuple[ParameterSlope, ...]
    digits: int

    @property
    def worst(self) -> ParameterSlope:
        return max(self.slopes, key=lambda s: s.excess(self.digits))

    @property
    def passed(self) -> bool:
        return self.worst.excess(self.digits) <= 1

    def __str__(self) -> str:
        return (
            f"{len(self.slopes)} derivatives of `{self.criterion}` compared with central "
            f"differences, to {self.digits} digits; worst is {self.worst}"
        )


def check_gradients(
    model: Model,
    minibatch: Mapping[str, object],
    options: CompileOptions,
    *,
    digits: int,
    elements: int,
    criterion: str | None,
    dropout: float,
    seed: int,
) -> TrainingGradientReport:
    """See `gc.check_training_gradient`."""
    copy = model.frozen()
    options = replace(options, precision=DType.F64)
    step = compile_training_step(
        copy, Keeper(0.0), options, criterion=criterion, dropout=dropout, seed=seed
    )
    before = {name: value.copy() for name, value in copy.values.items()}
    call = _Call(step, copy, minibatch, before)
    call()
    kept = {n: v.copy() for n, v in step.learner_state.items()}
    rng = np.random.default_rng(seed)
    slopes: list[ParameterSlope] = []
    for state, gradient in kept.items():
        name = state.removeprefix("gradient.")
        count = min(elements, gradient.size)
        for flat in sorted(rng.choice(gradient.size, count, replace=False).tolist()):
            index = tuple(int(i) for i in np.unravel_index(flat, gradient.shape))
            difference = call.difference(name, index)
            slopes.append(ParameterSlope(name, index, float(gradient[index]), difference))
    if not slopes:
        raise fail("argument-type", "a check of gradients requires a parameter with elements")
    report = TrainingGradientReport(step.criterion, tuple(slopes), digits)
    if not report.passed:
        message = f"the gradient is not what differences give: {report}"
        raise fail("not-differentiable", message)
    return report


@dataclass(frozen=True)
class _Call:
    """The criterion's sum for the minibatch, in the first call of a training."""

    step: TrainingStep
    model: Model
    minibatch: Mapping[str, object]
    before: Mapping[str, np.ndarray]

    def __call__(self) -> float:
        self.step.steps = 0
        self.step.state = None
        found = float(self.step(**self.minibatch)[self.step.criterion])
        for name, value in self.before.items():  # running averages have moved
            self.model.values[name][...] = value
        return found

    def difference(self, name: str, index: tuple[int, ...]) -> float:
        sides: list[float] = []
        middle = float(self.before[name][index])
        for place in (middle + STEP, middle - STEP):
            self.model.values[name][index] = place
            sides.append(self())
        return (sides[0] - sides[1]) / ((middle + STEP) - (middle - STEP))


def _keep(
    _b: IRBuilder,
    gradient: Value,
    parameter: Value,
    _states: object,
    _numbers: object,
) -> tuple[Value, list[Value]]:
    return parameter, [gradient]


KEEP = Rule("keep", "keeps the gradient and moves nothing", ("gradient",), (), _keep)


@dataclass(frozen=True)
class Keeper(RatedLearner):
    """The learner that the step is compiled with."""

    @property
    def rule(self) -> Rule:
        return KEEP

    def numbers(
        self, rate: Number, samples: int, nominal: int, update: Update
    ) -> dict[str, Number]:
        return {}
