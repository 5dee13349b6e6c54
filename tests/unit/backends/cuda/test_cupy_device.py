"""A GPU through CuPy, with a stand-in for CuPy: what is asked of it, and how errors are told."""

from __future__ import annotations

import gc
import threading
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest

from graphc.backends.cuda import cupy_device
from graphc.backends.cuda.cupy_device import CupyDevice, what_is_missing
from graphc.ir.machine import GPUS
from graphc.support.diagnostics import GraphcError
from tests.support.cuda.fake_cupy import NAMES, DriverProblem, FakeCupy, RuntimeProblem

MACHINE = GPUS["sm_90"]


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> FakeCupy:
    """On a machine with a GPU and its driver."""
    fake = FakeCupy()
    monkeypatch.setattr(cupy_device, "_cupy", lambda: fake)
    monkeypatch.setattr(cupy_device, "device_machine", lambda: MACHINE)
    monkeypatch.setattr(cupy_device, "driver_version", lambda: (13, 0))
    monkeypatch.setattr(cupy_device, "find_spec", lambda name: name)
    return fake


@pytest.fixture
def device(cupy: FakeCupy) -> CupyDevice:
    return CupyDevice()


@pytest.mark.parametrize("name", NAMES)
def test_cupy_has_what_is_used_of_it(name: str) -> None:
    module = pytest.importorskip("cupy", reason="CuPy is not installed")
    reduce(getattr, name.split("."), module)


def test_bytes_come_back_as_they_went(device: CupyDevice, cupy: FakeCupy) -> None:
    first, second = device.allocate(40), device.allocate(40)
    array, found = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    device.upload(first.address, array)
    device.copy(second.address, first.address, 40)
    device.download(found, second.address)
    assert np.array_equal(found, array)
    stream = device.stream.ptr
    copies = [("copy", 40, kind, stream) for kind in (1, 3, 2)]
    assert cupy.done == [*copies, ("synchronize",)]


def test_nothing_is_copied_of_nothing(device: CupyDevice, cupy: FakeCupy) -> None:
    device.upload(device.allocate(0).address, np.zeros(0, np.float32))
    assert cupy.done == []


def test_host_memory_has_the_size_that_is_asked_for(device: CupyDevice) -> None:
    memory = device.host_memory(100)
    memory[...] = 3
    assert (memory.dtype, memory.shape) == (np.uint8, (100,))
    assert device.host_memory(0).shape == (0,)


def test_host_memory_is_there_where_no_fast_one_is(device: CupyDevice, cupy: FakeCupy) -> None:
    cupy.host_limit = 10
    assert device.host_memory(100).shape == (100,)
    device.wait()


def test_a_launch_is_on_the_stream_of_the_device(device: CupyDevice, cupy: FakeCupy) -> None:
    code = device.load(b"image")
    code.launch("run_a", 6, 256, 1024, [1 << 40, 5])
    code.launch("run_a", 2, 128, 0, (), together=True)
    assert cupy.done == [
        ("load", b"image"),
        ("run_a", (6,), (256,), (1 << 40, 5), 1024, device.stream.ptr, False),
        ("run_a", (2,), (128,), (), 0, device.stream.ptr, True),
    ]
    assert code.resident_blocks("run_a", 256, 0) == 4 * MACHINE.multiprocessors


def test_much_shared_memory_is_asked_for_first(device: CupyDevice, cupy: FakeCupy) -> None:
    code = device.load(b"image")
    code.launch("run_a", 1, 256, 50_000, ())
    code.launch("run_a", 1, 256, 50_000, ())
    assert [done[0] for done in cupy.done] == ["load", "attribute", "run_a", "run_a"]
    assert cupy.done[1] == ("attribute", 11, 8, 50_000)


def test_what_is_recorded_runs_when_it_is_replayed(device: CupyDevice, cupy: FakeCupy) -> None:
    code = device.load(b"image")
    replay = device.record(lambda: code.launch("run_a", 1, 32, 0, ()))
    assert cupy.done == [("load", b"image")]
    replay()
    replay()
    assert [done[0] for done in cupy.done] == ["load", "run_a", "run_a"]
    assert not cupy.collected_in_capture
    assert gc.isenabled()


def test_an_error_while_recording_ends_the_recording(device: CupyDevice, cupy: FakeCupy) -> None:
    def work() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        device.record(work)
    assert cupy.captured is None
    assert gc.isenabled()


def test_what_cannot_be_recorded_is_begun_anew_each_time(
    device: CupyDevice, cupy: FakeCupy
) -> None:
    code = device.load(b"image")

    def work() -> None:
        code.launch("run_a", 3, 256, 0, [np.int32(1)])

    cupy.fails = DriverProblem("operation not permitted when stream is capturing")
    again = device.record(work)
    assert cupy.captured is None
    again()
    again()
    assert [done[0] for done in cupy.done] == ["load", "run_a", "run_a"]


def test_every_thread_says_which_gpu_it_uses(device: CupyDevice, cupy: FakeCupy) -> None:
    one = threading.Thread(target=device.wait)
    one.start()
    one.join()
    device.wait()
    assert cupy.done == [("synchronize",)] * 2
    assert len(cupy.threads) == 2


def test_a_lack_of_memory_is_a_memory_error_and_no_fault(
    device: CupyDevice, cupy: FakeCupy
) -> None:
    with pytest.raises(MemoryError, match="2097152 bytes"):
        device.allocate(2 << 20)
    device.allocate(100)
    device.wait()


PROBLEMS = [RuntimeProblem("bad address"), DriverProblem("bad address")]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_what_is_refused_once_is_no_fault(
    device: CupyDevice, cupy: FakeCupy, problem: Exception
) -> None:
    cupy.fails = problem
    with pytest.raises(GraphcError, match="the GPU failed: bad address") as caught:
        device.follow(99)
    assert "restart" not in str(caught.value)
    device.wait()


@pytest.mark.parametrize("problem", PROBLEMS)
def test_after_a_fault_everything_is_refused(
    device: CupyDevice, cupy: FakeCupy, problem: Exception
) -> None:
    cupy.fails, cupy.stays = problem, True
    with pytest.raises(GraphcError, match="the GPU failed: bad address") as caught:
        device.wait()
    assert "restart the process" in str(caught.value)
    cupy.fails = None
    with pytest.raises(GraphcError, match="the GPU failed: bad address"):
        device.allocate(10)


def test_the_stream_of_others_is_waited_for(device: CupyDevice, cupy: FakeCupy) -> None:
    device.follow(99)
    assert cupy.done == [("event", 99), ("wait", 5)]


def test_a_new_array_is_written_after_what_its_memory_was_used_for(
    device: CupyDevice, cupy: FakeCupy
) -> None:
    device.new_array((2, 3), np.dtype(np.float32))
    assert cupy.done == [("event", 3), ("wait", 5)]


@pytest.mark.parametrize(
    ("kind", "number", "message"),
    [(2, 0, ""), (3, 0, ""), (0, 0, "no memory of a GPU"), (2, 1, "GPU 1, GPU 0 is used")],
)
def test_memory_of_others_is_looked_at(
    device: CupyDevice, cupy: FakeCupy, kind: int, number: int, message: str
) -> None:
    cupy.attributes.type, cupy.attributes.device = kind, number
    found = device.misfit(256)
    assert message in found if message else not found


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("driver_version", None, "driver was not found"),
        ("device_machine", None, "finds no GPU"),
        ("device_machine", replace(GPUS["sm_80"], capability=70), "80 or more, got 70"),
        ("find_spec", None, "CuPy is not installed"),
        ("driver_version", (12, 4), "too old: it is of CUDA 12.4"),
    ],
)
def test_what_is_missing_is_named(
    cupy: FakeCupy, monkeypatch: pytest.MonkeyPatch, name: str, value: object, message: str
) -> None:
    assert what_is_missing() == ""
    monkeypatch.setattr(cupy_device, name, lambda *_: value)
    assert message in what_is_missing()
