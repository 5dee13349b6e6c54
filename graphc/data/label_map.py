"""Makes a label mapping file of the labels that data have.

Line n of the file is the text of class n; labels stand there in the order in which the data have
them first, as the toolkit's createLabelMap writes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from graphc.data.table_lines import read_table_lines
from graphc.data.text_lines import TextLines
from graphc.data.uci import MAX_CLASSES, MAX_FILE_BYTES
from graphc.support.arguments import paths, whole
from graphc.support.diagnostics import fail
from graphc.support.files import write_atomically
from graphc.support.pipes import open_file_or_pipe


def create_label_map(
    files: str | Path | Sequence[str | Path],
    column: int,
    target: str | Path,
    *,
    classes: int | None = None,
) -> tuple[str, ...]:
    """Write the labels in a column of text files, counted from 0, to the mapping file `target`.

    classes  at most so many labels are expected

    Memory grows with the labels, not with the data. Returns the labels. GraphcError `bad-data` for
    a line without that column, for a label with a blank in it (as quoted cells may have) and for no
    label at all, `limit` for more labels than classes; then `target` is as it was.
    """
    at = whole(column, "column")
    allowed = MAX_CLASSES if classes is None else whole(classes, "classes")
    found: dict[bytes, None] = {}
    for path in paths(files, "files"):
        with open_file_or_pipe(path, MAX_FILE_BYTES) as (stream, _):
            for lines in read_table_lines(stream, str(path)):
                for start, end in _cells(lines, at):
                    label = lines.text[start:end]
                    if label in found:
                        continue
                    found[label] = None
                    _check(lines, start, end, len(found), allowed)
    if not found:
        raise fail("bad-data", "at least one label is required, the data have none")
    write_atomically(Path(target), b"".join(label + b"\n" for label in found))
    return tuple(label.decode() for label in found)


def _check(lines: TextLines, start: int, end: int, count: int, allowed: int) -> None:
    """Fail unless a mapping file can hold the label, and one more."""
    place = lines.span(start, end)
    label = lines.text[start:end]
    if not label or len(label.split()) != 1:
        message = f"a label of one word is required, got {label.decode()!r}"
        raise fail("bad-data", message, place)
    if count > allowed:
        message = f"at most {allowed} labels are expected, `{label.decode()}` is one more"
        raise fail("limit", message, place)


def _cells(lines: TextLines, column: int) -> Iterator[tuple[int, int]]:
    """Start and end of the column's cell in every line that has cells."""
    cell = 0
    for count in lines.cell_counts.tolist():
        if count and column >= count:
            last = cell + count - 1
            span = lines.span(int(lines.starts[last]), int(lines.ends[last]))
            message = f"labels are in column {column}, this line has {count} columns"
            raise fail("bad-data", f"{message} (counted from 0)", span)
        if count:
            yield int(lines.starts[cell + column]), int(lines.ends[cell + column])
        cell += count
