"""Measures nodes over what a reader gives, minibatch by minibatch: `test`, `eval` and `cv`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphc.data.reader import Block, EpochRequest, Reader
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.model.model import Model
from graphc.ops.nodes.layout import display_name
from graphc.runtime.executable import Executable, needed_inputs
from graphc.runtime.sparse import sample_count
from graphc.support.diagnostics import fail


@dataclass(frozen=True, slots=True)
class Measured:
    """Averages per sample over the minibatches from `first` to `last`, counted from 1.

    samples  seen so far, those of earlier stretches too
    """

    first: int
    last: int
    samples: int
    averages: Mapping[str, float]


def computed(
    model: Model,
    names: Sequence[str],
    reader: Reader,
    request: EpochRequest,
    options: CompileOptions,
) -> Iterator[tuple[int, Mapping[str, object]]]:
    """For each minibatch its samples and what the nodes are: one row a sample, sums as numbers."""
    executable: Executable | None = None
    for block in reader.blocks(request):
        rows = max((sample_count(column) for column in block.values()), default=0)
        if executable is None:
            # The first block is the largest; a bound above it would only take memory.
            bound = replace(options, batch=max(1, min(request.minibatch, rows)))
            executable = bind(model, lambda m, o: evaluation_passes(m, names, (), o), bound)
        given = needed_inputs(executable.signature, block)
        for start in range(0, rows, request.minibatch):
            stop = min(start + request.minibatch, rows)
            yield stop - start, executable(**_rows(given, start, stop))


def measured(
    minibatches: Iterator[tuple[int, Mapping[str, object]]],
    names: Sequence[str],
    every: int,
    show: Callable[[Measured], None],
) -> Measured:
    """The averages of nodes that are sums over the samples. `show` is called after each `every`
    minibatches with those of this stretch; 0: never."""
    totals, part = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    count = samples = part_samples = 0
    for size, results in minibatches:
        count, samples, part_samples = count + 1, samples + size, part_samples + size
        for name in names:
            value = float(np.asarray(results[name]))
            totals[name] += value
            part[name] += value
        if every and count % every == 0:
            averages = {name: value / part_samples for name, value in part.items()}
            show(Measured(count - every + 1, count, samples, averages))
            part, part_samples = dict.fromkeys(names, 0.0), 0
    if samples == 0:
        raise fail("input", "measuring requires at least one sample, got none")
    return Measured(1, count, samples, {name: value / samples for name, value in totals.items()})


def measured_text(found: Measured, model: Model, *, is_final: bool = False) -> str:
    """The line of the log for a stretch; the last one has the perplexity of cross entropies."""
    parts = [f"Minibatch[{found.first}-{found.last}]: Samples Seen = {found.samples}    "]
    for name, value in found.averages.items():
        op = model.find(name)
        kind = display_name(op.opdef) if op is not None else ""
        parts.append(f"{name}: {kind}/Sample = {value:.8g}    ")
        if is_final and kind.startswith(("CrossEntropy", "ClassBasedCrossEntropy")):
            perplexity = math.exp(value) if value < 700 else math.inf
            parts.append(f"Perplexity = {perplexity:.8g}    ")
    return ("Final Results: " if is_final else "") + "".join(parts)


def _rows(block: Block, start: int, stop: int) -> dict[str, object]:
    """Samples of a block."""
    # Columns are of many kinds, all of which can be cut.
    return {name: column[start:stop] for name, column in block.items()}  # type: ignore[index]
