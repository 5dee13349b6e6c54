"""One call of a native function on guarded memory, in a child process."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.entries import ENTRY
from graphc.backends.llvm.target import Target
from graphc.ir.core import Function
from graphc.ir.evaluate import evaluate
from graphc.runtime.signature import NUMPY_DTYPES, Signature, concrete_shape
from graphc.support.adjacent import ALIGNMENT
from tests.support.guarded_memory import GuardedMemory, Side


def exit_code_guarded(
    function: Function,
    signature: Signature,
    target: Target,
    given: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    side: Side,
) -> int:
    """Runs in a forked child: a stray access is a signal there (below 0), a wrong number is 1."""
    expected = evaluate(function, given, sizes)
    code = engine.object_code(emit_function(function, signature, target), target)
    loaded = engine.load(code, [ENTRY], target)
    entry = engine.function(loaded, ENTRY, ctypes.c_int32, *[ctypes.c_void_p] * 4)
    child = os.fork()
    if child == 0:
        os._exit(_run(entry, signature, given, expected, sizes, side))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _run(
    entry: Callable[..., int],
    signature: Signature,
    given: Mapping[str, np.ndarray],
    expected: Mapping[str, np.ndarray],
    sizes: Mapping[str, int],
    side: Side,
) -> int:
    memory = GuardedMemory(side)
    arrays = {name: memory.like(array)[1] for name, array in given.items()}
    for name, array in given.items():
        arrays[name][...] = array
    for r in signature.fresh_results:
        shape = concrete_shape(r.shape, dict(sizes))
        arrays[r.name] = memory.like(np.empty(shape, NUMPY_DTYPES[r.dtype]))[1]
    arena = memory.bytes(signature.arena_bytes, ALIGNMENT).array
    addresses = [x.ctypes.data for x in arrays.values()]
    buffers = (ctypes.c_uint64 * len(addresses))(*addresses)
    dims = (ctypes.c_int64 * len(signature.dims))(*(sizes[d.name] for d in signature.dims))
    entry(ctypes.addressof(buffers), ctypes.addressof(dims), arena.ctypes.data, None)
    found = {r.name: arrays[r.updates or r.name] for r in signature.results}
    good = all(np.allclose(found[name], x, rtol=2e-4, atol=2e-4) for name, x in expected.items())
    return 0 if good and not memory.problems() else 1
