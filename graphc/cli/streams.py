"""Standard input and output as the commands see them: what fails there is a diagnostic.

A full disk or a stream that the caller has closed is GraphcError `file`. A reader that went away
stays a BrokenPipeError, for the console entry. On standard error nobody can be told: what cannot
be written there is dropped, and the exit code stays what it is.
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


class MessageStream(io.TextIOBase):
    """stderr. `stream` None: the caller has closed it."""

    def __init__(self, stream: TextIO | None) -> None:
        self._stream = stream

    def write(self, text: str, /) -> int:
        if self._stream is not None:
            with _dropped():
                self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        if self._stream is not None:
            with _dropped():
                self._stream.flush()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("fileno")
        return self._stream.fileno()

    @property
    def encoding(self) -> str:  # type: ignore[override] # as of `StandardStream`
        """What text is encoded as."""
        return getattr(self._stream, "encoding", None) or "utf-8"


@contextmanager
def _dropped() -> Generator[None]:
    """Nothing comes of an error but a reader that went away."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError:
        pass
