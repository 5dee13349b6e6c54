"""Compiled code kept in files from one process to the next, found by what it was made of.

An entry is one file, named by its key: the hash of everything that decides the code. It holds the
key's parts, the signature and the code, behind a hash of all of it that is checked at every
reading; what does not pass is removed, and the code is made again. Nothing in an entry is
executed before that, but then it is: the folder has to be the user's alone, otherwise it is not
used. Several processes may use it at the same time; files are replaced as a whole. The entries
used least recently go when there are more bytes than the limit.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from graphc.runtime.signature import Signature
from graphc.runtime.signature_record import read_signature, signature_record
from graphc.support.diagnostics import GraphcError
from graphc.support.files import read_regular_file, remove_left_over, write_atomically
from graphc.support.private_folder import make_private_folder

FORMAT = "graphc-cache-1"
SUFFIX = ".entry"
LAST_MISS = "last-miss.json"
MOST_BYTES = 512 * 2**20
LARGEST_ENTRY = 128 * 2**20
OTHER_VERSION = "another version of graphc made it"

T = TypeVar("T")

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Key:
    """What decides the code, by name: texts such as the network, the passes, the processor."""

    parts: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """The key's name: SHA-256 of all parts in hexadecimal."""
        text = json.dumps(dict(self.parts), sort_keys=True)
        return hashlib.sha256(text.encode("utf-8")).hexdigest()


@dataclass(frozen=True)
class Entry:
    """What one file holds. `seconds`: what it took to make the code."""

    key: Key
    signature: Signature
    code: bytes
    seconds: float


@dataclass(frozen=True)
class Listed:
    """A file of the cache as `graphc cache` shows it. problem: why it is no good, if so."""

    name: str
    size: int
    used: float  # seconds since 1970
    entry: Entry | None
    problem: str = ""

    @property
    def is_damaged(self) -> bool:
        """Whether it is no good in itself, not only for this version of graphc."""
        return self.problem not in ("", OTHER_VERSION)


@dataclass(frozen=True)
class Miss:
    """The last time that code was asked for which was not there. why: absent, or damaged."""

    key: Key
    why: str
    when: float


@dataclass(frozen=True)
class Cache:
    """The cache in a folder; `limit` bytes of entries at most. Nothing here raises for its files:
    what cannot be read or written is a miss."""

    folder: Path
    limit: int = MOST_BYTES

    @cached_property
    def problem(self) -> str:
        """Why the folder cannot be used, or the empty text; the first time it is made, and a
        problem logged."""
        problem = make_private_folder(self.folder)
        if problem:
            _log.warning("compiled code is not kept: %s", problem)
        return problem

    def lookup(self, key: Key) -> Entry | None:
        """The entry of the key, noted as used now. None, noted as a miss, if there is none."""
        if self.problem:
            return None
        path = self._path(key)
        try:
            entry = _read_entry(path, key.digest)
        except FileNotFoundError:
            self._note_miss(key, "no entry has this key")
            return None
        except (OSError, ValueError) as problem:
            self._note_miss(key, f"the entry was damaged: {problem}")
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)
        return entry

    def store(self, entry: Entry) -> None:
        """Keep the entry, if there is space for it; then remove what is above the limit."""
        if self.problem:
            return
        content = _entry_bytes(entry)
        if len(content) > min(LARGEST_ENTRY, self.limit):
            return
        try:
            write_atomically(self._path(entry.key), content, private=True)
        except GraphcError as error:
            _log.info("compiled code is not kept: %s", error.diagnostics[0].message)
            return
        self._make_space()

    # --- looking after it

    def entries(self) -> list[Listed]:
        """All entries, checked, the one used last first."""
        found: list[Listed] = []
        for path, status in sorted(self._files(), key=lambda f: -f[1].st_mtime_ns):
            entry, problem = None, ""
            try:
                entry = _read_entry(path, path.name.removesuffix(SUFFIX))
            except FileNotFoundError:  # another process has just removed it
                continue
            except (OSError, ValueError) as error:
                problem = str(error)
            found.append(Listed(path.name, status.st_size, status.st_mtime, entry, problem))
        return found

    def total_bytes(self) -> int:
        """Of all entries."""
        return sum(status.st_size for _, status in self._files())

    def remove(self, name: str) -> None:
        """Remove an entry, if it is still there."""
        with suppress(OSError):
            (self.folder / Path(name).name).unlink()

    def clear(self) -> int:
        """Remove all entries and what was left over; how many entries there were."""
        files = list(self._files())
        for path, _ in files:
            self.remove(path.name)
        self.remove(LAST_MISS)
        remove_left_over(self.folder, older_than=0)
        return len(files)

    def last_miss(self) -> Miss | None:
        """The last miss of any process."""
        try:
            record = _record(read_regular_file(self.folder / LAST_MISS, LARGEST_ENTRY))
            return Miss(
                Key(_texts(record["parts"])), _of(str, record["why"]), _of(float, record["when"])
            )
        except (GraphcError, ValueError, KeyError):
            return None

    # --- files

    def _path(self, key: Key) -> Path:
        return self.folder / (key.digest + SUFFIX)

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        with suppress(OSError), os.scandir(self.folder) as found:
            for item in found:
                if item.name.endswith(SUFFIX):
                    with suppress(OSError):
                        yield Path(item.path), item.stat(follow_symlinks=False)

    def _note_miss(self, key: Key, why: str) -> None:
        record = {"parts": dict(key.parts), "why": why, "when": time.time()}
        with suppress(GraphcError):
            content = json.dumps(record).encode("utf-8")
            write_atomically(self.folder / LAST_MISS, content, private=True)

    def _make_space(self) -> None:
        files = sorted(self._files(), key=lambda f: f[1].st_mtime_ns)
        total = sum(status.st_size for _, status in files)
        for path, status in files:
            if total <= self.limit:
                break
            total -= status.st_size
            self.remove(path.name)


def _entry_bytes(entry: Entry) -> bytes:
    """A line with the format and the hash of the rest, a line of JSON, the code."""
    record = {
        "parts": dict(entry.key.parts),
        "signature": signature_record(entry.signature),
        "seconds": entry.seconds,
    }
    body = json.dumps(record).encode("utf-8") + b"\n" + entry.code
    return f"{FORMAT} {hashlib.sha256(body).hexdigest()}\n".encode() + body


def _read_entry(path: Path, digest: str) -> Entry:
    """The entry in a file that belongs to this key. OSError, or ValueError if it is damaged or
    what another version of graphc wrote."""
    content = _read_own_file(path)
    head, _, body = content.partition(b"\n")
    if head != f"{FORMAT} {hashlib.sha256(body).hexdigest()}".encode():
        raise ValueError("its content does not have the hash that it states")
    line, _, code = body.partition(b"\n")
    try:
        record = _record(line)
        key = Key(_texts(record["parts"]))
        signature = read_signature(record["signature"])
        seconds = _of(float, record["seconds"])
    except (KeyError, ValueError):  # the hash is right, so that somebody meant it
        raise ValueError(OTHER_VERSION) from None
    if key.digest != digest:
        raise ValueError("it belongs to another key")
    return Entry(key, signature, code, seconds)


def _read_own_file(path: Path) -> bytes:
    """The bytes of a file that only the user can have written."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    with os.fdopen(descriptor, "rb") as stream:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise ValueError("it is no regular file")
        if status.st_uid != os.geteuid():
            raise ValueError("it belongs to another user")
        if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise ValueError("others may write to it")
        if status.st_size > LARGEST_ENTRY:
            raise ValueError("it is too large")
        return stream.read(LARGEST_ENTRY + 1)


def _record(content: bytes) -> dict[str, object]:
    """A JSON object that can be shown: numbers are finite, texts Unicode. ValueError otherwise."""
    try:
        record = json.loads(content)
        json.dumps(record, ensure_ascii=False, allow_nan=False).encode("utf-8")
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    return _of(dict, record)


def _texts(record: object) -> dict[str, str]:
    """A JSON object of texts. ValueError for anything else."""
    return {name: _of(str, value) for name, value in _of(dict, record).items()}


def _of(kind: type[T], value: object) -> T:
    """The value, which JSON has to give as this type and no other; ValueError otherwise."""
    if type(value) is not kind:
        raise ValueError(f"{kind.__name__} is required, got {type(value).__name__}")
    return value
