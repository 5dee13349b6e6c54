"""All native code that backends compile on guarded memory, by `guarded_buffers`.

Arguments, results and scratch memory, twice a call, lie at either end of a page.
Results and scratch memory are full of garbage before, another one each time, and what no result
updates is read-only: so code that reads what it has not written gives two results, or dies.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np

from graphc.backends import BACKENDS, native
from graphc.backends.base import Backend, CompiledFunction
from graphc.backends.native import NativeFunction
from graphc.ir.core import Function
from graphc.runtime.signature import Dimension, Signature
from graphc.support.adjacent import ALIGNMENT
from tests.support.guarded_memory import GuardedMemory, Side

Array = np.ndarray


class GuardedFunction(CompiledFunction):
    """A `CompiledFunction` that runs in guarded memory, once at each end of it."""

    def __init__(self, function: NativeFunction) -> None:
        self.code = function.code
        self.signature = function.signature
        self._native = function

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

            with (
                patch.object(native, "aligned_bytes", scratch),
                # As on a new thread: there is no scratch memory yet.
                patch.object(self._native, "_threads", threading.local()),
            ):
                self._native(held, fresh, sizes)
            assert not memory.problems(), memory.problems()
            return [x.copy() for x in (*held, *fresh)]
        finally:
            memory.close()


@contextmanager
def guarded_buffers() -> Generator[None]:
    """Within, the native code that backends compile runs in guarded memory."""
    before = dict(BACKENDS)
    for name, load in before.items():
        try:
            BACKENDS[name] = _guarding(load())
        except ImportError:
            continue
    try:
        yield
    finally:
        BACKENDS.update(before)


def _guarding(backend: Backend) -> Callable[[], Backend]:
    """The loader of the backend whose native code runs in guarded memory."""

    def compile_guarded(function: Function, signature: Signature) -> CompiledFunction:
        compiled = backend.compile(function, signature)
        return GuardedFunction(compiled) if isinstance(compiled, NativeFunction) else compiled

    # Without its halves, which compilations of networks would use instead.
    guarded = replace(backend, compile=compile_guarded, code=None)
    return lambda: guarded
