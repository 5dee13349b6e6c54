"""The text format of the UCI reader: one sample a line, in columns; CSV is among its spellings.

What separates columns, and which first line is a header, is `table_lines.py`'s matter. A block
names a range of columns: features are numbers; labels are either numbers (regression) or one column
of label texts, which become one-hot rows. Columns that no block names are not looked at, but every
line must have as many columns as the first. Lines with nothing in them are skipped.

A number is what `float` of Python reads, without underscores: signs, digits, one point, an
exponent, `nan`, `inf` and `infinity` in any case. Hexadecimal numbers and digits of other scripts
are errors, and so is a finite number that the element type cannot hold: write `inf` if infinity is
meant. Values are rounded to float64 first and from there to float32, which in rare cases (about one
in 10**9 random decimals) is not the float32 nearest to the decimal.

The toolkit whose format this is counted a record when it saw the newline, and so lost a last line
that has none; here that line counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt

from graphc.data.bad_lines import BadLines, quoted
from graphc.data.decimal_text import Indices, parse_decimals
from graphc.data.labels import UNKNOWN, look_up, number_labels
from graphc.data.number_text import LONGEST_NUMBER, OVERFLOW, read_number
from graphc.data.plain_rows import NativeRows, PlainRows
from graphc.data.plans import Plan
from graphc.data.table_lines import TablePiece, read_table_pieces
from graphc.data.text_lines import PIECE_BYTES, TextLines, count_lines
from graphc.support.diagnostics import DiagnosticSink, GraphcError, Note, fail
from graphc.support.pipes import open_file_or_pipe

MAX_FILE_BYTES = 1 << 36
MAX_TABLE_BYTES = 1 << 36
MAX_CLASSES = 1 << 20
MAX_COLUMNS = 1 << 23  # more cannot stand in a line
FIRST_ROOM = 1 << 10  # samples of a pipe that memory is taken for at first


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns `start` to `start + dim - 1` of each line, counted from 0."""

    start: int
    dim: int


@dataclass(frozen=True, slots=True)
class FeatureBlock:
    """Columns of numbers."""

    name: str
    columns: Columns


@dataclass(frozen=True, slots=True)
class LabelBlock:
    """Labels. Of kind "category": one column, its text looked up in `mapping` (the texts of class
    0, 1, …), which becomes a one-hot row; without a mapping the labels are the integers 0 to
    classes - 1. Of kind "number": the same, but the class number itself is the only column. Of
    kind "regression": numbers; `classes` and `mapping` do not matter.
    """

    name: str
    columns: Columns
    classes: int
    mapping: tuple[str, ...] | None = None
    kind: Literal["category", "number", "regression"] = "category"


Block = FeatureBlock | LabelBlock


def parse_columns(text: str) -> Columns:
    """The columns that "START:DIM" stands for. GraphcError `bad-value` for other text."""
    start, colon, dim = text.partition(":")
    ok = bool(colon) and all(p.isascii() and p.isdigit() and len(p) <= 9 for p in (start, dim))
    if not ok:
        message = "columns are written START:DIM, first column (from 0) and how many"
        raise fail("bad-value", f"{message}, such as 0:64, got {quoted(text)}")
    columns = Columns(int(start), int(dim))
    _check_columns(columns, quoted(text))
    return columns


def read_uci(
    path: Path,
    blocks: Sequence[Block],
    *,
    dtype: npt.DTypeLike = np.float32,
    max_errors: int = 0,
    sink: DiagnosticSink | None = None,
    native: NativeRows | None = None,
) -> dict[str, npt.NDArray[np.floating]]:
    """The samples of the file or pipe: for each block name an array [samples, width] in C order.

    The width is the block's `dim`, or `classes` for labels of kind "category". `dtype` is float32
    or float64. Up to `max_errors` lines with mistakes are left out; `sink` then gets one warning
    with their number. `native` is asked for native code when there is much to read: with it reading
    is some times as fast, and gives the same.

    GraphcError: `bad-value` or `duplicate-name` for blocks that make no sense, `file` if the file
    cannot be read, `limit` if it is too large, else up to 20 errors `bad-data` or `label`, each
    with the place of the cell.
    """
    with open_file_or_pipe(path, MAX_FILE_BYTES) as (stream, size):
        return read_uci_stream(
            stream,
            size,
            str(path),
            blocks,
            dtype=dtype,
            max_errors=max_errors,
            sink=sink,
            native=native,
        )


def read_uci_stream(
    stream: BinaryIO,
    size: int | None,
    file: str,
    blocks: Sequence[Block],
    *,
    dtype: npt.DTypeLike = np.float32,
    max_errors: int = 0,
    sink: DiagnosticSink | None = None,
    native: NativeRows | None = None,
) -> dict[str, npt.NDArray[np.floating]]:
    """As `read_uci`, from a stream; `file` names it in messages.

    One of `size` bytes has to be able to seek: its lines are counted first. Of one of unknown size
    (None) the tables grow while it is read.
    """
    element = _checked_element(dtype)
    plans = _make_plans(blocks)
    needed = max(plan.last + 1 for plan in plans)
    room = FIRST_ROOM if size is None else _count_room(stream, size, needed)
    tables = {p.name: _allocate(room, p.width, element, p.name) for p in plans}
    bad = BadLines(file, max_errors)
    reader = _RowReader(plans, PlainRows(native, plans, size), bad)
    used = _read_samples(stream, tables, reader, may_grow=size is None)
    bad.report(sink, used)
    if size is not None and stream.tell() != size:
        raise _changed(file)
    return {name: table[:used] for name, table in tables.items()}


def read_uci_pieces(
    stream: BinaryIO,
    size: int | None,
    file: str,
    blocks: Sequence[Block],
    *,
    dtype: npt.DTypeLike = np.float32,
    sink: DiagnosticSink | None = None,
    native: NativeRows | None = None,
) -> Iterator[dict[str, npt.NDArray[np.floating]]]:
    """As `read_uci_stream`, but piece by piece: the tables of some hundred kilobytes of lines at a
    time, so that memory does not grow with the file. The first bad lines end it."""
    element = _checked_element(dtype)
    plans = _make_plans(blocks)
    bad = BadLines(file, 0)
    reader = _RowReader(plans, PlainRows(native, plans, size), bad)
    used = 0
    for piece in read_table_pieces(stream, file, piece_bytes=PIECE_BYTES):
        room = count_lines(piece.text)
        tables = {p.name: _allocate(room, p.width, element, p.name) for p in plans}
        filled = reader.fill(piece, tables, 0)
        bad.raise_if_too_many()
        if filled:
            used += filled
            yield {name: table[:filled] for name, table in tables.items()}
    if used == 0:
        raise _no_data(file)
    bad.report(sink, used)


def check_blocks(blocks: Sequence[Block]) -> None:
    """GraphcError `bad-value` or `duplicate-name` for blocks that make no sense."""
    _make_plans(blocks)


def _make_plans(blocks: Sequence[Block]) -> list[Plan]:
    """Check the blocks and prepare their label mappings."""
    if not blocks:
        raise fail("bad-value", "at least one block of columns is required, got none")
    plans: list[Plan] = []
    for block in blocks:
        if any(plan.name == block.name for plan in plans):
            raise fail("duplicate-name", f"two blocks of columns have the name `{block.name}`")
        _check_columns(block.columns, f"block `{block.name}`")
        first, dim = block.columns.start, block.columns.dim
        if isinstance(block, LabelBlock) and block.kind != "regression":
            plan = _category_plan(block)
            as_number = block.kind == "number"
            plans.append(replace(plan, width=1, one_hot=False) if as_number else plan)
        else:
            plans.append(Plan(block.name, first, first + dim - 1, dim, None))
    return plans


def _category_plan(block: LabelBlock) -> Plan:
    column = block.columns.start
    if block.columns.dim != 1:
        message = f"labels that are texts take one column, `{block.name}` has {block.columns.dim}"
        raise fail("bad-value", message)
    if not 1 <= block.classes <= MAX_CLASSES:
        message = f"1 to {MAX_CLASSES} classes are required, `{block.name}` has {block.classes}"
        raise fail("bad-value", message)
    if block.mapping is None:
        numbers = number_labels([str(i) for i in range(block.classes)])
        accepted = f"an integer from 0 to {block.classes - 1} is required as label"
        return Plan(block.name, column, column, block.classes, numbers, accepted)
    if len(block.mapping) > block.classes:
        message = f"the mapping has {len(block.mapping)} labels for {block.classes} classes"
        raise fail("bad-value", f"{message} of `{block.name}`: at most one each is required")
    accepted = f"one of the {len(block.mapping)} labels of the mapping is required"
    numbers = number_labels(block.mapping)
    return Plan(block.name, column, column, block.classes, numbers, accepted)


def _check_columns(columns: Columns, what: str) -> None:
    if columns.start < 0 or columns.dim < 1 or columns.start + columns.dim > MAX_COLUMNS:
        message = f"{what}: a first column from 0 on and at least one column are required"
        got = f"start {columns.start} and dim {columns.dim}"
        raise fail("bad-value", f"{message}, {MAX_COLUMNS} columns at most, got {got}")


def _count_room(stream: BinaryIO, size: int, needed: int) -> int:
    """No fewer samples than the file can have, from its lines and from its size."""
    lines = 1
    while block := stream.read(PIECE_BYTES):
        lines += count_lines(block)
    stream.seek(0)
    # A sample takes at least one separator for each column, which may be empty.
    return min(lines, (size + 1) // needed)


def _allocate(rows: int, width: int, element: np.dtype, name: str) -> npt.NDArray[np.floating]:
    size = rows * width * element.itemsize
    message = f"{size} bytes for {rows} rows of {width} {element} values of `{name}`"
    if size > MAX_TABLE_BYTES:
        raise fail("limit", f"at most {MAX_TABLE_BYTES} bytes can be read, got {message}")
    try:
        return np.zeros((rows, width), element)
    except MemoryError as error:
        raise fail("limit", f"there is not enough memory: {message} are required") from error


def _checked_element(dtype: npt.DTypeLike) -> np.dtype:
    element = np.dtype(dtype)
    if element not in OVERFLOW:
        raise fail("bad-value", f"float32 or float64 is required for data, got {element}")
    return element


def _no_data(file: str) -> GraphcError:
    message = f"at least one line with data is required, {file} has none"
    return fail("bad-data", f"{message}; a header does not count")


def _changed(file: str) -> GraphcError:
    return fail("file", f"{file} changed while it was read")


def _grow(tables: dict[str, npt.NDArray[np.floating]], rows: int) -> None:
    """Grow the tables to at least that many rows."""
    for name, table in tables.items():
        larger = _allocate(max(2 * len(table), rows), table.shape[1], table.dtype, name)
        larger[: len(table)] = table
        tables[name] = larger


@dataclass
class _RowReader:
    """Puts pieces of one text into tables. width: columns of a line, 0 before the first."""

    plans: Sequence[Plan]
    plain: PlainRows
    bad: BadLines
    width: int = 0

    def fill(
        self,
        piece: TablePiece,
        tables: Mapping[str, npt.NDArray[np.floating]],
        first_row: int,
    ) -> int:
        """The samples of a piece into the tables from `first_row` on; how many they are."""
        filled = self.plain.fill(piece, self.width, tables, first_row, self.bad)
        if filled is not None:
            return filled
        lines = piece.lines()
        if self.width == 0:
            if not len(lines.starts):
                return 0
            self.width = int(lines.cell_counts[lines.cell_counts > 0][0])
            _check_width(lines, self.width, self.plans)
        starts, ends = _regular_cells(lines, self.width, self.bad)
        if first_row + len(starts) > min(map(len, tables.values())):
            raise _changed(self.bad.file)
        return _fill_rows(lines, starts, ends, self.plans, tables, first_row, self.bad)


def _read_samples(
    stream: BinaryIO,
    tables: dict[str, npt.NDArray[np.floating]],
    reader: _RowReader,
    *,
    may_grow: bool,
) -> int:
    """Fill the tables from the top; returns how many rows were filled."""
    bad, used = reader.bad, 0
    for piece in read_table_pieces(stream, bad.file, piece_bytes=PIECE_BYTES):
        if may_grow and (rows := used + count_lines(piece.text)) > min(map(len, tables.values())):
            _grow(tables, rows)
        used += reader.fill(piece, tables, used)
        if bad.is_full:
            break
    bad.raise_if_too_many()
    if used == 0:
        raise _no_data(bad.file)
    return used


def _check_width(lines: TextLines, width: int, plans: Sequence[Plan]) -> None:
    """Fail if a block names columns that the first line with data does not have."""
    span = lines.span(int(lines.starts[0]), int(lines.ends[0]))
    for plan in plans:
        if plan.last >= width:
            got = "1 column" if width == 1 else f"{width} columns"
            message = f"`{plan.name}` is read from columns {plan.first} to {plan.last}"
            note = Note(f"columns are counted from 0 and separated by {_separated_by(lines)}")
            raise fail("bad-data", f"{message}, this line has {got}", span, notes=(note,))


def _separated_by(lines: TextLines) -> str:
    return "blanks or tabs" if lines.separator is None else f"`{chr(lines.separator)}`"


def _regular_cells(lines: TextLines, width: int, bad: BadLines) -> tuple[Indices, Indices]:
    """Starts and ends of the cells as arrays [lines, width], without lines of another width."""
    counts = lines.cell_counts
    fits = counts == width
    if len(lines.starts) == width * len(counts) and fits.all():
        return lines.starts.reshape(-1, width), lines.ends.reshape(-1, width)
    first_cells = np.cumsum(counts) - counts
    for i in np.flatnonzero(~fits & (counts > 0)).tolist():
        bad.lines += 1
        last = first_cells[i] + min(int(counts[i]), width + 1) - 1
        span = lines.span(int(lines.starts[last]), int(lines.ends[last]))
        message = f"{width} columns are required as in the first line, got {counts[i]}"
        bad.add("bad-data", message, span)
        if bad.is_full:
            break
    keep = np.repeat(fits, counts)
    return lines.starts[keep].reshape(-1, width), lines.ends[keep].reshape(-1, width)


def _fill_rows(
    lines: TextLines,
    starts: Indices,
    ends: Indices,
    plans: Sequence[Plan],
    tables: Mapping[str, npt.NDArray[np.floating]],
    first_row: int,
    bad: BadLines,
) -> int:
    """Put the cells [lines, width] into the tables from `first_row` on; returns rows filled."""
    rows = slice(first_row, first_row + len(starts))
    usable = np.ones(len(starts), np.bool_)
    for plan in plans:
        columns = slice(plan.first, plan.last + 1)
        from_, to = starts[:, columns].reshape(-1), ends[:, columns].reshape(-1)
        table = tables[plan.name][rows]
        if plan.labels is None:
            values = _numbers(lines, from_, to, plan, table.dtype, usable, bad)
            table[:] = values.reshape(table.shape)
        else:
            classes = look_up(plan.labels, lines.text, from_, to)
            _report_labels(lines, from_, to, plan, classes, usable, bad)
            if plan.one_hot:
                table[np.arange(len(table)), np.maximum(classes, 0)] = 1
            else:
                table[:, 0] = classes
    if usable.all():
        return len(starts)
    bad.lines += int(np.count_nonzero(~usable))
    kept = int(np.count_nonzero(usable))
    for table in tables.values():
        table[first_row : first_row + kept] = table[rows][usable]
        table[first_row + kept : first_row + len(usable)] = 0
    return kept


def _numbers(
    lines: TextLines,
    starts: Indices,
    ends: Indices,
    plan: Plan,
    element: np.dtype,
    usable: npt.NDArray[np.bool_],
    bad: BadLines,
) -> npt.NDArray[np.float64]:
    """The values of the cells; rows with a cell that is no number are marked in `usable`.

    Only cells that `parse_decimals` leaves over can overflow or be no finite number: what it reads
    is below 1e38.
    """
    values, left_over = parse_decimals(lines.buffer, starts, ends)
    overflow = OVERFLOW[element]
    quick = _quick_numbers(lines, starts[left_over], ends[left_over], overflow)
    if quick is not None:
        values[left_over] = quick
    else:
        _read_slowly(lines, starts, ends, left_over, values, plan, overflow, usable, bad)
    infinite = left_over[~np.isfinite(values[left_over])]
    if len(infinite):
        first = int(infinite[0])
        start, end = int(starts[first]), int(ends[first])
        place = f"column {plan.first + first % plan.width} (`{plan.name}`)"
        message = f"a number that is not finite in {place}: {quoted(lines.cell(start, end))}"
        bad.add_infinite(len(infinite), message, lines.span(start, end))
    return values


def _read_slowly(
    lines: TextLines,
    starts: Indices,
    ends: Indices,
    left_over: Indices,
    values: npt.NDArray[np.float64],
    plan: Plan,
    overflow: float,
    usable: npt.NDArray[np.bool_],
    bad: BadLines,
) -> None:
    """The values of the cells left over, one by one; 0 and an error for one that is no number."""
    for i in left_over.tolist():
        start, end = int(starts[i]), int(ends[i])
        value, fault = read_number(lines.text[start:end], overflow)
        values[i] = 0.0 if fault else value
        if fault:
            row, column = divmod(i, plan.width)
            usable[row] = False
            place = f"in column {plan.first + column} (`{plan.name}`)"
            message = f"{fault} {place}, got {_shown(lines, start, end)}"
            bad.add("bad-data", message, lines.span(start, end))


def _quick_numbers(
    lines: TextLines, starts: Indices, ends: Indices, overflow: float
) -> npt.NDArray[np.float64] | None:
    """The values of the cells, or None if one of them needs a closer look."""
    if not len(starts):
        return np.empty(0)
    if int((ends - starts).max()) > LONGEST_NUMBER or b"_" in lines.text:
        return None
    places = zip(starts.tolist(), ends.tolist(), strict=True)
    try:
        values = np.array([float(lines.text[start:end]) for start, end in places])
    except ValueError:
        return None
    return None if (np.abs(values) >= overflow).any() else values


def _shown(lines: TextLines, start: int, end: int) -> str:
    return quoted(lines.cell(start, end)) if end > start else "an empty cell"


def _report_labels(
    lines: TextLines,
    starts: Indices,
    ends: Indices,
    plan: Plan,
    classes: Indices,
    usable: npt.NDArray[np.bool_],
    bad: BadLines,
) -> None:
    """Mark the rows whose label has no class in `usable` and note an error for each."""
    for row in np.flatnonzero(classes == UNKNOWN).tolist():
        usable[row] = False
        start, end = int(starts[row]), int(ends[row])
        got = _shown(lines, start, end)
        message = f"{plan.accepted} in column {plan.first} (`{plan.name}`), got {got}"
        bad.add("label", message, lines.span(start, end))
