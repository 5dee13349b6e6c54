"""Reading ahead on a thread: the same blocks, errors where they belong, no thread left behind."""

from __future__ import annotations

import threading
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from graphc.data.array_reader import from_arrays
from graphc.data.order import Order
from graphc.data.prefetch import Prefetch
from graphc.data.reader import Block, Column, EpochRequest, Reader
from graphc.support.diagnostics import GraphcError, fail


@dataclass
class Counting:
    """Blocks 0, 1, …, without end or up to one that fails; notes how far it was read."""

    fails_at: int | None = None
    read: int = 0
    closed: threading.Event = field(default_factory=threading.Event)
    schema: Mapping[str, Column] = field(default_factory=lambda: {"x": Column(1)})
    samples: int | None = None

    def blocks(self, request: EpochRequest) -> Iterator[Block]:
        try:
            for number in range(1000):
                if number == self.fails_at:
                    raise fail("bad-data", f"block {number} is bad")
                self.read += 1
                yield {"x": np.full((1, 1), number)}
        finally:
            self.closed.set()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "graphc-reader"]


def numbers(blocks: Iterator[Block], count: int) -> list[int]:
    return [int(np.asarray(next(blocks)["x"])[0, 0]) for _ in range(count)]


def test_the_blocks_are_those_of_the_reader() -> None:
    inner = from_arrays({"x": np.arange(100.0)}, order=Order(seed=2), block_bytes=80)
    reader = Prefetch(inner, ahead=3)
    assert isinstance(reader, Reader)
    assert (reader.schema, reader.samples) == (inner.schema, 100)
    for request in (EpochRequest(minibatch=4), EpochRequest(2, 30, 7, skip=7)):
        given = [np.asarray(block["x"]) for block in reader.blocks(request)]
        wanted = [np.asarray(block["x"]) for block in inner.blocks(request)]
        assert len(given) == len(wanted)
        np.testing.assert_array_equal(np.concatenate(given), np.concatenate(wanted))
    assert threads() == []


def test_it_reads_no_further_ahead_than_asked() -> None:
    inner = Counting()
    blocks = Prefetch(inner, ahead=2).blocks(EpochRequest())
    assert numbers(blocks, 3) == [0, 1, 2]
    # Two blocks wait, and one more may be in the thread's hand.
    assert inner.read <= 3 + 2 + 1
    blocks.close()  # type: ignore[attr-defined]
    assert inner.closed.is_set()
    assert threads() == []


def test_an_iterator_that_is_forgotten_leaves_no_thread() -> None:
    inner = Counting()
    blocks = Prefetch(inner).blocks(EpochRequest())
    assert numbers(blocks, 1) == [0]
    del blocks
    assert inner.closed.is_set()
    assert threads() == []


def test_nothing_is_read_before_the_first_block_is_asked_for() -> None:
    inner = Counting()
    Prefetch(inner).blocks(EpochRequest())
    assert inner.read == 0


def test_an_error_comes_with_its_place_after_the_blocks_before_it() -> None:
    blocks = Prefetch(Counting(fails_at=3)).blocks(EpochRequest())
    assert numbers(blocks, 3) == [0, 1, 2]
    with pytest.raises(GraphcError, match="block 3 is bad") as raised:
        next(blocks)
    frames = [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)]
    assert frames[-1] == "blocks"
    assert "_read" in frames
    assert threads() == []


def test_a_reader_that_ends_at_once_gives_nothing() -> None:
    inner = from_arrays({"x": np.arange(5.0)})
    assert list(Prefetch(inner).blocks(EpochRequest(skip=5))) == []
    assert threads() == []


def test_it_reads_ahead_by_one_block_at_least() -> None:
    with pytest.raises(GraphcError, match="at least 1 block, got 0"):
        Prefetch(Counting(), ahead=0)
