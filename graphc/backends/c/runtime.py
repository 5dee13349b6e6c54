"""Compiles C text for calls from Python and loads the library.

A file is compiled to a shared object in a folder of its own, which is removed at once; what is
kept are its bytes. They are loaded from a file that is removed as soon as they are in memory.
"""

from __future__ import annotations

import _ctypes
import ctypes
import os
import shlex
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from graphc.artifacts.link import require_compiler, run_compiler
from graphc.backends.c.emit import emit_function, entry_name
from graphc.backends.c.target import c_host
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.thread_pools import pool_address
from graphc.backends.native import ENTRY_TYPES, NativeFunction
from graphc.ir.core import Function
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail
from graphc.support.phases import Phases

FLAGS = (
    *("-std=c11", "-O3", "-march=native", "-fPIC", "-fstack-clash-protection", "-pipe"),
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
)
"""What files are compiled with; `emit.py` says in the text what must not be left out."""
MORE_FLAGS = "GRAPHC_CFLAGS"
"""The variable of the environment with flags that come after these."""
_LINKED = ("-shared", "-nostartfiles", "-Wl,--build-id=none", "-Wl,-z,defs", "-Wl,-z,noexecstack")
_USE = "calls through the c backend"


class Library:
    """A shared object in this process; it is unloaded with the last that refers to it."""

    def __init__(self, code: bytes) -> None:
        with tempfile.TemporaryDirectory(prefix="graphc-") as folder:
            file = Path(folder) / "code.so"
            file.write_bytes(code)
            try:
                self._library = ctypes.CDLL(str(file))
            except OSError as error:
                raise fail("toolchain", f"compiled code cannot be loaded: {error}") from error
        self.finalizer = weakref.finalize(self, _ctypes.dlclose, self._library._handle)

    def function(self, name: str, result: type | None, *arguments: type) -> Callable[..., int]:
        """A function of it, as it can be called."""
        address = ctypes.cast(self._library[name], ctypes.c_void_p).value
        assert address is not None
        return ctypes.CFUNCTYPE(result, *arguments)(address)


def object_code(text: str, phases: Phases | None = None) -> bytes:
    """The bytes of a shared object. Raises BackendUnavailable without a compiler."""
    compiler = require_compiler(use=_USE)
    with (
        (phases or Phases()).measure("cc"),
        tempfile.TemporaryDirectory(prefix="graphc-") as name,
    ):
        folder = Path(name)
        (folder / "code.c").write_text(text, encoding="ascii")
        command = [compiler.path, *compiler.extra, *_flags(), *_LINKED]
        run_compiler([*command, "-o", "code.so", "code.c"], folder)
        return (folder / "code.so").read_bytes()


def _flags() -> list[str]:
    """What files are compiled with, and then what the user says."""
    return [*FLAGS, *shlex.split(os.environ.get(MORE_FLAGS, ""))]


def make_code(
    function: Function,
    signature: Signature,
    phases: Phases | None = None,
    target: Target | None = None,
) -> bytes:
    """The shared object of a planned function, for this machine unless said otherwise."""
    phases = phases or Phases()
    with phases.measure("emit"):
        text = emit_function(function, signature, target or c_host())
    return object_code(text, phases)


def load_function(code: bytes, signature: Signature) -> NativeFunction:
    """The function of a shared object, put into this process."""
    return load_together(code, [signature])[0]


def load_together(code: bytes, signatures: Sequence[Signature]) -> list[NativeFunction]:
    """All functions of a shared object, put into this process."""
    library = Library(code)
    entries = [
        library.function(entry_name(i), ctypes.c_int32, *ENTRY_TYPES)
        for i in range(len(signatures))
    ]
    return [
        NativeFunction(code, signature, entry, pool_address, library)
        for signature, entry in zip(signatures, entries, strict=True)
    ]


def compile_function(
    function: Function, signature: Signature, target: Target | None = None
) -> NativeFunction:
    """Emits, compiles and loads a planned function."""
    return load_function(make_code(function, signature, target=target), signature)


def versions(name: str) -> Mapping[str, str]:
    """What decides the code besides the function: the compiler and the target."""
    target, compiler = c_host(), require_compiler(use=_USE)
    return {
        "compiler": " ".join([compiler.path, *compiler.extra, compiler.version()]),
        "flags": " ".join((*_flags(), *_LINKED)),
        "target": f"{name} {target.triple} {target.cpu}",
        "caches": f"{target.machine.l1} {target.machine.l2}",
        "features": target.features.replace(",", "\n"),
    }
