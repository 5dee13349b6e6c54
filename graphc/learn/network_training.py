"""What the training loop needs of a network (`trainee.py`)."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from graphc.driver.compile import bounds_for, label_inputs
from graphc.driver.options import DEFAULT_BATCH, CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.driver.statistics import BATCH, precompute
from graphc.ir.printer import print_module
from graphc.learn.adaptation import Adaptation, AdaptedData
from graphc.learn.checkpoint import Checkpoint
from graphc.learn.dataset import extent_of, numbered_in
from graphc.learn.evaluate import DEFAULT_SIDE_BY_SIDE, Evaluator, compile_evaluator
from graphc.learn.plan import TrainingPlan
from graphc.learn.source import Data, blocks_of, is_reader, samples_of
from graphc.learn.stages import pretend_statistics
from graphc.learn.step import TrainingStep, compile_training_step, training_outputs
from graphc.learn.trainee import Held
from graphc.model.model import Model
from graphc.ops.nodes.statistics import StatisticParams
from graphc.runtime.communicators.communicator import Communicator
from graphc.support.diagnostics import fail

Array = np.ndarray


class NetworkTrainee:
    """A network that is trained. Statistics without a value are computed over all data first,
    unless a checkpoint has them."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._outputs: Sequence[str] = ()
        self._text = ""

    @property
    def values(self) -> Mapping[str, Array]:
        return self._model.values

    def outputs(self, criterion: str | None) -> Sequence[str]:
        infer(self._model)
        # A missing one shows before a value is drawn.
        self._outputs = training_outputs(self._model, criterion)
        return self._outputs

    def identity(self) -> str:
        copy = self._model.snapshot()
        copy.values = dict(self._model.values)
        pretend_statistics(copy)
        return hashlib.sha256(print_module(copy.module).encode()).hexdigest()[:32]

    def made_ready(
        self,
        data: Data,
        plan: TrainingPlan,
        options: CompileOptions,
        adaptation: Adaptation | None,
        found: Checkpoint | None,
        communicator: Communicator | None,
    ) -> Data:
        model = self._model
        draw(model)
        model.convert(options.precision)  # before the statistics, which keep what digits there are
        if found is not None:
            _take_statistics(model, found)
        precompute(model, partial(blocks_of, data, BATCH), options, communicator)
        if adaptation is None:
            return data
        return AdaptedData.of(model, data, adaptation, self._outputs[0], options)

    def fitted(
        self, data: Data, plan: TrainingPlan, options: CompileOptions
    ) -> tuple[CompileOptions, int]:
        if not bounds_for(self._model, self._outputs, options).time:
            if plan.truncate:
                message = "truncate is for sequences, the network does not look along time"
                raise fail("bad-option", message)
            batch = plan.largest(DEFAULT_BATCH, samples_of(data))
            numbered = self._numbered(data, of_sequences=False)
            return replace(options, batch=batch, numbered=numbered), DEFAULT_BATCH
        carry = plan.truncate > 0
        if is_reader(data):  # bounds grow when a block is larger
            sequences = plan.largest(DEFAULT_SIDE_BY_SIDE, None)
            time = plan.truncate or options.time
        else:
            assert isinstance(data, Mapping)
            extent = extent_of(data)
            time = extent.time(options.time, plan.truncate)
            sequences = plan.largest(DEFAULT_SIDE_BY_SIDE, extent.sequences)
        numbered = self._numbered(data, of_sequences=True)
        fitted = replace(options, time=time, sequences=sequences, carry=carry, numbered=numbered)
        return fitted, DEFAULT_SIDE_BY_SIDE

    def _numbered(self, data: Data, *, of_sequences: bool) -> tuple[str, ...]:
        """The inputs of labels that data in memory give as class numbers."""
        if is_reader(data):
            return ()
        assert isinstance(data, Mapping)
        return numbered_in(label_inputs(self._model), data, of_sequences=of_sequences)

    def step(
        self,
        plan: TrainingPlan,
        options: CompileOptions,
        communicator: Communicator | None,
        split: Sequence[str] = (),
        sync_batchnorm: bool = False,
    ) -> TrainingStep:
        return compile_training_step(
            self._model,
            plan.learner,
            options,
            criterion=plan.criterion,
            seed=plan.seed,
            communicator=communicator,
            split=split,
            sync_batchnorm=sync_batchnorm,
        )

    def evaluator(
        self, data: Data, names: Sequence[str], plan: TrainingPlan, options: CompileOptions
    ) -> Evaluator:
        measuring = replace(options, batch=DEFAULT_BATCH, sequences=DEFAULT_SIDE_BY_SIDE)
        return compile_evaluator(self._model, data, measuring, names, plan.truncate)

    def held(self) -> Held:
        model = self._model
        self._text = self._text or print_module(model.module, locations=True)
        names = [op.result.name or "" for op in model.parameter_nodes()]
        values = {n: model.values[n] for n in names}
        exact = {n: model.exactly(n) for n in names}
        more = {n: a for n, a in exact.items() if a is not values[n]}
        return Held(self._text, model.seed, values, more)


def _take_statistics(model: Model, found: Checkpoint) -> None:
    """Give Mean and InvStdDev nodes the values that the checkpoint has of them."""
    for op in model.graph.block:
        name = op.result.name or ""
        if isinstance(op.params, StatisticParams) and name in found.values:
            model.set_statistic(name, found.exact.get(name, found.values[name]))
