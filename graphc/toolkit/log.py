"""The log: the lines that the toolkit writes, for scripts that read them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import TextIO

from graphc.learn.loop import EpochRecord, Progress
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
        yield Progress(epoch=lambda record: self._epoch(record, showing))

    def _epoch(self, record: EpochRecord, showing: Showing) -> None:
        for text in epoch_lines(record, showing):
            self.line(text)


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
    return lines


def _averages(criterion: float, evaluations: Mapping[str, float]) -> str:
    """The criterion and the evaluation nodes, as one line has them."""
    loss = f"TrainLossPerSample = {criterion:.8g}"
    if not evaluations:
        return loss
    if len(evaluations) == 1:
        return f"{loss}; EvalErrPerSample = {next(iter(evaluations.values())):.8g}"
    errors = "; ".join(f"[{i}]={value:.8g}" for i, value in enumerate(evaluations.values()))
    return f"{loss}; EvalErrPerSample {errors}"
