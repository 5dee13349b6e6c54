"""One process at a time for a file that is written for hours: a second one is told at once.

The lock is the system's (`flock`), on a file beside the one that is written: it ends with the
process, however that ends. Where the system has none, or the file system does not lock, nobody is
told.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from graphc.support.diagnostics import Note, fail

_BUSY = (errno.EWOULDBLOCK, errno.EACCES)


@contextmanager
def sole_writer(path: Path) -> Generator[None]:
    """For the time of writing `path`. GraphcError `file` where another process does, with its
    number."""
    resolved = Path(os.path.realpath(path))
    lock = resolved.with_name(f".{resolved.name}.lock")
    held = _held(path, lock)
    try:
        yield
    finally:
        if held is not None:
            # Before it is let go, so that nobody holds a file that is no longer there.
            lock.unlink(missing_ok=True)
            os.close(held)


def _held(path: Path, lock: Path) -> int | None:
    """The locked file; None where nothing can be locked."""
    try:
        from fcntl import LOCK_EX, LOCK_NB, flock
    except ImportError:  # not on this system
        return None
    while True:
        try:
            held = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:  # whoever writes there says why not
            return None
        try:
            flock(held, LOCK_EX | LOCK_NB)
        except OSError as error:
            number = os.pread(held, 20, 0).decode("ascii", "replace").strip()
            os.close(held)
            if error.errno not in _BUSY:
                return None
            who = f"process {number}" if number else "another process"
            note = Note("name another file, or wait until that one has ended")
            raise fail("file", f"{path} is being written by {who}", notes=(note,)) from None
        if _is_still(held, lock):
            os.ftruncate(held, 0)
            os.pwrite(held, f"{os.getpid()}\n".encode(), 0)
            return held
        os.close(held)  # its last holder removed it meanwhile


def _is_still(held: int, lock: Path) -> bool:
    """Whether the open file is the one of this name."""
    try:
        return os.path.samestat(os.fstat(held), lock.stat())
    except FileNotFoundError:
        return False
