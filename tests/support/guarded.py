"""Buffers for compiled code that end, or begin, at a page which nobody may touch.

One access outside ends the process. `guarded_buffers` gives such memory to all that the LLVM
backend compiles: arguments, results and scratch memory, twice a call, at either end of a page.
Results and scratch memory are full of garbage before, another one each time, and what no result
updates is read-only: so code that reads what it has not written gives two results, or dies.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal
from unittest.mock import patch

import numpy as np

from graphc.backends import BACKENDS
from graphc.backends.base import ALIGNMENT, CompiledFunction
from graphc.backends.llvm import runtime
from graphc.backends.llvm.runtime import NativeFunction
from graphc.ir.core import Function
from graphc.runtime.signature import Dimension, Signature

Array = np.ndarray
Side = Literal["end", "start"]

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

    def __init__(self, side: Side) -> None:
        self.side: Side = side
        self.garbage = GARBAGE[side]
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


class GuardedFunction:
    """A `CompiledFunction` that runs in guarded memory, once at each end of it."""

    def __init__(self, native: NativeFunction) -> None:
        self.code = native.code
        self.signature = native.signature
        self._native = native

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        first = self._outcome("end", arguments, results, sizes)
        second = self._outcome("start", arguments, results, sizes)
        names = [r.name for r in self.signature.fresh_results]
        names = [*(a.name for a in self.signature.arguments), *names]
        for name, a, b in zip(names, first, second, strict=True):
            same = a.tobytes() == b.tobytes()
            assert same, f"`{name}` depends on where buffers lie or on what they held: {a} and {b}"
        for target, value in zip((*arguments, *results), second, strict=True):
            if target.flags.writeable:
                target[...] = value

    def _outcome(
        self,
        side: Side,
        arguments: Sequence[Array],
        results: Sequence[Array],
        sizes: Mapping[str, int],
    ) -> list[Array]:
        """What arguments and results hold afterwards, copied."""
        memory = GuardedMemory(side)
        try:
            updated = {r.updates for r in self.signature.results}
            held: list[Array] = []
            for argument, array in zip(self.signature.arguments, arguments, strict=True):
                buffer, copy = memory.like(array)
                copy[...] = array
                held.append(copy)
                if argument.name not in updated:
                    buffer.protect()
            fresh = [memory.like(array)[1] for array in results]

            def scratch(size: int, _dims: Sequence[Dimension]) -> Array:
                return memory.bytes(size, ALIGNMENT).array

            with patch.object(runtime, "aligned_bytes", scratch), ThreadPoolExecutor(1) as thread:
                # A new thread: it has no scratch memory yet.
                thread.submit(self._native, held, fresh, sizes).result()
            assert not memory.problems(), memory.problems()
            return [x.copy() for x in (*held, *fresh)]
        finally:
            memory.close()


@contextmanager
def guarded_buffers() -> Generator[None]:
    """Within, what the LLVM backend compiles runs in guarded memory."""
    ordinary = BACKENDS["llvm"]
    try:
        backend = ordinary()
    except ImportError:
        yield
        return

    def compile_guarded(function: Function, signature: Signature) -> CompiledFunction:
        native = backend.compile(function, signature)
        assert isinstance(native, NativeFunction)
        return GuardedFunction(native)

    guarded = replace(backend, compile=compile_guarded)
    BACKENDS["llvm"] = lambda: guarded
    try:
        yield
    finally:
        BACKENDS["llvm"] = ordinary


def _view(address: int, size: int) -> Array:
    return np.frombuffer((ctypes.c_char * size).from_address(address), np.uint8)


def _checked(status: int) -> None:
    if status:
        raise OSError(ctypes.get_errno(), "the pages cannot be protected")
