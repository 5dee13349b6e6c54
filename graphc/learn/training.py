"""A training made ready: the compiled step, where its samples come from, what measures it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial

from graphc.driver.compile import bounds_for
from graphc.driver.options import DEFAULT_BATCH, CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.driver.statistics import BATCH, precompute
from graphc.ir.printer import print_module
from graphc.learn.adaptation import Adaptation, AdaptedData
from graphc.learn.agreement import share_of
from graphc.learn.checkpoint import Checkpoint
from graphc.learn.checkpoints import Checkpoints, require_same
from graphc.learn.dataset import extent_of, read_dataset
from graphc.learn.evaluate import DEFAULT_SIDE_BY_SIDE, Evaluator, compile_evaluator
from graphc.learn.plan import TrainingPlan
from graphc.learn.records import Validation, require_measured
from graphc.learn.source import Data, MemorySource, ReaderSource, Source, blocks_of, is_reader
from graphc.learn.stages import pretend_statistics
from graphc.learn.standing import Standing, require_memory
from graphc.learn.step import TrainingStep, compile_training_step, training_outputs
from graphc.model.model import Model
from graphc.ops.nodes.statistics import StatisticParams
from graphc.runtime.communicator import Communicator
from graphc.runtime.sparse import sample_count
from graphc.support.diagnostics import fail

OF_DATA = "data"


@dataclass(frozen=True)
class Extras:
    """What a training takes besides data and plan.

    validation   measured after each epoch, through one compiled evaluation
    checkpoints  where they are written, and gone on from
    adaptation   what keeps the network near another one
    communicator one of several members who train together
    """

    validation: Data | None = None
    checkpoints: Checkpoints | None = None
    adaptation: Adaptation | None = None
    communicator: Communicator | None = None


@dataclass(frozen=True, eq=False)
class Training:
    """A training ready for its first epoch, or to go on.

    size           the units of a minibatch by default
    evaluator      measures `validation`
    configuration  what has to be the same where somebody goes on
    found          the checkpoint to go on from
    changes        the epochs that other numbers of the plan begin in
    """

    model: Model
    plan: TrainingPlan
    step: TrainingStep
    source: Source
    size: int
    validation: Data | None
    evaluator: Evaluator | None
    checkpoints: Checkpoints | None
    configuration: Mapping[str, str]
    found: Checkpoint | None
    changes: frozenset[int]

    def identity(self, standing: Standing) -> dict[str, bytes]:
        """What members have to have in common where a training begins or goes on, by what it is."""
        step, said = self.step, self.configuration
        arrays = {**self.model.values, **step.learner_state}
        digest = hashlib.sha256()
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())
        place = (standing.epoch, standing.units, standing.calls, step.steps)
        data = {name: value for name, value in said.items() if name.startswith(OF_DATA)}
        options = {n: v for n, v in said.items() if n not in data and n != "network"}
        return {
            "network": said["network"].encode(),
            "options": repr(options).encode(),
            "data": repr(data).encode(),
            "parameters": digest.digest(),
            "place in the training": repr(place).encode(),
        }

    def validate(self) -> Validation | None:
        """What the validation data say of the parameters as they are."""
        if self.evaluator is None or self.validation is None:
            return None
        found = self.evaluator.measure(self.validation)
        averages = dict(found.averages)
        return Validation(found.samples, averages.pop(self.step.criterion), averages)


def prepared(
    model: Model, data: Data, plan: TrainingPlan, options: CompileOptions, extras: Extras
) -> Training:
    """Everything that precedes the first epoch. Statistics without a value are computed over all
    data, unless a checkpoint has them."""
    if extras.checkpoints is not None:
        require_memory(plan.learner)
    if plan.truncate and share_of(extras.communicator).size > 1:
        message = "each would cut its own sequences into another number of updates"
        raise fail("not-supported", f"members cannot share truncated sequences, {message}")
    infer(model)
    names = training_outputs(model, plan.criterion)  # a missing one shows before a value is drawn
    for node in plan.control.nodes:
        require_measured(node, names)
    said = _said(model, plan, options, extras)
    found = extras.checkpoints.found() if extras.checkpoints is not None else None
    if found is not None:
        then = {n: v for n, v in found.configuration.items() if not n.startswith(OF_DATA)}
        require_same(then, said)
    draw(model)
    model.convert(options.precision)  # before the statistics, which keep what digits there are
    if found is not None:
        _take_statistics(model, found)
    precompute(model, partial(blocks_of, data, BATCH), options)
    if extras.adaptation is not None:
        data = AdaptedData.of(model, data, extras.adaptation, names[0], options)
    fitted, size = _fitted(model, data, plan, options)
    step = compile_training_step(
        model,
        plan.learner,
        _for_member(fitted, extras.communicator),
        criterion=plan.criterion,
        seed=plan.seed,
        communicator=extras.communicator,
    )
    source = _source(step, data, plan)
    if source.units == 0:
        raise fail("input", "training requires at least one sample, got none")
    if extras.checkpoints is not None or extras.communicator is not None:
        said |= {f"{OF_DATA} {name}": value for name, value in source.fingerprint().items()}
    if found is not None:
        require_same(found.configuration, said)
    evaluator = None
    if extras.validation is not None:
        measuring = replace(options, batch=DEFAULT_BATCH, sequences=DEFAULT_SIDE_BY_SIDE)
        evaluator = compile_evaluator(model, extras.validation, measuring, names, plan.truncate)
    # Rates are for a whole minibatch, so the default is one; what a reader knows of its samples may
    # depend on what it was read for before.
    size = min(size, source.units) if isinstance(source, MemorySource) else size
    return Training(
        model,
        plan,
        step,
        source,
        size,
        extras.validation,
        evaluator,
        extras.checkpoints,
        said,
        found,
        frozenset(plan.changes()),
    )


def _source(step: TrainingStep, data: Data, plan: TrainingPlan) -> Source:
    if is_reader(data):
        return ReaderSource(data, step.signature, plan.truncate)
    assert isinstance(data, Mapping)
    dataset = read_dataset(step.signature, data, plan.truncate)
    return MemorySource(dataset, plan.seed, plan.shuffle)


def _fitted(
    model: Model, data: Data, plan: TrainingPlan, options: CompileOptions
) -> tuple[CompileOptions, int]:
    """Options with bounds for all epochs, no larger than the data; the default minibatch."""
    if not bounds_for(model, training_outputs(model, plan.criterion), options).time:
        if plan.truncate:
            raise fail(
                "bad-option", "truncate is for sequences, the network does not look along time"
            )
        return replace(options, batch=_largest(plan, DEFAULT_BATCH, _samples(data))), DEFAULT_BATCH
    carry = plan.truncate > 0
    if is_reader(data):  # bounds grow when a block is larger
        sequences = _largest(plan, DEFAULT_SIDE_BY_SIDE, None)
        time = plan.truncate or options.time
    else:
        assert isinstance(data, Mapping)
        extent = extent_of(data)
        time = extent.time(options.time, plan.truncate)
        sequences = _largest(plan, DEFAULT_SIDE_BY_SIDE, extent.sequences)
    return replace(options, time=time, sequences=sequences, carry=carry), DEFAULT_SIDE_BY_SIDE


def _for_member(options: CompileOptions, communicator: Communicator | None) -> CompileOptions:
    """With bounds for a member's share of a minibatch."""
    members = share_of(communicator).size
    sequences, batch = -(-options.sequences // members), -(-options.batch // members)
    return replace(options, batch=batch, sequences=sequences)


def _samples(data: Data) -> int | None:
    if is_reader(data):
        return data.samples
    assert isinstance(data, Mapping)
    return max(map(sample_count, data.values()), default=1)


def _largest(plan: TrainingPlan, default: int, units: int | None) -> int:
    """The units of the largest minibatch of any epoch."""
    sizes = [plan.size(e, default) for e in plan.changes()]
    return max([1, *(size if units is None else min(size, units) for size in sizes)])


# --- what has to be the same ---------------------------------------------------------------------


def _said(
    model: Model, plan: TrainingPlan, options: CompileOptions, extras: Extras
) -> dict[str, str]:
    """All that decides the numbers of a training but the data, by what users call it.

    The number of epochs is not in it: one may train for longer. Nor are threads, which change no
    bit.
    """
    copy = model.snapshot()
    copy.values = dict(model.values)
    pretend_statistics(copy)
    text = print_module(copy.module)
    return {
        "network": hashlib.sha256(text.encode()).hexdigest()[:32],
        "learner": _text_of(plan.learner),
        "minibatch": str(plan.minibatch),
        "dropout": str(plan.dropout),
        "seed": str(plan.seed),
        "shuffle": str(plan.shuffle),
        "criterion": str(plan.criterion),
        "truncate": str(plan.truncate),
        "epoch_size": str(plan.epoch_size),
        "control": str(plan.control),
        "minimum_rate": str(plan.minimum_rate),
        "adaptation": str(extras.adaptation),
        "validation": str(extras.validation is not None),
        "backend": options.backend,
        "precision": options.precision.value,
        "contraction": options.contraction,
        "recompute": options.recompute,
    }


def _text_of(learner: object) -> str:
    """What a learner says of itself, without places in memory, which differ between processes."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(learner))


def _take_statistics(model: Model, found: Checkpoint) -> None:
    """Give Mean and InvStdDev nodes the values that the checkpoint has of them."""
    for op in model.graph.block:
        name = op.result.name or ""
        if isinstance(op.params, StatisticParams) and name in found.values:
            model.set_statistic(name, found.exact.get(name, found.values[name]))
