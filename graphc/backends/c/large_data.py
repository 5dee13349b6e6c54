r"""Large arrays of a C file, as the bytes of strings, written in pieces.

    static const _Alignas(64) char parameter0[2][960] = {
        "j\234\276<\377…",
        "",
    };

As numbers 244 MB of weights took Python 155 s and 5 GB, and GCC more than that. A compiler takes a
string as it is, so it is done in a fourteenth of the time (docs/c.md), and every bit is kept.
Strings and lines are no longer than C says that a compiler has to take; what a string is shorter
than its row is zeros, so a row of zeros takes two characters.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from graphc.support.diagnostics import InternalError

LARGE = 1 << 16
"""Bytes from which an array is one of these."""

ROW = 960
"""Bytes of a string; each takes at most four characters of 4095."""

_ROWS = 1 << 10
"""Made at once."""

_BEFORE, _BEHIND = b'    "', b'",\n'

WARNING_OFF = """\
#if (defined(__clang__) && __clang_major__ >= 21) || (!defined(__clang__) && __GNUC__ >= 15)
#pragma GCC diagnostic ignored "-Wunterminated-string-initialization"
#endif
"""
"""Rows are no texts: no zero ends them."""


def declaration(name: str, size: int, alignment: int) -> str:
    """A place for so many bytes, whose content `FilledText` puts in."""
    rows = -(-size // ROW)
    kind = f"static const _Alignas({alignment}) char {name}[{rows}][{ROW}]"
    return f"{kind} = {{\n{_mark(name)}}};\n"


@dataclass(frozen=True)
class FilledText:
    """A file with contiguous arrays, by their names in C; its pieces are made as they are taken."""

    text: bytes
    arrays: Mapping[str, np.ndarray]

    def __iter__(self) -> Iterator[bytes]:
        places = {name: self.text.find(_mark(name).encode()) for name in self.arrays}
        if -1 in places.values():
            raise InternalError("the place of an array in a C file is not found")
        end = 0
        for name in sorted(places, key=places.__getitem__):
            yield self.text[end : places[name]]
            yield from string_rows(self.arrays[name])
            end = places[name] + len(_mark(name))
        yield self.text[end:]


def string_rows(array: np.ndarray) -> Iterator[bytes]:
    """The lines of an array, many at a time."""
    content = array.reshape(-1).view(np.uint8)
    characters, is_used = _characters()
    width = len(_BEFORE) + 4 * ROW + len(_BEHIND)
    inside = slice(len(_BEFORE), width - len(_BEHIND))
    for start in range(0, len(content), ROW * _ROWS):
        block = content[start : start + ROW * _ROWS]
        block = np.pad(block, (0, -len(block) % ROW)).reshape(-1, ROW)
        lines = np.empty((len(block), width), np.uint8)
        kept = np.ones(lines.shape, np.bool_)
        lines[:, : inside.start] = np.frombuffer(_BEFORE, np.uint8)
        lines[:, inside.stop :] = np.frombuffer(_BEHIND, np.uint8)
        lines[:, inside] = characters[block].reshape(len(block), -1)
        kept[:, inside] = is_used[block].reshape(len(block), -1)
        kept[~block.any(axis=1), inside] = False
        yield lines[kept].tobytes()


def _mark(name: str) -> str:
    """A line that no C file has."""
    return f"@{name}@\n"


def _characters() -> tuple[np.ndarray, np.ndarray]:
    """u8[256, 4]: how each byte is written, and which of the four characters that are.

    Digits up to 7 are never written as such, so that an octal escape may be short whatever follows;
    nor are question marks, of which C makes trigraphs.
    """
    written = [_escaped(byte) for byte in range(256)]
    characters = np.frombuffer(b"".join(w.ljust(4) for w in written), np.uint8).reshape(256, 4)
    lengths = np.array([len(w) for w in written])
    return characters, np.arange(4) < lengths[:, None]


def _escaped(byte: int) -> bytes:
    if byte in b'"\\?':
        return b"\\" + bytes([byte])
    if 0x20 <= byte < 0x7F and byte not in b"01234567":
        return bytes([byte])
    return b"\\%o" % byte
