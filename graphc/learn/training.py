"""A training made ready: the compiled step, where its samples come from, what measures it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.driver.members import for_shard
from graphc.driver.options import CompileOptions
from graphc.learn.adaptation import Adaptation
from graphc.learn.agreement import share_of
from graphc.learn.averaging import STATE, Averaging, Blocks, checked_averaging, resets
from graphc.learn.checkpoint import Checkpoint
from graphc.learn.checkpoints import Checkpoints, require_same
from graphc.learn.dataset import read_dataset
from graphc.learn.evaluate import Evaluator
from graphc.learn.learner import follows_losses
from graphc.learn.plan import TrainingPlan
from graphc.learn.records import Validation, require_measured
from graphc.learn.sharing import checked_sync
from graphc.learn.source import Data, MemorySource, ReaderSource, Source, check_source, is_reader
from graphc.learn.standing import Standing, require_memory
from graphc.learn.step import TrainingStep
from graphc.learn.trainee import Trainee
from graphc.runtime.communicators.communicator import (
    Communicator,
    chooses,
    choosing_by,
    has_own_shards,
    overlap_of,
    shards_of,
    wire_of,
)
from graphc.support.arguments import instance
from graphc.support.diagnostics import fail

OF_DATA = "data"


@dataclass(frozen=True)
class Extras:
    """What a training takes besides data and plan.

    validation   measured after each epoch, through one compiled evaluation
    checkpoints  where they are written, and gone on from
    adaptation   what keeps the network near another one
    communicator one of several members who train together
    averaging    how they do where each trains by itself; None: they add gradients
    split        parameters whose outputs they split
    sync_batchnorm  BatchNormalization is by the samples of all of them
    """

    validation: Data | None = None
    checkpoints: Checkpoints | None = None
    adaptation: Adaptation | None = None
    communicator: Communicator | None = None
    averaging: Averaging | None = None
    split: Sequence[str] = ()
    sync_batchnorm: bool = False

    def __post_init__(self) -> None:
        if self.validation is not None:
            check_source("validation", self.validation)
        if self.checkpoints is not None:
            instance(self.checkpoints, Checkpoints, "checkpoints", "a gc.Checkpoints")
        if self.adaptation is not None:
            instance(self.adaptation, Adaptation, "adaptation", "a gc.Adaptation")
        is_sync = checked_sync(self.sync_batchnorm, self.communicator)
        if self.averaging is not None:
            checked_averaging(self.averaging)
            if self.communicator is None:
                raise fail("bad-option", "averaging is for members who train together: give comm=")
            if shards_of(self.communicator) != self.communicator.size:
                raise fail("bad-option", "averaging is of members' own steps, which have no shards")
            if self.split:
                raise fail("bad-option", "members that average have whole layers: leave out split")
            if is_sync:
                message = "members that average meet between minibatches alone"
                raise fail("bad-option", f"{message}: leave out sync_batchnorm")


@dataclass(frozen=True, eq=False)
class Training:
    """A training ready for its first epoch, or to go on.

    size           the units of a minibatch by default
    evaluator      measures `validation`
    configuration  what has to be the same where somebody goes on
    found          the checkpoint to go on from
    changes        the epochs that other numbers of the plan begin in
    """

    trainee: Trainee
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
        arrays = {**self.trainee.values, **step.learner_state}
        digest = hashlib.sha256()
        for name, array in arrays.items():
            digest.update(f"{name} {array.dtype}{array.shape}".encode())
            digest.update(array.tobytes())
        member = step.communicator
        sums = ""
        if member is not None:
            sums = f"{shards_of(member)} {wire_of(member)} {overlap_of(member)}"
            sums += f" {member.idle}" if chooses(member) else ""
        place = (standing.epoch, standing.units, standing.calls, step.steps)
        data = {name: value for name, value in said.items() if name.startswith(OF_DATA)}
        options = {n: v for n, v in said.items() if n not in data and n != "network"}
        return {
            "network": said["network"].encode(),
            **{name: repr(value).encode() for name, value in options.items()},
            "communicator": sums.encode(),
            "data": repr(data).encode(),
            "parameters": digest.digest(),
            "place in the training": repr(place).encode(),
        }

    def validate(self) -> Validation | None:
        """What the validation data say of the parameters as they are."""
        if self.evaluator is None or self.validation is None:
            return None
        found = self.evaluator.measure(self.validation, self.step.communicator)
        averages = dict(found.averages)
        return Validation(found.samples, averages.pop(self.step.criterion), averages)


def prepared(
    trainee: Trainee, data: Data, plan: TrainingPlan, options: CompileOptions, extras: Extras
) -> Training:
    """Everything that precedes the first epoch. Statistics without a value are computed over all
    data, unless a checkpoint has them."""
    if extras.checkpoints is not None:
        require_memory(plan.learner)
    names = trainee.outputs(plan.criterion)
    for node in plan.control.nodes:
        require_measured(node, names)
    said = _said(trainee, plan, options, extras)
    found = extras.checkpoints.found() if extras.checkpoints is not None else None
    if found is not None:
        then = {n: v for n, v in found.configuration.items() if not n.startswith(OF_DATA)}
        require_same(then, said)
        if extras.communicator is not None:
            member = choosing_by(extras.communicator, found.idle)
            extras = replace(extras, communicator=member)
    data = trainee.made_ready(data, plan, options, extras.adaptation, found, extras.communicator)
    fitted, size = trainee.fitted(data, plan, options)
    step = _step(trainee, plan, fitted, extras)
    source = _source(step, data, plan)
    if source.units == 0:
        raise fail("input", "training requires at least one sample, got none")
    if extras.checkpoints is not None or extras.communicator is not None:
        said |= {f"{OF_DATA} {name}": value for name, value in source.fingerprint().items()}
    if found is not None:
        require_same(found.configuration, said)
    evaluator = None
    if extras.validation is not None:
        evaluator = trainee.evaluator(extras.validation, names, plan, options)
    # Rates are for a whole minibatch, so the default is one; what a reader knows of its samples may
    # depend on what it was read for before.
    size = min(size, source.units) if isinstance(source, MemorySource) else size
    return Training(
        trainee,
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


def _step(
    trainee: Trainee, plan: TrainingPlan, options: CompileOptions, extras: Extras
) -> TrainingStep:
    """The step of one member, or of all."""
    communicator, averaging = extras.communicator, extras.averaging
    shard = for_shard(options, share_of(communicator).size)
    if communicator is not None and not plan.truncate and not has_own_shards(communicator):
        shard = replace(shard, sequences=options.sequences)  # one may have all short ones
    if averaging is None or communicator is None:
        return trainee.step(plan, shard, communicator, extras.split, extras.sync_batchnorm)
    if follows_losses(plan.learner):
        name = type(plan.learner).__name__
        raise fail("not-supported", f"{name} follows losses, of which members that average see own")
    step = trainee.step(plan, shard, None)
    updated = [result.updates for result in step.signature.results]
    step.blocks = Blocks(
        averaging,
        communicator,
        [name for name in trainee.values if name in updated],
        lambda: trainee.values,
        lambda: {n: a for n, a in step.learner_state.items() if not n.startswith(STATE)},
        resets(averaging, plan.learner),
    )
    return step


def _source(step: TrainingStep, data: Data, plan: TrainingPlan) -> Source:
    if is_reader(data):
        return ReaderSource(data, step.signature, plan.truncate)
    assert isinstance(data, Mapping)
    dataset = read_dataset(step.signature, data, plan.truncate)
    return MemorySource(dataset, plan.seed, plan.shuffle)


# --- what has to be the same ---------------------------------------------------------------------


def _said(
    trainee: Trainee, plan: TrainingPlan, options: CompileOptions, extras: Extras
) -> dict[str, str]:
    """All that decides the numbers of a training but the data, by what users call it.

    The number of epochs is not in it: one may train for longer. Nor are threads, which change no
    bit.
    """
    return {
        "network": trainee.identity(),
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
        **({} if extras.averaging is None else {"averaging": str(extras.averaging)}),
        **({} if not extras.split else {"split": ", ".join(extras.split)}),
        **({} if not extras.sync_batchnorm else {"sync_batchnorm": "True"}),
        "backend": options.backend,
        "precision": options.precision.value,
        "contraction": options.contraction,
        "recompute": options.recompute,
    }


def _text_of(learner: object) -> str:
    """What a learner says of itself, without places in memory, which differ between processes."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(learner))
