"""Measures a network on a data set: averages per sample of its criteria and evaluation nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.driver.compile import bind, bounds_for, evaluation_passes, node_names
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import infer
from graphc.learn.dataset import Dataset, check_truncate, extent_of, read_dataset
from graphc.learn.shuffle import minibatches
from graphc.learn.source import Data, blocks_of
from graphc.model.model import Model
from graphc.ops.nodes.layout import SCALAR, node_type
from graphc.runtime.executable import Executable
from graphc.support.diagnostics import DiagnosticSink, fail

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

    def measure(self, data: Data) -> Evaluation:
        """Averages over data, or over what a reader gives once. GraphcError `input` for data that
        do not fit, or no sample."""
        totals, samples = dict.fromkeys(self.names, 0.0), 0
        for block in blocks_of(self.read(data), self.size):
            dataset = read_dataset(self.executable.signature, block, self.truncate)
            samples += dataset.samples
            self._add(dataset, totals)
        if samples == 0:
            raise fail("input", "measuring requires at least one sample, got none")
        return Evaluation(samples, {name: total / samples for name, total in totals.items()})

    def _add(self, dataset: Dataset, totals: dict[str, float]) -> None:
        """Add the sums over all samples, of `size` units in a minibatch."""
        order = dataset.in_order()
        for part in minibatches(len(order), self.size):
            for call in dataset.calls(order[part]):
                if call.first:
                    self.executable.state = None
                results = self.executable(**call.given)
                for name in self.names:
                    totals[name] += float(results[name])


def evaluate_dataset(
    model: Model,
    data: Data,
    options: CompileOptions,
    names: Sequence[str] = (),
    truncate: int = 0,
) -> Evaluation:
    """Averages over `data` (one array (samples, rows) per input; more inputs do not matter).

    Of sequences one list of arrays (steps, rows) per input; each step is a sample, and
    `options.sequences` of them are measured side by side.

    names     nodes to measure, by default all criteria and evaluation nodes; each has to be a sum
              over the samples, so a 1x1 matrix
    truncate  steps of sequences in a call, which the next one goes on from: less memory, the same
              result; 0: whole sequences

    GraphcError: `missing-node` if there are none, `input` for data that do not fit or no sample,
    `shape-mismatch` for a node of another size.
    """
    return compile_evaluator(model, data, options, names, truncate).measure(data)


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
