"""Standard input and output as the commands see them: what fails there is a diagnostic.

A full disk or a stream that the caller has closed is GraphcError `file`. A reader that went away
stays a BrokenPipeError, for the console entry.
"""

from __future__ import annotations

import io
from collections.abc import Generator
from contextlib import contextmanager
from typing import BinaryIO, TextIO

from graphc.support.diagnostics import fail


class StandardStream(io.TextIOBase):
    """stdin or stdout; `name` is for messages. `stream` None: the caller has closed it."""

    def __init__(self, name: str, stream: TextIO | None) -> None:
        self._name = name
        self._stream = stream

    def read(self, size: int | None = -1, /) -> str:
        with self._failures("read"):
            return self._open().read(-1 if size is None else size)

    def write(self, text: str, /) -> int:
        with self._failures("write"):
            return self._open().write(text)

    def flush(self) -> None:
        if self._stream is not None:
            with self._failures("write"):
                self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    @property
    def encoding(self) -> str:  # type: ignore[override] # click goes around a stream without one
        """What text is encoded as."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    @property
    def buffer(self) -> BinaryIO | None:
        """The bytes behind the text; None where there are none, as in a test."""
        return getattr(self._open(), "buffer", None)

    def _open(self) -> TextIO:
        if self._stream is None:
            raise fail("file", f"{self._name} is closed")
        return self._stream

    @contextmanager
    def _failures(self, verb: str) -> Generator[None]:
        try:
            yield
        except BrokenPipeError:
            raise
        except OSError as error:
            reason = error.strerror or str(error)
            raise fail("file", f"cannot {verb} {self._name}: {reason}") from error
