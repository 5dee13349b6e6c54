"""What `graphc train` shows: a bar inside an epoch, a line after each, a table at the end.

Columns of validation data have the names of their nodes with `(validation)` behind. rich, which
draws the bar and the table, is imported when the first of them is due: by then the training runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from graphc.cli.terminal import Terminal
from graphc.learn.records import EpochRecord, EpochStart, Event
from graphc.support.memory import peak_resident_bytes

if TYPE_CHECKING:
    from rich.progress import Progress
    from rich.table import Table

NUMBER_WIDTH = 14  # the longest `number_text`, and a blank


class TrainingReport:
    """Talks on stderr while training. `nodes`: the criterion, then everything else measured."""

    def __init__(
        self,
        terminal: Terminal,
        epochs: int,
        samples: int,
        nodes: Sequence[str],
        *,
        has_validation: bool = False,
    ) -> None:
        self.terminal = terminal
        self._epochs = epochs
        self._samples = samples
        self._nodes = list(nodes)
        self._has_validation = has_validation
        self._columns = [*nodes, *(f"{n} (validation)" for n in nodes if has_validation)]
        self._bar: Progress | None = None
        self._width = [max(NUMBER_WIDTH, len(name) + 1) for name in self._columns]
        self._done = 0
        self._has_head = False

    def __enter__(self) -> TrainingReport:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def minibatch(self, done: int, total: int) -> None:
        """`done` of the epoch's `total` samples are through, which is 0 if unknown. The first call
        prints the head."""
        if not self._has_head:
            self._has_head = True
            columns = zip(self._columns, self._width, strict=True)
            head = "".join(f"{name:>{width}}" for name, width in columns)
            self._say(f"{'epoch':>{self._epoch_width}}{head}{'rate':>12}{'time':>10}")
            if self.terminal.color == "always" or self.terminal.stderr.isatty():
                self._bar = self._started_bar()
        if self._bar is not None:
            (task,) = self._bar.task_ids
            self._bar.update(task, completed=done, total=total or None, epoch=self._done + 1)

    def _started_bar(self) -> Progress:
        from rich import progress

        console = self.terminal.console()
        bar = progress.Progress(
            progress.TextColumn("epoch {task.fields[epoch]}/{task.fields[epochs]}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        bar.add_task("", total=self._samples, epoch=1, epochs=self._epochs)
        bar.start()
        return bar

    def start(self, begun: EpochStart) -> None:
        """An epoch begins, or goes on."""
        self._done = begun.epoch - 1

    def epoch(self, record: EpochRecord) -> None:
        """An epoch is over: averages per sample, learning rate per sample, time."""
        self._done = record.epoch
        values = map(number_text, self._values(record))
        cells = "".join(f"{v:>{w}}" for v, w in zip(values, self._width, strict=True))
        rate = f"{record.learning_rate_per_sample:>12.5g}"
        epoch = f"{record.epoch}/{self._epochs}"
        self._say(f"{epoch:>{self._epoch_width}}{cells}{rate}{record.seconds:>8.2f} s")

    def finish(self, records: Sequence[EpochRecord], seconds: float, output: Path) -> None:
        """The table at the end: first, best and last epoch, and what it took."""
        if records:
            self.terminal.console().print(self._table(records))
        samples = sum(r.samples for r in records)
        computing = sum(r.seconds for r in records)
        speed = f"{samples / computing:,.0f}" if computing > 0 else "?"
        peak = peak_resident_bytes()
        memory = "" if peak is None else f", at most {peak / 2**20:,.0f} MiB resident"
        took = f"{samples:,} samples in {computing:.2f} s ({speed} a second)"
        self._say(f"{took}, {seconds:.2f} s in all{memory}")
        self._say(f"saved to {output}")

    def event(self, event: Event) -> None:
        """A decision about rates and sizes, and members' sums; trials only with -v."""
        waited = f"{event.value * 1e9:.2g} ns a byte are waited for"
        text = {
            "rate-trial": f"rate {event.value:.5g} per sample reaches {event.criterion:.5f}",
            "rate-found": f"epoch {event.epoch}: rate {event.value:.5g} per sample found",
            "minibatch-trial": f"minibatch {event.value:g} reaches {event.criterion:.5f}",
            "minibatch-found": f"epoch {event.epoch}: minibatch {event.value:g} found",
            "undone": f"epoch {event.epoch} is undone",
            "rate-reduced": f"rate reduced to {event.value:.5g} per sample",
            "rate-increased": f"rate increased to {event.value:.5g} per sample",
            "finished": f"training ends: {event.purpose}",
            "sums-beside": f"gradients are added beside the backward pass: {waited}",
            "sums-behind": f"gradients are added behind the backward pass: {waited}",
        }[event.kind]
        if self.terminal.verbosity >= (1 if event.kind.endswith("trial") else 0):
            self._say(text)

    def _values(self, record: EpochRecord) -> list[float]:
        """The numbers of the columns; nan where there are none, such as of an epoch stopped."""
        sources = [record, record.validation] if self._has_validation else [record]
        values: list[float] = []
        for source in sources:
            evaluations = {} if source is None else source.evaluations
            values.append(math.nan if source is None else source.criterion)
            values.extend(evaluations.get(name, math.nan) for name in self._nodes[1:])
        return values

    def _table(self, records: Sequence[EpochRecord]) -> Table:
        from rich.table import Table

        def key(record: EpochRecord) -> float:
            value = self._values(record)[len(self._nodes) if self._has_validation else 0]
            return math.inf if math.isnan(value) else value

        best = min(records, key=key)
        table = Table()
        for heading in ("", "epoch", *self._columns):
            table.add_column(heading, justify="left" if heading == "" else "right")
        for label, r in (("first", records[0]), ("lowest", best), ("last", records[-1])):
            table.add_row(label, str(r.epoch), *map(number_text, self._values(r)))
        return table

    @property
    def _epoch_width(self) -> int:
        return max(5, 2 * len(str(self._epochs)) + 1)

    def _say(self, text: str) -> None:
        if self._bar is None:
            self.terminal.remark(text)
        else:  # above the bar
            self._bar.console.print(text, markup=False, soft_wrap=True)


def number_text(value: float) -> str:
    """Five decimals, or five digits and an exponent from a million on: at most 13 characters."""
    return f"{value:.5f}" if abs(value) < 1e6 else f"{value:.5g}"
