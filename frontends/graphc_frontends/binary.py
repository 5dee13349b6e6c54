"""Reading binary files that may be damaged or hostile: each step is checked against their size.

Nothing is allocated by what a file says about itself; what is taken is a view of bytes that are
there. Every error is one GraphcError `bad-model-file` with the file's name and the byte.
"""

from __future__ import annotations

import struct
from typing import Literal

import numpy as np

from graphc.support.diagnostics import GraphcError, fail

MAX_TEXT = 4096  # characters of a name


class Bytes:
    """A file's bytes and a place in them, `at`. Numbers are little-endian."""

    def __init__(self, data: bytes, name: str) -> None:
        self.data = data
        self.name = name
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def bad(self, message: str) -> GraphcError:
        """The error for what is wrong here."""
        return fail("bad-model-file", f"{self.name}: at byte {self.at} {message}")

    def take(self, count: int, what: str) -> memoryview:
        """The next bytes; `what` they are, for messages."""
        if count > self.left:
            raise self.bad(f"{what} requires {count} bytes, {self.left} are left")
        self.at += count
        return memoryview(self.data)[self.at - count : self.at]

    def unsigned(self, what: str) -> int:
        """A number of 8 bytes."""
        return int.from_bytes(self.take(8, what), "little")

    def signed(self, what: str) -> int:
        """A number of 4 bytes."""
        return int.from_bytes(self.take(4, what), "little", signed=True)

    def flag(self, what: str) -> bool:
        """A byte that is 0 or 1."""
        value = self.take(1, what)[0]
        if value > 1:
            raise self.bad(f"{what} requires 0 or 1, got {value}")
        return value == 1

    def floating(self, width: int, what: str) -> float:
        """A floating-point number of 4 or 8 bytes."""
        (value,) = struct.unpack("<f" if width == 4 else "<d", self.take(width, what))
        return float(value)

    def text(self, encoding: Literal["utf-16-le", "latin-1"], what: str) -> str:
        """Text up to a zero, in characters of two bytes or of one."""
        width = 2 if encoding == "utf-16-le" else 1
        zero = b"\0" * width
        end = self.at
        while (end := self.data.find(zero, end)) >= 0 and (end - self.at) % width:
            end += 1
        if end < 0 or end - self.at > MAX_TEXT * width:
            raise self.bad(f"{what} requires at most {MAX_TEXT} characters and a zero behind them")
        raw = self.take(end - self.at, what)
        self.at += width
        try:
            return str(raw, encoding)
        except UnicodeDecodeError:
            raise self.bad(f"{what} is not text") from None

    def numbers(self, rows: int, cols: int, width: int, what: str) -> np.ndarray:
        """rows · cols floating-point numbers of `width` bytes, one after the other, as a copy."""
        raw = self.take(rows * cols * width, f"{what}, {rows}x{cols},")
        return np.frombuffer(raw, f"<f{width}").astype(f"f{width}")
