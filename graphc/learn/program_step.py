"""The training step of a program: what `step.py` makes of networks, of a function of arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.backends.base import CompiledFunction
from graphc.driver import pipelines
from graphc.driver.compile import all_passes
from graphc.driver.members import function_for_members
from graphc.driver.options import CompileOptions
from graphc.driver.program import compile_program, lower_program
from graphc.ir.types import DType, Symbol
from graphc.learn.learner import Learner
from graphc.learn.program_loss import (
    LOSS,
    Objective,
    sample_dim,
    trained_parameters,
    with_loss,
)
from graphc.learn.sharing import checked_sync
from graphc.learn.step import TrainingStep, checked_seed
from graphc.learn.update import update_pass
from graphc.model.program import Program
from graphc.passes.expand_training import ExpandTraining
from graphc.passes.manager import Pass
from graphc.runtime.communicators.communicator import Communicator, shards_of
from graphc.runtime.executable import Executable
from graphc.runtime.signature import Signature
from graphc.runtime.threads import thread_count
from graphc.support.diagnostics import fail


@dataclass(frozen=True, eq=False)
class Trained:
    """A program that gives its loss and measures.

    program     as `with_loss` makes it; its values are those of the program it was made of
    parameters  the names of those that are trained
    results     what it gives, the loss first
    as_inference  dropout does nothing, and statistics of minibatches are not taken
    """

    program: Program
    parameters: Sequence[str]
    results: Sequence[str]
    as_inference: bool = False

    @staticmethod
    def of(program: Program, objective: Objective) -> Trained:
        """Raises GraphcError for an objective that does not fit the program."""
        if LOSS not in objective.results:
            raise fail("bad-option", "measure= is besides a loss, which is required: give loss=")
        held = with_loss(program, objective)
        names = trained_parameters(held, objective.train)
        return Trained(held, names, objective.results, objective.as_inference)


def compile_program_step(
    program: Program,
    objective: Objective,
    learner: Learner,
    options: CompileOptions,
    *,
    batch: int | None = None,
    seed: int = 0,
    communicator: Communicator | None = None,
    sync_batchnorm: bool = False,
) -> TrainingStep:
    """A step that minimises the program's loss; `step(x=…, labels=…)["loss"]` is its sum.

    batch  bound on the samples of a call, and the nominal minibatch; None: the bound of their dim
    seed   of dropout and of the learner's noise
    communicator  this member of those who train together, each with a part of every minibatch
    sync_batchnorm  batch normalisation is by the samples of all members

    The program's own arrays are updated. A call beyond a bound compiles again. Raises GraphcError.
    """
    trained = Trained.of(program, objective)
    return compile_step(
        *(trained, learner, options),
        batch=batch,
        seed=seed,
        communicator=communicator,
        sync_batchnorm=sync_batchnorm,
    )


def compile_step(
    trained: Trained,
    learner: Learner,
    options: CompileOptions,
    *,
    batch: int | None = None,
    seed: int = 0,
    communicator: Communicator | None = None,
    sync_batchnorm: bool = False,
) -> TrainingStep:
    """The same, of a program that has its loss."""
    held = trained.program
    _require_one_type(held, trained.parameters, options)
    samples = sample_dim(held)
    is_open = isinstance(samples, Symbol)
    if is_open and batch is not None:
        held, samples = held.with_bounds({samples.name: batch}), batch
    members = 1 if communicator is None else communicator.size
    if communicator is not None and shards_of(communicator) > members:
        raise fail("not-supported", "shards are parts of a network's minibatch, got a program")
    sync = checked_sync(sync_batchnorm, communicator)
    is_cut = communicator is not None and members > 1
    passes = step_passes(
        *(trained, learner, options, checked_seed(seed)),
        members=members,
        sync=sync,
        only_tensors=is_cut,
    )

    def compiled(bounds: Mapping[str, int]) -> tuple[CompiledFunction, Signature]:
        wider = held.with_bounds(bounds)
        if communicator is None or not is_cut:
            return compile_program(wider, passes, options)
        return function_for_members(communicator, lower_program(wider, options, passes), options)

    executable = Executable(
        *compiled({}), held.values, recompile=compiled, threads=thread_count(options.threads)
    )
    nominal = samples.bound if isinstance(samples, Symbol) else samples
    return TrainingStep(
        executable,
        learner,
        nominal * members,
        LOSS,
        communicator=communicator,
        fixed_samples=0 if is_open else nominal,
    )


def step_passes(
    trained: Trained,
    learner: Learner,
    options: CompileOptions,
    seed: int,
    *,
    members: int = 1,
    sync: bool = False,
    only_tensors: bool = False,
) -> list[Pass]:
    """What makes a training step of it for one of so many members, for `options.backend` or as
    tensor operations; `sync`: batch normalisation is by the samples of all."""
    arguments = [trained.program.find(name) for name in trained.parameters]
    types = [a.tensor for a in arguments if a is not None]
    update = replace(update_pass(learner, lambda: types, seed), members=members)
    made = pipelines.array_training(
        LOSS, trained.parameters, update, options.recompute, options.contraction
    )
    if not trained.as_inference:
        samples = str(sample_dim(trained.program))
        made = [ExpandTraining(seed, members, samples, sync and members != 1), *made]
    return made if only_tensors else all_passes(made, options)


def _require_one_type(program: Program, trained: Sequence[str], options: CompileOptions) -> None:
    """GraphcError for parameters of several types, or a precision that is not theirs."""
    types = {program.values[name].dtype.name for name in trained}
    if len(types) > 1:
        message = f"trained parameters require one element type, got {', '.join(sorted(types))}"
        raise fail("not-supported", message)
    if options.precision is DType.F64 and types != {"float64"}:
        message = "a program is trained in its own element type, f32, got precision f64"
        raise fail("bad-option", message)
