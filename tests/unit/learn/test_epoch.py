"""`TrainingStep.run_epoch`: the same bits as calling the step for each minibatch, in any slices."""

from __future__ import annotations

import gc as garbage
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import ClassVar

import numpy as np
import pytest

import graphc as gc
from graphc.learn import epoch
from graphc.learn.shuffle import minibatches
from graphc.learn.step import TrainingStep
from graphc.runtime.executable import Executable
from graphc.support.diagnostics import GraphcError
from tests.support.networks import classes, classifier

Array = np.ndarray
BACKENDS = ("reference", "numpy", "llvm")
SAMPLES = 53

WITH_RANDOM_NUMBERS = """
    features = Input(6)
    labels   = Input(3)
    W = Parameter(8, 6, initValueScale=20)
    a = Times(W, features)
    scale = Parameter(0, init=fixedValue, value=1)
    bias  = Parameter(0, init=fixedValue, value=0)
    mean    = Parameter(0, init=fixedValue, value=0, needGradient=false)
    inverse = Parameter(0, init=fixedValue, value=1)
    n = BatchNormalization(a, scale, bias, mean, inverse, normalizationTimeConstant=40)
    d = Dropout(n)
    U = Parameter(3, 8, initValueScale=20)
    z = Times(U, d)
    ce  = CrossEntropyWithSoftmax(labels, z, tag=criteria)
    err = ErrorPrediction(labels, z, tag=eval)
"""
WITH_SPARSE_INPUT = """
    features = SparseInput(6)
    labels   = Input(3)
    W = Parameter(3, 6)
    z = Times(W, features)
    ce = CrossEntropyWithSoftmax(labels, z, tag=criteria)
"""
WITH_TIME = """
    features = Input(6)
    labels   = Input(3)
    W = Parameter(3, 6)
    R = Parameter(3, 3)
    before = PastValue(3, z)
    z = Plus(Times(W, features), Times(R, before))
    e = SquareError(labels, z, tag=criteria)
"""

LEARNERS: Mapping[str, Callable[[], gc.SGD | gc.SteppingHeuristic]] = {
    "plain": lambda: gc.SGD(learning_rate=0.5),
    "momentum": lambda: gc.SGD(learning_rate=0.5, momentum=0.9, l2=0.001),
    "per sample": lambda: gc.SGD(learning_rate_per_sample=0.02, momentum_per_sample=0.99),
    "stepping": lambda: gc.SteppingHeuristic(0.3, history=3),
}


@dataclass(frozen=True)
class Watching(gc.SGD):
    """SGD whose losses have to be shown to it one by one."""

    follows_losses: ClassVar[bool] = True


def made(
    text: str, learner: gc.SGD | gc.SteppingHeuristic, **options: object
) -> tuple[gc.Network, TrainingStep]:
    net = gc.loads(text) if text else classifier()
    assert isinstance(net, gc.Network)
    given = {"batch": 8, "learner": learner, **options}
    return net, gc.compile_training(net, **given)  # type: ignore[arg-type]


class Twin:
    """A network and its step, which can be put back to where they started."""

    def __init__(self, text: str, learner: str, backend: str, precision: str) -> None:
        self.net, self.step = made(
            text, LEARNERS[learner](), backend=backend, precision=precision, dropout=0.3
        )
        arrays = {**self.net.model.values, **self.step.learner_state}
        self._start = [(array, array.copy()) for array in arrays.values()]
        self._learner = LEARNERS[learner]

    def restart(self) -> TrainingStep:
        for array, start in self._start:
            array[...] = start
        self.step.steps, self.step.nominal, self.step.learner = 0, 8, self._learner()
        self.step._pace = epoch.Pace(0)
        return self.step

    @property
    def bits(self) -> dict[str, bytes]:
        return bits(self.net, self.step)


twin = cache(Twin)
"""Compiled once for all tests."""


def bits(net: gc.Network, step: TrainingStep) -> dict[str, bytes]:
    """Of all that a step changes."""
    found = {name: value.tobytes() for name, value in net.parameters.items()}
    return found | {name: value.tobytes() for name, value in step.learner_state.items()}


def by_single_calls(
    step: TrainingStep, data: Mapping[str, Array], order: Array, size: int
) -> dict[str, Array]:
    """What `run_epoch` has to find."""
    results = [
        step(**{n: a[order[part]] for n, a in data.items()})
        for part in minibatches(len(order), size)
    ]
    return {name: np.array([r[name] for r in results]) for name in results[0]}


def require_same(found: Mapping[str, Array], expected: Mapping[str, Array]) -> None:
    assert set(found) == set(expected)
    for name, values in expected.items():
        assert found[name].dtype == values.dtype
        np.testing.assert_array_equal(found[name], values)


SHUFFLED = np.random.default_rng(7).permutation(SAMPLES)
BACKWARDS = np.arange(SAMPLES)[::-1]
REPEATED = np.array([3, 4, 5, 6, 7, 8, 9, 10, 3, 3, 52, 0])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("text", ["", WITH_RANDOM_NUMBERS], ids=["plain", "random"])
def test_an_epoch_is_its_single_calls_bit_by_bit(
    text: str, name: str, precision: str, backend: str
) -> None:
    data, both = classes(SAMPLES), twin(text, name, backend, precision)
    step = both.restart()
    found = [step.run_epoch(data, order=order, minibatch=8) for order in (SHUFFLED, BACKWARDS)]
    after = both.bits
    assert len(found[0]["ce"]) == 7
    assert step.steps == 14
    single = both.restart()
    for order, results in zip((SHUFFLED, BACKWARDS), found, strict=True):
        require_same(results, by_single_calls(single, data, order, 8))
    assert both.bits == after


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize("size", [1, 25, 52, 53, 54, 1000, 10**13])
@pytest.mark.parametrize("order", [None, SHUFFLED, REPEATED], ids=["all", "shuffled", "repeated"])
def test_any_size_of_a_minibatch_will_do(order: Array | None, size: int, backend: str) -> None:
    """Also one above the bound of 8, which compiles again."""
    data, both = classes(SAMPLES), twin("", "momentum", backend, "f32")
    found, after = both.restart().run_epoch(data, order=order, minibatch=size), both.bits
    chosen = np.arange(SAMPLES) if order is None else order
    require_same(found, by_single_calls(both.restart(), data, chosen, size))
    assert both.bits == after


def test_the_minibatch_is_the_nominal_one_where_none_is_said() -> None:
    step = twin("", "plain", "llvm", "f32").restart()
    assert len(step.run_epoch(classes(SAMPLES))["ce"]) == 7
    step.nominal = 53
    assert len(step.run_epoch(classes(SAMPLES))["ce"]) == 1


@pytest.mark.parametrize(
    ("rows", "precision"), [(1, "f32"), (7, "f32"), (784, "f32"), (1, "f64"), (129, "f64")]
)
def test_rows_of_any_length_are_gathered(rows: int, precision: str) -> None:
    text = f"""
        features = Input({rows})
        labels = Input(3)
        W = Parameter(3, {rows})
        z = Times(W, features)
        ce = CrossEntropyWithSoftmax(labels, z, tag=criteria)
    """
    data, both = classes(SAMPLES, features=rows), twin(text, "plain", "llvm", precision)
    found, after = both.restart().run_epoch(data, order=SHUFFLED), both.bits
    require_same(found, by_single_calls(both.restart(), data, SHUFFLED, 8))
    assert both.bits == after


def whole_files(array: Array) -> Iterator[tuple[str, Array]]:
    """The same numbers as they may lie in memory."""
    yield "fortran", np.asfortranarray(array)
    yield "every second row", np.repeat(array, 2, axis=0)[::2]
    yield "backwards", array[::-1].copy()[::-1]
    yield "big endian", array.astype(array.dtype.newbyteorder(">"))
    yield "f64", array.astype(np.float64)
    read_only = array.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only
    room = np.zeros(array.nbytes + 1, np.uint8)
    misaligned = room[1:].view(array.dtype).reshape(array.shape)
    misaligned[...] = array
    yield "misaligned", misaligned


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_data_may_lie_in_memory_as_they_like(backend: str) -> None:
    data = {n: a.astype(np.float32) for n, a in classes(SAMPLES).items()}
    both = twin("", "plain", backend, "f32")
    expected = both.restart().run_epoch(data, order=SHUFFLED)
    for how, features in whole_files(data["features"]):
        found = both.restart().run_epoch({**data, "features": features}, order=SHUFFLED)
        np.testing.assert_array_equal(found["ce"], expected["ce"], err_msg=how)


def test_data_are_left_as_they_are() -> None:
    data = {n: a.astype(np.float32) for n, a in classes(SAMPLES).items()}
    before = {n: a.tobytes() for n, a in data.items()}
    step = twin("", "plain", "llvm", "f32").restart()
    step.run_epoch(data)
    step.run_epoch(data, order=SHUFFLED)
    assert {n: a.tobytes() for n, a in data.items()} == before


@pytest.mark.parametrize(
    ("data", "got"), [(None, "None"), ([1, 2], "list"), ({3: np.zeros((2, 6))}, "texts, got 3")]
)
def test_data_that_are_no_arrays_by_name_are_refused(data: object, got: str) -> None:
    step = twin("", "plain", "reference", "f32").restart()
    with pytest.raises(GraphcError, match=got) as caught:
        step.run_epoch(data)  # type: ignore[arg-type] # what the test is about
    assert caught.value.diagnostics[0].slug == "argument-type"


def test_a_data_set_may_hold_more_than_the_step_takes() -> None:
    data = {**classes(SAMPLES), "names": np.array(["a"] * SAMPLES)}
    assert len(twin("", "plain", "llvm", "f32").restart().run_epoch(data)["ce"]) == 7


def test_single_calls_and_epochs_may_alternate() -> None:
    data = classes(SAMPLES)
    net, step = made(WITH_RANDOM_NUMBERS, gc.SGD(learning_rate=0.5), dropout=0.3)
    other, single = made(WITH_RANDOM_NUMBERS, gc.SGD(learning_rate=0.5), dropout=0.3)
    few = {n: a[:5] for n, a in data.items()}
    for _ in range(3):
        assert step(**few)["ce"] == single(**few)["ce"]
        step.run_epoch(data, order=SHUFFLED)
        by_single_calls(single, data, SHUFFLED, 8)
        step.dropout_rate = single.dropout_rate = 0.5
    assert bits(net, step) == bits(other, single)


def test_a_parameter_that_was_replaced_is_used() -> None:
    net, step = made("", gc.SGD(learning_rate=0.5))
    data = classes(SAMPLES)
    first = step.run_epoch(data)["ce"]
    for name in net.parameters:
        net.model.values[name] = np.zeros_like(net.model.values[name])
    second = step.run_epoch(data)["ce"]
    assert second[0] != first[0]
    assert net.model.values["W1"].any()


# --- slices of an epoch --------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 1e-5, 1e9])
def test_how_an_epoch_is_cut_into_calls_changes_no_bit(
    seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, both = classes(SAMPLES), twin(WITH_RANDOM_NUMBERS, "momentum", "llvm", "f32")
    expected, after = by_single_calls(both.restart(), data, SHUFFLED, 8), both.bits
    monkeypatch.setattr(epoch, "CALL_SECONDS", seconds)
    require_same(both.restart().run_epoch(data, order=SHUFFLED), expected)
    assert both.bits == after


def test_calls_grow_until_they_last_as_long_as_they_should() -> None:
    pace = epoch.Pace(8)
    assert pace.minibatches == 1
    pace.note(1, 1e-5)
    assert pace.minibatches == epoch.GROWTH
    pace.note(8, 1e-4)
    assert pace.minibatches == epoch.GROWTH**2
    pace.note(64, 10 * epoch.CALL_SECONDS)
    assert pace.minibatches == 6
    pace.note(6, 1e6)
    assert pace.minibatches == 1
    pace.note(1, 0.0)
    assert pace.minibatches == epoch.GROWTH


def test_an_interrupt_leaves_whole_minibatches_and_their_count() -> None:
    """A real signal, at whatever time it comes but one: while garbage is collected, Hypothesis is
    told of it in Python, and what is raised there is lost."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    data = classes(4000)
    both = twin(WITH_RANDOM_NUMBERS, "momentum", "llvm", "f32")
    step, rounds = both.restart(), 0
    previous = signal.signal(signal.SIGALRM, interrupt)
    garbage.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            while True:
                step.run_epoch(data, minibatch=64)
                rounds += 1
    finally:
        garbage.enable()
        signal.signal(signal.SIGALRM, previous)
    assert step.steps >= rounds * 63
    steps, after = step.steps, both.bits
    single = both.restart()
    for _ in range(steps // 63):
        single.run_epoch(data, minibatch=64)
    for part in list(minibatches(4000, 64))[: steps % 63]:
        single(**{n: a[part] for n, a in data.items()})
    assert both.bits == after


def test_an_interrupt_in_the_call_itself_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    run = Executable.run_minibatches

    def interrupted(self: Executable, *arguments: object) -> dict[str, Array]:
        run(self, *arguments)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(Executable, "run_minibatches", interrupted)
    monkeypatch.setattr(epoch, "CALL_SECONDS", 0.0)
    both = twin("", "plain", "llvm", "f32")
    step = both.restart()
    with pytest.raises(KeyboardInterrupt):
        step.run_epoch(classes(SAMPLES))
    assert step.steps == 1
    after = both.bits
    both.restart()(**{n: a[:8] for n, a in classes(SAMPLES).items()})
    assert both.bits == after


# --- what Python runs minibatch by minibatch -----------------------------------------------------


@pytest.mark.parametrize("backend", BACKENDS)
def test_sparse_inputs(backend: str) -> None:
    data = classes(SAMPLES)
    data["features"] = np.maximum(data["features"], 0)
    both = twin(WITH_SPARSE_INPUT, "plain", backend, "f32")
    found, after = both.restart().run_epoch(data, order=SHUFFLED), both.bits
    require_same(found, by_single_calls(both.restart(), data, SHUFFLED, 8))
    assert both.bits == after


@pytest.mark.parametrize("backend", BACKENDS)
def test_sequences(backend: str) -> None:
    rng = np.random.default_rng(0)
    lengths = [4, 1, 6, 6, 3]
    data = {
        "features": [rng.standard_normal((n, 6)) for n in lengths],
        "labels": [rng.standard_normal((n, 3)) for n in lengths],
    }
    options: dict[str, object] = {"backend": backend, "time": 6, "sequences": 2}
    net, step = made(WITH_TIME, gc.SGD(learning_rate=0.05), **options)
    other, single = made(WITH_TIME, gc.SGD(learning_rate=0.05), **options)
    order = [4, 0, 2, 1, 3]
    found = step.run_epoch(data, order=order)
    expected = [
        single(**{n: [items[i] for i in part] for n, items in data.items()})["e"]
        for part in ([4, 0], [2, 1], [3])
    ]
    assert found["e"].tolist() == [float(e) for e in expected]
    assert bits(net, step) == bits(other, single)


# --- the training loop ---------------------------------------------------------------------------


def trained(
    learner: gc.SGD | None, **options: object
) -> tuple[list[tuple[float, dict[str, float], int]], dict[str, bytes]]:
    """Records and parameters; the schedules of rates apply where no learner is given."""
    net = gc.loads(WITH_RANDOM_NUMBERS)
    assert isinstance(net, gc.Network)
    if learner is None:
        options |= {"learning_rate": "0.5*2:0.25", "momentum": "0:0.9", "l2": 0.001}
    records = gc.train(  # type: ignore[call-overload]
        net,
        classes(SAMPLES),
        **{"epochs": 4, "dropout": "0.3:0", "learner": learner, "seed": 3, **options},  # type: ignore[arg-type]
    )
    averages = [(r.criterion, dict(r.evaluations), r.samples) for r in records]
    return averages, {name: value.tobytes() for name, value in net.parameters.items()}


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("minibatch", [8, 53, 100])
@pytest.mark.filterwarnings("ignore::graphc.GraphcWarning")  # 100 are more than there are
def test_training_is_the_same_whether_python_sees_each_loss(
    minibatch: object, precision: str
) -> None:
    given: dict[str, object] = {"precision": precision, "minibatch": minibatch}
    plain = trained(gc.SGD(learning_rate=0.5, momentum=0.9), **given)
    watched = trained(Watching(learning_rate=0.5, momentum=0.9), **given)
    assert plain == watched


def test_training_by_schedules_is_the_same_in_native_code(monkeypatch: pytest.MonkeyPatch) -> None:
    native = trained(None, minibatch="8:16")
    unshuffled = trained(None, minibatch="8:16", shuffle=False)
    monkeypatch.setattr(Executable, "runs_minibatches", property(lambda self: False))
    assert trained(None, minibatch="8:16") == native
    assert trained(None, minibatch="8:16", shuffle=False) == unshuffled != native


@pytest.mark.parametrize("is_first", [True, False])
def test_losses_that_are_no_numbers_are_reported_alike(is_first: bool) -> None:
    found: list[tuple[str, dict[str, bytes]]] = []
    for learner in (gc.SGD(learning_rate=0.5), Watching(learning_rate=0.5)):
        net, data = classifier(), classes(SAMPLES)
        data["features"][0 if is_first else 52, 2] = np.nan
        with pytest.raises(GraphcError) as raised:
            gc.train(net, data, learner=learner, minibatch=8, shuffle=False, epochs=2)
        assert [d.slug for d in raised.value.diagnostics] == ["not-a-number"]
        message = raised.value.diagnostics[0].message
        assert ("for the first minibatch" in message) == is_first
        found.append((message, {n: v.tobytes() for n, v in net.parameters.items()}))
    assert found[0] == found[1]


def test_a_stop_is_asked_for_between_native_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(epoch, "CALL_SECONDS", 0.0)
    seen: list[tuple[int, int]] = []
    progress = gc.Progress(
        minibatch=lambda done, total: seen.append((done, total)),
        should_stop=lambda: len(seen) >= 9,
    )
    records = gc.train(
        classifier(), classes(SAMPLES), epochs=5, minibatch=8, learning_rate=0.5, progress=progress
    )
    assert [r.samples for r in records] == [53, 16]
    assert seen[:7] == [(8, 53), (16, 53), (24, 53), (32, 53), (40, 53), (48, 53), (53, 53)]


def test_a_stop_is_heard_where_one_native_call_trains_an_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(epoch, "CALL_SECONDS", 1e9)
    asked: list[None] = []

    def stops() -> bool:
        asked.append(None)
        return len(asked) > 8

    progress = gc.Progress(should_stop=stops)
    records = gc.train(
        classifier(), classes(SAMPLES), epochs=90, minibatch=8, learning_rate=0.5, progress=progress
    )
    assert [r.samples for r in records] == [53] * len(records)
    assert len(records) < 9


def test_progress_comes_to_the_end_of_every_epoch() -> None:
    seen: list[tuple[int, int]] = []
    progress = gc.Progress(minibatch=lambda done, total: seen.append((done, total)))
    gc.train(
        classifier(), classes(SAMPLES), epochs=3, minibatch=8, learning_rate=0.5, progress=progress
    )
    assert seen.count((53, 53)) == 3


# --- what is given wrongly -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
@pytest.mark.parametrize(
    ("order", "message"),
    [
        ([0, 53], "order requires whole numbers from 0 to 52 in one dimension, got 53 at place 1"),
        ([-1], "got -1 at place 0"),
        ([0.0, 1.0], "got float64 of shape"),
        ([[0, 1]], r"got int64 of shape \(1, 2\)"),
        (3, r"got int64 of shape \(\)"),
        ([True, False], "got bool of shape"),
        ([[0], [1, 2]], "got no array"),
        ([2**70], "got object of shape"),
        ([], "requires at least one sample, got none"),
    ],
)
def test_an_order_is_numbers_of_samples(order: object, message: str, backend: str) -> None:
    both = twin("", "plain", backend, "f32")
    step, before = both.restart(), both.bits
    with pytest.raises(GraphcError, match=message) as raised:
        step.run_epoch(classes(SAMPLES), order=order)
    assert [d.slug for d in raised.value.diagnostics] == ["input"]
    assert both.bits == before
    assert step.steps == 0


@pytest.mark.parametrize("size", [0, -1, 2.5, "8", float("nan")])
def test_a_minibatch_is_a_whole_number(size: object) -> None:
    step = twin("", "plain", "llvm", "f32").restart()
    with pytest.raises(GraphcError, match="minibatch requires a whole number of at least 1"):
        step.run_epoch(classes(SAMPLES), minibatch=size)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": np.zeros((53, 7))}, "features requires shape"),
        ({"features": np.zeros((52, 6))}, "N is"),
        ({"features": np.zeros((53, 6), complex)}, "elements of complex128"),
        ({"features": None}, "features"),
    ],
)
def test_data_that_do_not_fit_change_nothing(change: dict[str, object], message: str) -> None:
    both = twin("", "plain", "llvm", "f32")
    step, before = both.restart(), both.bits
    with pytest.raises(GraphcError, match=message):
        step.run_epoch({**classes(SAMPLES), **change})
    with pytest.raises(GraphcError, match="labels missing"):
        step.run_epoch({"features": np.zeros((53, 6))})
    with pytest.raises(GraphcError, match="requires at least one sample, got none"):
        step.run_epoch(classes(0))
    assert both.bits == before
