"""Runs emitted numpy source inside this process.

The one place of the project that executes text. It is text that `emit.py` has just written: its
identifiers come from `names.py`, its literals from numbers, and a name out of a user's file gets
into it only through those two, so nothing that a user wrote is ever executed.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphc.backends.base import CompiledFunction, aligned_bytes
from graphc.backends.numpy.emit import Emitted, emit_function
from graphc.backends.numpy.standalone import helper_text
from graphc.ir.core import Function
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.shared_sums import SharedSums
from graphc.runtime.signature import Signature


class NumpyFunction(CompiledFunction):
    """A compiled function; `source` is its text. Each thread gets a scratch array of its own."""

    def __init__(self, emitted: Emitted, signature: Signature) -> None:
        self.source = library_text(emitted)
        self._run = _load(self.source, emitted.name)
        self._signature = signature
        self._dims = tuple(d.name for d in signature.dims)
        self._arena_bytes = emitted.arena_bytes
        self._threads = threading.local()
        self._sums: SharedSums | None = None

    def __call__(
        self,
        arguments: Sequence[np.ndarray],
        results: Sequence[np.ndarray],
        sizes: Mapping[str, int],
    ) -> None:
        """See `CompiledFunction`."""
        arena: np.ndarray | None = getattr(self._threads, "arena", None)
        if arena is None:
            arena = self._threads.arena = aligned_bytes(self._arena_bytes, self._signature.dims)
        adder = ()
        if self._sums is not None:
            self._sums.begin()
            adder = (self._sums.add,)
        self._run(*[sizes[d] for d in self._dims], arena, *adder, *arguments, *results)

    def add_over(self, communicator: Communicator) -> None:
        """See `CompiledFunction`."""
        self._sums = SharedSums(self._signature, communicator)
        self.is_shared = True


def compile_function(function: Function, signature: Signature) -> NumpyFunction:
    """The planned function as a callable."""
    dims = [d.name for d in signature.dims]
    return NumpyFunction(emit_function(function, dims, function.name), signature)


def library_text(emitted: Emitted) -> str:
    """The function with its helpers and constants, as a module."""
    parts = ["import base64", "", "import numpy as np", "", *emitted.constants]
    return "\n".join(parts) + "\n" + helper_text(emitted) + "\n\n" + emitted.text


def _load(source: str, name: str) -> Callable[..., None]:
    module = types.ModuleType("graphc_emitted")
    exec(compile(source, "<graphc numpy>", "exec"), module.__dict__)  # noqa: S102  # see the top
    return module.__dict__[name]
