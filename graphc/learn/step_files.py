"""Training steps as files work with them: the function, its starting values and the numbers of the
learner. Who calls the function keeps its memory, counts the steps and gives the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

import numpy as np

from graphc.artifacts.numbers import Changing, LearnerNumber, StepNumbers
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
from graphc.ops.communication import ANY_NUMBER
from graphc.ops.learner_terms import NEUTRAL
from graphc.ops.nodes.training import MINIBATCH_SAMPLES
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.formulas import UPDATES, Formula


@dataclass(frozen=True)
class Minibatches:
    """Those of a training step in a file.

    nominal  samples of one, which the rates refer to and the numbers are for; None: the bound
    members  whether each is shared by several callers, as many as there are then
    sync_batchnorm  BatchNormalization is by the samples of all of them
    """

    nominal: int | None = None
    members: bool = False
    sync_batchnorm: bool = False

    @property
    def parts(self) -> int:
        """How many share one, as passes take it."""
        return ANY_NUMBER if self.members else 1


WHOLE = Minibatches()


def step_of_program(trained: Trained, learner: Learner, minibatches: Minibatches = WHOLE) -> Step:
    """The training step of a program.

    GraphcError `not-supported` for a learner whose numbers C cannot compute, `bad-option` for
    members whose minibatch nothing says.
    """

    def lowered(options: CompileOptions, is_for_backend: bool) -> Lowered:
        passes = step_passes(
            *(trained, learner, options, 0),
            members=minibatches.parts,
            sync=minibatches.sync_batchnorm,
            only_tensors=not is_for_backend,
        )
        return lower_program(trained.program, options, passes)

    def values() -> Mapping[str, np.ndarray]:
        return trained.program.parameters

    samples = sample_dim(trained.program)
    bound = samples.bound if isinstance(samples, Symbol) else samples
    if minibatches.members and minibatches.nominal is None and isinstance(samples, int):
        message = f"every call of this program has {samples} samples, so a minibatch of all members"
        problem = f"{message} has several times as many: give --minibatch, how many it has"
        raise fail("bad-option", problem)
    return Step(lowered, values, _numbers(learner, minibatches.nominal or bound))


def step_of_network(
    model: Model,
    learner: Learner,
    options: CompileOptions,
    minibatches: Minibatches = WHOLE,
    criterion: str | None = None,
) -> Step:
    """The training step of a network, whose calls have up to `options.batch` samples.

    GraphcError `not-supported` for a learner whose numbers C cannot compute.
    """
    infer(model)

    def lowered(options: CompileOptions, is_for_backend: bool) -> Lowered:
        _, passes = training_passes(
            *(model, learner, options, criterion),
            members=minibatches.parts,
            sync=minibatches.sync_batchnorm,
        )
        return (lower if is_for_backend else lower_by)(model, passes, options)

    def values() -> Mapping[str, np.ndarray]:
        draw(model)
        return model.values_in(options.precision)

    bound = options.time * options.sequences or options.batch
    return Step(lowered, values, _numbers(learner, minibatches.nominal or bound))


def _numbers(learner: Learner, nominal: int) -> StepNumbers:
    """Those of a call of a whole minibatch, formulas of what changes over a training."""
    if follows_losses(learner):
        raise _refused(learner, "follow the losses")
    starts = learner.changes()
    try:
        epochs = [_numbers_at(learner.at(epoch), nominal) for epoch in starts]
    except TypeError as error:  # something asked for the number itself
        raise _refused(
            learner, f"are no formula of how many updates there were: {error}"
        ) from error
    found: dict[str, LearnerNumber] = {**NEUTRAL, MINIBATCH_SAMPLES: float(nominal)}
    for name in epochs[0]:
        runs = [(starts[0], epochs[0][name])]
        for start, numbers in zip(starts[1:], epochs[1:], strict=True):
            if numbers[name] != runs[-1][1]:
                runs.append((start, numbers[name]))
        first = runs[0][1]
        if len(runs) > 1 or isinstance(first, Formula):
            found[name] = Changing(runs, starts != [0], follows_updates(learner))
        else:
            found[name] = first
    return StepNumbers(found, nominal)


def _numbers_at(learner: Learner, nominal: int) -> dict[str, float | Formula]:
    """Those of an epoch."""
    update = cast("int", UPDATES)  # it has the arithmetic of a number
    given = (nominal, nominal, update)
    tables = getattr(learner, "tables", None) if follows_updates(learner) else None
    numbers = tables(*given) if tables is not None else learner.hyperparameters(*given)
    return {n: v if isinstance(v, Formula) else float(v) for n, v in numbers.items()}


def _refused(learner: Learner, why: str) -> GraphcError:
    message = f"a file requires numbers that C can compute, those of {type(learner).__name__} with"
    return fail("not-supported", f"{message} these settings {why}")
