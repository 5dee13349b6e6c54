"""Epochs of members in native code: sums over all are made inside of a call of many minibatches."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import numpy as np
import pytest

import graphc as gc
from graphc.learn.learner import Learner
from graphc.runtime.executable import Executable
from graphc.support.diagnostics import GraphcError, fail
from tests.support.compiling import require_backend

T = TypeVar("T")
Array = np.ndarray
TEXT = """
    x = Input(5)
    t = Input(3)
    W = Parameter(4, 5)
    V = Parameter(3, 4)
    e = SquareError(t, Times(V, Dropout(Tanh(Times(W, x)))), tag=criteria)
"""
RNG = np.random.default_rng(7)
SAMPLES = 61
DATA = {"x": RNG.standard_normal((SAMPLES, 5)), "t": RNG.standard_normal((SAMPLES, 3))}
LEARNERS = [
    gc.SGD("0.05*2:0.02", momentum=0.9, l2=0.01),
    gc.Adam(0.01),
    gc.SGD(0.05, clip=gc.ClipGlobalNorm(1.0)),
]


def network() -> gc.Network:
    net = gc.loads(TEXT)
    assert isinstance(net, gc.Network)
    return net


def together(work: Sequence[Callable[[], T]]) -> list[T]:
    """Each in a thread of its own; the first error is raised."""
    with ThreadPoolExecutor(len(work)) as pool:
        return [future.result() for future in [pool.submit(one) for one in work]]


def train(
    members: Sequence[gc.comm.Communicator], backend: str = "llvm", learner: Learner = LEARNERS[0]
) -> list[dict[str, Array]]:
    """The parameters of each member in the end."""

    def one(member: gc.comm.Communicator) -> dict[str, Array]:
        net = network()
        gc.train(
            net,
            DATA,
            learner=learner,
            epochs=3,
            minibatch=7,
            dropout=0.3,
            backend=backend,
            threads=1,
            comm=member,
        )
        return dict(net.parameters)

    return together([lambda m=m: one(m) for m in members])


@pytest.fixture
def native_calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many minibatches each native call computes, of all members."""
    found: list[int] = []
    run = Executable.run_minibatches

    def counted(
        self: Executable,
        data: dict[str, Array],
        order: Array,
        size: int,
        numbers: dict[str, Array],
        done: Array,
    ) -> dict[str, Array]:
        made = run(self, data, order, size, numbers, done)
        found.append(int(done[0]))
        return made

    monkeypatch.setattr(Executable, "run_minibatches", counted)
    return found


@pytest.mark.parametrize("learner", LEARNERS, ids=lambda learner: type(learner).__name__)
@pytest.mark.parametrize("count", [2, 3])
def test_an_epoch_in_native_calls_has_the_bits_of_calls_one_by_one(
    count: int, learner: Learner, native_calls: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    native = train(gc.comm.threads(count), learner=learner)
    # 61 samples are 8 minibatches of 7, and 5 samples that are called by themselves.
    assert sum(native_calls) == count * 3 * (SAMPLES // 7)
    assert max(native_calls) > 1
    monkeypatch.setattr(Executable, "runs_minibatches", False)
    called = train(gc.comm.threads(count), learner=learner)
    for one, other in zip(native, called, strict=True):
        for name, value in one.items():
            np.testing.assert_array_equal(value, other[name])


def test_fewer_samples_than_members_in_a_minibatch_are_called_one_by_one(
    native_calls: list[int],
) -> None:
    trained = train(gc.comm.threads(8))
    assert native_calls == []
    for name, value in train([gc.comm.alone()])[0].items():
        np.testing.assert_allclose(trained[3][name], value, 2e-4, 2e-5)


@pytest.mark.parametrize("backend", ["numpy", "llvm", "c"])
def test_every_backend_has_its_sums_made_where_they_stand(backend: str) -> None:
    require_backend(backend)
    trained = train(gc.comm.threads(2), backend)
    for name, value in train([gc.comm.alone()], backend)[0].items():
        np.testing.assert_array_equal(trained[0][name], trained[1][name])
        np.testing.assert_allclose(trained[0][name], value, 2e-4, 2e-5)


def test_run_epoch_of_members_with_data_of_their_own() -> None:
    """19 and 12 samples in minibatches of 4 and 3: four together, and the rest call by call."""
    cuts, sizes = [slice(0, 19), slice(19, 34)], [4, 3]

    def one(member: gc.comm.Communicator, cut: slice, size: int, native: bool) -> Array:
        net = network()
        step = gc.compile_training(net, learner=LEARNERS[0], batch=4, comm=member)
        rows = {name: array[cut] for name, array in DATA.items()}
        if native:
            found = step.run_epoch(rows, minibatch=size)["e"]
            assert found.shape == (5,)
        else:
            for start in range(0, len(rows["x"]), size):
                step(**{name: array[start : start + size] for name, array in rows.items()})
        return net.parameters["W"]

    ways = [
        together(
            [
                lambda m=m, c=c, s=s, native=native: one(m, c, s, native)
                for m, c, s in zip(gc.comm.threads(2), cuts, sizes, strict=True)
            ]
        )
        for native in (True, False)
    ]
    for a, b in zip(*ways, strict=True):
        np.testing.assert_array_equal(a, b)


class Failing:
    """One of two members with the same gradients, whose sums fail from one call on."""

    rank, size = 0, 2

    def __init__(self, sums: int, problem: BaseException) -> None:
        self.left = sums
        self.problem = problem

    def all_reduce(self, array: Array) -> None:
        if array.dtype.kind == "f" and array.size > 1:
            self.left -= 1
            if self.left < 0:
                raise self.problem
        if array.ndim == 2:  # what members gather: the other one's row
            array[1] = array[0]
        else:
            array *= 2


@pytest.mark.parametrize("backend", ["numpy", "llvm", "c"])
@pytest.mark.parametrize(
    "problem", [fail("training", "member 1 does not answer"), KeyboardInterrupt()], ids=type
)
def test_a_sum_that_fails_ends_the_call_with_its_error_and_no_update(
    problem: BaseException, backend: str
) -> None:
    require_backend(backend)
    net, other = network(), network()
    rows = {name: array[:12] for name, array in DATA.items()}
    step = gc.compile_training(
        net, learner=gc.SGD(0.1), batch=4, backend=backend, comm=Failing(2, problem)
    )
    with pytest.raises(type(problem)) as raised:
        for start in range(0, 12, 4):
            step(**{name: array[start : start + 4] for name, array in rows.items()})
    assert raised.value is problem
    assert step.steps == 2
    good = gc.compile_training(
        other, learner=gc.SGD(0.1), batch=4, backend=backend, comm=Failing(99, problem)
    )
    for start in (0, 4):
        good(**{name: array[start : start + 4] for name, array in rows.items()})
    for name, value in other.parameters.items():
        np.testing.assert_array_equal(net.parameters[name], value)


def test_a_sum_that_fails_inside_of_an_epoch_leaves_whole_minibatches() -> None:
    net = network()
    problem = fail("training", "member 1 does not answer")
    step = gc.compile_training(net, learner=gc.SGD(0.1), batch=4, comm=Failing(2, problem))
    with pytest.raises(GraphcError, match="does not answer"):
        step.run_epoch(DATA, minibatch=4)
    assert step.steps == 2


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("counts", [(9, 4), (4, 9), (4, 0)])
def test_members_have_as_many_minibatches(backend: str, counts: Sequence[int]) -> None:
    """One with more waited for the others, until its patience was over."""
    require_backend(backend)

    def trained(rank: int, member: gc.comm.Communicator) -> int:
        step = gc.compile_training(network(), learner=gc.SGD(0.1), backend=backend, comm=member)
        data = {name: array[: counts[rank]] for name, array in DATA.items()}
        said = rf"as many minibatches each: member 0 has {-(-counts[0] // 4)}, member 1 another"
        with pytest.raises(GraphcError, match=said):
            step.run_epoch(data, minibatch=4)
        return step.steps

    calls = [lambda r=r, m=m: trained(r, m) for r, m in enumerate(gc.comm.threads(2, 20.0))]
    assert together(calls) == [0, 0]


class Doubling:
    """One of two members with the same data. Behind so many sums of floats, when the member is
    about something else again, a signal comes to the main thread, once."""

    rank, size = 0, 2

    def __init__(self, after: int = -1, number: int = signal.SIGINT) -> None:
        self.after, self.number, self.is_adding = after, number, False

    def all_reduce(self, array: Array) -> None:
        self.is_adding = True
        if array.dtype.kind != "f" and array.ndim == 2:  # a row of each member
            array[1] = array[0]
        else:
            array *= 2
            self.after -= array.dtype.kind == "f"
            if self.after == 0:
                self.after = -1
                threading.Thread(target=self.interrupt).start()
        self.is_adding = False

    def interrupt(self) -> None:
        while self.is_adding:
            pass
        _thread.interrupt_main(self.number)


def same(a: gc.Network, b: gc.Network) -> bool:
    return all(np.array_equal(a.parameters[name], b.parameters[name]) for name in "WV")


@pytest.mark.parametrize("backend", ["llvm", "c", "numpy"])
def test_an_interrupt_comes_through_compiled_code_between_two_sums(backend: str) -> None:
    """Wherever it comes, whole minibatches are left, and it is not lost: Python raised it where
    compiled code calls it, which nothing could catch."""
    require_backend(backend)
    many = {name: np.concatenate([array] * 30) for name, array in DATA.items()}

    def step_for(net: gc.Network, member: Doubling) -> gc.TrainingStep:
        learner = gc.SGD(0.001, momentum=0.9)
        return gc.compile_training(net, learner=learner, batch=7, backend=backend, comm=member)

    for after in (1, 2, 40):
        net = network()
        step = step_for(net, Doubling(after))
        rounds = 0
        with pytest.raises(KeyboardInterrupt):
            while True:
                step.run_epoch(many, minibatch=7)
                rounds += 1
                assert rounds < 1000
        alone = network()
        single = step_for(alone, Doubling())
        count = len(many["x"])
        parts = [slice(i, min(i + 7, count)) for i in range(0, count, 7)]
        found: list[bool] = []
        for made in range(step.steps + 1):  # a call that has ended may not be counted yet
            found.append(same(alone, net))
            single(**{n: a[parts[made % len(parts)]] for n, a in many.items()})
        assert found[-1] or same(alone, net)


class Requeued(Exception):
    """What a handler of one's own raises."""


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
def test_what_the_handler_of_another_signal_raises_comes_through_too(backend: str) -> None:
    """As of a scheduler's SIGTERM, or an alarm of tests. It was an internal error."""
    require_backend(backend)

    def raises(number: int, _frame: object) -> None:
        raise Requeued(number)

    member = Doubling(40, signal.SIGTERM)
    learner = gc.SGD(0.001, momentum=0.9)
    step = gc.compile_training(network(), learner=learner, batch=7, backend=backend, comm=member)
    many = {name: np.concatenate([array] * 30) for name, array in DATA.items()}
    before = signal.signal(signal.SIGTERM, raises)
    try:
        with pytest.raises(Requeued, match=str(int(signal.SIGTERM))):
            for _ in range(1000):
                step.run_epoch(many, minibatch=7)
        assert signal.getsignal(signal.SIGTERM) is raises
    finally:
        signal.signal(signal.SIGTERM, before)
    assert np.isfinite(step.run_epoch(many, minibatch=7)["e"]).all()


def test_a_handler_that_raises_while_handlers_come_back_keeps_none_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ctrl-C was lost from then on: `signal.signal` raises what is due before it changes any."""
    require_backend("llvm")
    interrupt, change, raised = signal.getsignal(signal.SIGINT), signal.signal, list[int]()

    def changes(number: int, handler: Any) -> Any:
        if number == signal.SIGINT and handler == interrupt and not raised:
            raised.append(number)
            raise Requeued(number)
        return change(number, handler)

    step = gc.compile_training(network(), learner=gc.SGD(0.001), batch=7, comm=Doubling())
    monkeypatch.setattr(signal, "signal", changes)
    with pytest.raises(Requeued):
        step.run_epoch(DATA, minibatch=7)
    assert signal.getsignal(signal.SIGINT) == interrupt
