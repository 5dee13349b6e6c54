"""The log: the lines that the toolkit writes, for scripts that read them."""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TextIO

from graphc.learn.epoch import Part
from graphc.learn.rate_search import LEAST_RATE
from graphc.learn.records import EpochRecord, EpochStart, Event, Progress
from graphc.toolkit.action import Showing


class LogReport:
    """Writes to a stream, a line at a time."""

    def __init__(self, stream: TextIO) -> None:
        self.stream = stream

    def line(self, text: str) -> None:
        self.stream.write(text + "\n")
        self.stream.flush()

    @contextmanager
    def training(self, showing: Showing) -> Generator[Progress]:
        minibatches = _Minibatches(showing)

        def start(epoch: EpochStart) -> None:
            minibatches.begin(epoch)
            self.line(start_line(epoch))

        def part(trained: Part) -> None:
            for text in minibatches.lines(trained):
                self.line(text)

        def epoch(record: EpochRecord) -> None:
            for text in epoch_lines(record, showing):
                self.line(text)

        def event(happened: Event) -> None:
            if text := event_line(happened):
                self.line(text)

        yield Progress(
            epoch=epoch,
            start=start,
            event=event,
            # A table of one key is a keyword to no type checker.
            **({"part": part} if showing.minibatch_lines else {}),  # type: ignore[arg-type]
        )


@dataclass
class _Minibatches:
    """What the minibatches since the last line came to."""

    showing: Showing
    epoch: int = 0
    size: int = 0
    count: int = 0
    seen: int = 0
    samples: int = 0
    totals: dict[str, float] = field(default_factory=dict[str, float])
    since: float = 0.0

    def begin(self, start: EpochStart) -> None:
        self.epoch, self.size = start.epoch, start.minibatch
        self.count = self.seen = self.samples = 0
        self.totals = {}
        self.since = time.perf_counter()

    def lines(self, part: Part) -> list[str]:
        """The lines that the minibatches of a part complete. Where one native call trains many,
        they took equally long."""
        found: list[str] = []
        count = len(next(iter(part.values.values())))
        now = time.perf_counter()
        each = (now - self.since) / max(1, count + self.count % self.showing.minibatch_lines)
        left = part.samples
        for i in range(count):
            size = min(self.size, left) if i < count - 1 else left
            left -= size
            self.count, self.seen, self.samples = (
                self.count + 1,
                self.seen + size,
                self.samples + size,
            )
            for name, values in part.values.items():
                self.totals[name] = self.totals.get(name, 0.0) + float(values[i])
            if self.count % self.showing.minibatch_lines == 0:
                found.append(self._line(each * self.showing.minibatch_lines))
                self.samples, self.totals, self.since = 0, {}, now
        return found

    def _line(self, seconds: float) -> str:
        showing, every = self.showing, self.showing.minibatch_lines
        samples = showing.samples()
        all_of = -(-samples // self.size) if samples and self.size else 0
        width = len(str(max(all_of, self.count)))
        of = f" of {all_of}" if all_of else ""
        first = self.count - every + 1
        averages = {name: total / self.samples for name, total in self.totals.items()}
        loss = averages.pop(showing.nodes[0], 0.0)
        errors = "".join(
            f"EvalErr[{i}]PerSample = {value:.8f}; " for i, value in enumerate(averages.values())
        )
        head = f" Epoch[{self.epoch:{len(str(showing.epochs))}} of {showing.epochs}]"
        return (
            f"{head}-Minibatch[{first:{width}}-{self.count:{width}}{of}]: "
            f"SamplesSeen = {self.samples}; TrainLossPerSample = {loss:11.8f}; {errors}"
            f"TotalTime = {seconds:.5g}s; "
            f"TotalTimePerSample = {1000 * seconds / self.samples:.5g}ms; "
            f"SamplesPerSecond = {int(self.samples / max(seconds, 1e-9))}"
        )


def start_line(start: EpochStart) -> str:
    """What is said before an epoch."""
    momentum = start.numbers.get("momentum", 0.0)
    rate = f"learning rate per sample = {start.learning_rate_per_sample:.6g}"
    return f"Starting Epoch {start.epoch}: {rate}  momentum = {momentum:.6f} "


def epoch_lines(record: EpochRecord, showing: Showing) -> list[str]:
    """What is said of an epoch."""
    head = f"Finished Epoch[{record.epoch}]: "
    rate = f"Ave LearnRatePerSample = {record.learning_rate_per_sample:.10g}"
    averages = _averages(record.criterion, record.evaluations)
    lines = [f"{head}[Training Set] {averages}; {rate}; EpochTime={record.seconds:.6g}"]
    if len(record.evaluations) > 1:
        lines.append(
            f"{head}Criterion Node [{showing.nodes[0]}] Per Sample = {record.criterion:.8g}"
        )
        lines += [
            f"{head}Evaluation Node [{name}] Per Sample = {value:.8g}"
            for name, value in record.evaluations.items()
        ]
    if record.validation is not None:
        found = record.validation
        lines.append(f"{head}[Validation Set] {_averages(found.criterion, found.evaluations)}")
    return lines


def event_line(event: Event) -> str:
    """What is said of a decision between epochs, '' for nothing."""
    epoch, rate, criterion = event.epoch, f"{event.value:.8g}", f"{event.criterion:.8g}"
    if event.kind == "rate-trial":
        search = "BaseAdaptiveLearnRateSearch" if event.purpose == "base" else _SEARCH
        return f"{search}: TrainLossPerSample = {criterion}; LearnRatePerSample = {rate}"
    texts = {
        "rate-found": f"Best Learn Rate Per Sample for Epoch[{epoch}] = {event.value:.10g}  "
        f"baseCriterion={event.criterion:.10g}",
        "minibatch-trial": f"AdaptiveMinibatchSearch: minibatchSize = {event.value:.0f}; "
        f"TrainLossPerSample = {criterion}",
        "minibatch-found": f"Best minibatchSize for Epoch[{epoch}] = {event.value:.0f}",
        "undone": "Loaded the previous model which has better training criterion.",
        "rate-reduced": f"learningRatePerSample reduced to {rate}",
        "rate-increased": f"learningRatePerSample increased to {rate}",
        "finished": f"Learning rate per sample for epoch[{epoch}] = {rate} is less than "
        f"minLearnRate {LEAST_RATE:.8g}. Training stops."
        if event.value
        else "Finished training and saved final model",
        "sums-beside": "",
        "sums-behind": "",
    }
    return texts[event.kind]


_SEARCH = "AdaptiveLearnRateSearch"


def _averages(criterion: float, evaluations: Mapping[str, float]) -> str:
    """The criterion and the evaluation nodes, as one line has them."""
    loss = f"TrainLossPerSample = {criterion:.8g}"
    if not evaluations:
        return loss
    if len(evaluations) == 1:
        return f"{loss}; EvalErrPerSample = {next(iter(evaluations.values())):.8g}"
    errors = "; ".join(f"[{i}]={value:.8g}" for i, value in enumerate(evaluations.values()))
    return f"{loss}; EvalErrPerSample {errors}"
