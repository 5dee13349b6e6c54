"""Where a reader's samples come from: tables of rows, in memory, kept in a file, or passing by.

A table answers for rows by number. `ArrayTable` has them in arrays, which may be mapped files.
`Spool` and `Stream` get them piece after piece from a source that can be gone through again:
`Spool` writes them to a temporary file, from which any row can be read, `Stream` forgets them.
"""

from __future__ import annotations

import mmap
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, Protocol

import numpy as np

from graphc.data.order import Rows
from graphc.support.diagnostics import fail

Arrays = Mapping[str, np.ndarray]
Source = Callable[[], Iterator[Arrays]]
"""Pieces of the data: of every column an array (rows, width), of each equally many rows."""

RESIDENT = 1 << 26
"""Bytes that are read of mapped temporary files before their pages are handed back."""


class Table(Protocol):
    """Rows of named columns."""

    @property
    def samples(self) -> int | None:
        """How many rows there are; None before the end of the data has been seen."""
        ...

    def reach(self, stop: int, keep: int = 0) -> int:
        """Make the rows below `stop` available, or all if there are fewer; their number.

        Those below `keep` will not be taken before another call with a lower `keep`.
        """
        ...

    def take(self, rows: Rows) -> dict[str, np.ndarray]:
        """Rows that are available, in this order; of a range the arrays may be views."""
        ...


class ArrayTable:
    """Arrays (rows, width), as they are."""

    def __init__(self, arrays: Arrays) -> None:
        self.arrays = dict(arrays)
        self.samples = _rows_of(self.arrays) if self.arrays else 0

    def reach(self, stop: int, keep: int = 0) -> int:
        return min(stop, self.samples)

    def take(self, rows: Rows) -> dict[str, np.ndarray]:
        return {name: _taken(array, rows) for name, array in self.arrays.items()}


class Spool:
    """Every row goes once through a temporary file without a name, no further than asked for.

    The file is the user's alone and vanishes with the process, however that ends. It lies in
    `folder`, by default the system's for temporary files. GraphcError `file` if it cannot be
    written. What the source raises comes through, and again at the next call.
    """

    def __init__(self, source: Source, folder: Path | None = None) -> None:
        self.source = source
        self.folder = folder
        self.rows = 0
        self.samples: int | None = None
        self._pieces: Iterator[Arrays] | None = None
        self._files: dict[str, _ColumnFile] = {}
        self._resident = 0

    def reach(self, stop: int, keep: int = 0) -> int:
        while self.rows < stop and self.samples is None:
            self._append()
        return min(stop, self.rows)

    def take(self, rows: Rows) -> dict[str, np.ndarray]:
        taken = {name: _taken(file.array(self.rows), rows) for name, file in self._files.items()}
        self._resident += sum(array.nbytes for array in taken.values())
        if self._resident > RESIDENT:
            self._resident = 0
            for file in self._files.values():
                file.release_pages()
        return taken

    def _append(self) -> None:
        if self._pieces is None:
            self._pieces, self._files, self.rows = self.source(), {}, 0
        try:
            piece = next(self._pieces, None)
            if piece is None:
                self.samples = self.rows
                return
            for name, array in piece.items():
                if name not in self._files:
                    self._files[name] = _ColumnFile(self.folder, array.dtype, array.shape[1])
                self._files[name].append(array)
        except BaseException:
            self._pieces = None  # it cannot go on from here
            raise
        self.rows += _rows_of(piece)


class _ColumnFile:
    """One column of a spool: its rows one after the other, in the processor's byte order."""

    def __init__(self, folder: Path | None, dtype: np.dtype, width: int) -> None:
        self.dtype, self.width = dtype, width
        self._mapped = np.empty((0, width), dtype)
        try:
            # Open for as long as the column is used, which no `with` spans.
            self.file: BinaryIO = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
        except OSError as error:
            raise _cannot_keep(folder, error) from error
        self.folder = folder
        weakref.finalize(self, self.file.close)

    def append(self, array: np.ndarray) -> None:
        try:
            self.file.write(np.ascontiguousarray(array, self.dtype).data.cast("B"))
        except OSError as error:
            raise _cannot_keep(self.folder, error) from error

    def array(self, rows: int) -> np.ndarray:
        """At least the first `rows` rows, mapped."""
        if len(self._mapped) < rows:
            try:
                self.file.flush()
                self._mapped = np.memmap(self.file, self.dtype, "r", shape=(rows, self.width))
            except OSError as error:
                raise _cannot_keep(self.folder, error) from error
        return self._mapped

    def release_pages(self) -> None:
        """Pages that were read count as this process's until they are handed back."""
        mapping = getattr(self._mapped, "_mmap", None)
        if isinstance(mapping, mmap.mmap):
            mapping.madvise(mmap.MADV_DONTNEED)


class Stream:
    """Rows of a source as they pass: those that are not kept are read again from the beginning."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.samples: int | None = None
        self._keep = 0
        self._restart()

    def reach(self, stop: int, keep: int = 0) -> int:
        self._keep = keep
        if self.samples is not None:
            return min(stop, self.samples)
        while self._end < stop and self._read():
            pass
        return min(stop, self._end)

    def take(self, rows: Rows) -> dict[str, np.ndarray]:
        is_range = isinstance(rows, range)
        low, high = (rows.start, rows.stop) if is_range else (rows.min(), rows.max() + 1)
        self._keep = min(self._keep, int(low))  # others may read from this stream, further on
        if low < self._first:
            self._restart()
        while self._end < high and self._read():
            pass
        if self._end < high:
            raise fail(
                "bad-data", f"the data had {self.samples} samples, now they have {self._end}"
            )
        self._join()
        first = self._first
        moved = range(low - first, high - first) if isinstance(rows, range) else rows - first
        return {name: _taken(array, moved) for name, array in self._held[0].items()}

    def _join(self) -> None:
        """Make one piece of those held, from `_keep` on."""
        if len(self._held) == 1:
            return
        cut = max(0, self._keep - self._first)
        parts = [{n: array[cut:] for n, array in self._held[0].items()}, *self._held[1:]]
        self._held = [{n: np.concatenate([part[n] for part in parts]) for n in parts[0]}]
        self._first += cut

    def _restart(self) -> None:
        self._pieces = self.source()
        self._held: list[Arrays] = []
        self._first = self._end = 0

    def _read(self) -> bool:
        """Hold the next piece and drop those before `_keep`; at the end False."""
        piece = next(self._pieces, None)
        if piece is None:
            self.samples = self._end if self.samples is None else self.samples
            return False
        self._held.append(piece)
        self._end += _rows_of(piece)
        while self._held and self._first + (count := _rows_of(self._held[0])) <= self._keep:
            del self._held[0]
            self._first += count
        return True


def _rows_of(piece: Arrays) -> int:
    return len(next(iter(piece.values())))


def _taken(array: np.ndarray, rows: Rows) -> np.ndarray:
    if isinstance(rows, range):
        return array[rows.start : rows.stop]
    return array[rows]


def _cannot_keep(folder: Path | None, error: OSError) -> Exception:
    place = folder if folder is not None else tempfile.gettempdir()
    message = f"cannot keep samples in {place}: {error.strerror or error}"
    return fail("file", f"{message}; the variable TMPDIR names another folder for them")
