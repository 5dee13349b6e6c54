"""Label texts and their class numbers: the mapping file, and looking up many labels at once.

A mapping file holds one label a line; its number is the line's, counted from 0. Labels are compared
as texts, so `1` and `1.0` are two labels.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphc.data.decimal_text import EIGHT, Indices, words_at
from graphc.data.text_lines import TextLines, read_lines
from graphc.support.diagnostics import DiagnosticSink, Note, fail
from graphc.support.pipes import open_file_or_pipe
from graphc.support.source import Span

MAX_MAPPING_BYTES = 1 << 28
UNKNOWN = -1


def read_label_mapping(path: Path) -> tuple[str, ...]:
    """The labels of a mapping file (or pipe) in the order of their class numbers.

    Blanks around a label and empty lines at the end are dropped. GraphcError: `file` if it cannot
    be read, `bad-data` for no label, an empty line between labels or more than one word in a line,
    `duplicate-name` for a label that stands there twice.
    """
    with open_file_or_pipe(path, MAX_MAPPING_BYTES) as (stream, _):
        content = stream.read(MAX_MAPPING_BYTES + 1)
    if len(content) > MAX_MAPPING_BYTES:
        raise fail("limit", f"{path} may have at most {MAX_MAPPING_BYTES} bytes")
    sink = DiagnosticSink()
    labels: list[str] = []
    first_places: dict[str, Span] = {}
    empty: list[Span] = []
    for lines in read_lines(io.BytesIO(content), str(path)):
        for label, span in _labels_of(lines, sink):
            if label is None:
                empty.append(span)
                continue
            for between in empty:
                sink.error("bad-data", "a label is required, got an empty line", between)
            empty.clear()
            if label in first_places:
                note = Note("it is defined first here", first_places[label])
                sink.error("duplicate-name", f"label `{label}` is there twice", span, notes=(note,))
            first_places.setdefault(label, span)
            labels.append(label)
    sink.raise_if_errors()
    if not labels:
        raise fail("bad-data", f"at least one label is required, {path} has none")
    return tuple(labels)


def _labels_of(lines: TextLines, sink: DiagnosticSink) -> list[tuple[str | None, Span]]:
    """The label of each line, None for an empty line, and where it stands."""
    found: list[tuple[str | None, Span]] = []
    cell = 0
    for line_end, count in zip(lines.line_ends.tolist(), lines.cell_counts.tolist(), strict=True):
        if count == 0:
            found.append((None, lines.span(line_end, line_end)))
            continue
        start, end = int(lines.starts[cell]), int(lines.ends[cell])
        span = lines.span(start, end)
        if count > 1:
            second = lines.span(int(lines.starts[cell + 1]), int(lines.ends[cell + 1]))
            sink.error("bad-data", f"one label a line is required, got {count} words", second)
        found.append((lines.cell(start, end), span))
        cell += count
    return found


@dataclass(frozen=True, slots=True)
class LabelNumbers:
    """A mapping prepared for `look_up`.

    Labels of up to 8 bytes are compared as machine words (`words`, sorted, with their `numbers`),
    longer ones through `long_labels`.
    """

    words: npt.NDArray[np.uint64]
    numbers: Indices
    long_labels: dict[bytes, int]


def number_labels(labels: Sequence[str]) -> LabelNumbers:
    """Prepare the mapping that gives labels[i] the number i."""
    encoded = [label.encode() for label in labels]
    short = [i for i, label in enumerate(encoded) if len(label) <= EIGHT.size]
    words = np.array([int.from_bytes(encoded[i], "little") for i in short], np.uint64)
    order = np.argsort(words)
    long_labels = {label: i for i, label in enumerate(encoded) if len(label) > EIGHT.size}
    return LabelNumbers(words[order], np.array(short, np.intp)[order], long_labels)


def look_up(mapping: LabelNumbers, text: bytes, starts: Indices, ends: Indices) -> Indices:
    """The number of the label in each cell text[starts[i]:ends[i]], `UNKNOWN` where it has none.

    The text goes on for `PADDING` bytes after the last cell.
    """
    lengths = ends - starts
    numbers = np.full(len(starts), UNKNOWN, np.intp)
    if len(mapping.words):
        unused = np.maximum(8 * (EIGHT.size - lengths), 0).astype(np.uint64)
        words = words_at(EIGHT, np.frombuffer(text, np.uint8), starts) & (
            np.uint64(2**64 - 1) >> unused
        )
        places = np.searchsorted(mapping.words, words)
        places[places == len(mapping.words)] = 0
        known = (mapping.words[places] == words) & (lengths <= EIGHT.size)
        numbers[known] = mapping.numbers[places[known]]
    if mapping.long_labels:
        for i in np.flatnonzero(lengths > EIGHT.size).tolist():
            label = text[starts[i] : ends[i]]
            numbers[i] = mapping.long_labels.get(label, UNKNOWN)
    return numbers
