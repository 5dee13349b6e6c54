"""Calls with sequences or sparse inputs like those before: the short way, and right results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pytest

import graphc as gc
from graphc.learn.step import TrainingStep
from graphc.runtime.executable import Executable
from graphc.runtime.sequence_state import STEPS_BEHIND
from graphc.runtime.sequences import MOST_BEHIND
from graphc.support.diagnostics import GraphcError

Array = np.ndarray
Words = tuple[Array, ...]
LENGTHS = (3, 1, 2)
RUNNING = """
x = SparseInput(5)
y = Input(2)
W = Parameter(2, 5)
z = Plus(Plus(Times(W, x), y), PastValue(2, z, defaultHiddenActivity=0), tag=output)
"""


def running(backend: str = "llvm") -> Executable:
    """Each step's W x + y, plus those of the steps before it."""
    return gc.compile(gc.loads(RUNNING), ["z"], time=4, sequences=3, backend=backend)


def words(rng: np.random.Generator, counts: Sequence[int], index: type = np.int64) -> Words:
    """A sparse row of so many entries for each step."""
    total = sum(counts)
    offsets = np.cumsum([0, *counts])
    values = rng.normal(size=total).astype(np.float32)
    return rng.integers(0, 5, total).astype(index), offsets, values


def dense(rows: Words) -> Array:
    indices, offsets, values = rows
    made = np.zeros((len(offsets) - 1, 5))
    steps = np.repeat(np.arange(len(made)), np.diff(offsets))
    np.add.at(made, (steps, indices), values)
    return made


def numbers(rng: np.random.Generator, steps: int) -> Array:
    return rng.normal(size=(steps, 2)).astype(np.float32)


def expected(exe: Executable, x: Words, y: Array) -> Array:
    weights = np.asarray(exe._parameters["W"], np.float64)
    return np.cumsum(dense(x) @ weights.T + y, axis=0)


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
@pytest.mark.parametrize("counts", [(2, 2, 2), (3, 0, 1)])
def test_sequences_like_those_before_are_not_read_anew(
    backend: str, counts: Sequence[int], thorough: Callable[[], int]
) -> None:
    exe, rng = running(backend), np.random.default_rng(1)
    for number in range(4):
        x, y = words(rng, counts), numbers(rng, 3)
        for lengths in (np.array([3]), [3]):
            found = exe(x=x, y=y, lengths=lengths)["z"]
            np.testing.assert_allclose(found, expected(exe, x, y), rtol=1e-5, atol=1e-6)
            found[...] = 0  # results are the caller's
        exe(x=x, y=y, lengths=[3])
        exe(x=x, y=y, lengths=[3])
        thorough()
        x, y = words(rng, counts), numbers(rng, 3)
        found = exe(x=x, y=y, lengths=[3])["z"]
        assert thorough() == 0, number
        np.testing.assert_allclose(found, expected(exe, x, y), rtol=1e-5, atol=1e-6)


def carrying(backend: str) -> Executable:
    """Sums of a sequence's steps, and each with the one two steps back."""
    text = """
    x = Input(2)
    s = Plus(x, PastValue(2, s, defaultHiddenActivity=0.5), tag=output)
    z = Plus(x, Scale(Constant(3), PastValue(2, x, timeStep=2)), tag=output)
    """
    return gc.compile(gc.loads(text), ["s", "z"], time=4, sequences=2, backend=backend)


CALLS: dict[str, dict[str, object]] = {
    "on": {"carry": True},
    "lengths": {"carry": True, "lengths": [3, 0]},
    "shorter": {"carry": True, "lengths": np.array([1, 2])},
    "flags on": {"carry": True, "flags": np.zeros((3, 2), np.int64)},
    "one anew": {"carry": True, "flags": np.array([[0, 1], [2, 0], [1, 0]])},
    "all anew": {"carry": True, "flags": np.array([[1, 1], [0, 2], [2, 12]])},
    "flags": {"flags": np.array([[1, 1], [0, 2], [2, 12]])},
    "alone": {},
}
"""What calls of three steps and two slots are given besides."""


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_calls_that_go_on_are_like_those_that_are_looked_at(
    backend: str, thorough: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    exe, judge, rng = carrying(backend), carrying(backend), np.random.default_rng(6)
    monkeypatch.setattr(judge, "_prepare_fast_calls", lambda made, layout: None)
    states: list[Mapping[str, Array] | None] = [None]
    for _ in range(12):
        how = CALLS[str(rng.choice(list(CALLS)))]
        if rng.integers(4) == 0 or how is CALLS["flags on"]:
            opened = states[int(rng.integers(len(states)))]
            exe.state = judge.state = opened
        if how is CALLS["flags on"] and exe.state is None:
            for each in (exe, judge):
                each(x=np.ones((1, 2, 2), np.float32), carry=True)
        for _ in range(4):
            x = rng.normal(size=(3, 2, 2)).astype(np.float32)
            x[2, 1] = np.nan if "flags" in how and "carry" not in how else x[2, 1]
            try:
                wanted = judge(x=x, **how)
            except GraphcError as error:
                with pytest.raises(GraphcError, match=re.escape(str(error))):
                    exe(x=x, **how)
                continue
            found = exe(x=x, **how)
            for name in ("s", "z"):
                np.testing.assert_array_equal(found[name], wanted[name])
                found[name][...] = 0
            for name, array in (judge.state or {}).items():
                np.testing.assert_array_equal((exe.state or {})[name], array)
        states.append(exe.state)


@pytest.mark.parametrize("how", ["on", "lengths", "flags on", "one anew", "flags"])
def test_repeated_flags_and_calls_that_go_on_are_not_read_anew(
    how: str, thorough: Callable[[], int]
) -> None:
    exe, x = carrying("llvm"), np.ones((3, 2, 2), np.float32)
    exe(x=x, carry=True)
    for _ in range(3):
        exe(x=x, **CALLS[how])
    thorough()
    for _ in range(3):
        exe(x=x, **CALLS[how])
    assert thorough() == 0
    exe.state = exe.state
    exe(x=x, **CALLS[how])
    assert thorough() == ("carry" in CALLS[how])


OTHER_LENGTHS: tuple[object, ...] = (
    np.array([3, 1, 2]),
    [1, 1, 3],
    np.array([3, 3, 3], np.uint8),
    [3, 1, 2],
    np.array([1, 0, 2]),
    np.array([1, 4, 2]),
    np.array([1, -1, 2]),
    [1, 2],
    np.array([1.0, 2.0, 3.0]),
    [2**40, 1, 1],
    np.array([2, 2, 1]),
)


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_other_lengths_in_arrays_of_one_shape_are_like_those_that_are_looked_at(
    backend: str, thorough: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    exe, judge, rng = running(backend), running(backend), np.random.default_rng(7)
    for store in (exe._parameters, judge._parameters):
        store["W"][...] = np.linspace(-1, 1, 10).reshape(2, 5)
    monkeypatch.setattr(judge, "_prepare_fast_calls", lambda made, layout: None)
    x, counts = np.ones((3, 3, 2), np.float32), [1] * 9
    for lengths in OTHER_LENGTHS[:3]:
        exe(x=words(rng, counts), y=x, lengths=lengths)
    for lengths in (*OTHER_LENGTHS, *rng.permutation(len(OTHER_LENGTHS))):
        how = OTHER_LENGTHS[lengths] if isinstance(lengths, np.integer) else lengths
        given = {"x": words(rng, counts), "y": rng.normal(size=(3, 3, 2)).astype(np.float32)}
        try:
            wanted = judge(**given, lengths=how)["z"]
        except GraphcError as error:
            with pytest.raises(GraphcError, match=re.escape(str(error))):
                exe(**given, lengths=how)
            continue
        thorough()
        found = exe(**given, lengths=how)["z"]
        assert thorough() == 0
        np.testing.assert_array_equal(found, wanted)
        found[...] = np.nan


def test_steps_behind_are_counted_up_to_a_limit() -> None:
    exe = carrying("llvm")
    exe(x=np.ones((3, 2, 2), np.float32), carry=True)
    state = dict(exe.state or {})
    exe.state = {**state, STEPS_BEHIND: np.array([MOST_BEHIND - 13] * 2)}
    sums = [
        float(exe(x=np.ones((3, 2, 2), np.float32), carry=True)["s"][-1, 0, 0]) for _ in range(9)
    ]
    assert sums == [6.5 + 3 * n for n in range(9)]


def test_lists_of_sequences(thorough: Callable[[], int]) -> None:
    exe, rng = running(), np.random.default_rng(2)
    for call in range(4):
        x = [words(rng, [t + 1 for t in range(n)], np.uint8) for n in LENGTHS]
        y = [numbers(rng, n) for n in LENGTHS]
        thorough()
        found = exe(x=x, y=y)["z"]
        assert thorough() == (call < 2)
        for s, array in enumerate(found):
            np.testing.assert_allclose(array, expected(exe, x[s], y[s]), rtol=1e-5, atol=1e-6)


def test_sparse_samples_without_time(thorough: Callable[[], int]) -> None:
    net = gc.loads("x = SparseInput(5)\nW = Parameter(2, 5)\nz = Times(W, x, tag=output)")
    exe, rng = gc.compile(net, ["z"]), np.random.default_rng(3)
    weights = np.asarray(net.parameters["W"], np.float64)
    for call in range(4):
        indices, offsets, values = words(rng, (2, 0, 3))
        for x in ((indices, offsets), (indices, offsets, values)):
            rows = (indices, offsets, values if len(x) == 3 else np.ones(5))
            exe(x=x)
            exe(x=x)
            thorough()
            found = exe(x=x)["z"]
            assert thorough() == 0, call
            np.testing.assert_allclose(found, dense(rows) @ weights.T, rtol=1e-5, atol=1e-6)


def test_a_training_step_takes_the_numbers_of_its_call(thorough: Callable[[], int]) -> None:
    criterion = "ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)\n"
    net = gc.loads(f"labels = Input(2, tag=label){RUNNING}{criterion}")
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.0), time=4, sequences=1)
    rng = np.random.default_rng(4)
    labels = np.eye(2, dtype=np.float32)[[0, 1, 1]]
    before = np.array(net.parameters["W"])
    for _ in range(3):
        step(x=words(rng, (1, 2, 1)), y=numbers(rng, 3), labels=labels)
    np.testing.assert_array_equal(net.parameters["W"], before)
    step.learner = gc.SGD(learning_rate=0.5)
    thorough()
    step(x=words(rng, (1, 2, 1)), y=numbers(rng, 3), labels=labels)
    assert thorough() == 0
    assert not np.array_equal(net.parameters["W"], before)


def test_training_counts_the_steps_of_other_lengths(
    thorough: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    criterion = "ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)\n"
    rng, steps = np.random.default_rng(8), list[TrainingStep]()
    nets = [gc.loads(f"labels = Input(2, tag=label){RUNNING}{criterion}") for _ in range(2)]
    for net in nets:
        net.parameters["W"][...] = 0.1
        learner = gc.SGD(learning_rate=0.5, momentum=0.9)
        step = gc.compile_training(net, learner=learner, time=4, sequences=3, recompute="sqrt")
        tables = step._executable._plans.current.tables
        assert tables is not None and 3 % tables.multiple  # takes steps that no caller gives
        steps.append(step)
    monkeypatch.setattr(steps[1]._executable, "_prepare_fast_calls", lambda made, layout: None)
    labels = np.eye(2, dtype=np.float32)[rng.integers(0, 2, (3, 3))]
    for call in range(8):
        x, y = words(rng, [1] * 9), rng.normal(size=(3, 3, 2)).astype(np.float32)
        lengths = rng.permutation([1 + call % 3, 2, 3])
        thorough()
        losses = [step(x=x, y=y, labels=labels, lengths=lengths)["ce"] for step in steps]
        assert thorough() == 1 + (call < 2)
        assert losses[0] == losses[1]
        np.testing.assert_array_equal(nets[0].parameters["W"], nets[1].parameters["W"])


def called_three_times() -> tuple[Executable, Words, Array]:
    exe, rng = running(), np.random.default_rng(5)
    x, y = words(rng, (2, 1, 1)), numbers(rng, 3)
    for _ in range(3):
        exe(x=x, y=y, lengths=[3])
    return exe, x, y


@pytest.mark.parametrize("wrong", [-1, 5, 2**40])
def test_an_index_outside_is_an_error(wrong: int) -> None:
    exe, (indices, *rest), y = called_three_times()
    indices = indices.copy()
    indices[2] = wrong
    with pytest.raises(GraphcError, match="indices from 0 to 4"):
        exe(x=(indices, *rest), y=y, lengths=[3])


@pytest.mark.parametrize("index", [">i4", ">i8", ">u2", "i1"])
def test_indices_of_any_byte_order(index: str, thorough: Callable[[], int]) -> None:
    """Bytes in the other order were taken for small numbers, and the large ones read anything."""
    net = gc.loads("x = SparseInput(5)\nW = Parameter(2, 5)\nz = Times(W, x, tag=output)")
    exe, offsets = gc.compile(net, ["z"]), np.arange(4)
    for x in (np.array([4, 0, 2], index), np.array([1, 0, 3], index)):
        for _ in range(2):
            exe(x=(x, offsets))
        thorough()
        np.testing.assert_array_equal(exe(x=(x, offsets))["z"], net.parameters["W"].T[x])
        assert thorough() == 0
    large = np.array([0, 0, 1 << 8 * np.dtype(index).itemsize - 8], index)
    if large[2] > 4:
        with pytest.raises(GraphcError, match="indices from 0 to 4"):
            exe(x=(large, offsets))


def test_other_calls_are_looked_at(thorough: Callable[[], int]) -> None:
    exe, x, y = called_three_times()
    indices, _, values = x
    others = (
        {"x": (indices, np.array([0, 1, 2, 4]), values), "y": y, "lengths": [3]},
        {"x": x, "y": y.astype(np.float64), "lengths": [3]},
        {"x": x, "y": y, "flags": np.array([1, 0, 2])},
        {"x": x, "y": y, "lengths": [3], "carry": True},
        {"x": dense(x), "y": y, "lengths": [3]},
    )
    thorough()
    for number, call in enumerate(others):
        found = exe(**call)["z"]  # type: ignore[arg-type]
        assert thorough() == 1, number
        rows = call["x"] if isinstance(call["x"], tuple) else x
        np.testing.assert_allclose(found, expected(exe, rows, y), rtol=1e-5, atol=1e-6)
    with pytest.raises(GraphcError, match="y missing"):
        exe(x=x, lengths=[3])


def test_a_parameter_that_was_replaced_is_read() -> None:
    exe, x, y = called_three_times()
    exe._parameters["W"] = exe._parameters["W"] + np.float32(1)  # type: ignore[index]
    found = exe(x=x, y=y, lengths=[3])["z"]
    np.testing.assert_allclose(found, expected(exe, x, y), rtol=1e-5, atol=1e-6)
