"""Calls of compiled code from Python: pointers, sizes and scratch memory for an entry.

    i32 entry(ptr buffers, ptr dims, ptr arena, ptr pool)

as `loops/entry.py` describes it, whatever compiled it. Each thread that calls a compiled function
gets scratch memory and pointer tables of its own at its first call, so calls may run at the same
time; they do run so, since ctypes releases the lock.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from ctypes import byref
from math import prod

import numpy as np

from graphc.artifacts.classes import NO_CLASS
from graphc.artifacts.members import NO_SUM
from graphc.backends.base import aligned_bytes
from graphc.backends.native_sums import NativeSums
from graphc.runtime.class_numbers import NoSuchClass
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.compiled import CompiledFunction, Fixed, Prepared
from graphc.runtime.signature import NUMPY_DTYPES, ROLES_OF_MODEL, Argument, Signature
from graphc.support.diagnostics import InternalError

POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64
ENTRY_TYPES = (POINTER, POINTER, POINTER, POINTER)
EPOCH_TYPES = (*ENTRY_TYPES, POINTER, POINTER, POINTER, NUMBER, NUMBER, POINTER)


class NativeFunction(CompiledFunction):
    """A `CompiledFunction` in this process.

    code     the bytes that it was loaded from
    entry    the entry, of `ENTRY_TYPES`
    pool     the address of the pool of so many threads
    keep     what lives as long as this: the loaded code
    epoch    the second entry of a training step, of `EPOCH_TYPES` (`llvm/epoch.py`)
    threads  how many compute a call, if some of its work is split; may be set between calls
    """

    checks_classes = True

    def __init__(
        self,
        code: bytes,
        signature: Signature,
        entry: Callable[..., int],
        pool: Callable[[int], int],
        keep: object,
        epoch: Callable[..., int] | None = None,
    ) -> None:
        self.signature = signature
        self.code = code
        self.keep = keep
        self._entry = entry
        self._pool_address = pool
        if epoch is not None:
            self._epoch = epoch
            self.run_minibatches = self._run_minibatches
        self.threads = 1
        self._sums: NativeSums | None = None
        self._names = tuple(d.name for d in signature.dims)
        self._lasting = tuple(
            a.role in (*ROLES_OF_MODEL, "state", "kept") for a in signature.arguments
        )
        self._threads = threading.local()

    def __call__(
        self,
        arguments: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        sizes: Mapping[str, int],
    ) -> None:
        """Run once; see `CompiledFunction`."""
        tables = self._tables()
        buffers, dims = tables.buffers, tables.dims
        held = tables.held
        for i, array in enumerate(arguments):
            if array is not held[i]:
                buffers[i] = _address(array)
                held[i] = array if self._lasting[i] else None
        for i, array in enumerate(results, start=len(arguments)):
            buffers[i] = _address(array)
        for i, name in enumerate(self._names):
            dims[i] = sizes[name]
        given = tables.buffers_at, tables.dims_at, tables.arena_at, self._pool()
        sums = self._sums
        status = self._entry(*given) if sums is None else sums.run(lambda: self._entry(*given))
        if status:
            raise self._problem(status)

    def use_threads(self, threads: int) -> None:
        self.threads = threads

    def add_over(self, communicator: Communicator) -> None:
        """See `CompiledFunction`."""
        self._sums = NativeSums(self.signature, communicator)
        self.is_shared = True
        self._threads = threading.local()

    def _problem(self, status: int) -> BaseException:
        """What a status other than 0 is raised as."""
        if status == NO_SUM and self._sums is not None:
            return self._sums.failure()
        if status == NO_CLASS:
            return NoSuchClass()
        return InternalError(f"compiled code gave status {status}")

    def prepare(
        self,
        signature: Signature,
        arrays: Sequence[np.ndarray | None],
        changing: Sequence[int],
    ) -> Prepared:
        """A call with these arrays but for those `changing`; see `CompiledFunction`."""
        buffers, dims, run = self._call_of(arrays, [0])
        places = tuple(changing)

        def fill_and_run(samples: int, given: Sequence[np.ndarray]) -> None:
            dims[0] = samples
            try:
                for i, array in zip(places, given):  # noqa: B905  # checking costs as much as a place
                    buffers[i] = _addressof(_char_at(array))
            except (TypeError, ValueError):
                for i, array in zip(places, given, strict=True):
                    buffers[i] = array.ctypes.data
            run()

        return fill_and_run

    def fixed(
        self,
        arguments: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        sizes: Mapping[str, int],
    ) -> Fixed:
        """A call with these arrays and sizes; see `CompiledFunction`."""
        return self._call_of([*arguments, *results], [sizes[n] for n in self._names])[2]

    def _call_of(
        self, arrays: Sequence[np.ndarray | None], sizes: Sequence[int]
    ) -> tuple[ctypes.Array[ctypes.c_uint64], ctypes.Array[ctypes.c_int64], Fixed]:
        """The pointers and the sizes that a call is given, and what makes it.

        It keeps the memory alive that the entry is given. It is a function and not a method, and
        the entry's arguments are values of ctypes, which takes them as they are: all that is half
        of a small call.
        """
        tables, pool = self._tables(), self._pool if self.signature.is_split else None
        buffers = (ctypes.c_uint64 * len(tables.buffers))()
        for i, array in enumerate(arrays):
            if array is not None:
                buffers[i] = _address(array)
        if self._sums is not None:
            buffers[len(buffers) - 1] = self._sums.address
        dims = (ctypes.c_int64 * max(len(sizes), 1))(*sizes)
        pool_at, kept = POINTER(0), (self._entry, tables, arrays)
        address = ctypes.cast(self._entry, POINTER).value  # type: ignore[arg-type]
        call = ctypes.CFUNCTYPE(ctypes.c_int32)(address)  # type: ignore[arg-type]
        buffers_at, dims_at, arena_at = byref(buffers), byref(dims), POINTER(tables.arena_at)

        def enter() -> int:
            return call(buffers_at, dims_at, arena_at, pool_at)

        sums = self._sums

        def run(_: object = kept) -> None:
            if pool is not None:
                pool_at.value = pool()
            if sums is None:  # in so many words: another call of Python's would be felt
                status = call(buffers_at, dims_at, arena_at, pool_at)
            else:
                status = sums.run(enter)
            if status:
                raise self._problem(status)

        return buffers, dims, run

    def _run_minibatches(
        self,
        arguments: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        order: np.ndarray,
        size: int,
        done: np.ndarray,
    ) -> None:
        """Run once for every minibatch; see `graphc.runtime.compiled.RunMinibatches`."""
        size = max(min(size, len(order)), 1)  # more than all is all
        tables = self._tables()
        whole = (ctypes.c_uint64 * len(tables.buffers))()
        rows = (ctypes.c_uint64 * len(tables.buffers))()
        for i, array in enumerate((*arguments, *results)):
            tables.buffers[i] = whole[i] = _address(array)
        tables.held = [None] * len(arguments)
        for i, space in tables.rows_of(size).items():
            rows[i] = _address(space)
        given = (
            *(tables.buffers_at, tables.dims_at, tables.arena_at, self._pool()),
            *(ctypes.addressof(whole), ctypes.addressof(rows)),
            *(order.ctypes.data, len(order), size, done.ctypes.data),
        )
        sums, count = self._sums, -(-len(order) // size)
        status = (
            self._epoch(*given) if sums is None else sums.run(lambda: self._epoch(*given), count)
        )
        if status:
            raise self._problem(status)

    def _pool(self) -> int:
        return self._pool_address(self.threads) if self.signature.is_split else 0

    def _tables(self) -> _Tables:
        """Those of this thread."""
        tables: _Tables | None = getattr(self._threads, "tables", None)
        if tables is None:
            tables = self._threads.tables = _Tables(self.signature, self._sums)
        return tables


def _address(array: np.ndarray) -> int:
    """Where the array's data lie. The quick way refuses empty and read-only arrays."""
    try:
        return _addressof(_char_at(array))
    except (TypeError, ValueError):
        return array.ctypes.data


_addressof = ctypes.addressof
# The stubs ask for a writable buffer; a numpy array is one, but they do not know it.
_char_at: Callable[[object], ctypes.c_char] = ctypes.c_char.from_buffer  # type: ignore[assignment]


class _Tables:
    """What one thread hands to the entry: pointer table, sizes, scratch memory.

    held   the array whose address stands in the table already: parameters and learner state are
           the same arrays from call to call, inputs are not
    """

    def __init__(self, signature: Signature, sums: NativeSums | None) -> None:
        count = len(signature.arguments) + len(signature.fresh_results)
        self.buffers = (ctypes.c_uint64 * (count + 1))()
        if sums is not None:
            self.buffers[count] = sums.address
        self.held: list[np.ndarray | None] = [None] * len(signature.arguments)
        self.dims = (ctypes.c_int64 * max(len(signature.dims), 1))()
        self._arena = aligned_bytes(signature.arena_bytes, signature.dims)
        self.buffers_at = ctypes.addressof(self.buffers)
        self.dims_at = ctypes.addressof(self.dims)
        self.arena_at: int = self._arena.ctypes.data
        self._signature = signature
        self._rows: dict[int, np.ndarray] = {}

    def rows_of(self, size: int) -> dict[int, np.ndarray]:
        """Room for the rows of a minibatch, for each input by its place."""
        inputs = {i: a for i, a in enumerate(self._signature.arguments) if a.role == "input"}
        for i, argument in inputs.items():
            wanted = size * row_bytes(argument)
            if i not in self._rows or len(self._rows[i]) < wanted:
                self._rows[i] = aligned_bytes(wanted, self._signature.dims)
        return self._rows


def row_bytes(argument: Argument) -> int:
    """The bytes of one sample of an input."""
    elements = prod(d for d in argument.shape[1:] if isinstance(d, int))
    return elements * NUMPY_DTYPES[argument.dtype].itemsize
