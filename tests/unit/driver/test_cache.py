"""Entries of the cache: kept, found, checked, and removed."""

from __future__ import annotations

import copy
import errno
import itertools
import json
import logging
import math
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from graphc.driver import cache as cache_module
from graphc.driver.cache import LAST_MISS, Cache, Entry, Key
from graphc.runtime.signature import (
    Argument,
    Dimension,
    Result,
    SequenceTables,
    Signature,
    SparseInput,
)
from graphc.support.diagnostics import fail
from graphc.support.size_formula import SizeFormula

KEY = Key({"network": "graph @n {}", "passes": "cse\ndce"})
SIGNATURE = Signature("main", (Dimension("N", 8),), (), (), 64)
ENTRY = Entry(KEY, SIGNATURE, b"\x7fELF code\n\n", 0.25)


WHOLE = Entry(
    Key({"network": "graph @ö {}"}),
    Signature(
        "main",
        (Dimension("N", 8), Dimension("M", 16, SizeFormula.product(("N",), 2))),
        (Argument("x", "f32", ("N", 3), "input"),),
        (Result("y", "f32", ("N", 3)), Result("W", "f64", (3, 4), "W")),
        64,
        (SparseInput("s", 3),),
        SequenceTables("begin", "end"),
    ),
    b"code",
    0.5,
)
"""One of everything that a record can hold."""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    made = Cache(tmp_path / "cache")
    made.store(ENTRY)
    return made


def file_of(cache: Cache, key: Key = KEY) -> Path:
    return cache.folder / f"{key.digest}.entry"


def numbered(number: int, size: int = 1000) -> Entry:
    return Entry(Key({"network": str(number)}), SIGNATURE, b"x" * size, 0.1)


def test_what_was_stored_is_found(cache: Cache) -> None:
    assert cache.lookup(KEY) == ENTRY


def test_another_process_finds_it_too(cache: Cache) -> None:
    assert Cache(cache.folder).lookup(Key(dict(KEY.parts))) == ENTRY


def test_the_order_of_the_parts_does_not_matter() -> None:
    assert Key(dict(reversed(KEY.parts.items()))).digest == KEY.digest


@pytest.mark.parametrize(
    "parts",
    [
        {**KEY.parts, "network": "graph @m {}"},
        {**KEY.parts, "more": ""},
        {"network": KEY.parts["network"]},
        {"network": "graph @n {}cse", "passes": "\ndce"},
    ],
)
def test_another_key_is_a_miss_that_is_noted(cache: Cache, parts: dict[str, str]) -> None:
    assert cache.lookup(Key(parts)) is None
    miss = cache.last_miss()
    assert miss is not None
    assert (miss.key, miss.why) == (Key(parts), "no entry has this key")


def test_a_hit_is_no_miss(cache: Cache) -> None:
    cache.lookup(KEY)
    assert cache.last_miss() is None


def test_files_are_the_users_alone(cache: Cache) -> None:
    assert file_of(cache).stat().st_mode & 0o777 == 0o600
    assert cache.folder.stat().st_mode & 0o777 == 0o700


# --- damage


def flipped(content: bytes) -> bytes:
    return content[:-3] + bytes([content[-3] ^ 1]) + content[-2:]


@pytest.mark.parametrize(
    "change",
    [
        flipped,
        lambda content: content[:-1],
        lambda content: content + b"\0",
        lambda content: b"",
        lambda content: content.replace(b"graphc-cache-1", b"graphc-cache-0"),
        lambda content: content.replace(b'"N"', b'"M"'),
        lambda content: b"\0" * len(content),
    ],
    ids=["a bit", "cut", "longer", "empty", "format", "signature", "zeros"],
)
def test_a_damaged_entry_is_a_miss_and_removed(
    cache: Cache, change: Callable[[bytes], bytes]
) -> None:
    path = file_of(cache)
    path.write_bytes(change(path.read_bytes()))
    assert cache.lookup(KEY) is None
    assert not path.exists()
    miss = cache.last_miss()
    assert miss is not None
    assert miss.why.startswith("the entry was damaged: ")
    cache.store(ENTRY)
    assert cache.lookup(KEY) == ENTRY


def test_an_entry_under_the_name_of_another_key_is_refused(cache: Cache) -> None:
    other = Key({"network": "other"})
    file_of(cache).rename(file_of(cache, other))
    assert cache.lookup(other) is None
    miss = cache.last_miss()
    assert miss is not None
    assert "belongs to another key" in miss.why


@pytest.mark.parametrize(
    "record", [b"{}", b"[]", b"3", b"not json", b'{"parts": {"a": 1}, "signature": {}}']
)
def test_an_entry_whose_record_says_nothing_is_refused(cache: Cache, record: bytes) -> None:
    body = record + b"\ncode"
    digest = cache_module.hashlib.sha256(body).hexdigest()
    file_of(cache).write_bytes(f"{cache_module.FORMAT} {digest}\n".encode() + body)
    assert cache.lookup(KEY) is None


BAD_VALUES = [
    b"null",
    b"true",
    b"-1",
    b"3",
    b"1e400",
    b"-1e400",
    b"NaN",
    b"Infinity",
    b"1" * 400,
    b"1" * 5000,
    b'""',
    b'"\\ud800"',
    b'"\xff"',
    b"[]",
    b"[[3]]",
    b"{}",
    b'{"": ""}',
    b"[" * 100_000,
    b"[" * 100_000 + b"]" * 100_000,
    b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
]


def places(record: object) -> list[tuple[str | int, ...]]:
    """The way to everything in a JSON record, from the whole of it down to each leaf."""
    items: list[tuple[str | int, object]] = []
    if isinstance(record, dict):
        items = list(record.items())
    elif isinstance(record, list):
        items = list(enumerate(record))
    return [(), *((key, *rest) for key, value in items for rest in places(value))]


def replaced(record: object, way: tuple[str | int, ...], value: bytes) -> bytes:
    """The record as JSON, with another value at the end of the way."""
    if not way:
        return value
    whole = copy.deepcopy(record)
    inside = whole
    for key in way[:-1]:
        inside = inside[key]  # type: ignore[index]
    inside[way[-1]] = "@the place@"  # type: ignore[index]
    return json.dumps(whole).encode().replace(b'"@the place@"', value)


def test_an_entry_with_any_other_value_anywhere_is_an_entry_or_a_problem(tmp_path: Path) -> None:
    """Its hash is right, so only what is read decides."""
    cache = Cache(tmp_path / "cache")
    cache.store(WHOLE)
    path = file_of(cache, WHOLE.key)
    _, line, code = path.read_bytes().split(b"\n", 2)
    record = json.loads(line)
    refused = 0
    for way, value in itertools.product(places(record), BAD_VALUES):
        body = replaced(record, way, value) + b"\n" + code
        digest = cache_module.hashlib.sha256(body).hexdigest()
        path.write_bytes(f"{cache_module.FORMAT} {digest}\n".encode() + body)
        (found,) = cache.entries()
        refused += bool(found.problem)
        if found.entry is not None:  # what is taken can be shown
            assert math.isfinite(found.entry.seconds)
            assert str(found.entry.signature).encode()
    assert refused > 500


def test_a_note_of_a_miss_with_any_other_value_is_a_note_or_none(cache: Cache) -> None:
    cache.lookup(Key({"network": "none"}))
    path = cache.folder / LAST_MISS
    record = json.loads(path.read_bytes())
    for way, value in itertools.product(places(record), BAD_VALUES):
        path.write_bytes(replaced(record, way, value))
        miss = cache.last_miss()
        if miss is not None:
            assert math.isfinite(miss.when)
            assert f"{miss.why}{miss.key.parts}".encode()
    cache.lookup(Key({"network": "none"}))
    assert cache.last_miss() is not None


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_an_entry_that_others_may_write_to_is_refused(cache: Cache, mode: int) -> None:
    file_of(cache).chmod(mode)
    assert cache.lookup(KEY) is None
    assert not file_of(cache).exists()


def test_an_entry_of_another_user_is_refused(cache: Cache, monkeypatch: pytest.MonkeyPatch) -> None:
    user = os.geteuid() + 1
    assert cache.problem == ""
    monkeypatch.setattr(cache_module.os, "geteuid", lambda: user)
    assert cache.lookup(KEY) is None


def test_a_link_in_the_place_of_an_entry_is_not_followed(cache: Cache, tmp_path: Path) -> None:
    path = file_of(cache)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert cache.lookup(KEY) is None
    assert (tmp_path / "elsewhere").exists()


def test_a_fifo_in_the_place_of_an_entry_is_not_waited_for(cache: Cache) -> None:
    file_of(cache).unlink()
    os.mkfifo(file_of(cache), 0o600)
    assert cache.lookup(KEY) is None


# --- folders and disks


def test_a_folder_that_is_not_safe_is_not_used_and_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tmp_path.chmod(0o777)
    cache = Cache(tmp_path)
    with caplog.at_level(logging.WARNING):
        cache.store(ENTRY)
        assert cache.lookup(KEY) is None
    assert list(tmp_path.iterdir()) == []
    assert [r.getMessage() for r in caplog.records] == [
        f"compiled code is not kept: others may write to {tmp_path}"
    ]


def test_a_full_disk_keeps_nothing_and_raises_nothing(
    cache: Cache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise fail("file", f"cannot write: {os.strerror(errno.ENOSPC)}")

    monkeypatch.setattr(cache_module, "write_atomically", full)
    cache.store(numbered(1))
    assert cache.lookup(numbered(1).key) is None
    assert cache.lookup(KEY) == ENTRY


def test_a_folder_that_vanishes_is_a_miss(cache: Cache) -> None:
    assert cache.problem == ""
    cache.clear()
    cache.folder.rmdir()
    assert cache.lookup(KEY) is None
    cache.store(ENTRY)
    assert cache.entries() == []


def test_an_entry_above_the_limit_is_not_kept(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit=1000)
    cache.store(numbered(1, 2000))
    assert cache.entries() == []


def test_what_was_used_least_recently_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "cache", limit=5000)
    for i in range(3):
        cache.store(numbered(i))
        os.utime(file_of(cache, numbered(i).key), (1000 + i, 1000 + i))
    assert cache.lookup(numbered(0).key) is not None  # used now
    cache.store(numbered(3))
    cache.store(numbered(4))
    kept = [i for i in range(5) if file_of(cache, numbered(i).key).exists()]
    assert kept == [0, 3, 4]
    assert cache.total_bytes() <= cache.limit


def test_what_a_killed_process_left_is_removed_in_time(cache: Cache) -> None:
    old, new = (cache.folder / f".{name}.entry.graphc-0.tmp" for name in "ab")
    for path in (old, new):
        path.write_bytes(b"part")
    os.utime(old, (0, 0))
    cache.store(numbered(1))
    assert (old.exists(), new.exists()) == (False, True)


def test_clearing_leaves_an_empty_folder_and_other_files(cache: Cache) -> None:
    cache.lookup(Key({"network": "none"}))
    (cache.folder / ".c.graphc-0.tmp").write_bytes(b"")
    (cache.folder / "mine.txt").write_text("stays")
    assert cache.clear() == 1
    assert [p.name for p in cache.folder.iterdir()] == ["mine.txt"]


def test_entries_are_listed_with_what_is_wrong_with_them(cache: Cache) -> None:
    cache.store(numbered(1))
    path = file_of(cache)
    path.write_bytes(flipped(path.read_bytes()))
    os.utime(path, (1000, 1000))
    good, bad = cache.entries()
    assert (good.entry, good.problem) == (numbered(1), "")
    assert (bad.entry, bad.name) == (None, path.name)
    assert "hash" in bad.problem


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b'{"parts": 3, "why": "", "when": 0}'])
def test_a_damaged_note_of_a_miss_is_none(cache: Cache, content: bytes) -> None:
    (cache.folder / LAST_MISS).write_bytes(content)
    assert cache.last_miss() is None
