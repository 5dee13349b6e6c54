"""The pools of this process: one for each number of threads, shared by all compiled functions.

A pool is made when a call first asks for it and lasts as long as the process: its workers sleep
between calls and end with the process. The child of a fork makes pools of its own.
"""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import host_target
from graphc.backends.llvm.text import Module
from graphc.backends.llvm.thread_pool import has_pool, pool_text

_CREATE, _DESTROY = "graphc.pool_create", "graphc.pool_destroy"


def make_pool_code() -> bytes:
    """The object of what makes pools, for this machine."""
    target = host_target()
    text = Module(target.triple).text() + pool_text(target, _CREATE, _DESTROY)
    return engine.object_code(text, target)


class _Pools:
    """The addresses of the pools by their number of threads."""

    def __init__(self) -> None:
        self.forget()
        self._create: Callable[[int], int | None] | None = None
        self._watches_forks = False
        self.code: Callable[[], bytes] = make_pool_code

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
        if self._create is None:
            if not self._watches_forks and hasattr(os, "register_at_fork"):
                os.register_at_fork(after_in_child=self.forget)
                self._watches_forks = True
            self._create = _maker(self.code)
        return self._create(threads) or 0


_POOLS = _Pools()


def take_pool_code_from(code: Callable[[], bytes]) -> None:
    """Where the object comes from when the first pool is made; compiled anew otherwise."""
    _POOLS.code = code


def pool_address(threads: int) -> int:
    """The pool with that many threads, for `graphc.entry`; 0 for one thread or without pools.

    Where the system gives fewer threads than asked for, the pool has those.
    """
    return _POOLS.address(threads)


def _maker(code: Callable[[], bytes]) -> Callable[[int], int | None]:
    """The function that makes a pool."""
    if not has_pool(host_target()):
        return lambda _threads: 0
    loaded = load_pool_functions(code())
    create: Callable[[int], int | None] = engine.function(
        loaded, _CREATE, ctypes.c_void_p, ctypes.c_int32
    )
    # Never unloaded: workers may still execute this code when the interpreter exits.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(loaded))
    return create


def load_pool_functions(code: bytes) -> engine.Loaded:
    """The functions of `thread_pool.py` in this process: `graphc.pool_create`, `…_destroy`."""
    return engine.load(code, [_CREATE, _DESTROY], host_target(), from_process=True)
