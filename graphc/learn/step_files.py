"""Training steps as files work with them: the function, its starting values and the numbers of the
learner. Who calls the function keeps its memory and gives the numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from graphc.driver.artifact import Step
from graphc.driver.compile import Lowered, lower, lower_by
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.driver.program import lower_program
from graphc.ir.types import Symbol
from graphc.learn.learner import Learner, follows_losses, follows_updates
from graphc.learn.program_loss import sample_dim
from graphc.learn.program_step import Trained, step_passes
from graphc.learn.step import training_passes
from graphc.model.model import Model
from graphc.ops.learner_terms import NEUTRAL
from graphc.support.diagnostics import fail


def step_of_program(trained: Trained, learner: Learner) -> Step:
    """The training step of a program, whose minibatches have as many samples as its bound says.

    GraphcError `not-supported` for a learner whose numbers follow losses or updates.
    """

    def lowered(options: CompileOptions, is_for_backend: bool) -> Lowered:
        passes = step_passes(trained, learner, options, 0, only_tensors=not is_for_backend)
        return lower_program(trained.program, options, passes)

    def values() -> Mapping[str, np.ndarray]:
        return trained.program.parameters

    samples = sample_dim(trained.program)
    nominal = samples.bound if isinstance(samples, Symbol) else samples
    return Step(lowered, values, _numbers(learner, nominal))


def step_of_network(
    model: Model, learner: Learner, options: CompileOptions, criterion: str | None = None
) -> Step:
    """The training step of a network, whose minibatches have `options.batch` samples.

    GraphcError `not-supported` for a learner whose numbers follow losses or updates.
    """
    infer(model)

    def lowered(options: CompileOptions, is_for_backend: bool) -> Lowered:
        _, passes = training_passes(model, learner, options, criterion)
        return (lower if is_for_backend else lower_by)(model, passes, options)

    def values() -> Mapping[str, np.ndarray]:
        draw(model)
        return model.values_in(options.precision)

    nominal = options.time * options.sequences or options.batch
    return Step(lowered, values, _numbers(learner, nominal))


def _numbers(learner: Learner, nominal: int) -> dict[str, float]:
    """Those of a call of a whole minibatch, which are the same in every such call."""
    if follows_losses(learner) or follows_updates(learner) or learner.changes() != [0]:
        message = "a file takes the same numbers in all whole minibatches, those of"
        name = type(learner).__name__
        raise fail("not-supported", f"{message} {name} with these settings change over a training")
    return {**NEUTRAL, **learner.at(0).hyperparameters(nominal, nominal)}
