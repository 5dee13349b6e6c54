"""Memory between pages that nobody may touch: one access outside of a buffer ends the process."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

Array = np.ndarray
Side = Literal["end", "start"]
SIDES: tuple[Side, ...] = ("end", "start")

GARBAGE: Mapping[Side, int] = {"end": 0xFF, "start": 0xC1}
"""What memory is full of: nan and -1, then about -24 in either type."""

_NO_ACCESS, _READ = 0, 1
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.mmap.restype = ctypes.c_void_p
_LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
_LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
_LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]


@dataclass(frozen=True)
class Buffer:
    """`array` of bytes inside of `pages`, what the pages between the two guards hold."""

    array: Array
    pages: Array

    def protect(self) -> None:
        """From now on writing ends the process."""
        _checked(_LIBC.mprotect(self.pages.ctypes.data, self.pages.size, _READ))

    def is_intact(self, garbage: int) -> bool:
        """Whether nothing was written beside the array."""
        before = self.array.ctypes.data - self.pages.ctypes.data
        around = (self.pages[:before], self.pages[before + self.array.size :])
        return all(bool((part == garbage).all()) for part in around)


class GuardedMemory:
    """Buffers with a page on each side that may not be touched, full of garbage."""

    def __init__(self, side: Side, garbage: int | None = None) -> None:
        self.side: Side = side
        self.garbage = GARBAGE[side] if garbage is None else garbage
        self.buffers: list[Buffer] = []
        self._mappings: list[tuple[int, int]] = []

    def bytes(self, size: int, alignment: int) -> Buffer:
        """A new buffer, flush with the page before or after it as far as `alignment` allows."""
        page = mmap.PAGESIZE
        inside = -(-max(size, 1) // page) * page
        total = inside + 2 * page
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS
        start = _LIBC.mmap(None, total, mmap.PROT_READ | mmap.PROT_WRITE, flags, -1, 0)
        assert start not in (None, ctypes.c_void_p(-1).value), "no memory"
        self._mappings.append((start, total))
        for guard in (start, start + page + inside):
            _checked(_LIBC.mprotect(guard, page, _NO_ACCESS))
        pages = _view(start + page, inside)
        pages[:] = self.garbage
        before = (inside - size) // alignment * alignment if self.side == "end" else 0
        buffer = Buffer(_view(start + page + before, size), pages)
        self.buffers.append(buffer)
        return buffer

    def like(self, array: Array) -> tuple[Buffer, Array]:
        """A buffer for an array of this shape and element type, and that array, uninitialised."""
        buffer = self.bytes(array.nbytes, array.itemsize)
        return buffer, buffer.array.view(array.dtype).reshape(array.shape)

    def problems(self) -> list[str]:
        """Writes into what lies between a buffer and its guards, for alignment."""
        return [
            f"bytes beside buffer {i} of {len(self.buffers)} were written"
            for i, buffer in enumerate(self.buffers)
            if not buffer.is_intact(self.garbage)
        ]

    def close(self) -> None:
        """Gives the memory back; its arrays may not be used any more."""
        for start, size in self._mappings:
            _checked(_LIBC.munmap(start, size))
        self._mappings.clear()


def _view(address: int, size: int) -> Array:
    return np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)


def _checked(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), "the pages cannot be protected")
