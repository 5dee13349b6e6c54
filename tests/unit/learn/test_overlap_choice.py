"""Members that leave it to their link where gradients are added."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import numpy as np
import pytest

import graphc as gc
from graphc.driver import members as driver
from graphc.learn.checkpoint import read_checkpoint
from graphc.passes.overlap_sums import OverlapSums
from graphc.runtime.communicators.communicator import Communicator
from tests.support.compiling import require_backend

T = TypeVar("T")
Array = np.ndarray
PATIENCE = 60.0
SLOW, QUICK = 8e-9, 0.3e-9
"""Seconds that a byte is waited for: at a gigabit a second, and in memory."""
TEXT = """
    x = Input(5)
    t = Input(3)
    W = Parameter(8, 5)
    b = Parameter(8, 1)
    U = Parameter(8, 8)
    V = Parameter(3, 8)
    h = Tanh(Plus(Times(W, x), b))
    e = SquareError(t, Times(V, Tanh(Times(U, h))), tag=criteria)
"""
BEHIND, BESIDE = "sums-behind", "sums-beside"


@pytest.fixture(autouse=True)
def small_buckets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Full with 192 bytes: V with what is there before it, U, W."""
    monkeypatch.setattr(driver, "OverlapSums", lambda: OverlapSums(192))


@dataclass(frozen=True)
class Choosing:
    """A member that knows its link; its sums by threads other than the step's are counted."""

    member: Communicator
    overlap: bool | None
    idle: float
    sums_beside: list[int]

    @property
    def rank(self) -> int:
        return self.member.rank

    @property
    def size(self) -> int:
        return self.member.size

    def all_reduce(self, array: Array) -> None:
        if threading.current_thread().name.startswith("graphc-sums"):
            self.sums_beside.append(array.nbytes)
        self.member.all_reduce(array)


def members(overlap: bool | None, *idle: float) -> list[Choosing]:
    found = gc.comm.threads(len(idle), PATIENCE)
    return [Choosing(m, overlap, s, []) for m, s in zip(found, idle, strict=True)]


def together(work: Callable[[Choosing], T], of: Sequence[Choosing]) -> list[T]:
    with ThreadPoolExecutor(len(of)) as pool:
        return [*pool.map(work, of)]


def data() -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {"x": rng.standard_normal((24, 5)), "t": rng.standard_normal((24, 3))}


def network() -> gc.Network:
    net = gc.loads(TEXT)
    assert isinstance(net, gc.Network)
    return net


def trained(of: Sequence[Choosing], backend: str = "numpy", **given: object) -> list[gc.Network]:
    def one(member: Choosing) -> gc.Network:
        net = network()
        options = {"learning_rate": 0.1, "epochs": 2, "minibatch": 8, "precision": "f64"}
        gc.train(net, data(), backend=backend, comm=member, **{**options, **given})  # type: ignore[arg-type]
        return net

    return together(one, of)


@pytest.mark.parametrize("backend", ["numpy", "llvm", "c"])
def test_a_slow_link_has_sums_beside_and_a_quick_one_behind_with_the_same_bits(
    backend: str,
) -> None:
    require_backend(backend)
    expected = trained(members(False, 0.0, 0.0), backend)[0].parameters
    for idle, is_beside in ((SLOW, True), (QUICK, False), (0.0, False)):
        its = members(None, idle, idle)
        for net in trained(its, backend):
            assert all(np.array_equal(net.parameters[n], v) for n, v in expected.items())
        assert [bool(member.sums_beside) for member in its] == [is_beside] * 2


@pytest.mark.parametrize(("overlap", "idle"), [(True, 0.0), (False, math.inf)])
def test_who_is_asked_does_not_choose(overlap: bool, idle: float) -> None:
    its = members(overlap, idle, idle)
    trained(its)
    assert [bool(member.sums_beside) for member in its] == [overlap] * 2


def compiled(member: Communicator, **given: object) -> gc.TrainingStep:
    options = {"learner": gc.SGD(0.1), "batch": 8, "backend": "numpy", "comm": member}
    return gc.compile_training(network(), **{**options, **given})  # type: ignore[arg-type]


@pytest.mark.parametrize(("idle", "where"), [(SLOW, "beside"), (QUICK, "behind")])
def test_the_step_and_the_log_say_what_was_chosen(
    idle: float, where: str, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = members(None, idle, idle)
    with caplog.at_level(logging.INFO, "graphc.driver.members"):
        assert compiled(first).adds_beside is (where == "beside")
    (record,) = caplog.records
    assert record.getMessage() == (
        f"sums {where} the backward pass: {idle * 1e9:.2g} ns a byte are waited for"
    )


def test_a_step_with_one_sum_has_nothing_to_choose(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(driver, "OverlapSums", OverlapSums)
    first, _ = members(None, SLOW, SLOW)
    with caplog.at_level(logging.INFO, "graphc.driver.members"):
        assert compiled(first).adds_beside is None
    assert caplog.records == []
    asked, _ = members(True, SLOW, SLOW)
    assert compiled(asked).adds_beside is None


@pytest.mark.parametrize("backend", ["reference", "cuda"])
def test_what_cannot_be_beside_is_behind(backend: str) -> None:
    """Backends whose functions are cut at sums, and layers that members split."""
    require_backend(backend)
    first, _ = members(None, SLOW, SLOW)
    assert compiled(first, backend=backend).adds_beside is None


def test_layers_that_members_split_are_behind() -> None:
    first, _ = gc.comm.threads(2, PATIENCE)

    class Splitting:
        overlap, idle, wire = None, SLOW, "full"

        def __getattr__(self, name: str) -> object:
            return getattr(first, name)

    assert compiled(Splitting(), split="V").adds_beside is None  # type: ignore[arg-type]


def test_members_have_to_know_the_same_link() -> None:
    def one(member: Choosing) -> str:
        with pytest.raises(gc.GraphcError) as raised:
            gc.train(network(), data(), learning_rate=0.1, comm=member)
        return str(raised.value)

    for text in together(one, members(None, SLOW, SLOW * 1.01)):
        assert "communicator (member 1)" in text


@pytest.mark.parametrize("idle", [SLOW, QUICK])
def test_progress_is_told_once(idle: float) -> None:
    events: list[gc.Event] = []
    its = members(None, idle, idle)

    def one(member: Choosing) -> None:
        progress = gc.Progress(event=events.append if member.rank == 0 else lambda _: None)
        given = {"learning_rate": 0.1, "epochs": 2, "backend": "numpy", "progress": progress}
        gc.train(network(), data(), comm=member, **given)  # type: ignore[arg-type]

    together(one, its)
    assert events == [gc.Event(BESIDE if idle == SLOW else BEHIND, 1, idle)]


@pytest.mark.parametrize(("then", "now"), [(SLOW, QUICK), (QUICK, SLOW)])
def test_who_goes_on_keeps_what_was_chosen(tmp_path: Path, then: float, now: float) -> None:
    """In whatever order sums are, the bits stay."""
    whole = trained(members(None, then, then))[0].parameters
    path = tmp_path / "at"
    trained(members(None, then, then), epochs=1, checkpoints=gc.Checkpoints(path))
    assert read_checkpoint(path).idle == then
    its = members(None, now, now)
    found = trained(its, checkpoints=gc.Checkpoints(path, resume=True))
    assert [bool(member.sums_beside) for member in its] == [then == SLOW] * 2
    for net in found:
        assert all(np.array_equal(net.parameters[n], v) for n, v in whole.items())
    assert read_checkpoint(path).idle == then


def test_who_goes_on_may_ask_for_the_other(tmp_path: Path) -> None:
    path = tmp_path / "at"
    trained(members(None, SLOW, SLOW), epochs=1, checkpoints=gc.Checkpoints(path))
    its = members(False, 0.0, 0.0)
    trained(its, checkpoints=gc.Checkpoints(path, resume=True))
    assert [member.sums_beside for member in its] == [[], []]
    assert read_checkpoint(path).idle is None
    its = members(None, QUICK, QUICK)
    trained(its, epochs=3, checkpoints=gc.Checkpoints(path, resume=True))
    assert [member.sums_beside for member in its] == [[], []]
    assert read_checkpoint(path).idle == QUICK
