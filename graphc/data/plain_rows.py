"""Rows of plain cells read by native code, which a caller may hand in: the quick path of `uci.py`.

Native code goes through the text of some lines once and writes numbers into the tables at once.
It reads what files consist of nearly everywhere, and judges nothing: at a line of another width, a
control character, a quoted cell or a label without a class the whole piece is refused, and
`uci.py` reads it again and reports. Cells that are no plain number (`nan`, more than 19 digits, a
subnormal value) are noted, and read here.

The job
    Native code gets one address, of a table of 64-bit words; the constants below are their places.
    It returns 0, or 1 if it refuses. A run is neighbouring columns of one kind, in the order of a
    line: kind, number of columns, address of the first cell's value, bytes to that of the next row,
    bytes to that of the next column. A label's value are its start and its end in the text. Labels
    that are few and short become ones in their rows instead: the address is then that of class 0,
    and two words more are the address of a hash table and 64 less the bits of its places. An odd
    cell is four words: its run, the address of its value, its start and its end.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from graphc.data.bad_lines import BadLines
from graphc.data.decimal_text import PADDING, Indices
from graphc.data.labels import UNKNOWN, LabelNumbers, look_up
from graphc.data.number_text import OVERFLOW, read_number
from graphc.data.plans import Plan
from graphc.data.table_lines import TablePiece

TEXT, SIZE, SEPARATOR, RUNS, RUN_COUNT, ROOM, ODD, ODD_ROOM, ROWS, ODD_COUNT = range(10)
JOB_WORDS = 10
RUN_WORDS = 7
ODD_WORDS = 4
SKIPPED, LABELS, CLASSES, FLOATS, DOUBLES = range(5)

HASH = 0x9E3779B97F4A7C15 - 2**64
"""A label of up to eight bytes, as a word, is hashed by the upper bits of its product with this."""

MOST_HASHED = 4096
"""Labels: with more of them the table takes longer to make than it saves."""

MOST_ODD = 4096
"""Odd cells of a piece; with more of them the other reader is no slower."""

ReadRows = Callable[[int], int]
"""(address of a job) -> 0, or 1 if it refuses."""


@dataclass(frozen=True, slots=True)
class NativeRows:
    """Native code that can be had.

    load         compiles or loads it, which takes milliseconds; None: not here after all
    least_bytes  shorter texts are not worth them
    """

    load: Callable[[], ReadRows | None]
    least_bytes: int


Run = tuple[str | None, int]
"""The name of a plan, or None for columns that none is for, and how many columns."""


class PlainRows:
    """Reads pieces of text into tables, those of `plans`, if their lines are plain.

    native  loaded when so much text is known to be there
    size    bytes of the whole text; None: unknown
    """

    def __init__(self, native: NativeRows | None, plans: Sequence[Plan], size: int | None) -> None:
        self._native = native if _can_be_plain(plans) else None
        self._read: ReadRows | None = None
        self._plans = {plan.name: plan for plan in plans}
        to_ones = [plan for plan in plans if plan.labels and plan.one_hot]
        hashed = {plan.name: _hash_table(plan.labels) for plan in to_ones if plan.labels}
        self._hashed = {name: table for name, table in hashed.items() if table is not None}
        self._size = size or 0
        self._bytes_read = 0
        self._odd = np.empty((MOST_ODD, ODD_WORDS), np.int64)

    def fill(
        self,
        piece: TablePiece,
        width: int,
        tables: Mapping[str, npt.NDArray[np.floating]],
        first_row: int,
        bad: BadLines,
    ) -> int | None:
        """Put the lines, of `width` cells each, into the tables from `first_row` on: how many rows
        these are.

        None if it refuses; then rows from `first_row` on are undefined in tables of numbers, and
        zeros, as before, in tables of labels. It refuses while the width is unknown (0).
        """
        self._bytes_read += len(piece.text)
        known = max(self._size, self._bytes_read)
        if width and self._native is not None and known >= self._native.least_bytes:
            self._read, self._native = self._native.load(), None
        if self._read is None:
            return None
        return self._fill(self._read, piece, width, tables, first_row, bad)

    def _fill(
        self,
        read: ReadRows,
        piece: TablePiece,
        width: int,
        tables: Mapping[str, npt.NDArray[np.floating]],
        first_row: int,
        bad: BadLines,
    ) -> int | None:
        room = min(min(map(len, tables.values())) - first_row, len(piece.text) // width + 1)
        rows = {name: table[first_row:] for name, table in tables.items()}
        looked_up = [n for n, p in self._plans.items() if p.labels and n not in self._hashed]
        bounds = {name: np.empty((room, 2), np.intp) for name in looked_up}
        runs = _runs(list(self._plans.values()), width)
        placed = self._placed(runs, {**rows, **bounds})
        text = piece.text + b"\n" * PADDING
        job = np.zeros(JOB_WORDS, np.int64)
        job[SEPARATOR] = ord(" ") if piece.separator is None else piece.separator
        job[[SIZE, RUNS, RUN_COUNT]] = len(piece.text), placed.ctypes.data, len(runs)
        job[ODD] = self._odd.ctypes.data
        job[[ROOM, ODD_ROOM]] = room, MOST_ODD
        job[TEXT] = np.frombuffer(text, np.uint8).ctypes.data
        refused = bool(read(job.ctypes.data))
        count, odd = int(job[ROWS]), self._odd[: job[ODD_COUNT]]
        classes = self._classes(text, {name: b[:count] for name, b in bounds.items()}, refused)
        if classes is None or not _read_odd(text, odd, runs, rows, bad):
            for name in self._hashed:
                rows[name][:room] = 0
            return None
        for name, numbers in classes.items():
            if self._plans[name].one_hot:
                rows[name][np.arange(count), numbers] = 1
            else:
                rows[name][:count, 0] = numbers
        return count

    def _placed(
        self, runs: Sequence[Run], targets: Mapping[str, np.ndarray]
    ) -> npt.NDArray[np.int64]:
        """The runs as native code takes them, for these first rows of what it fills."""
        placed = np.zeros((len(runs), RUN_WORDS), np.int64)
        for record, (name, columns) in zip(placed, runs, strict=True):
            record[:2] = SKIPPED, columns
            if name is not None:
                target = targets[name]
                kind = DOUBLES if target.dtype == np.float64 else FLOATS
                record[0] = LABELS if self._plans[name].labels else kind
                record[2:5] = target.ctypes.data, target.strides[0], target.strides[1]
                if name in self._hashed:
                    slots = self._hashed[name]
                    record[0] = CLASSES
                    record[5:] = slots.ctypes.data, 65 - len(slots).bit_length()
        return placed

    def _classes(
        self, text: bytes, bounds: Mapping[str, npt.NDArray[np.intp]], refused: bool
    ) -> dict[str, Indices] | None:
        """The class of each label; None if one has none, or `refused`."""
        if refused:
            return None
        found: dict[str, Indices] = {}
        for name, places in bounds.items():
            labels = self._plans[name].labels
            assert labels is not None
            found[name] = look_up(labels, text, places[:, 0], places[:, 1])
            if (found[name] == UNKNOWN).any():
                return None
        return found


def _read_odd(
    text: bytes,
    odd: npt.NDArray[np.int64],
    runs: Sequence[Run],
    rows: Mapping[str, npt.NDArray[np.floating]],
    bad: BadLines,
) -> bool:
    """Read the odd cells; False if one is no number, or if it is not finite and the first of these:
    the other reader says where that is."""
    infinite = 0
    for run, address, start, end in odd.tolist():
        table = rows[runs[run][0] or ""]
        value, fault = read_number(text[start:end], OVERFLOW[table.dtype])
        if fault:
            return False
        infinite += not np.isfinite(value)
        table.reshape(-1)[(address - table.ctypes.data) // table.itemsize] = value
    if infinite and bad.first_infinite is None:
        return False
    bad.infinite += infinite
    return True


def _hash_table(labels: LabelNumbers) -> npt.NDArray[np.int64] | None:
    """[slots, 2]: labels as words and their classes, -1 in an empty slot. None if there are too
    many labels, or long ones."""
    count = len(labels.words)
    if labels.long_labels or not 0 < count <= MOST_HASHED:
        return None
    bits = count.bit_length() + 1
    table = np.full((1 << bits, 2), -1, np.int64)
    for word, number in zip(labels.words.tolist(), labels.numbers.tolist(), strict=True):
        slot: int = (word * HASH) % 2**64 >> 64 - bits
        while table[slot, 1] >= 0:
            slot = (slot + 1) % len(table)
        table[slot] = np.uint64(word).astype(np.int64), number
    return table


def _can_be_plain(plans: Sequence[Plan]) -> bool:
    """Whether native code can read these: no column for two of them, on a machine whose words
    begin with their low byte."""
    ordered = sorted(plans, key=lambda plan: plan.first)
    apart = all(a.last < b.first for a, b in pairwise(ordered))
    return apart and sys.byteorder == "little" and ctypes.sizeof(ctypes.c_void_p) == 8


def _runs(plans: Sequence[Plan], width: int) -> list[Run]:
    """The runs of a line, in its order."""
    runs: list[Run] = []
    column = 0
    for plan in sorted(plans, key=lambda plan: plan.first):
        if plan.first > column:
            runs.append((None, plan.first - column))
        runs.append((plan.name, plan.last + 1 - plan.first))
        column = plan.last + 1
    if column < width:
        runs.append((None, width - column))
    return runs
