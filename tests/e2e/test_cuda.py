"""`backend="cuda"` through every door, with an emulator in place of the GPU; llvm is the judge."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.backends.cuda.platform import using
from tests.support.commands import COLUMNS, graphc, write_data, write_network
from tests.support.cuda.building import missing
from tests.support.cuda.emulator import (
    EmulatedArray,
    EmulatedCode,
    EmulatedDevice,
    emulated_platform,
)

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Array = np.ndarray

PERCEPTRON = """
x = Input(10, tag=feature)
t = Input(3, tag=label)
W = Parameter(8, 10)
b = Parameter(8, 1)
V = Parameter(3, 8)
h = Dropout(Sigmoid(Plus(Times(W, x), b)))
z = Times(V, h, tag=output)
ce = CrossEntropyWithSoftmax(t, z, tag=criterion)
err = ErrorPrediction(t, z, tag=eval)
"""

TAGGER = """
x = SparseInput(12, tag=feature)
t = Input(3, tag=label)
E = Parameter(6, 12)
R = Parameter(6, 6)
V = Parameter(3, 6)
d = PastValue(6, h, timeStep=1)
h = Tanh(Plus(Times(E, x), Times(R, d)))
z = Times(V, h, tag=output)
ce = CrossEntropyWithSoftmax(t, z, tag=criterion)
"""


@pytest.fixture(autouse=True)
def device() -> Generator[EmulatedDevice]:
    emulated = EmulatedDevice()
    with using(emulated_platform(emulated)):
        yield emulated
    emulated.wait()


def on_both(run: Callable[[str], list[Array]]) -> None:
    """Run on both backends; what they give is the same but for rounding."""
    expected, got = run("llvm"), run("cuda")
    assert [a.shape for a in got] == [a.shape for a in expected]
    for one, other in zip(got, expected, strict=True):
        assert np.allclose(one, other, rtol=2e-4, atol=2e-5)


def samples(count: int, seed: int = 0) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, 10)).astype(np.float32)
    return {"x": x, "t": np.eye(3, dtype=np.float32)[rng.integers(0, 3, count)]}


def sentences(lengths: list[int], seed: int = 0) -> dict[str, list[object]]:
    """One word a step, as sparse rows, and a label for each."""
    rng = np.random.default_rng(seed)
    rows: list[object] = []
    tags: list[object] = []
    for length in lengths:
        words = rng.integers(0, 12, length)
        rows.append((words, np.arange(length + 1), np.ones(length, np.float32)))
        tags.append(np.eye(3, dtype=np.float32)[rng.integers(0, 3, length)])
    return {"x": rows, "t": tags}


def test_a_network_computes_batches_of_any_size() -> None:
    def run(backend: str) -> list[Array]:
        net = gc.loads(PERCEPTRON)
        exe = gc.compile(net, "z", gradients="W", backend=backend, batch=8)
        found = [exe(x=samples(n)["x"]) for n in (1, 7, 7, 7, 8, 0)]
        return [array for results in found for array in results.values()]

    on_both(run)


def test_steps_and_epochs_train_the_same_network() -> None:
    def run(backend: str) -> list[Array]:
        net = gc.loads(PERCEPTRON)
        learner = gc.SGD(0.2, momentum=0.8)
        step = gc.compile_training(net, learner=learner, backend=backend, batch=8, dropout=0.3)
        found = [np.array(step(**samples(8, i))["ce"]) for i in range(3)]
        seen = net.parameters["b"].copy()
        net.parameters["b"][...] *= 0.5
        net.parameters["V"] = np.ones((3, 8))
        found.append(np.array(step(**samples(5))["ce"]))
        data, order = samples(30, 9), np.random.default_rng(1).permutation(30)
        epochs = [step.run_epoch(data, order=order, minibatch=8)["ce"] for _ in range(2)]
        parameters = [net.parameters[name].copy() for name in net.parameters]
        state = [array.copy() for array in step.learner_state.values()]
        return [*found, seen, *epochs, *parameters, *state, np.array(step.steps)]

    on_both(run)


def test_functions_of_several_backends_share_a_network() -> None:
    net = gc.loads(PERCEPTRON)
    step = gc.compile_training(net, learner=gc.SGD(0.5), backend="cuda", batch=8)
    here, there = (gc.compile(net, "z", backend=b, batch=8) for b in ("llvm", "cuda"))
    x = samples(6)["x"]
    for turn in range(3):
        step(**samples(8, turn))
        if turn != 1:  # so that parameters stay on the device, too
            assert np.allclose(here(x=x)["z"], there(x=x)["z"], rtol=1e-4, atol=1e-5)
    saved = {name: array.copy() for name, array in net.parameters.items()}
    assert all(np.array_equal(saved[name], net.parameters[name]) for name in saved)


def test_sequences_of_sparse_steps_are_trained(tmp_path: Path) -> None:
    def run(backend: str) -> list[Array]:
        net = gc.loads(TAGGER)
        step = gc.compile_training(net, learner=gc.SGD(0.1), backend=backend, time=8, sequences=3)
        found = [np.array(step(**sentences(n))["ce"]) for n in ([3, 1, 8], [2, 2, 2], [5])]
        net.save(tmp_path / "net.safetensors")
        saved = gc.load(tmp_path / "net.safetensors")
        return [*found, *(saved.parameters[name] for name in saved.parameters)]

    on_both(run)


def test_sequences_go_on_from_call_to_call() -> None:
    def run(backend: str) -> list[Array]:
        exe = gc.compile(gc.loads(TAGGER), "z", backend=backend, time=8, sequences=2)
        whole = sentences([6, 4])["x"]
        first = exe(x=whole, carry=True)["z"]
        second = exe(x=whole, carry=True)["z"]
        return [*first, *second]

    on_both(run)


def test_functions_of_arrays_are_computed() -> None:
    def run(backend: str) -> list[Array]:
        @gc.function(backend=backend)
        def norm(a: gc.Tensor) -> gc.Tensor:
            return gc.sqrt(gc.sum(a * a))

        return [np.asarray(norm(np.arange(12.0).reshape(3, 4)))]

    on_both(run)


def test_arrays_of_the_device_go_in_and_out(device: EmulatedDevice) -> None:
    exe = gc.compile(gc.loads(PERCEPTRON), "z", backend="cuda", batch=8)
    x = samples(5)["x"]
    found = exe(x=EmulatedArray(device, x), out="device")["z"]
    assert isinstance(found, EmulatedArray)
    assert np.array_equal(found.numbers(), exe(x=x)["z"])


def test_too_little_memory_is_an_error_with_the_bytes(
    device: EmulatedDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(size: int) -> object:
        raise MemoryError

    monkeypatch.setattr(device, "allocate", none)
    exe = gc.compile(gc.loads(PERCEPTRON), "z", backend="cuda", batch=8)
    with pytest.raises(gc.GraphcError, match=r"\d+ bytes of the GPU's memory.*N up to 8"):
        exe(x=samples(2)["x"])


def test_commands_compute_on_the_gpu(tmp_path: Path) -> None:
    network, data = write_network(tmp_path), write_data(tmp_path)
    model = tmp_path / "net.safetensors"
    common = ("--data", data, *COLUMNS)
    trained = graphc(
        *(
            "train",
            network,
            *common,
            "-o",
            model,
            "--epochs",
            "2",
            "--learning-rate",
            "0.1",
            "--backend",
            "cuda",
        )
    )
    assert trained.code == 0, trained.err
    outputs = [graphc("eval", model, *common, "--backend", b) for b in ("cuda", "llvm")]
    assert [done.code for done in outputs] == [0, 0]
    assert outputs[0].out == outputs[1].out
    timed = graphc("bench", network, "--backend", "cuda", "--rounds", "1", "--seconds", "0.001")
    assert timed.code == 0, timed.err
    assert "by cuda" in timed.out
    profiled = graphc("bench", network, "--backend", "cuda", "--kernels")
    assert "takes no times of single operations" in profiled.err


@pytest.mark.parametrize("command", ["train", "eval", "run", "bench"])
def test_without_a_gpu_a_command_says_what_is_missing(command: str, tmp_path: Path) -> None:
    network, data = write_network(tmp_path), write_data(tmp_path)
    given: dict[str, tuple[str | Path, ...]] = {
        "train": (
            "--data",
            data,
            *COLUMNS,
            "-o",
            tmp_path / "m.safetensors",
            "--learning-rate",
            "1",
        ),
        "eval": ("--data", data, *COLUMNS),
        "run": (data,),
        "bench": (),
    }
    nothing = replace(emulated_platform(), missing=lambda: "the driver was not found")
    with using(nothing):
        done = graphc(command, network, *given[command], "--backend", "cuda")
    assert done.code == 3
    assert "the backend cuda cannot run functions here: the driver was not found" in done.err


def test_a_grid_of_which_no_block_can_be_resident_is_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(EmulatedCode, "resident_blocks", lambda *given: 0)
    text = "x = Input(4, tag=feature)\nW = Parameter(3, 4)\nz = Softmax(Times(W, x), tag=output)\n"
    with using(emulated_platform()):
        grid = gc.compile(gc.loads(text), backend="cuda", launch="grid")
        with pytest.raises(gc.GraphcError, match=r"the GPU has not as much: .* launch=\"graph\""):
            grid(x=np.ones((2, 4)))
