"""Measures nodes over what a reader gives, minibatch by minibatch: `test`, `eval` and `cv`."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from graphc.data.reader import Block, EpochRequest, Reader
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.learn.agreement import digest_of, require_agreement
from graphc.learn.dataset import read_dataset
from graphc.learn.source import digests_of
from graphc.model.model import Model
from graphc.ops.nodes.layout import display_name
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.sums import gather_rows
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


@dataclass(frozen=True)
class _Part:
    """A block of samples, and the minibatches that it is computed in."""

    executable: Executable
    given: Block
    cuts: Sequence[slice]

    def computed(self, cut: slice) -> Mapping[str, object]:
        """What the nodes are for a minibatch."""
        # Columns are of many kinds, all of which can be cut.
        rows = {name: column[cut] for name, column in self.given.items()}  # type: ignore[index]
        return self.executable(**rows)


def computed(
    model: Model,
    names: Sequence[str],
    reader: Reader,
    request: EpochRequest,
    options: CompileOptions,
) -> Iterator[tuple[int, Mapping[str, object]]]:
    """For each minibatch its samples and what the nodes are: one row a sample, sums as numbers."""
    for part in _parts(model, names, reader, request, options):
        for cut in part.cuts:
            yield cut.stop - cut.start, part.computed(cut)


def summed(
    model: Model,
    names: Sequence[str],
    reader: Reader,
    request: EpochRequest,
    options: CompileOptions,
    member: Communicator | None = None,
) -> Iterator[tuple[int, Mapping[str, float]]]:
    """For each minibatch its samples and the nodes' sums over them.

    Members compute minibatches in turn; all of them have those of all, with the bits of one.
    GraphcError `training` where they have other data or another model.
    """
    if member is None or member.size == 1:
        for size, results in computed(model, names, reader, request, options):
            yield size, _numbers(results, names)
        return
    for part in _parts(model, names, reader, request, options):
        dataset = read_dataset(part.executable.signature, part.given)
        said = {
            "the model": digest_of(part.executable.parameters),
            "the data": repr(digests_of(dataset)).encode(),
        }
        require_agreement(member, said, "measurement")
        mine = range(member.rank, len(part.cuts), member.size)
        sums = np.zeros((len(mine), len(names)))
        for row, number in zip(sums, mine, strict=True):
            row[:] = list(_numbers(part.computed(part.cuts[number]), names).values())
        all_sums = gather_rows(member, sums, np.array(mine, np.intp), len(part.cuts))
        for cut, row in zip(part.cuts, all_sums, strict=True):
            yield cut.stop - cut.start, dict(zip(names, map(float, row), strict=True))
    require_agreement(member, {"the model": b"", "the data": b"their end"}, "measurement")


def _numbers(results: Mapping[str, object], names: Sequence[str]) -> dict[str, float]:
    """Of nodes that are sums over the samples."""
    return {name: float(np.asarray(results[name])) for name in names}


def _parts(
    model: Model,
    names: Sequence[str],
    reader: Reader,
    request: EpochRequest,
    options: CompileOptions,
) -> Iterator[_Part]:
    executable: Executable | None = None
    for block in reader.blocks(request):
        rows = max((sample_count(column) for column in block.values()), default=0)
        if executable is None:
            # The first block is the largest; a bound above it would only take memory.
            bound = replace(options, batch=max(1, min(request.minibatch, rows)))
            executable = bind(model, lambda m, o: evaluation_passes(m, names, (), o), bound)
        starts = range(0, rows, request.minibatch)
        cuts = [slice(start, min(start + request.minibatch, rows)) for start in starts]
        yield _Part(executable, needed_inputs(executable.signature, block), cuts)


def measured(
    minibatches: Iterator[tuple[int, Mapping[str, float]]],
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
            totals[name] += results[name]
            part[name] += results[name]
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
