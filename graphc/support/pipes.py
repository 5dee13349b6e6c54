"""Opens what data can be read from: regular files and pipes. Files that have to be whole before
anything is done with them (models, networks) are opened by `files.py`, which takes no pipes."""

from __future__ import annotations

import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from graphc.support.diagnostics import fail
from graphc.support.files import open_regular_file


@contextmanager
def open_file_or_pipe(path: Path, max_bytes: int) -> Generator[tuple[BinaryIO, int | None]]:
    """A stream, and the size in bytes of a file; of a pipe None, and it cannot seek.

    The null device counts as a pipe with nothing in it. GraphcError as `open_regular_file`; the
    size of a pipe is for the reader to limit.
    """
    if not _is_pipe(path):
        with open_regular_file(path, max_bytes) as (stream, size):
            yield stream, size
        return
    try:
        # Waits for a writer, as every program does that reads a FIFO.
        with path.open("rb") as stream:
            yield stream, None
    except OSError as error:
        raise fail("file", f"cannot read {path}: {error.strerror or error}") from error


def _is_pipe(path: Path) -> bool:
    """False for what cannot be looked at: opening it says why."""
    try:
        status = path.stat()
        return stat.S_ISFIFO(status.st_mode) or os.path.samestat(status, Path(os.devnull).stat())
    except (OSError, ValueError):
        return False
