"""Native functions on memory between pages that may not be touched."""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Callable, Mapping

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import ENTRY, emit_function
from graphc.backends.llvm.target import Target
from graphc.ir.core import Function
from graphc.ir.evaluate import evaluate
from graphc.runtime.signature import NUMPY_DTYPES, Signature, concrete_shape


def exit_code_guarded(
    function: Function,
    signature: Signature,
    target: Target,
    given: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    *,
    at_end: bool,
) -> int:
    """Runs in a forked child: a stray access is a signal there (below 0), a wrong number is 1."""
    expected = evaluate(function, given, sizes)
    code = engine.object_code(emit_function(function, signature, target), target)
    loaded = engine.load(code, [ENTRY], target)
    entry = engine.function(loaded, ENTRY, ctypes.c_int32, *[ctypes.c_void_p] * 4)
    child = os.fork()
    if child == 0:
        os._exit(_run(entry, signature, given, expected, sizes, at_end))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


class Guarded:
    """An array that ends, or begins, exactly at a page that may not be touched."""

    def __init__(self, array: np.ndarray, *, at_end: bool) -> None:
        page = mmap.PAGESIZE
        size = -(-max(array.nbytes, 1) // page) * page
        self._memory = mmap.mmap(-1, size + 2 * page)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        libc = ctypes.CDLL(None)
        for guard in (start, start + page + size):
            assert libc.mprotect(ctypes.c_void_p(guard), ctypes.c_size_t(page), 0) == 0
        self.address = start + page + (size - array.nbytes if at_end else 0)
        ctypes.memmove(self.address, array.ctypes.data, array.nbytes)

    def read(self, like: np.ndarray) -> np.ndarray:
        made = np.empty_like(like)
        ctypes.memmove(made.ctypes.data, self.address, like.nbytes)
        return made


def _run(
    entry: Callable[..., int],
    signature: Signature,
    given: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    at_end: bool,
) -> int:
    arrays = {name: Guarded(array, at_end=at_end) for name, array in given.items()}
    results = {
        r.name: Guarded(
            np.zeros(concrete_shape(r.shape, dict(sizes)), NUMPY_DTYPES[r.dtype]), at_end=at_end
        )
        for r in signature.fresh_results
    }
    arena = Guarded(np.full(-(-signature.arena_bytes // 4096) * 4096, 0xFF, np.uint8), at_end=True)
    addresses = [g.address for g in (*arrays.values(), *results.values())]
    buffers = (ctypes.c_uint64 * len(addresses))(*addresses)
    dims = (ctypes.c_int64 * len(signature.dims))(*(sizes[d.name] for d in signature.dims))
    entry(ctypes.addressof(buffers), ctypes.addressof(dims), arena.address, None)
    held = results | {r.name: arrays[r.updates] for r in signature.results if r.updates}
    good = all(
        np.allclose(held[name].read(value), value, rtol=2e-4, atol=2e-4)
        for name, value in expected.items()
    )
    return 0 if good else 1
