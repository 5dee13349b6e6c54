"""The pools of this process: one for each number of threads, shared by all compiled functions.

A pool is made when a call first asks for it and lasts as long as the process: its workers sleep
between calls and end with the process. The child of a fork makes pools of its own.

What work sleeping threads are woken for is measured once on a machine (`pool_cost.py`), or said by
`GRAPHC_GRAIN` in microseconds.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

from graphc.backends.base import GRAIN_KEPT_AS, Keep
from graphc.backends.llvm import engine
from graphc.backends.llvm.pool_cost import MEET, MEET_TEXT, measured_grains
from graphc.backends.llvm.target import host_target
from graphc.backends.llvm.text import Module
from graphc.backends.llvm.thread_pool import (
    GRAIN_NS,
    GRAIN_OFFSET,
    LONG_GRAIN_NS,
    LONG_GRAIN_OFFSET,
    has_pool,
    pool_text,
)
from graphc.runtime.threads import said_grain, usable_cores

_CREATE, _DESTROY = "graphc.pool_create", "graphc.pool_destroy"
CODE_KEPT_AS = "runs a pool of threads"


def make_pool_code() -> bytes:
    """The object of what makes pools, for this machine."""
    target = host_target()
    text = Module(target.triple).text() + pool_text(target, _CREATE, _DESTROY) + MEET_TEXT
    return engine.object_code(text, target)


def _keep_nothing(_what: str, make: Callable[[], bytes]) -> bytes:
    return make()


class _Pools:
    """The addresses of the pools by their number of threads."""

    def __init__(self) -> None:
        self.forget()
        self._functions: engine.Loaded | None = None
        self._watches_forks = False
        self._grains: tuple[int, int] | None = None
        self.keep: Keep = _keep_nothing

    def forget(self) -> None:
        """Before the first use, and in the child of a fork."""
        self._lock = threading.Lock()
        self._addresses: dict[int, int] = {}

    def address(self, threads: int) -> int:
        """The address of the pool with that many threads, created if needed; 0 if it cannot be."""
        if threads <= 1:
            return 0
        known = self._addresses.get(threads)
        if known is not None:
            return known
        with self._lock:
            if threads not in self._addresses:
                self._addresses[threads] = self._new(threads)
            return self._addresses[threads]

    def _new(self, threads: int) -> int:
        if not has_pool(host_target()):
            return 0
        if self._functions is None:
            if not self._watches_forks and hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self.forget)
                self._watches_forks = True
            self._functions = load_pool_functions(self.keep(CODE_KEPT_AS, make_pool_code))
            # Never unloaded: workers may still execute this code when the interpreter exits.
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._functions))
        create = engine.function(self._functions, _CREATE, ctypes.c_void_p, ctypes.c_int32)
        address: int = create(threads) or 0
        if address:
            if self._grains is None:
                self._grains = self._grains_of(address, self._functions)
            for offset, grain in zip((GRAIN_OFFSET, LONG_GRAIN_OFFSET), self._grains, strict=True):
                ctypes.c_int64.from_address(address + offset).value = grain
        return address

    def _grains_of(self, pool: int, functions: engine.Loaded) -> tuple[int, int]:
        """What is said, else kept, else measured with this pool; in nanoseconds."""
        said = said_grain()
        if said is not None:
            return said, said
        if usable_cores() < 2:
            return GRAIN_NS, LONG_GRAIN_NS
        types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)
        meet: Callable[[int, int, int], None] = engine.function(functions, MEET, None, *types)
        kept = self.keep(GRAIN_KEPT_AS, lambda: b"%d %d" % measured_grains(pool, meet))
        grain, long_grain = map(int, kept.split())
        return grain or GRAIN_NS, long_grain or LONG_GRAIN_NS


_POOLS = _Pools()


def keep_pools_by(keep: Keep) -> None:
    """What keeps their code and what is measured of them, from when the first one is made."""
    _POOLS.keep = keep


def pool_address(threads: int) -> int:
    """The pool with that many threads, for `graphc.entry`; 0 for one thread or without pools.

    Where the system gives fewer threads than asked for, the pool has those.
    """
    return _POOLS.address(threads)


def load_pool_functions(code: bytes) -> engine.Loaded:
    """The functions of `thread_pool.py` in this process: `graphc.pool_create`, `…_destroy`."""
    return engine.load(code, [_CREATE, _DESTROY, MEET], host_target(), from_process=True)
