"""Text files of cells: read in pieces, checked, cut into cells at blanks or at a separator.

Text means UTF-8 with or without a byte order mark, lines ended by LF or CR LF. NUL and other
control characters, UTF-16 and a lone CR are errors. The last line may lack its line end. A piece
is some hundred kilobytes of whole lines, so memory does not grow with the file. What the cells mean
is not judged here.

Where blanks and tabs separate cells, no cell is empty. With a separator, blanks and tabs around a
cell are dropped, a cell may be empty, and one in double quotes may hold the separator.
"""

from __future__ import annotations

import codecs
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from graphc.data.decimal_text import PADDING, Bytes, Indices
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.source import SourceFile, Span

PIECE_BYTES = 1 << 18  # the arrays made from one piece then stay in a second-level cache
FIRST_PIECE_BYTES = 1 << 14  # enough to see what the lines are like
MAX_LINE_BYTES = 1 << 24
LONGEST_EXCERPT = 120  # characters; a longer line is not shown under a message
BLANK, TAB, LF, CR, QUOTE = b' \t\n\r"'

# Byte order marks of encodings other than UTF-8; UTF-32 first, as it starts like UTF-16.
FOREIGN_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}


@dataclass(frozen=True, slots=True)
class Piece:
    """Some whole lines of a file, not yet cut into cells.

    first_line  number of the first line in the file, from 1
    text        the lines, every one with its LF
    """

    file: str
    first_line: int
    text: bytes

    def first_filled(self) -> bytes:
        """The first line that is not blank, stripped; empty if there is none."""
        return self.text.lstrip().partition(b"\n")[0].rstrip()


@dataclass(frozen=True, slots=True)
class TextLines:
    """Some whole lines of a file. Cell i is text[starts[i]:ends[i]]; offsets are in bytes.

    first_line  number of the first line in the file, from 1
    text        the lines, every one with its LF, and `PADDING` more bytes
    line_ends   offset of each line's LF
    cell_counts cells of each line
    separator   the byte between cells; None: blanks and tabs
    """

    file: str
    first_line: int
    text: bytes
    starts: Indices
    ends: Indices
    line_ends: Indices
    cell_counts: Indices
    separator: int | None = None

    @property
    def buffer(self) -> Bytes:
        return np.frombuffer(self.text, np.uint8)

    def cell(self, start: int, end: int) -> str:
        """The text of the cell at these offsets."""
        return self.text[start:end].decode()

    def span(self, start: int, end: int) -> Span:
        """Where text[start:end] stands in the file; columns count characters."""
        index = int(np.searchsorted(self.line_ends, start))
        line_start = int(self.line_ends[index - 1]) + 1 if index else 0
        return make_span(self.file, self.first_line + index, self.text, line_start, start, end)


@dataclass(frozen=True, eq=False)
class ShownLine(SourceFile):
    """A source of which one line is at hand, for the excerpt under a message."""

    number: int = 1

    def line_text(self, line: int) -> str | None:
        return self.text if line == self.number and self.text else None


def make_span(file: str, line: int, text: bytes, line_start: int, start: int, end: int) -> Span:
    """The span of text[start:end] in line number `line`, which starts at text[line_start]."""
    column = len(text[line_start:start].decode("utf-8", "replace")) + 1
    end_column = column + max(len(text[start:end].decode("utf-8", "replace")), 1)
    line_end = text.find(b"\n", line_start, line_start + 4 * LONGEST_EXCERPT)
    shown = text[line_start:line_end].decode("utf-8", "replace").rstrip("\r")
    if line_end < 0 or len(shown) > LONGEST_EXCERPT:
        shown = ""
    return Span(file, line, column, end_column, ShownLine(file, shown, line))


def read_lines(
    stream: BinaryIO, file: str, *, piece_bytes: int = PIECE_BYTES
) -> Iterator[TextLines]:
    """The lines of the stream, cut at blanks and tabs, in pieces as `read_pieces` gives them."""
    for piece in read_pieces(stream, file, piece_bytes=piece_bytes):
        yield cut(piece, None)


def read_pieces(stream: BinaryIO, file: str, *, piece_bytes: int = PIECE_BYTES) -> Iterator[Piece]:
    """The text of the stream in pieces of about `piece_bytes` (4 or more), without empty pieces.

    `file` is the name of the stream in messages.

    GraphcError `bad-data` if it is no text as described above, `limit` if a line has more than
    `MAX_LINE_BYTES`.
    """
    for first_line, text in _whole_lines(stream, file, piece_bytes):
        _check(text, file, first_line)
        yield Piece(file, first_line, text)


def cut(piece: Piece, separator: int | None) -> TextLines:
    """The cells of a piece, between bytes `separator`; None: between blanks and tabs.

    GraphcError `bad-data` for control characters and for a cell whose quotes do not end.
    """
    if separator is None:
        return _cut(piece.text, piece.file, piece.first_line)
    return _cut_at(separator, piece.text, piece.file, piece.first_line)


def _whole_lines(stream: BinaryIO, file: str, piece_bytes: int) -> Iterator[tuple[int, bytes]]:
    """Pieces of whole lines, each with its LF, and the number of their first line."""
    first_line = 1
    rest = b""  # of a line whose end has not been read
    read = stream.read(min(piece_bytes, FIRST_PIECE_BYTES))
    block = _without_mark(read, file)
    while read:
        end = block.rfind(b"\n") + 1
        if end:
            text, rest = b"".join((rest, memoryview(block)[:end])), block[end:]
            yield first_line, text
            first_line += count_lines(text)
        else:
            rest += block
        if len(rest) > MAX_LINE_BYTES:
            message = f"a line may have at most {MAX_LINE_BYTES} bytes; is this a text file?"
            raise fail(
                "limit", message, Span(file, first_line, 1, 2, ShownLine(file, "", first_line))
            )
        block = read = stream.read(piece_bytes)
    if rest:
        yield first_line, rest + b"\n"


def count_lines(text: bytes) -> int:
    """How many LF there are; several times as fast as `bytes.count`."""
    return int(np.count_nonzero(np.frombuffer(text, np.uint8) == LF))


def _without_mark(text: bytes, file: str) -> bytes:
    """The first bytes of a file without the byte order mark of UTF-8."""
    for mark, encoding in FOREIGN_MARKS.items():
        if text.startswith(mark):
            message = f"text in UTF-8 is required, this file is {encoding}: convert it first"
            raise fail("bad-data", message, Span(file, 1, 1, 2, ShownLine(file, "", 1)))
    return text.removeprefix(codecs.BOM_UTF8)


def _check(text: bytes, file: str, first_line: int) -> None:
    """Fail unless it is UTF-8 and each of its CR belongs to a CR LF."""
    if not text.isascii():
        try:
            text.decode()
        except UnicodeDecodeError as error:
            message = f"text in UTF-8 is required, got the byte {text[error.start]:#04x}"
            raise _fault(message, text, error.start, file, first_line) from error
    if b"\r" in text and text.count(b"\r") != text.count(b"\r\n"):
        at = next(i for i, c in enumerate(text) if c == CR and text[i + 1] != LF)
        message = "lines that end in LF or CR LF are required, got a CR without LF"
        raise _fault(message, text, at, file, first_line)


def _cut(text: bytes, file: str, first_line: int) -> TextLines:
    """The cells of `text`, which ends in LF, between blanks and tabs."""
    characters = np.frombuffer(text, np.uint8)
    is_line_end = characters == LF
    ends = np.flatnonzero(characters <= BLANK)
    if len(ends) != np.count_nonzero(characters == BLANK) + np.count_nonzero(is_line_end):
        _check_controls(text, characters[ends], ends, file, first_line)
    starts = np.empty_like(ends)
    starts[0] = 0
    np.add(ends[:-1], 1, out=starts[1:])
    filled = ends > starts  # two separators in a row have nothing between them
    if not filled.all():
        starts, ends = starts[filled], ends[filled]
    line_ends = np.flatnonzero(is_line_end)
    cells_before = np.searchsorted(ends, line_ends, side="right")
    counts = np.diff(cells_before, prepend=0)
    padded = text + b"\n" * PADDING
    return TextLines(file, first_line, padded, starts, ends, line_ends, counts)


def _cut_at(separator: int, text: bytes, file: str, first_line: int) -> TextLines:
    """The cells of `text`, which ends in LF, between bytes `separator` that are not quoted."""
    characters = np.frombuffer(text, np.uint8)
    low = np.flatnonzero(characters < BLANK)
    _check_controls(text, characters[low], low, file, first_line)
    is_line_end = characters == LF
    is_end = is_line_end | (characters == separator)
    if QUOTE in text:
        is_quoted = np.cumsum(characters == QUOTE) % 2 == 1
        for line_end in np.flatnonzero(is_line_end & is_quoted)[:1].tolist():
            message = 'a cell that begins with `"` has to end with one on the same line'
            raise _fault(message, text, text.rfind(QUOTE, 0, line_end), file, first_line)
        is_end &= ~is_quoted
    ends, line_ends = np.flatnonzero(is_end), np.flatnonzero(is_line_end)
    starts = np.concatenate([[0], ends[:-1] + 1])
    counts = np.diff(np.searchsorted(ends, line_ends, side="right"), prepend=0)
    starts, ends = _trimmed(characters, starts, ends)
    is_blank = (counts == 1) & (starts == ends)[np.cumsum(counts) - counts]
    filled = np.repeat(~is_blank, counts)
    starts, ends = _unquoted(characters, starts[filled], ends[filled])
    padded = text + b"\n" * PADDING
    counts = np.where(is_blank, 0, counts)
    return TextLines(file, first_line, padded, starts, ends, line_ends, counts, separator)


def _trimmed(characters: Bytes, starts: Indices, ends: Indices) -> tuple[Indices, Indices]:
    """The cells without blanks, tabs and CR around them."""
    solid = np.flatnonzero(characters > BLANK)
    next_solid = np.append(solid, len(characters))[np.searchsorted(solid, starts)]
    starts = np.minimum(next_solid, ends)
    last_solid = np.concatenate([[-1], solid])[np.searchsorted(solid, ends)]
    return starts, np.maximum(last_solid + 1, starts)


def _unquoted(characters: Bytes, starts: Indices, ends: Indices) -> tuple[Indices, Indices]:
    """The cells without the double quotes around them. Doubled ones inside stay as they are."""
    quoted = (ends - starts > 1) & (characters[starts] == QUOTE) & (characters[ends - 1] == QUOTE)
    return starts + quoted, ends - quoted


def _check_controls(
    text: bytes, found: Bytes, offsets: Indices, file: str, first_line: int
) -> None:
    """Fail if a byte below the blank, at `offsets` of `text`, is no tab and no line end."""
    bad = ~np.isin(found, (BLANK, TAB, LF, CR))
    if not bad.any():
        return
    at = int(offsets[bad][0])
    name = "NUL" if text[at] == 0 else f"the control character {text[at]:#04x}"
    message = f"text is required, got {name}: a binary file, or text that is not UTF-8?"
    raise _fault(message, text, at, file, first_line)


def _fault(message: str, text: bytes, at: int, file: str, first_line: int) -> GraphcError:
    line = first_line + text.count(b"\n", 0, at)
    line_start = text.rfind(b"\n", 0, at) + 1
    return fail("bad-data", message, make_span(file, line, text, line_start, at, at + 1))
