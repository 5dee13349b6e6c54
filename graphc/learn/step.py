"""The compiled training step: forward, backward and update in one call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral
from typing import TypeVar
from weakref import ref

import numpy as np

from graphc.driver import pipelines
from graphc.driver.compile import bind, bounds_for, compile_model, node_names
from graphc.driver.members import compile_for_members, for_shard
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.driver.stages import compile_split
from graphc.ir.types import DType, TensorType
from graphc.learn.agreement import require_as_many, share_of
from graphc.learn.averaging import Blocks
from graphc.learn.dataset import WHOLE, Call, Dataset, Samples, Share, check_data, read_dataset
from graphc.learn.epoch import (
    Pace,
    Part,
    Stride,
    no_samples,
    number_tables,
    read_order,
    require_samples,
    stride_of,
)
from graphc.learn.evaluate import require_sums
from graphc.learn.learner import (
    Learner,
    follows_losses,
    follows_updates,
    is_number,
    number_tables_of,
    require_learner,
)
from graphc.learn.numbers import Number
from graphc.learn.sharing import checked_sync, may_deal, normalises, split_names
from graphc.learn.shuffle import minibatches
from graphc.learn.update import update_pass
from graphc.model.model import Model
from graphc.ops.learner_terms import NEUTRAL
from graphc.ops.nodes.layout import find_node, node_type, tensor_type
from graphc.ops.nodes.leaves import ParameterParams
from graphc.ops.nodes.normalisation import running_parameters
from graphc.ops.nodes.training import (
    DROPOUT_RATE,
    MINIBATCH_SAMPLES,
    SEED_LIMIT,
    STEP,
)
from graphc.passes.expand_nodes import inputs_of
from graphc.runtime.communicators.communicator import Communicator, shards_of
from graphc.runtime.executable import Executable, Results
from graphc.runtime.signature import Signature
from graphc.runtime.stages import gather_parts
from graphc.support.arguments import text
from graphc.support.diagnostics import fail
from graphc.support.graphs import reachable
from graphc.support.member_place import SHARD
from graphc.support.pickling import refused

T = TypeVar("T")
STEP_LIMIT = 2**32
"""Training calls whose random numbers differ."""

KNOWN_SETTINGS = 64
"""Minibatch sizes whose hyperparameters are kept, where they follow from the size alone."""


class TrainingStep:
    """Call it with a minibatch: `step(features=x, labels=t)` gives criterion and evaluation.

    The network's parameters are updated in place; they and the learner's state stay in the step's
    element type. `nominal` is the minibatch size that rates per minibatch refer to, by default the
    bound; of sequences the bound on steps times that on sequences.

    A step on sequences takes what an `Executable` of sequences takes; a sample is a step of one.

    fixed_samples  of every call, where its inputs do not decide them; 0: they do
    by_length     of sequences a member may have those about as long
    steps         calls so far. With the seed it decides what Dropout sets to zero: set it to go on
                  where another step has stopped
    dropout_rate  share of elements that Dropout nodes set to zero, in [0, 1)
    """

    def __init__(
        self,
        executable: Executable,
        learner: Learner,
        nominal: int,
        criterion: str,
        dropout_rate: float = 0.0,
        communicator: Communicator | None = None,
        fixed_samples: int = 0,
        by_length: bool = False,
    ) -> None:
        self._executable = executable
        self._fixed_samples = fixed_samples
        self._by_length = by_length
        self._communicator = communicator
        self._blocks: Blocks | None = None
        self._split: tuple[Mapping[str, int], Callable[[], Mapping[str, np.ndarray]]] | None = None
        self._set_learner(learner)
        self._hyperparameters_taken = {
            a.name for a in executable.signature.with_role("hyperparameter")
        }
        self._first_shard = 0 if communicator is None else share_of(communicator).first_shard
        self._samples = 0
        self._pace = Pace(0)
        self._went_through: Callable[[], Samples | None] = lambda: None
        self._known: dict[tuple[int, int, float], Mapping[str, float]] = {}
        self._compiled_for = learner
        self.nominal = nominal
        self.criterion = criterion
        self.dropout_rate = dropout_rate
        self.steps = 0

    __reduce__ = refused("a training step", "a checkpoint keeps where it is (docs/checkpoints.md)")

    def __call__(self, /, **inputs: object) -> Results:
        """One update. Raises GraphcError `input` for a bad input, with nothing changed."""
        results = self._executable.run(inputs, self._hyperparameters)
        self._steps += 1
        if self._follows_losses:
            self._learner.observe(float(results[self.criterion]) / self._samples)
        return results

    def _hyperparameters(self, samples: int) -> Mapping[str, float]:
        """What the function takes of the numbers of this call, of all members together."""
        samples = self._fixed_samples or samples
        if self._communicator is not None:
            count = np.array([samples])
            self._communicator.all_reduce(count)
            samples = int(count[0])
        if samples == 0:
            raise no_samples()
        self._samples = samples
        return self._numbers(samples, self._steps)

    def _numbers(self, samples: int, step: int) -> Mapping[str, float]:
        call = samples, self._nominal, self._dropout_rate
        known = self._known.get(call)
        if known is None:
            known = self._taken(
                self._learner.hyperparameters(samples, self._nominal, step), samples
            )
            if self._keeps_numbers and len(self._known) < KNOWN_SETTINGS:
                self._known[call] = known
        return {**known, STEP: step} if STEP in known else known

    def _all_numbers(self, samples: int, calls: range) -> Mapping[str, Number]:
        """Those of several calls with as many samples each."""
        if self._follows_updates:
            tables = number_tables_of(self._learner, samples, self._nominal, calls)
            return self._taken(tables, samples)
        return self._numbers(samples, calls[0])

    def _taken(self, numbers: Mapping[str, T], samples: int) -> dict[str, T | float]:
        """What the function takes of these numbers, the others being those that change nothing."""
        known = {
            **NEUTRAL,
            **numbers,
            DROPOUT_RATE: self._dropout_rate,
            STEP: 0,
            SHARD: self._first_shard,
            MINIBATCH_SAMPLES: samples,
        }
        return {name: known[name] for name in self._hyperparameters_taken}

    def run_epoch(
        self,
        data: Mapping[str, object],
        /,
        *,
        order: object = None,
        minibatch: int | None = None,
    ) -> Results:
        """Updates over a whole data set: for each result an array with a number per minibatch.

        data       arrays (samples, rows) by input; of sequences lists, as for `gc.train`. Arrays
                   that are of the step's precision, C-contiguous and aligned are used where they
                   lie, others are converted once
        order      numbers of the samples (or sequences) in the order in which minibatches take
                   them, such as a permutation; by default all as they come
        minibatch  samples of an update, by default `nominal`; of sequences their number side by
                   side, by default the bound on it. The last minibatch may be shorter

        The same, bit for bit, as calling the step for each minibatch. On the llvm backend the loop
        over minibatches of dense samples is native code, and on a GPU data and loop are there; an
        interrupt (Ctrl-C) leaves both after a whole minibatch, within a tenth of a second or so,
        and `steps` counts the updates made. All else is called minibatch by minibatch. Members
        have data of their own, for as many minibatches each.

        Raises GraphcError `input` for bad data or order, `bad-value` for a bad minibatch, with
        nothing changed; `argument-type` for data that are no arrays by name.
        """
        check_data("run_epoch", data)
        require_samples(self.signature, "run_epoch", is_fixed=bool(self._fixed_samples))
        dataset = read_dataset(self.signature, data)
        units = read_order(order, dataset.units)
        size = self._default_minibatch() if minibatch is None else minibatch
        if not _is_whole(size) or size < 1:
            message = f"minibatch requires a whole number of at least 1, got {minibatch!r}"
            raise fail("bad-value", message)
        require_as_many(-(-len(units) // int(size)), self._communicator)
        if not len(units):
            raise no_samples()
        parts = [part.values for part in self.parts(dataset, units, int(size))]
        return Results({name: np.concatenate([p[name] for p in parts]) for name in parts[0]})

    def _default_minibatch(self) -> int:
        signature = self.signature
        if signature.sequences is None:
            return self.nominal
        return next(d.bound for d in signature.dims if d.name == signature.sequences.slots)

    def parts(
        self, dataset: Dataset, order: np.ndarray, size: int, share: Share = WHOLE
    ) -> Iterator[Part]:
        """Updates over the units of a data set in this order, `size` in each; see `epoch.Part`.

        order  i64[any], C-contiguous
        share  what this member takes of each minibatch, where all have the same data
        """
        size = min(size, max(len(order), 1))  # memory for what there is
        if (
            self._executable.runs_minibatches
            and self._blocks is None
            and isinstance(dataset, Samples)
            and not self._follows_losses
        ):
            if self._went_through() is not dataset:
                self._executable.forget_data()
                self._went_through = ref(dataset)
            arrays = {n: a for n, a in dataset.arrays.items() if isinstance(a, np.ndarray)}
            stride = stride_of(order, size, share, self._communicator)
            yield from self._native_parts(arrays, stride)
            order = order[stride.taken :]
        for chosen in minibatches(len(order), size):
            for call in dataset.calls(order[chosen], share):
                if call.first:
                    self.state = None
                if self._blocks is not None:
                    yield self._part_of_all(call, self._blocks)
                    continue
                results = self(**call.given)
                values = {name: np.asarray(value)[None] for name, value in results.items()}
                yield Part(self._samples, values)

    def _part_of_all(self, call: Call, blocks: Blocks) -> Part:
        """An update by this member alone, unless it has no samples, and the sums of all members."""
        names = [result.name for result in self.signature.fresh_results]
        sums = np.zeros(1 + len(names))
        blocks.before_update()
        if call.samples:
            results = self(**call.given)
            sums[:] = [self._samples, *(results[name] for name in names)]
        else:
            self._steps += 1
        blocks.communicator.all_reduce(sums)
        samples = int(sums[0])
        blocks.after_update(samples)
        values = zip(names, sums[1:], strict=True)
        return Part(samples, {name: np.array([value]) for name, value in values})

    def _native_parts(self, arrays: Mapping[str, np.ndarray], stride: Stride) -> Iterator[Part]:
        order, size = stride.order, stride.size
        if self._pace.size != size:
            self._pace = Pace(size)
        start = 0
        while start < len(order):
            chosen = order[start : start + size * self._pace.minibatches]
            began = time.perf_counter()
            count, last = -(-len(chosen) // size), (len(chosen) - 1) % size + 1
            samples = stride.samples, stride.samples_of(last)
            values = self._run_minibatches(arrays, chosen, size, samples)
            self._pace.note(count, time.perf_counter() - began, self._communicator)
            start += len(chosen)
            yield Part((count - 1) * samples[0] + samples[1], values)

    def _run_minibatches(
        self,
        arrays: Mapping[str, np.ndarray],
        chosen: np.ndarray,
        size: int,
        samples: tuple[int, int],
    ) -> dict[str, np.ndarray]:
        """One native call; however it is left, `steps` counts the minibatches that are through.

        samples  of a minibatch, and of the last, of all members together
        """
        count = -(-len(chosen) // size)
        calls = range(self._steps, self._steps + count)
        whole = self._all_numbers(samples[0], calls)
        end = self._numbers(samples[1], calls[-1])
        numbers = number_tables(whole, end, count)
        if STEP in numbers:
            numbers[STEP] = np.array(calls)
        done = np.zeros(1, np.int64)
        try:
            return self._executable.run_minibatches(arrays, chosen, size, numbers, done)
        finally:
            self._steps += int(done[0])

    @property
    def nominal(self) -> int:
        return self._nominal

    @nominal.setter
    def nominal(self, nominal: int) -> None:
        if not _is_whole(nominal) or nominal < 1:
            message = f"nominal requires a whole number of at least 1, got {nominal!r}"
            raise fail("bad-value", message)
        self._nominal = int(nominal)

    @property
    def steps(self) -> int:
        return self._steps

    @steps.setter
    def steps(self, steps: int) -> None:
        if not _is_whole(steps) or not 0 <= steps < STEP_LIMIT:
            message = f"steps requires a whole number from 0 to 2^32 - 1, got {steps!r}"
            raise fail("bad-value", message)
        self._steps = int(steps)

    @property
    def dropout_rate(self) -> float:
        return self._dropout_rate

    @dropout_rate.setter
    def dropout_rate(self, rate: float) -> None:
        self._dropout_rate = checked_dropout(rate)

    @property
    def learner(self) -> Learner:
        """May be replaced between calls by one with other numbers; its rule and which of the terms
        (clipping, l2, noise, l1) there are is compiled in."""
        return self._learner

    @learner.setter
    def learner(self, learner: Learner) -> None:
        require_learner(learner)
        compiled = self._compiled_for
        if learner.rule != compiled.rule:
            raise fail(
                "bad-value",
                f"the step was compiled for {compiled.rule.name}, got {learner.rule.name}: "
                "compile another one",
            )
        if not learner.terms.fits(compiled.terms):
            raise fail(
                "bad-value",
                f"the step was compiled with {compiled.terms}, got a learner with {learner.terms}: "
                "compile another one",
            )
        self._set_learner(learner)
        self._known.clear()

    def _set_learner(self, learner: Learner) -> None:
        self._learner = learner
        self._follows_losses = follows_losses(learner)
        self._follows_updates = follows_updates(learner)
        self._keeps_numbers = not (self._follows_losses or self._follows_updates)

    @property
    def communicator(self) -> Communicator | None:
        """This member of those who train together."""
        return self._communicator if self._blocks is None else self._blocks.communicator

    @property
    def share(self) -> Share:
        """What this member takes of every minibatch."""
        return replace(share_of(self.communicator), by_length=self._by_length)

    @property
    def blocks(self) -> Blocks | None:
        """How members that train by themselves average their parameters; None where they add
        gradients."""
        return self._blocks

    @blocks.setter
    def blocks(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def gather(self) -> None:
        """Where members have split a layer: put all of their parts into the parameters, and into
        what the learner keeps of them, on every member. All of them have to call it."""
        if self._split is None or self._communicator is None:
            return
        rows, values = self._split
        gather_parts(self._communicator, {**values(), **self.learner_state}, rows)

    @property
    def is_split(self) -> bool:
        """Whether members have split a layer, so that each is the only one to know its part."""
        return self._split is not None

    @property
    def adds_beside(self) -> bool | None:
        """Whether members add gradients beside the backward pass, as they asked or chose; None
        where there is one sum, which nothing is beside."""
        return self._executable.adds_beside

    @property
    def signature(self) -> Signature:
        return self._executable.signature

    @property
    def threads(self) -> int:
        """As that of an `Executable`."""
        return self._executable.threads

    @threads.setter
    def threads(self, threads: int) -> None:
        self._executable.threads = threads

    @property
    def learner_state(self) -> Mapping[str, np.ndarray]:
        """The learner's arrays by name, such as `velocity.W0`, and those of block momentum."""
        found = self._executable.learner_state
        return found if self._blocks is None else {**found, **self._blocks.state}

    @property
    def state(self) -> Mapping[str, np.ndarray] | None:
        """What sequences go on from with `carry=True`, as that of an `Executable`."""
        return self._executable.state

    @state.setter
    def state(self, state: Mapping[str, object] | None) -> None:
        self._executable.state = state


def checked_dropout(rate: float) -> float:
    """The rate; GraphcError `bad-value` unless it is in [0, 1)."""
    if not is_number(rate, 0, 1):
        raise fail("bad-value", f"dropout requires a rate from 0 to below 1, got {rate!r}")
    return rate


def checked_seed(seed: int) -> int:
    """The seed; GraphcError `bad-value` unless it is a whole number in [0, 2^64)."""
    if not _is_whole(seed) or not 0 <= seed < SEED_LIMIT:
        raise fail("bad-value", f"a seed requires a whole number from 0 to 2^64 - 1, got {seed!r}")
    return seed


def _is_whole(value: object) -> bool:
    """For callers without a type checker."""
    return isinstance(value, Integral)


def training_passes(
    model: Model,
    learner: Learner,
    options: CompileOptions,
    criterion: str | None = None,
    seed: int = 0,
    members: int = 1,
    *,
    sync: bool = False,
) -> tuple[list[str], list[pipelines.Pass]]:
    """The step's outputs, the trained criterion first, and the passes that make it, for one of so
    many who train together; `sync`: BatchNormalization is by the samples of all."""
    checked_seed(seed)
    outputs = training_outputs(model, criterion)
    trained = trainable_parameters(model, outputs[0])

    def types() -> list[TensorType]:
        nodes = [op for name in trained if (op := model.find(name)) is not None]
        return [tensor_type(node_type(op), 0, options.precision) for op in nodes]

    update = update_pass(learner, types, int(seed))
    passes = pipelines.training(
        outputs,
        trained,
        options.precision,
        bounds_for(model, outputs, options),
        learner=replace(update, members=members),
        seed=int(seed),
        recompute=options.recompute,
        contraction=options.contraction,
        sync_batchnorm=sync and members != 1,
    )
    return outputs, passes


def compile_training_step(
    model: Model,
    learner: Learner,
    options: CompileOptions,
    *,
    criterion: str | None = None,
    dropout: float = 0.0,
    seed: int = 0,
    communicator: Communicator | None = None,
    split: Sequence[str] = (),
    sync_batchnorm: bool = False,
) -> TrainingStep:
    """A training step for `criterion`, by default the first criterion node.

    dropout       share of elements that Dropout nodes set to zero; `seed` decides which
    communicator  this member of those who train together
    split         parameters whose outputs are split over the members
    sync_batchnorm  BatchNormalization is by the samples of all members
    """
    checked_dropout(dropout)
    sync = checked_sync(sync_batchnorm, communicator)
    infer(model)
    outputs = training_outputs(model, criterion)
    require_sums(model, outputs)
    draw(model)  # also what this step does not need: it is saved with the rest
    model.convert(options.precision)
    trained = trainable_parameters(model, outputs[0])
    if options.precision is DType.F32:
        model.forget_exact(trained)
    members = 1 if communicator is None else communicator.size
    compile_by = compile_model
    names, rows = split_names(model, split, trained, communicator), dict[str, int]()
    shards = 1 if communicator is None else shards_of(communicator)
    if communicator is not None and shards > 1:
        compile_by = partial(compile_for_members, communicator)
        if names:
            options = replace(options, numbered=())
            compile_by = partial(compile_split, communicator, names, rows)

    def passes_for(model: Model, options: CompileOptions) -> list[pipelines.Pass]:
        shard = for_shard(options, shards // members)
        return training_passes(model, learner, shard, criterion, seed, shards, sync=sync)[1]

    executable = bind(model, passes_for, options, compile_by)
    bounds = bounds_for(model, outputs, options)
    nominal = (bounds.time * bounds.sequences or options.batch) * members
    by_company = not sync and normalises(model, outputs)
    by_length = communicator is not None and may_deal(
        executable.signature, communicator, by_company=by_company
    )
    step = TrainingStep(
        *(executable, learner, nominal, outputs[0], dropout, communicator), by_length=by_length
    )
    if rows:
        step._split = rows, lambda: model.values
    return step


def training_outputs(model: Model, criterion: str | None = None) -> list[str]:
    """The criterion to train, then the evaluation nodes and the other criteria."""
    criteria = model.tagged("criterion")
    if criterion is not None:
        criteria = [*node_names(model, [text(criterion, "criterion")]), *criteria]
    if not criteria:
        raise fail(
            "missing-node",
            "no criterion nodes are specified: tag one `criterion` or list it in CriteriaNodes",
        )
    return list(dict.fromkeys([*criteria, *model.tagged("evaluation")]))


def trainable_parameters(model: Model, criterion: str) -> list[str]:
    """Parameters with needGradient that the criterion depends on, in the network's order.

    Without those that a node moves by itself, such as the running mean of BatchNormalization.
    """
    root = find_node(model.graph, criterion)
    assert root is not None
    used = reachable([root], inputs_of)
    moved = {v.op for op in used for v in running_parameters(op)}
    names = [
        op.result.name or ""
        for op in model.graph.block
        if op in used
        and op not in moved
        and isinstance(op.params, ParameterParams)
        and op.params.need_gradient
    ]
    if not names:
        raise fail("missing-node", f"the criterion `{criterion}` depends on no trainable parameter")
    return names


__all__: Sequence[str] = (
    "STEP_LIMIT",
    "TrainingStep",
    "checked_dropout",
    "checked_seed",
    "compile_training_step",
    "trainable_parameters",
    "training_outputs",
    "training_passes",
)
