"""Writing files so that a crash leaves the old or the new one, and reading files with checks.

Writing: a temporary file in the same folder, flushed to the disk, then renamed over the target,
then the folder is flushed too. What a killed process left half written is removed by a later
write into its folder. Reading: regular files only, below a size the caller states. What a file
contains is not judged here. POSIX.
"""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, BinaryIO

from graphc.support.diagnostics import GraphcError, Note, fail

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# Without O_NONBLOCK, opening a FIFO would wait for a writer before its kind can be looked at.
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_CLOEXEC | os.O_DIRECTORY
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
_NAME_KEPT = 40  # characters of the target's name in the temporary name: at most 160 of 255 bytes
_TEMPORARY = re.compile(r"\..*\.graphc-[a-z0-9_]+\.tmp", re.DOTALL)
LEFT_OVER_SECONDS = 3600
"""After so long without a change, a temporary file is one of a process that was killed."""


@dataclass(frozen=True, slots=True)
class FileCalls:
    """The system calls that writing makes; a test passes others to make any of them fail."""

    open: Callable[[str, int, int], int] = os.open
    write: Callable[[int, ReadableBuffer], int] = os.write
    fchmod: Callable[[int, int], None] = os.fchmod
    fsync: Callable[[int], None] = os.fsync
    close: Callable[[int], None] = os.close
    replace: Callable[[str, str], None] = os.replace
    unlink: Callable[[str], None] = os.unlink


SYSTEM_CALLS = FileCalls()


MAX_TEXT_BYTES = 16 << 20
"""Of a text that people write."""


def write_atomically(
    path: Path,
    data: bytes | Callable[[BinaryIO], None],
    *,
    private: bool = False,
    calls: FileCalls = SYSTEM_CALLS,
) -> None:
    """Make `path` hold `data` (bytes, or what a function writes into the stream it is given).

    At every moment, also after a crash or a power cut, `path` is the old file or the whole new
    one; after return it is the new one, on the disk. An existing file keeps its permission bits,
    a new one gets those of the umask, or is the user's alone if `private`. If `path` is a symbolic
    link, the file it leads to is replaced. No temporary file is left behind unless the process is
    killed; then a later write into the folder removes it (`remove_left_over`).

    GraphcError `file` if a call fails, or if `path` exists and is no regular file. What the
    function raises comes through unchanged, after the temporary file is removed.
    """
    with staged(path, data, private=private, calls=calls) as put_into_place:
        put_into_place()


@contextmanager
def staged(
    path: Path,
    data: bytes | Callable[[BinaryIO], None],
    *,
    private: bool = False,
    calls: FileCalls = SYSTEM_CALLS,
) -> Generator[Callable[[], None]]:
    """As `write_atomically`, up to the moment where the new file replaces the old one.

    That is when what this gives is called, so that several files can be written before the first
    one is replaced; a file that is not put into place by the end is removed.
    """
    target = _resolved(path)
    remove_left_over(target.parent)
    try:
        temporary = _write_beside(target, data, calls, 0o600 if private else 0o666)
    except OSError as error:
        raise _cannot_write(path, error) from error
    left = [temporary]

    def put_into_place() -> None:
        try:
            calls.replace(left[0], str(target))
        except OSError as error:
            raise _cannot_write(path, error) from error
        left.clear()
        _flush_folder(path, target.parent, calls)

    try:
        yield put_into_place
    finally:
        for name in left:
            _remove(name, calls)


def move_into_place(file: Path, path: Path) -> None:
    """Make a finished file of a `temporary_folder` of `path` that file; flushed, in one step.

    GraphcError `file` if `path` exists and is no regular file, or cannot be replaced.
    """
    _mode_of_existing(path)
    try:
        with file.open("rb") as stream:
            os.fsync(stream.fileno())
        file.replace(path)
    except OSError as error:
        raise _cannot_write(path, error) from error
    _flush_folder(path, path.absolute().parent, SYSTEM_CALLS)


@contextmanager
def temporary_folder(path: Path) -> Generator[Path]:
    """A new folder beside `path` to make it in, removed at the end.

    Beside, because only from there a rename to `path` is one step. GraphcError `file` if no folder
    can be made, and for what cannot be written in it.
    """
    import tempfile  # takes 4 ms, and is rarely needed

    parent = path.absolute().parent
    remove_left_over(parent)
    prefix, suffix = _temporary_name(path)
    try:
        folder = tempfile.mkdtemp(suffix, prefix, parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        yield Path(folder)
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def remove_left_over(folder: Path, older_than: float = LEFT_OVER_SECONDS) -> None:
    """Remove the temporary files and folders in `folder` that processes left which were killed.

    Those of this user only, known by their names. Nothing happens to what cannot be removed.
    """
    with suppress(OSError), os.scandir(folder) as found:
        for item in [item for item in found if _TEMPORARY.fullmatch(item.name)]:
            with suppress(OSError):
                status = item.stat(follow_symlinks=False)
                if status.st_uid != os.geteuid() or time.time() - status.st_mtime <= older_than:
                    continue
                if stat.S_ISDIR(status.st_mode):
                    shutil.rmtree(item.path)
                elif stat.S_ISREG(status.st_mode):
                    Path(item.path).unlink()


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """The bytes of a regular file of at most `max_bytes`; errors as `open_regular_file`."""
    with open_regular_file(path, max_bytes) as (stream, size):
        return _read_exactly(stream, size, str(path))


def read_text(path: Path) -> str:
    """The UTF-8 text of a regular file."""
    content = read_regular_file(path, MAX_TEXT_BYTES)
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise fail("lexical", f"{path} is not UTF-8 text: byte {error.start} is wrong") from error


@contextmanager
def open_regular_file(
    path: Path, max_bytes: int
) -> Generator[tuple[BufferedReader, int], None, None]:
    """A stream of a regular file and its size in bytes. Symbolic links are followed.

    GraphcError `file` if it cannot be opened or read, or is a folder, FIFO or device; `limit` if
    it is larger than `max_bytes`.
    """
    if "\0" in str(path):
        raise fail("file", f"a path without NUL is required, got {path}")
    with _open_checked(str(path), lambda: os.open(path, _READ), max_bytes) as opened:
        yield opened


def read_file_inside(
    folder: Path, name: str, max_bytes: int, *, allow_absolute: bool = False
) -> bytes:
    """The bytes of the file that untrusted text, such as a model, calls `name`.

    A relative name is looked up in `folder`, may not contain `..`, and no part of it may be a
    symbolic link: each folder on the way is opened from the one before, so nothing can be swapped
    in between. An absolute name is refused unless `allow_absolute`; then it is read like a path
    that the user gave. GraphcError `file` or `limit` otherwise.
    """
    parts = PurePosixPath(name).parts
    if not parts or "\0" in name or ".." in parts:
        raise fail("file", f"a file name without `..` is required here, got `{name}`")
    if PurePosixPath(name).is_absolute():
        if allow_absolute:
            return read_regular_file(Path(name), max_bytes)
        message = f"the path of a file in {folder} is required here, got the absolute `{name}`"
        raise fail("file", message)
    label = str(folder / name)
    with _open_checked(label, lambda: _open_below(folder, parts), max_bytes) as (stream, size):
        return _read_exactly(stream, size, label)


def _write_beside(
    target: Path, data: bytes | Callable[[BinaryIO], None], calls: FileCalls, new: int
) -> str:
    """The temporary file that holds the data, on the disk."""
    mode = _mode_of_existing(target)
    prefix, suffix = _temporary_name(target)
    temporary = str(target.with_name(f"{prefix}{secrets.token_hex(8)}{suffix}"))
    # A private file stays private while it is written; a new one is subject to the umask.
    descriptor = calls.open(temporary, _CREATE, new if mode is None else 0o600)
    try:
        try:
            if mode is not None:
                calls.fchmod(descriptor, mode)
            _fill(descriptor, data, calls)
            calls.fsync(descriptor)
        finally:
            calls.close(descriptor)
    except BaseException:
        _remove(temporary, calls)
        raise
    return temporary


def _remove(name: str, calls: FileCalls) -> None:
    with suppress(OSError):
        calls.unlink(name)


def _temporary_name(path: Path) -> tuple[str, str]:
    """Prefix and suffix of temporary names for `path`; a random part goes between."""
    return f".{path.name[:_NAME_KEPT]}.graphc-", ".tmp"


def _fill(descriptor: int, data: bytes | Callable[[BinaryIO], None], calls: FileCalls) -> None:
    raw = _RawWriter(descriptor, calls)
    stream = io.BufferedWriter(raw)
    try:
        if callable(data):
            data(stream)
        else:
            stream.write(data)
        stream.flush()
    finally:
        # After a failure the buffer still holds data, and closing would write it once more.
        raw.discards = True
        stream.close()


class _RawWriter(io.RawIOBase):
    """Writes to a descriptor through `calls`; leaves the descriptor open."""

    def __init__(self, descriptor: int, calls: FileCalls) -> None:
        super().__init__()
        self.descriptor = descriptor
        self.calls = calls
        self.discards = False

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        size = memoryview(data).nbytes
        if self.discards:
            return size
        written = self.calls.write(self.descriptor, data)
        if written == 0 < size:
            raise OSError(errno.EIO, "nothing could be written")
        return written


def _flush_folder(path: Path, folder: Path, calls: FileCalls) -> None:
    """Put on the disk that `path` has been replaced."""
    try:
        descriptor = calls.open(str(folder), _FOLDER, 0)
        try:
            calls.fsync(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a file system that has no such call for folders
                raise
        finally:
            calls.close(descriptor)
    except OSError as error:
        message = f"{path} is written, but its folder cannot be flushed to disk: {_reason(error)}"
        raise fail("file", message) from error


def _mode_of_existing(target: Path) -> int | None:
    """Permission bits of the file that will be replaced, None if there is none."""
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise fail("file", f"a regular file is required to write to, {target} is {_kind(mode)}")
    return stat.S_IMODE(mode) & 0o777


def _resolved(path: Path) -> Path:
    """`path` with symbolic links followed, so that the link stays when its file is replaced."""
    try:
        return path.resolve()
    except (OSError, RuntimeError, ValueError) as error:  # too long, a loop of links, a NUL
        raise fail("file", f"cannot write {path}: {error}") from error


@contextmanager
def _open_checked(
    label: str, opener: Callable[[], int], max_bytes: int
) -> Generator[tuple[BufferedReader, int], None, None]:
    try:
        descriptor = opener()
        try:
            size = _checked_size(label, descriptor, max_bytes)
            # Checked first: `fdopen` would not close the descriptor of a folder it refuses.
            stream = os.fdopen(descriptor, "rb", closefd=False)
            with stream:
                yield stream, size
        finally:
            os.close(descriptor)
    except OSError as error:
        raise fail("file", f"cannot read {label}: {_reason(error)}", notes=_notes(error)) from error


def _checked_size(label: str, descriptor: int, max_bytes: int) -> int:
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        kind = _kind(status.st_mode)
        raise fail("file", f"a regular file is required, {label} is {kind}")
    if status.st_size > max_bytes:
        message = f"{label} may have at most {max_bytes} bytes here, it has {status.st_size}"
        raise fail("limit", message)
    return status.st_size


def _open_below(folder: Path, parts: tuple[str, ...]) -> int:
    """A descriptor of the file at folder/parts, opened part by part without following links."""
    above = os.open(folder, _FOLDER)
    try:
        for part in parts[:-1]:
            below = os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=above)
            os.close(above)
            above = below
        return os.open(parts[-1], _READ | os.O_NOFOLLOW, dir_fd=above)
    finally:
        os.close(above)


def _read_exactly(stream: BufferedReader, size: int, label: str) -> bytes:
    data = stream.read(size + 1)
    if len(data) != size:
        raise fail("file", f"{label} changed while it was read")
    return data


def _notes(error: OSError) -> tuple[Note, ...]:
    if error.errno == errno.ELOOP:
        return (Note("symbolic links are not followed to a file that a model names"),)
    return ()


def _cannot_write(path: Path, error: OSError) -> GraphcError:
    """An error about a file in a temporary folder, as an error about its destination `path`."""
    for parent in path.parents:
        if _TEMPORARY.fullmatch(parent.name):
            path = parent.with_name(path.name)
    return fail("file", f"cannot write {path}: {_reason(error)}")


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a FIFO"
    return "a socket" if stat.S_ISSOCK(mode) else "a device"
