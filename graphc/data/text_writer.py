"""Outputs as text, one file for each: PATH.NAME, a line for a sample.

A line holds the numbers of the sample, each followed by one blank, with 6 significant digits as the
streams of C++ print them by default (`%g` of C).
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from graphc.data.writer import checked_outputs, checked_rows
from graphc.support.files import move_into_place, temporary_folder

LINES_AT_ONCE = 1024


@dataclass(frozen=True)
class TextWriter:
    """Writes to `path`.NAME for every output."""

    path: Path

    @contextmanager
    def open(self, outputs: Mapping[str, int]) -> Generator[TextSink]:
        widths = checked_outputs(outputs)
        with temporary_folder(self.path) as folder:
            parts = {name: folder / str(number) for number, name in enumerate(widths)}
            with ExitStack() as stack:
                streams = {n: stack.enter_context(part.open("wb")) for n, part in parts.items()}
                yield TextSink(widths, streams)
            for name, part in parts.items():
                move_into_place(part, self.path.with_name(f"{self.path.name}.{name}"))


@dataclass(frozen=True)
class TextSink:
    """Lines into one stream for each output."""

    widths: Mapping[str, int]
    streams: Mapping[str, BinaryIO]

    def write(self, rows: Mapping[str, object]) -> None:
        for name, array in checked_rows(rows, self.widths).items():
            line = "%g " * self.widths[name] + "\n"
            for first in range(0, len(array), LINES_AT_ONCE):
                piece = array[first : first + LINES_AT_ONCE].tolist()
                text = "".join([line % tuple(row) for row in piece])
                self.streams[name].write(text.encode("ascii"))
