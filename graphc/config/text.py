"""A text that was put together from others and still knows where each character came from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from graphc.support.source import SourceFile, Span


@dataclass(frozen=True, slots=True)
class Piece:
    """Characters from `start` on came from source.text[origin:].

    extent  0: character by character; else all of them stand for that many characters there
    """

    start: int
    source: SourceFile
    origin: int
    extent: int = 0


@dataclass(frozen=True, slots=True)
class Text:
    """Characters and their origins; the first piece starts at 0, and there is always one."""

    chars: str
    pieces: tuple[Piece, ...]

    @staticmethod
    def of(source: SourceFile) -> Text:
        """All of a source file."""
        return Text(source.text, (Piece(0, source, 0),))

    def span(self, start: int = 0, end: int | None = None) -> Span:
        """The place of chars[start:end], as far as it lies in one line of one file."""
        end = len(self.chars) if end is None else end
        at = self._piece(start)
        first = self.pieces[at]
        begin = first.origin + (0 if first.extent else start - first.start)
        if at < len(self.pieces) - 1:
            end = min(end, self.pieces[at + 1].start)
        return first.source.span(begin, begin + (first.extent or end - start))

    def part(self, start: int, end: int) -> Text:
        """chars[start:end]."""
        first = bisect_right(self.pieces, start, key=_start) - 1
        last = bisect_right(self.pieces, max(start, end - 1), key=_start)
        return Text(self.chars[start:end], _moved(self.pieces[first:last], start))

    def stripped(self) -> Text:
        """Without blanks and line ends around."""
        start = len(self.chars) - len(self.chars.lstrip())
        end = max(start, len(self.chars.rstrip()))
        return self.part(start, end)

    def standing_for(self, chars: str) -> Text:
        """Other characters that stand for this text: messages about them point here."""
        first = self.pieces[0]
        return Text(chars, (Piece(0, first.source, first.origin, max(len(self.chars), 1)),))

    def _piece(self, offset: int) -> int:
        return bisect_right(self.pieces, offset, key=_start) - 1


def joined(parts: Sequence[Text], separator: str = "") -> Text:
    """The parts one after the other. ValueError for none."""
    if not parts:
        raise ValueError("at least one text is required")
    pieces: list[Piece] = []
    length = 0
    for part in parts:
        pieces += (Piece(p.start + length, p.source, p.origin, p.extent) for p in part.pieces)
        length += len(part.chars) + len(separator)
    return Text(separator.join(p.chars for p in parts), tuple(pieces))


def _start(piece: Piece) -> int:
    return piece.start


def _moved(pieces: Sequence[Piece], start: int) -> tuple[Piece, ...]:
    """The pieces of a part that begins at `start`."""
    moved: list[Piece] = []
    for p in pieces:
        cut = max(start - p.start, 0)
        origin = p.origin if p.extent else p.origin + cut
        moved.append(Piece(p.start + cut - start, p.source, origin, p.extent))
    return tuple(moved)
