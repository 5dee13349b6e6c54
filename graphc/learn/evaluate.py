"""Measures a network on a data set: averages per sample of its criteria and evaluation nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.driver.compile import bind, evaluation_passes, node_names
from graphc.driver.options import CompileOptions
from graphc.learn.shuffle import minibatches
from graphc.model.model import Model
from graphc.passes.manager import Pass
from graphc.runtime.executable import check_inputs, needed_inputs
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail


@dataclass(frozen=True)
class Evaluation:
    """samples measured, and for each node the sum of its values divided by that number."""

    samples: int
    averages: Mapping[str, float]


def evaluate_dataset(
    model: Model,
    data: Mapping[str, np.ndarray],
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

    def passes_for(batch: int) -> list[Pass]:
        wider = CompileOptions(options.backend, options.precision, batch, options.verify)
        return evaluation_passes(model, wanted, (), wider)

    executable = bind(model, passes_for, options)
    _require_scalars(executable.signature)
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


def _require_scalars(signature: Signature) -> None:
    for result in signature.fresh_results:
        if result.shape != (1, 1):
            shape = "x".join(map(str, result.shape))
            raise fail(
                "shape-mismatch",
                f"measuring requires nodes that sum over samples (1x1), `{result.name}` is {shape}",
            )
