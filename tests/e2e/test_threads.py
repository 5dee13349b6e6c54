"""Threads from outside: the same bits for any number, from several Python threads, after a fork."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping

import numpy as np
import pytest

import graphc as gc
from graphc.learn.step import TrainingStep
from graphc.runtime.executable import Executable
from graphc.support.diagnostics import GraphcError

COUNTS = (2, 3, 8)

MLP = """
features = Input(200, tag=feature)
labels = Input(20, tag=label)
W0 = Parameter(300, 200)
B0 = Parameter(300, 1)
h = Sigmoid(Plus(Times(W0, features), B0))
d = Dropout(h)
W1 = Parameter(20, 300)
B1 = Parameter(20, 1)
z = Plus(Times(W1, d), B1, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
"""
CONVOLUTION = """
features = ImageInput(16, 16, 3, tag=feature)
labels = Input(10, tag=label)
K = Parameter(12, 75)
c = Convolution(K, features, 5, 5, 12, 1, 1, zeroPadding=false)
r = RectifiedLinear(c)
p = MaxPooling(r, 2, 2, 2, 2)
W = Parameter(10, 432)
z = Times(W, p, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
"""
PADDED = """
features = ImageInput(16, 16, 3, tag=feature)
labels = Input(10, tag=label)
K0 = Parameter(16, 27)
c0 = Convolution(K0, features, 3, 3, 16, 1, 1, zeroPadding=true)
r0 = RectifiedLinear(c0)
K1 = Parameter(12, 144)
c1 = Convolution(K1, r0, 3, 3, 12, 2, 2, zeroPadding=true)
p = AveragePooling(c1, 4, 4, 4, 4)
W = Parameter(10, 48)
z = Times(W, p, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
"""
RECURRENT = """
features = Input(40, tag=feature)
labels = Input(30, tag=label)
W = Parameter(200, 40)
R = Parameter(200, 200)
B = Parameter(200, 1)
before = PastValue(200, 1, h)
h = Tanh(Plus(Plus(Times(W, features), Times(R, before)), B))
V = Parameter(30, 200)
z = Times(V, h, tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
"""
BIDIRECTIONAL = """
features = Input(40, tag=feature)
labels = Input(30, tag=label)
WF = Parameter(100, 40)
RF = Parameter(100, 100)
F = Tanh(Plus(Times(WF, features), Times(RF, PastValue(100, 1, F))))
WB = Parameter(100, 40)
RB = Parameter(100, 100)
B = Tanh(Plus(Times(WB, features), Times(RB, FutureValue(100, 1, B))))
V = Parameter(30, 200)
z = Times(V, RowStack(F, B), tag=output)
ce = CrossEntropyWithSoftmax(labels, z, tag=criterion)
"""


def _dense(rows: int, classes: int, samples: int) -> dict[str, object]:
    rng = np.random.default_rng(3)
    x = rng.standard_normal((samples, rows)).astype(np.float32)
    y = np.eye(classes, dtype=np.float32)[rng.integers(0, classes, samples)]
    return {"features": x, "labels": y}


def _sequences(rows: int, classes: int) -> dict[str, object]:
    rng = np.random.default_rng(4)
    lengths = [12, 9, 12, 5, 12, 12, 1, 12]
    x = [rng.standard_normal((n, rows)).astype(np.float32) for n in lengths]
    y = [np.eye(classes, dtype=np.float32)[rng.integers(0, classes, n)] for n in lengths]
    return {"features": x, "labels": y}


CASES: Mapping[str, tuple[str, dict[str, object], dict[str, int]]] = {
    "layers": (MLP, _dense(200, 20, 128), {"batch": 128}),
    "convolution": (CONVOLUTION, _dense(768, 10, 32), {"batch": 32}),
    "padded": (PADDED, _dense(768, 10, 32), {"batch": 32}),
    "recurrent": (RECURRENT, _sequences(40, 30), {"time": 12, "sequences": 8}),
    "both directions": (BIDIRECTIONAL, _sequences(40, 30), {"time": 12, "sequences": 8}),
}


def _trained(
    case: str, threads: int, precision: str = "f32"
) -> tuple[TrainingStep, list[float], dict[str, np.ndarray]]:
    text, data, bounds = CASES[case]
    network = gc.loads(text)
    step = gc.compile_training(
        network,
        learner=gc.SGD(0.1, momentum=0.9),
        dropout=0.3,
        precision=precision,
        threads=threads,
        **bounds,  # type: ignore[arg-type]
    )
    losses = [float(step(**data)["ce"]) for _ in range(3)]
    return step, losses, {n: np.array(v) for n, v in network.model.values.items()}


@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize("case", CASES)
def test_training_has_the_same_bits_for_any_number_of_threads(case: str, precision: str) -> None:
    step, losses, values = _trained(case, 1, precision)
    assert step.signature.is_split or case == "convolution"
    for threads in COUNTS:
        _, others, changed = _trained(case, threads, precision)
        assert others == losses
        for name, value in values.items():
            np.testing.assert_array_equal(changed[name], value, err_msg=f"{name}, {threads}")


def _network() -> Executable:
    return gc.compile(gc.loads(MLP), batch=128, threads=3)


def _called(executable: Executable, times: int = 1) -> Callable[[], np.ndarray]:
    x = CASES["layers"][1]["features"]

    def call() -> np.ndarray:
        for _ in range(times - 1):
            executable(features=x)
        return np.array(executable(features=x)["z"])

    return call


def test_the_number_may_change_between_calls() -> None:
    executable = _network()
    expected = _called(executable)()
    assert executable.threads == 3
    for threads in (1, 2, 8, 3):
        executable.threads = threads
        np.testing.assert_array_equal(_called(executable)(), expected)


def test_fewer_samples_than_the_bound_are_computed_alike() -> None:
    executable = _network()
    x = np.asarray(CASES["layers"][1]["features"])
    expected = _called(executable)()
    for samples in (0, 1, 13, 127):
        got = np.array(executable(features=x[:samples])["z"])
        np.testing.assert_array_equal(got, expected[:samples])


def test_several_python_threads_at_once_with_one_executable_each_and_one_for_all() -> None:
    shared, own = _network(), [_network() for _ in range(4)]
    expected, each = _called(shared)(), [_called(e)() for e in own]
    wrong: list[str] = []

    def work(number: int) -> None:
        for executable, value in ((shared, expected), (own[number], each[number])) * 20:
            if not np.array_equal(_called(executable)(), value):
                wrong.append(f"thread {number}")

    callers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert wrong == []


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")  # it is what is tested
def test_a_child_of_a_fork_computes_the_same() -> None:
    executable = _network()
    expected = _called(executable)()
    child = os.fork()
    if child == 0:
        status = 1
        try:  # whatever happens, the child must not go on with the tests
            signal.alarm(60)
            status = int(not np.array_equal(_called(executable, 5)(), expected))
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0
    np.testing.assert_array_equal(_called(executable)(), expected)


GATES = """
x = Input(20, tag=feature)
past = PastValue(300, h, defaultHiddenActivity=0)
A = Parameter(300, 20)
R = Parameter(300, 300)
Q = Parameter(300, 300)
h = ElementTimes(Tanh(Plus(Times(A, x), Times(R, past))), Sigmoid(Times(Q, past)), tag=output)
"""


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("lengths", [(9,), (5, 8)])
def test_products_at_the_same_time_give_the_same_bits(
    backend: str, lengths: tuple[int, ...]
) -> None:
    """The two gates of a recurrence, against numpy in f64."""
    net, rng = gc.loads(GATES), np.random.default_rng(8)
    executable = gc.compile(net, time=16, sequences=2, backend=backend, threads=1)
    x = [rng.normal(size=(n, 20)).astype(np.float32) for n in lengths]
    one = executable(x=x)["h"]
    weights = {n: np.asarray(v, np.float64) for n, v in net.parameters.items()}
    for steps, found in zip(x, one, strict=True):
        h = np.zeros(300)
        for step, row in zip(steps, found, strict=True):
            gate = 1 / (1 + np.exp(-weights["Q"] @ h))
            h = np.tanh(weights["A"] @ step + weights["R"] @ h) * gate
            np.testing.assert_allclose(row, h, rtol=1e-4, atol=1e-5)
    for threads in COUNTS:
        executable.threads = threads
        for _ in range(4):
            for again, before in zip(executable(x=x)["h"], one, strict=True):
                np.testing.assert_array_equal(again, before)


@pytest.mark.parametrize("freeze", [False, True])
def test_a_single_sample_has_the_same_bits_for_any_number_of_threads(freeze: bool) -> None:
    text = """
x = Input(784, tag=feature)
A = Parameter(512, 784)
B = Parameter(512, 512)
h = RectifiedLinear(Times(A, x))
z = Times(B, h, tag=output)
"""
    net = gc.loads(text)
    executable = gc.compile(net, batch=1, threads=1, freeze=freeze)
    x = np.random.default_rng(9).normal(size=(1, 784)).astype(np.float32)
    one = executable(x=x)["z"].copy()
    weights = {n: np.asarray(v, np.float64) for n, v in net.parameters.items()}
    expected = np.maximum(x @ weights["A"].T, 0) @ weights["B"].T
    np.testing.assert_allclose(one, expected, rtol=1e-4, atol=1e-5)
    for threads in COUNTS:
        executable.threads = threads
        for _ in range(4):
            np.testing.assert_array_equal(executable(x=x)["z"], one)


def test_thousands_of_short_calls() -> None:
    executable = _network()
    x = np.asarray(CASES["layers"][1]["features"])[:2]
    expected = np.array(executable(features=x)["z"])
    for _ in range(2000):
        np.testing.assert_array_equal(executable(features=x)["z"], expected)


@pytest.mark.parametrize("threads", [0, -2, 10000, 2.0, "2"])
def test_a_wrong_number_of_threads_is_one_clear_error(threads: object) -> None:
    with pytest.raises(GraphcError, match="threads requires a whole number from 1 to 1024"):
        gc.compile(gc.loads(MLP), threads=threads)  # type: ignore[arg-type]
    executable = gc.compile(gc.loads(MLP), threads=1)
    with pytest.raises(GraphcError, match="threads requires a whole number"):
        executable.threads = threads  # type: ignore[assignment]
    assert executable.threads == 1


def test_the_variable_says_how_many_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRAPHC_NUM_THREADS", "2")
    assert gc.compile(gc.loads(MLP)).threads == 2
    assert gc.compile(gc.loads(MLP), threads=1).threads == 1
    monkeypatch.setenv("GRAPHC_NUM_THREADS", "none")
    with pytest.raises(GraphcError, match="GRAPHC_NUM_THREADS requires a whole number"):
        gc.compile(gc.loads(MLP))
