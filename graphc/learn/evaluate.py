"""Measures a network on a data set: averages per sample of its criteria and evaluation nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.driver.compile import bind, evaluation_passes, node_names
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import prepare
from graphc.learn.shuffle import minibatches
from graphc.model.model import Model
from graphc.ops.nodes.layout import SCALAR, node_type
from graphc.runtime.executable import check_inputs, needed_inputs
from graphc.support.diagnostics import DiagnosticSink, fail


@dataclass(frozen=True)
class Evaluation:
    """samples measured, and for each node the sum of its values divided by that number."""

    samples: int
    averages: Mapping[str, float]


def evaluate_dataset(
    model: Model,
    data: Mapping[str, object],
    options: CompileOptions,
    names: Sequence[str] = (),
) -> Evaluation:
    """Averages over `data` (one array (samples, rows) per input; more inputs do not matter).

    names  nodes to measure, by default all criteria and evaluation nodes; each has to be a sum
           over the samples, so a 1x1 matrix

    GraphcError: `missing-node` if there are none, `input` for data that do not fit or no sample,
    `shape-mismatch` for a node of another size.
    """
    wanted = node_names(model, names) or measured_nodes(model)

    prepare(model)
    require_sums(model, wanted)
    executable = bind(model, lambda m, o: evaluation_passes(m, wanted, (), o), options)
    signature = executable.signature
    arrays, samples = check_inputs(signature, needed_inputs(signature, data))
    if samples == 0:
        raise fail("input", "measuring requires at least one sample, got none")
    totals = dict.fromkeys(wanted, 0.0)
    for part in minibatches(samples, options.batch):
        results = executable(**{name: array[part] for name, array in arrays.items()})
        for name in wanted:
            totals[name] += float(results[name])
    return Evaluation(samples, {name: total / samples for name, total in totals.items()})


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
