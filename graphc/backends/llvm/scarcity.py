"""Messages for where LLVM cannot be used: it is missing, or there is too little memory for it.

LLVM aborts the process when an allocation fails, so the memory that it needs is checked before.
Only a limit of the process (`ulimit -v`) can be checked; without one the system gives memory, or
kills.
"""

from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

from graphc.support.diagnostics import BackendUnavailable, Note, Severity, fail, make
from graphc.support.memory import bytes_left

TAKEN = 16 << 20
"""What LLVM takes for the smallest function, and a margin; measured 1 MiB."""
TAKEN_A_BYTE = 64
"""And for each byte of its text or its object; measured 16 to 28 for text."""


def require_room_for_library() -> None:
    """OSError where a limit leaves less memory than llvmlite's library has bytes. A few pages
    decide below that whether the system refuses it or LLVM aborts while it starts."""
    left = bytes_left()
    if left is None or "llvmlite.binding" in sys.modules:
        return
    found = find_spec("llvmlite")
    folders = [] if found is None else found.submodule_search_locations or []
    libraries = [f for folder in folders for f in Path(folder).glob("binding/libllvmlite*")]
    size = max((f.stat().st_size for f in libraries), default=0)
    if left < size:
        raise OSError(f"its library takes up to {_mib(size)} of memory")


def unavailable(error: ImportError | OSError) -> BackendUnavailable:
    """The error for an `import llvmlite.binding` that failed."""
    cause = error.__context__ or error  # llvmlite replaces the system's message by guesses
    message = f"the backend llvm requires llvmlite, which cannot be loaded: {cause}"
    left = bytes_left()
    notes = [Note("the backends numpy and reference do without: --backend, backend=")]
    if left is not None:
        notes.append(Note(f"a limit on memory (ulimit -v) leaves {_mib(left)}"))
    return BackendUnavailable([make(Severity.ERROR, "backend", message, None, "", notes)])


def require_memory(size: int) -> None:
    """GraphcError `limit` unless LLVM can take what text or an object of `size` bytes needs."""
    left, needed = bytes_left(), TAKEN + TAKEN_A_BYTE * size
    if left is not None and left < needed:
        raise fail(
            "limit",
            f"LLVM requires up to {_mib(needed)} of memory for this function, a limit on the "
            f"process (ulimit -v) leaves {_mib(left)}",
        )


def _mib(count: int) -> str:
    return f"{count / 2**20:,.0f} MiB"
