"""The lines of a table: what separates its columns is found out, and a header is left out.

Columns are separated by blanks and tabs, by commas or by semicolons; the first line that is not
blank says by which. Two numbers with nothing but blanks between them settle it, whatever else the
line holds (`1,5 2,5` has decimal commas, and is for the reader to refuse); otherwise a semicolon
does, then a comma.

A header is a first line in which no cell is a number. It is looked for in tables with commas,
semicolons or tabs: between blanks, a line of words is taken for data, and is a mistake.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import BinaryIO

from graphc.data.text_lines import PIECE_BYTES, Piece, TextLines, cut, read_pieces

SEPARATORS = b";,"

_NUMBER = re.compile(
    rb"[+-]?(?:(?:[0-9]+(?:\.[0-9]*|,[0-9]+)?|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf(?:inity)?)",
    re.IGNORECASE,
)
_QUOTED = re.compile(rb'"[^"]*"')


@dataclass(frozen=True, slots=True)
class TablePiece:
    """A piece of a table; `is_first`: its first line with cells may be a header."""

    piece: Piece
    separator: int | None
    is_first: bool

    @property
    def text(self) -> bytes:
        """Whole lines, every one with its LF."""
        return self.piece.text

    def lines(self) -> TextLines:
        """Its lines, without a header. GraphcError as of `cut`."""
        lines = cut(self.piece, self.separator)
        return without_header(lines) if self.is_first else lines


def read_table_pieces(
    stream: BinaryIO, file: str, *, piece_bytes: int = PIECE_BYTES
) -> Iterator[TablePiece]:
    """As `read_pieces`, with the separator that the first line shows."""
    separator: int | None = None
    awaited = True
    for piece in read_pieces(stream, file, piece_bytes=piece_bytes):
        line = piece.first_filled() if awaited else b""
        if line:
            separator, awaited = find_separator(line), False
        yield TablePiece(piece, separator, bool(line))


def read_table_lines(
    stream: BinaryIO, file: str, *, piece_bytes: int = PIECE_BYTES
) -> Iterator[TextLines]:
    """The lines of `read_table_pieces`, without a header."""
    for piece in read_table_pieces(stream, file, piece_bytes=piece_bytes):
        yield piece.lines()


def find_separator(line: bytes) -> int | None:
    """The byte that separates the cells of this line; None for blanks and tabs."""
    line = _QUOTED.sub(b'""', line)
    are_numbers = (_NUMBER.fullmatch(cell) is not None for cell in line.split())
    if any(a and b for a, b in pairwise(are_numbers)):
        return None
    return next((byte for byte in SEPARATORS if byte in line), None)


def without_header(lines: TextLines) -> TextLines:
    """The lines; the first one with cells loses them if it is a header."""
    index = int((lines.cell_counts > 0).argmax())
    count = int(lines.cell_counts[index])
    places = zip(lines.starts[:count].tolist(), lines.ends[:count].tolist(), strict=True)
    if lines.separator is None:
        start = int(lines.starts[0])
        if b"\t" not in lines.text[start : int(lines.line_ends[index])].strip():
            return lines
    if any(_NUMBER.fullmatch(lines.text, start, end) for start, end in places):
        return lines
    counts = lines.cell_counts.copy()
    counts[index] = 0
    return replace(lines, starts=lines.starts[count:], ends=lines.ends[count:], cell_counts=counts)
