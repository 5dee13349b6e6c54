"""Which samples the epochs of a reader visit, and in which blocks, against a plain model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.data.array_reader import from_arrays
from graphc.data.iterable_reader import from_iterable
from graphc.data.order import IN_ORDER, Order
from graphc.data.reader import Column, EpochRequest, Reader
from graphc.data.uci import Columns, FeatureBlock, LabelBlock, read_uci
from graphc.data.uci_reader import uci
from graphc.learn.shuffle import permutation
from graphc.support.diagnostics import GraphcError


def endless(order: Order, total: int, passes: int) -> list[int]:
    """The samples of the first passes over `total` of them, one after the other."""
    visited: list[int] = []
    span = total if order.randomize == "auto" else order.randomize
    for number in range(passes):
        if order.randomize is None:
            visited += range(total)
            continue
        assert isinstance(span, int)
        windows = [range(low, min(low + span, total)) for low in range(0, total, span)]
        for w, window in enumerate(windows):
            drawn = permutation(order.seed, number * len(windows) + w, len(window))
            visited += [window[i] for i in drawn]
    return visited


def expected(order: Order, request: EpochRequest, total: int) -> list[int]:
    size = request.size or total
    first = request.epoch * size
    epoch = endless(order, total, (first + size) // total + 1)[first : first + size][request.skip :]
    whole = len(epoch) // request.minibatch * request.minibatch
    return epoch[:whole] if order.minibatch_mode == "full" else epoch


def read(reader: Reader, request: EpochRequest, name: str = "x") -> list[int]:
    """The numbers of the samples visited; checks the sizes of blocks on the way."""
    blocks = [np.asarray(block[name]) for block in reader.blocks(request)]
    assert all(len(block) % request.minibatch == 0 for block in blocks[:-1])
    assert all(len(block) for block in blocks)
    return [int(value) for block in blocks for value in block[:, 0]]


orders = st.builds(
    Order,
    st.one_of(st.none(), st.just("auto"), st.integers(1, 30)),
    st.integers(0, 2**64 - 1),
    st.sampled_from(["partial", "full"]),
)
requests = st.builds(
    EpochRequest,
    epoch=st.integers(0, 5),
    size=st.integers(0, 60),
    minibatch=st.integers(1, 9),
    skip=st.integers(0, 5),
)


def pieces_of(total: int, cuts: Sequence[int]) -> Iterator[dict[str, np.ndarray]]:
    numbers = np.arange(total, dtype=np.float32)
    for part in np.split(numbers, [cut for cut in sorted(cuts) if cut < total]):
        yield {"x": part[:, None]}


@given(orders, st.lists(requests, min_size=1, max_size=4), st.integers(1, 25), st.integers(4, 100))
def test_arrays_are_visited_as_the_model_says(
    order: Order, asked: list[EpochRequest], total: int, block_bytes: int
) -> None:
    array = np.arange(total, dtype=np.float32)[:, None]
    reader = from_arrays({"x": array}, order=order, block_bytes=block_bytes)
    for request in asked:
        assert read(reader, request) == expected(order, request, total)


@given(
    orders,
    st.lists(requests, min_size=1, max_size=4),
    st.integers(1, 25),
    st.lists(st.integers(1, 24)),
    st.booleans(),
    st.integers(4, 100),
)
def test_pieces_are_visited_as_the_model_says(
    order: Order,
    asked: list[EpochRequest],
    total: int,
    cuts: list[int],
    keep: bool,
    block_bytes: int,
) -> None:
    keep = keep or order.randomize == "auto"
    reader = from_iterable(
        {"x": Column(1)},
        lambda: pieces_of(total, cuts),
        order=order,
        keep=keep,
        block_bytes=block_bytes,
    )
    for request in asked:
        assert read(reader, request) == expected(order, request, total)


BLOCKS = [LabelBlock("t", Columns(0, 1), 3, ("a", "b", "cc")), FeatureBlock("x", Columns(1, 2))]
REQUEST = EpochRequest(minibatch=2)


def write_lines(path: Path, first: int, count: int) -> Path:
    names = ("a", "b", "cc")
    lines = [f"{names[i % 3]} {i} {i}.5\n" for i in range(first, first + count)]
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("randomize", [None, 4, "auto"])
def test_files_of_text_are_one_set_of_samples(
    tmp_path: Path, keep: bool, randomize: Literal["auto"] | int | None
) -> None:
    files = [write_lines(tmp_path / "1", 0, 5), write_lines(tmp_path / "2", 5, 6)]
    keep = keep or randomize == "auto"
    order = Order(randomize, seed=3)
    reader = uci(files, BLOCKS, order=order, keep=keep, block_bytes=48)
    assert dict(reader.schema) == {"t": Column(3), "x": Column(2)}
    assert reader.samples is None
    for request in (REQUEST, EpochRequest(1, 7, 3), EpochRequest(4, 7, 3, skip=3)):
        assert read(reader, request) == expected(order, request, 11)
    assert reader.samples == 11
    for block in reader.blocks(REQUEST):
        x, t = np.asarray(block["x"]), np.asarray(block["t"])
        np.testing.assert_array_equal(x[:, 1], x[:, 0] + 0.5)
        np.testing.assert_array_equal(t, np.eye(3)[x[:, 0].astype(int) % 3])
        assert x.dtype == t.dtype == np.float32


def test_a_text_reads_as_read_uci_does(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "data", 0, 2000)
    reader = uci(path, BLOCKS, order=IN_ORDER, dtype=np.float64)
    (block,) = reader.blocks(EpochRequest())
    whole = read_uci(path, BLOCKS, dtype=np.float64)
    for name in ("t", "x"):
        np.testing.assert_array_equal(np.asarray(block[name]), whole[name])


def test_no_more_text_is_read_than_an_epoch_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("graphc.data.uci.PIECE_BYTES", 64)
    path = write_lines(tmp_path / "data", 0, 1000)
    with path.open("a", encoding="utf-8") as stream:
        stream.write("a 1 mistake\n")
    reader = uci(path, BLOCKS, order=Order(10))
    assert len(read(reader, EpochRequest(0, 100))) == 100
    assert reader.samples is None
    with pytest.raises(GraphcError, match=r"a number is required in column 2 \(`x`\)") as raised:
        read(reader, EpochRequest(9, 101))
    (mistake,) = raised.value.diagnostics
    assert mistake.span is not None
    assert (mistake.span.file, mistake.span.line, mistake.span.column) == (str(path), 1001, 5)
    with pytest.raises(GraphcError, match="a number is required"):
        read(reader, EpochRequest(9, 101))
    assert len(read(reader, EpochRequest(0, 100))) == 100


def test_every_sample_is_visited_once_in_each_pass() -> None:
    array = np.arange(1000, dtype=np.float32)[:, None]
    reader = from_arrays({"x": array}, order=Order(seed=7), block_bytes=400)
    epochs = [read(reader, EpochRequest(e, 250, 10)) for e in range(8)]
    first, second = [*chain(*epochs[:4])], [*chain(*epochs[4:])]
    assert sorted(first) == sorted(second) == list(range(1000))
    assert first != second
    assert first == [int(i) for i in permutation(7, 0, 1000)]


def test_short_epochs_of_one_pass_exchange_its_samples_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    drawn: list[int] = []

    def within(order: Order, number: int, low: int, high: int) -> range:
        drawn.append(number)
        return range(low, high)

    monkeypatch.setattr(Order, "within", within)
    reader = from_arrays({"x": np.arange(100.0)})
    for epoch in range(12):
        read(reader, EpochRequest(epoch, 10))
    assert drawn == [0, 1]


def test_an_epoch_can_be_gone_on_with_from_its_middle() -> None:
    array = np.arange(100, dtype=np.float32)[:, None]
    reader = from_arrays({"x": array}, order=Order(30, seed=1))
    whole = read(reader, EpochRequest(2, 70, 4))
    assert read(reader, EpochRequest(2, 70, 4, skip=24)) == whole[24:]


def test_arrays_are_not_copied_in_the_order_of_the_data(tmp_path: Path) -> None:
    array = np.lib.format.open_memmap(tmp_path / "x.npy", "w+", np.float32, (64, 3))
    reader = from_arrays({"x": array}, order=IN_ORDER, block_bytes=100)
    blocks = [np.asarray(block["x"]) for block in reader.blocks(EpochRequest(minibatch=4))]
    assert all(np.shares_memory(block, array) for block in blocks)
    assert [len(block) for block in blocks] == [8] * 8


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({}, "at least one array is required"),
        ({"x": [1, 2]}, "`x` requires an array, got list"),
        ({"x": np.array("text")}, "requires an array .* of numbers"),
        ({"x": np.array(1.0)}, "requires an array .* of numbers, got float64 of shape"),
        ({"x": np.ones(2), "y": np.ones(3)}, "equally many samples .* got 2 of `x`, 3 of `y`"),
    ],
)
def test_what_is_no_set_of_arrays_is_refused(arrays: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        from_arrays(arrays)


@pytest.mark.parametrize(
    ("minibatch", "message"),
    [
        ({"y": [[1.0]]}, "minibatch 1 .* requires the column `x`, got `y`"),
        ({"x": [1.0]}, r"`x` of minibatch 1 .* requires numbers \(samples, 1\), got float64"),
        ({"x": [["a"]]}, "`x` of minibatch 1"),
        ({"x": [[1.0], [2.0, 3.0]]}, "`x` of minibatch 1"),
        (3, "minibatch 1 .* requires arrays by name, got int"),
    ],
)
@pytest.mark.parametrize("keep", [True, False])
def test_a_bad_minibatch_of_an_iterable_is_named(
    minibatch: dict[str, object], message: str, keep: bool
) -> None:
    reader = from_iterable({"x": Column(1)}, lambda: [{"x": [[0.0]]}, minibatch], keep=keep)
    with pytest.raises(GraphcError, match=message):
        read(reader, EpochRequest())


def test_data_that_become_fewer_are_an_error() -> None:
    lengths = iter([5, 3])
    reader = from_iterable(
        {"x": Column(1)}, lambda: [{"x": [[0.0]]}] * next(lengths), order=Order(2)
    )
    assert len(read(reader, EpochRequest())) == 5
    with pytest.raises(GraphcError, match="the data had 5 samples, now they have 3"):
        read(reader, EpochRequest(1))


@pytest.mark.parametrize("keep", [True, False])
@pytest.mark.parametrize("randomize", [None, 6])
def test_two_may_read_at_once(keep: bool, randomize: int | None) -> None:
    order = Order(randomize, seed=2)
    pieces = partial(pieces_of, 40, [3, 10, 25])
    reader = from_iterable({"x": Column(1)}, pieces, order=order, keep=keep, block_bytes=16)
    ahead = reader.blocks(EpochRequest())
    for _ in range(4):
        next(ahead)
    behind = reader.blocks(EpochRequest())
    pairs = [(next(ahead)["x"], next(behind)["x"]) for _ in range(6)]
    firsts, seconds = (np.concatenate([np.asarray(p[i]) for p in pairs])[:, 0] for i in (0, 1))
    wanted = expected(order, EpochRequest(), 40)
    assert [int(i) for i in firsts] == wanted[16:]
    assert [int(i) for i in seconds] == wanted[:24]


def test_samples_that_pass_by_are_not_exchanged_over_all_data() -> None:
    with pytest.raises(GraphcError, match="within a number of them alone"):
        from_iterable({"x": Column(1)}, list, order=Order())


@pytest.mark.parametrize("keep", [True, False])
def test_no_samples_are_an_error(keep: bool) -> None:
    reader = from_iterable({"x": Column(1)}, lambda: [{"x": np.empty((0, 1))}], keep=keep)
    for request in (EpochRequest(), EpochRequest(3), EpochRequest(2, 5)):
        with pytest.raises(GraphcError, match="at least one sample is required"):
            read(reader, request)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"randomize": "some"}, '"auto", None or a number'),
        ({"randomize": 0}, '"auto", None or a number'),
        ({"randomize": True}, '"auto", None or a number'),
        ({"seed": 2**64}, "below 2"),
        ({"minibatch_mode": "whole"}, '"partial" or "full"'),
    ],
)
def test_an_order_that_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(GraphcError, match=message):
        Order(**settings)


@pytest.mark.parametrize("numbers", [{"epoch": -1}, {"minibatch": 0}, {"size": -3}, {"skip": 0.5}])
def test_an_epoch_that_makes_no_sense_is_refused(numbers: dict[str, Any]) -> None:
    with pytest.raises(GraphcError, match="of an epoch requires"):
        EpochRequest(**numbers)


def test_the_folder_for_samples_is_named_when_it_cannot_be_written(tmp_path: Path) -> None:
    path = write_lines(tmp_path / "data", 0, 5)
    reader = uci(path, BLOCKS, folder=tmp_path / "absent")
    with pytest.raises(GraphcError, match=r"cannot keep samples in .*absent.* TMPDIR"):
        read(reader, REQUEST)
