"""Measures a network on a data set: averages per sample of its criteria and evaluation nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphc.driver.compile import (
    bind,
    bounds_for,
    evaluation_passes,
    label_inputs,
    node_names,
)
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import infer
from graphc.learn.agreement import digest_of, require_agreement
from graphc.learn.dataset import Dataset, check_truncate, extent_of, numbered_in, read_dataset
from graphc.learn.shuffle import minibatches
from graphc.learn.source import Data, blocks_of, digests_of
from graphc.model.model import Model
from graphc.ops.nodes.layout import SCALAR, node_type
from graphc.runtime.communicators.alone import alone
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.sums import gather_rows
from graphc.runtime.executable import Executable
from graphc.support.diagnostics import DiagnosticSink, fail

Array = np.ndarray
DEFAULT_SIDE_BY_SIDE = 16
"""Sequences in a call, where nothing else is asked for."""


@dataclass(frozen=True)
class Evaluation:
    """samples measured, and for each node the sum of its values divided by that number."""

    samples: int
    averages: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Evaluator:
    """A network's criteria and evaluation nodes, compiled once to measure data sets with.

    It reads the parameters at every call, as they are then. size: units of a call; read: what
    becomes of data before they are measured.
    """

    executable: Executable
    names: Sequence[str]
    size: int
    truncate: int = 0
    read: Callable[[Data], Data] = lambda data: data

    def measure(self, data: Data, communicator: Communicator | None = None) -> Evaluation:
        """Averages over data, or over what a reader gives once. GraphcError `input` for data that
        do not fit, or no sample.

        communicator  this one of several members, each of which has the same data and measures
                      every so many-th minibatch; the averages have the bits of one member's
        """
        member = communicator if communicator is not None else alone()
        self._agree(member, "the model", self._identity)
        totals, samples = np.zeros(len(self.names)), 0
        for block in blocks_of(self.read(data), self.size):
            dataset = read_dataset(self.executable.signature, block, self.truncate)
            self._agree(member, "the data", lambda d=dataset: repr(digests_of(d)).encode())
            samples += dataset.samples
            for sums in self._sums(dataset, member):
                totals += sums
        self._agree(member, "the data", lambda: b"their end")
        if samples == 0:
            raise fail("input", "measuring requires at least one sample, got none")
        averages = {n: float(t) / samples for n, t in zip(self.names, totals, strict=True)}
        return Evaluation(samples, averages)

    def _sums(self, dataset: Dataset, member: Communicator) -> Array:
        """f64[minibatches, nodes]: sums over `size` units each, which members compute in turn."""
        order = dataset.in_order()
        parts = list(minibatches(len(order), self.size))
        mine = range(member.rank, len(parts), member.size)
        sums = np.zeros((len(mine), len(self.names)))
        for row, number in zip(sums, mine, strict=True):
            for call in dataset.calls(order[parts[number]]):
                if call.first:
                    self.executable.state = None
                results = self.executable(**call.given)
                row += [float(results[name]) for name in self.names]
        return gather_rows(member, sums, np.array(mine, np.intp), len(parts))

    def _agree(self, member: Communicator, what: str, said: Callable[[], bytes]) -> None:
        if member.size > 1:
            require_agreement(member, {what: said()}, "measurement")

    def _identity(self) -> bytes:
        """What decides the sums, of the model."""
        form = (list(self.names), self.size, self.truncate)
        return repr(form).encode() + digest_of(self.executable.parameters)


def evaluate_dataset(
    model: Model,
    data: Data,
    options: CompileOptions,
    names: Sequence[str] = (),
    truncate: int = 0,
    communicator: Communicator | None = None,
) -> Evaluation:
    """Averages over `data` (one array (samples, rows) per input; more inputs do not matter).

    Of sequences one list of arrays (steps, rows) per input; each step is a sample, and
    `options.sequences` of them are measured side by side.

    names     nodes to measure, by default all criteria and evaluation nodes; each has to be a sum
              over the samples, so a 1x1 matrix
    truncate  steps of sequences in a call, which the next one goes on from: less memory, the same
              result; 0: whole sequences
    communicator  as in `Evaluator.measure`

    GraphcError: `missing-node` if there are none, `input` for data that do not fit or no sample,
    `shape-mismatch` for a node of another size.
    """
    return compile_evaluator(model, data, options, names, truncate).measure(data, communicator)


def compile_evaluator(
    model: Model,
    data: Data,
    options: CompileOptions,
    names: Sequence[str] = (),
    truncate: int = 0,
) -> Evaluator:
    """What measures such data, with bounds that fit these; arguments as for `evaluate_dataset`."""
    wanted = node_names(model, names) or measured_nodes(model)

    check_truncate(truncate)
    infer(model)
    require_sums(model, wanted)
    bounds = bounds_for(model, wanted, options)
    size = options.batch
    if truncate and not bounds.time:
        raise fail("bad-option", "truncate is for sequences, the network does not look along time")
    if bounds.time:
        options, size = _fitted(options, data, truncate), options.sequences
    if isinstance(data, Mapping):
        numbered = numbered_in(label_inputs(model), data, of_sequences=bool(bounds.time))
        options = replace(options, numbered=numbered)
    executable = bind(model, lambda m, o: evaluation_passes(m, wanted, (), o), options)
    return Evaluator(executable, wanted, size, truncate)


def _fitted(options: CompileOptions, data: Data, truncate: int) -> CompileOptions:
    """The options with bounds that the longest of the sequences keeps to, not more than needed; of
    a reader they grow when its blocks come."""
    if not isinstance(data, Mapping):
        return replace(options, time=truncate or options.time, carry=truncate > 0)
    extent = extent_of(data)
    return replace(
        options,
        time=extent.time(options.time, truncate),
        sequences=min(options.sequences, extent.sequences),
        carry=truncate > 0,
    )


def measured_nodes(model: Model) -> list[str]:
    """The criteria, then the evaluation nodes that are no criteria."""
    names = list(dict.fromkeys([*model.tagged("criterion"), *model.tagged("evaluation")]))
    if not names:
        raise fail("missing-node", "no criterion and no evaluation nodes are specified")
    return names


def require_sums(model: Model, names: Sequence[str]) -> None:
    """GraphcError `shape-mismatch` unless each node is 1x1, a sum over the samples."""
    sink = DiagnosticSink()
    for name in names:
        op = model.find(name)
        if op is not None and node_type(op) != SCALAR:
            sink.error(
                "shape-mismatch",
                f"criteria and evaluation nodes are sums over the samples (1x1), "
                f"`{name}` is {node_type(op)}",
                op.location,
            )
    sink.raise_if_errors()
