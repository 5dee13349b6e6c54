"""What LLVM and C compilers make of a text, made once for all tests of a run.

The text, the target and the flags decide the code, so that nothing else is judged by code that is
found: passes and emitters have run again and written the same text. Processes of a run
(pytest-xdist's, and those that a test starts) share a folder, which goes with the run; of threads
that want the same code at once, as members of a training do, one makes it.

    with code_kept(): …
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Lock
from unittest.mock import patch

from graphc.artifacts.link import require_compiler
from graphc.backends.c import runtime as c_runtime
from graphc.backends.llvm.target import Target
from graphc.support.phases import Phases

try:
    from graphc.backends.llvm import engine
except ImportError:
    engine = None

FOLDER = "GRAPHC_TESTS_CODE"
"""The variable of the environment with the folder."""

_MAKING = tuple(Lock() for _ in range(256))
"""Whoever makes code holds one of these, by the code's name."""


def kept(make: Callable[[], bytes], *decided_by: object) -> bytes:
    """What `make` gives, which these things decide: made now, or found."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return make()
    name = hashlib.sha256(repr(decided_by).encode()).hexdigest()
    file = Path(folder) / name
    with _MAKING[int(name[:2], 16)]:
        try:
            return file.read_bytes()
        except FileNotFoundError:
            code = make()
        # No other process reads a file that is half there.
        own = file.with_suffix(f".{os.getpid()}")
        own.write_bytes(code)
        own.replace(file)
    return code


@contextmanager
def code_kept() -> Generator[None]:
    """Within, what the backends compile is kept, in a folder that who comes first makes."""
    with ExitStack() as stack:
        if FOLDER not in os.environ:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="graphc-tests-"))
            stack.enter_context(patch.dict(os.environ, {FOLDER: folder}))
        stack.enter_context(patch.object(c_runtime, "object_code", _keeping_c()))
        if engine is not None:
            stack.enter_context(patch.object(engine, "object_code", _keeping_llvm()))
        yield


def _keeping_llvm() -> Callable[..., bytes]:
    assert engine is not None
    make, require_memory = engine.object_code, engine.require_memory

    def object_code(text: str, target: Target, phases: Phases | None = None) -> bytes:
        require_memory(len(text))
        _count(phases, "parse", "codegen")
        return kept(lambda: make(text, target, phases), text, target)

    return object_code


def _keeping_c() -> Callable[..., bytes]:
    make = c_runtime.object_code

    def object_code(text: str, phases: Phases | None = None) -> bytes:
        compiler = require_compiler(use=c_runtime._USE)
        changed = Path(compiler.path).stat().st_mtime_ns  # a test may write one
        _count(phases, "cc")
        by = (compiler.path, compiler.extra, changed, c_runtime._flags())
        return kept(lambda: make(text, phases), text, *by)

    return object_code


def _count(phases: Phases | None, *names: str) -> None:
    """What takes no time is a phase all the same."""
    for name in names:
        if phases is not None:
            phases.add(name, 0.0)
