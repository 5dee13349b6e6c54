"""Sequences shared by members: of a minibatch some have none, or shorter ones than others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.learn.dataset import Sequences, Share
from graphc.learn.deal import dealt
from graphc.learn.learner import Learner
from tests.support.compiling import require_backend
from tests.unit.learn.test_members_training import (
    DROPPED_LOOP,
    LOOP,
    MOMENTUM,
    STEPS,
    Training,
    network,
    require_equal,
    together,
)

Array = np.ndarray
BACKENDS = pytest.mark.parametrize("backend", ["reference", "numpy", "llvm", "c", "cuda"])
NORMALISED_LOOP = """
    x = Input(3)
    t = Input(2)
    s = Parameter(3, 1, init=fixedValue, value=1)
    o = Parameter(3, 1, init=fixedValue, value=0)
    m = Parameter(3, 1, needGradient=false)
    v = Parameter(3, 1, needGradient=false)
    n = BatchNormalization(x, s, o, m, v, normalizationTimeConstant=20)
    W = Parameter(2, 3)
    R = Parameter(2, 2)
    h = Tanh(Plus(Times(W, n), Times(R, PastValue(2, 1, h))))
    e = SquareError(t, h, tag=criteria)
"""
STILL_LOOP = NORMALISED_LOOP.replace("normalizationTimeConstant=20", "expAvgFactor=0")
"""By the minibatch, which leaves the running values where they are."""
KEPT_LOOP = NORMALISED_LOOP.replace("normalizationTimeConstant=20", "eval=true")
WORD_LOOP = """
    x = SparseInput(9)
    t = Input(2)
    D = Parameter(2, 9)
    R = Parameter(2, 2)
    h = Tanh(Plus(Times(D, x), Times(R, PastValue(2, 1, h))))
    e = SquareError(t, h, tag=criteria)
"""
RNG = np.random.default_rng(8)
WORD_STEPS = {
    "x": [(RNG.integers(0, 9, n).tolist(), list(range(n + 1))) for n in map(len, STEPS["t"])],
    "t": STEPS["t"],
}
EIGHT = {name: [*items, items[0]] for name, items in STEPS.items()}
LONG = {
    name: [np.random.default_rng(n).standard_normal((n, rows)) for n in (37, 3, 21, 50, 9, 44, 1)]
    for name, rows in (("x", 3), ("t", 2))
}


@BACKENDS
@pytest.mark.parametrize(("text", "data"), [(LOOP, STEPS), (WORD_LOOP, WORD_STEPS)])
def test_members_without_sequences_add_nothing(
    backend: str, text: str, data: dict[str, object]
) -> None:
    """7 sequences by 3: of the last minibatch one of two members has one, the other none."""
    require_backend(backend)
    require_equal(Training(text, data, backend=backend, options={"minibatch": 3}), 2)


@pytest.mark.parametrize(
    "learner",
    [
        gc.Adam(0.01),
        gc.SGD(learning_rate_per_sample=0.01, momentum=0.5, l1=0.01),
        gc.SGD(learning_rate=0.05, clip=gc.ClipGlobalNorm(0.1)),
        lambda: gc.SteppingHeuristic(1e-3),
    ],
)
def test_no_learner_counts_them(learner: Learner | Callable[[], Learner]) -> None:
    require_equal(Training(LOOP, STEPS, learner, options={"minibatch": 2}), 4)


@pytest.mark.parametrize("truncate", [0, 2])
@pytest.mark.parametrize(
    ("text", "data"),
    [(LOOP, EIGHT), (DROPPED_LOOP, EIGHT), (NORMALISED_LOOP, EIGHT), (LOOP, LONG)],
)
def test_shards_without_sequences_leave_the_bits_of_any_number_of_members(
    text: str, data: dict[str, object], truncate: int
) -> None:
    """In f32, of minibatches of 3 in 4 shards: one has no sequence, of the last one two."""
    require_backend("llvm")
    options: dict[str, object] = {"precision": "f32", "minibatch": 3, "truncate": truncate}
    if text == DROPPED_LOOP:
        options["dropout"] = 0.4
    training = Training(text, data, backend="llvm", options=options)
    ((single, expected),) = training.of(1, shards=4)
    for net, records in [*training.of(2, shards=4), *training.of(4, shards=4)]:
        assert [r.criterion for r in records] == [r.criterion for r in expected]
        for name, value in single.parameters.items():
            assert np.isfinite(value).all()
            assert np.array_equal(net.parameters[name], value)
    if text != LOOP:
        return
    ((_, other),) = training.of(1, shards=0)
    assert other[-1].criterion == pytest.approx(expected[-1].criterion, rel=1e-5)


@BACKENDS
@pytest.mark.parametrize("members", [2, 4])
def test_members_cut_sequences_as_one(backend: str, members: int) -> None:
    """All make the calls of the longest sequence, 3 of 2 steps; most members' are shorter."""
    require_backend(backend)
    training = Training(LOOP, STEPS, backend=backend, options={"minibatch": 5, "truncate": 2})
    require_equal(training, members)


@pytest.mark.parametrize("truncate", [1, 3, 4, 9])
def test_members_cut_sequences_as_one_wherever(truncate: int) -> None:
    require_equal(Training(LOOP, STEPS, options={"minibatch": 3, "truncate": truncate}), 2)


def test_members_cut_words_as_one() -> None:
    options: dict[str, object] = {"minibatch": 3, "truncate": 2}
    require_equal(Training(WORD_LOOP, WORD_STEPS, gc.Adam(0.01), "llvm", options), 4)


def test_each_member_goes_on_from_the_state_of_its_own_sequences() -> None:
    """Two calls of two steps, by hand: afterwards each has the state of its sequences alone."""
    x, t = (np.stack(EIGHT[name][:1] * 4, axis=1) for name in ("x", "t"))
    x = x * np.arange(1, 5)[None, :, None]

    def states(of: slice, member: gc.comm.Communicator | None) -> list[Array]:
        step = gc.compile_training(
            network(LOOP),
            learner=MOMENTUM,
            time=2,
            sequences=4,
            backend="numpy",
            precision="f64",
            comm=member,
        )
        step.nominal = 8
        found: list[Array] = []
        for some in (slice(0, 2), slice(2, 4)):
            step(x=x[some, of], t=t[some, of], carry=True)
            assert step.state is not None
            found.append(step.state["h.past1"])
        return found

    alone = states(slice(0, 4), None)
    parts = together(2, lambda i, member: states(slice(i, 4, 2), member))
    for number, part in enumerate(parts):
        for mine, whole in zip(part, alone, strict=True):
            np.testing.assert_allclose(mine, whole[number::2], 1e-12)


def test_who_stops_does_so_between_minibatches_and_goes_on_with_the_same_bits(
    tmp_path: Path,
) -> None:
    """Asked to inside of cut sequences, of which each member has a state of its own."""
    options: dict[str, object] = {"precision": "f32", "minibatch": 3, "truncate": 2}
    whole = Training(LOOP, STEPS, options=options)
    expected = together(2, whole.member)
    seen: list[int] = []
    progress = gc.Progress(
        minibatch=lambda done, total: seen.append(done), should_stop=lambda: len(seen) > 2
    )
    checkpoints = gc.Checkpoints(tmp_path / "here", resume=True)
    options = {**options, "checkpoints": checkpoints}
    stopped = together(2, replace(whole, options={**options, "progress": progress}).member)
    again = together(2, replace(whole, options=options).member)
    for (net, _), (before, _), (uninterrupted, _) in zip(again, stopped, expected, strict=True):
        for name, value in uninterrupted.parameters.items():
            assert np.array_equal(net.parameters[name], value)
            assert not np.array_equal(before.parameters[name], value)


def test_members_do_not_go_on_inside_of_what_one_member_has_cut(tmp_path: Path) -> None:
    seen: list[int] = []
    progress = gc.Progress(
        minibatch=lambda done, total: seen.append(done), should_stop=lambda: True
    )
    checkpoints = gc.Checkpoints(tmp_path / "here", resume=True)
    options: dict[str, object] = {"minibatch": 3, "truncate": 2, "checkpoints": checkpoints}
    training = Training(LOOP, STEPS, options=options)
    replace(training, options={**options, "progress": progress}).alone()

    def member(number: int, communicator: gc.comm.Communicator) -> str:
        with pytest.raises(gc.GraphcError) as raised:
            training.member(number, communicator)
        return str(raised.value)

    assert all("members go on between minibatches" in text for text in together(2, member))


def test_a_minibatch_without_any_sequence_is_refused() -> None:
    def member(_: int, communicator: gc.comm.Communicator) -> str:
        step = gc.compile_training(network(LOOP), learner=MOMENTUM, comm=communicator)
        with pytest.raises(gc.GraphcError) as raised:
            step(x=[], t=[])
        return str(raised.value)

    assert all("at least one sample" in text for text in together(2, member))


def test_members_make_as_many_calls_whatever_they_have() -> None:
    lengths = np.array([5, 1, 2])
    data = Sequences({"x": [np.zeros((n, 1)) for n in lengths]}, lengths, truncate=2)
    every = [list(data.calls(np.arange(3), Share(rank, 4))) for rank in range(4)]
    assert [[call.samples for call in calls] for calls in every] == [
        [2, 2, 1],
        [1, 0, 0],
        [2, 0, 0],
        [0, 0, 0],
    ]
    assert {call.carry for calls in every for call in calls} == {True}
    assert [call.first for call in every[3]] == [True, False, False]


@pytest.mark.parametrize("members", [1, 2, 3, 8])
def test_sequences_are_dealt_by_length(members: int) -> None:
    """All of them, once, and never with more columns on one member than each so many-th has."""
    rng = np.random.default_rng(members)
    for count in (1, 2, 7, 32):
        lengths = rng.integers(1, 101, count)
        groups = dealt(lengths, members)
        assert len(groups) == members
        assert sorted(np.concatenate(groups).tolist()) == list(range(count))
        before = [lengths[rank::members] for rank in range(members)]
        most, other = (
            max(int(part.max(initial=0)) * len(part) for part in parts)
            for parts in ([lengths[group] for group in groups], before)
        )
        assert most <= other


def test_sequences_dealt_by_length_as_few_columns_as_can_be() -> None:
    """100 is alone, those of 50 are two, and the short ones together."""
    groups = dealt(np.array([5, 50, 5, 100, 5, 50, 5, 5]), 3)
    assert [group.tolist() for group in groups] == [[3], [1, 5], [0, 2, 4, 6, 7]]
    assert [len(group) for group in dealt(np.array([], np.int64), 2)] == [0, 0]


@pytest.mark.parametrize(
    ("text", "shards", "sync", "is_dealt"),
    [
        (LOOP, 0, False, True),
        (LOOP, 2, False, False),
        (DROPPED_LOOP, 0, False, False),
        (NORMALISED_LOOP, 0, False, False),
        (STILL_LOOP, 0, False, False),
        (NORMALISED_LOOP, 0, True, True),
        (STILL_LOOP, 0, True, True),
        (NORMALISED_LOOP, 2, True, False),
        (KEPT_LOOP, 0, False, True),
    ],
)
def test_sequences_whose_company_counts_are_each_so_many_th(
    text: str, shards: int, sync: bool, is_dealt: bool
) -> None:
    def member(_: int, communicator: gc.comm.Communicator) -> bool:
        step = gc.compile_training(
            network(text), learner=MOMENTUM, comm=communicator, sync_batchnorm=sync
        )
        return step.share.by_length

    assert together(2, member, shards) == [is_dealt] * 2
