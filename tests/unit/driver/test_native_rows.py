"""Native reading of data: compiled once, found in the cache, and never an error of its own."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from graphc.backends import BACKENDS
from graphc.backends.base import Backend
from graphc.data.plain_rows import NativeRows, ReadRows
from graphc.data.uci import Block, Columns, FeatureBlock, read_uci, read_uci_stream
from graphc.driver import cache_key, native_rows
from graphc.driver.cache import Cache
from graphc.support.diagnostics import fail

LLVM = BACKENDS["llvm"]()
BLOCK = FeatureBlock("x", Columns(0, 2))


@pytest.fixture(autouse=True)
def new_process() -> Iterator[None]:
    """Nothing is loaded yet."""
    native_rows._load.cache_clear()
    yield
    native_rows._load.cache_clear()


def use_backend(patch: pytest.MonkeyPatch, made: Callable[[], bytes]) -> None:
    assert LLVM.table_rows is not None
    backend: Backend = replace(LLVM, table_rows=replace(LLVM.table_rows, make=made))
    patch.setitem(BACKENDS, "llvm", lambda: backend)


def compiled() -> bytes:
    assert LLVM.table_rows is not None
    return LLVM.table_rows.make()


def refuse() -> bytes:
    raise fail("limit", "LLVM requires up to 1,000 MiB of memory")


def test_code_is_compiled_once_and_then_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache_key, "SOURCES", "sources of a test")
    monkeypatch.setattr(cache_key, "source_stamp", lambda: "sources of a test")
    folder = tmp_path / "cache"
    made: list[bytes] = []

    def make() -> bytes:
        made.append(compiled())
        return made[-1]

    use_backend(monkeypatch, make)
    for _ in range(2):
        native_rows._load.cache_clear()
        assert native_rows.native_rows(Cache(folder)).load() is not None
    assert len(made) == 1
    (entry,) = Cache(folder).entries()
    assert entry.entry is not None
    assert entry.entry.code == made[0]


def test_a_process_loads_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bytes] = []

    def make() -> bytes:
        made.append(compiled())
        return made[-1]

    use_backend(monkeypatch, make)
    first, second = (native_rows.native_rows(None).load() for _ in range(2))
    assert first is second
    assert len(made) == 1


@pytest.mark.parametrize("has_cache", [False, True])
def test_what_keeps_llvm_from_compiling_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_cache: bool
) -> None:
    use_backend(monkeypatch, refuse)
    native = native_rows.native_rows(Cache(tmp_path / "cache") if has_cache else None)
    assert native.load() is None
    path = tmp_path / "data.txt"
    path.write_text("1 2\n" * 10)
    values = read_uci(path, [BLOCK], native=replace(native, least_bytes=0))["x"]
    np.testing.assert_array_equal(values, [[1, 2]] * 10)


def test_without_a_cache_only_long_texts_are_worth_compiling(tmp_path: Path) -> None:
    without = native_rows.native_rows(None).least_bytes
    assert without > native_rows.native_rows(Cache(tmp_path)).least_bytes


def loads_of(text: bytes, least_bytes: int, blocks: list[Block], *, is_pipe: bool) -> int:
    """How often code was asked for."""
    asked: list[int] = []

    def load() -> ReadRows | None:
        asked.append(len(asked))
        return None

    size = None if is_pipe else len(text)
    native = NativeRows(load, least_bytes)
    read_uci_stream(io.BytesIO(text), size, "data", blocks, native=native)
    return len(asked)


@pytest.mark.parametrize("is_pipe", [False, True])
def test_code_is_asked_for_once_and_for_long_texts_only(is_pipe: bool) -> None:
    text = b"1 2\n" * 300_000
    assert loads_of(text, len(text), [BLOCK], is_pipe=is_pipe) == 1
    assert loads_of(text, len(text) + 1, [BLOCK], is_pipe=is_pipe) == 0


def test_a_column_read_twice_is_left_to_numpy() -> None:
    both: list[Block] = [BLOCK, FeatureBlock("y", Columns(1, 1))]
    assert loads_of(b"1 2\n" * 10, 0, both, is_pipe=False) == 0
    values = read_uci_stream(io.BytesIO(b"1 2\n"), 4, "data", both)
    assert (values["x"].tolist(), values["y"].tolist()) == ([[1.0, 2.0]], [[2.0]])
