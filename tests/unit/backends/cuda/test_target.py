"""GPUs by name, and as a driver describes them."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest

from graphc.backends.cuda import target
from graphc.backends.cuda.nvrtc import Nvrtc, require_nvrtc
from graphc.backends.cuda.target import device_machine, gpus_named
from graphc.driver.compile import check_machine
from graphc.driver.options import CompileOptions
from graphc.ir.machine import GPUS, MACHINES, AnyMachine, GpuMachine
from graphc.support.diagnostics import GraphcError
from tests.support.cuda.tools import needs_nvrtc

ATTRIBUTES = {75: 8, 76: 9, 16: 142, 97: 101376, 39: 1536, 38: 100663296}
"""Of an L40S, by the driver's numbers."""


class Driver:
    """Answers as a driver with one GPU, or with none."""

    def __init__(self, status: int = 0) -> None:
        self.status = status

    def cuInit(self, flags: int) -> int:
        return self.status

    def cuDeviceGet(self, device: object, number: int) -> int:
        return 0

    def cuDeviceGetAttribute(self, value: Any, number: int, device: ctypes.c_int) -> int:
        value._obj.value = ATTRIBUTES[number]
        return 0


@pytest.fixture(autouse=True)
def _ask_anew() -> None:  # pyright: ignore[reportUnusedFunction]
    device_machine.cache_clear()


def test_names_of_gpus_in_a_list_count_once() -> None:
    assert gpus_named("sm_80") == (GPUS["sm_80"],)
    assert gpus_named("sm_90, sm_80,sm_90") == (GPUS["sm_90"], GPUS["sm_80"])


@pytest.mark.parametrize("name", ["sm_9", "SM_90", "", "sm_80,", "x86-64"])
def test_another_name_is_refused(name: str) -> None:
    with pytest.raises(GraphcError, match=r"a GPU is one of sm_80, .*, native, got"):
        gpus_named(name)


def test_a_near_name_is_suggested() -> None:
    with pytest.raises(GraphcError, match="did you mean `sm_90`"):
        gpus_named("sm_80,sm90")


def test_native_is_the_gpu_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_driver", Driver)
    (machine,) = gpus_named("native")
    assert machine == replace(GPUS["sm_89"], multiprocessors=142, l2=100663296)
    assert machine.arch == "sm_89"


def test_a_gpu_that_has_no_name_is_as_its_driver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_driver", Driver)
    monkeypatch.setitem(ATTRIBUTES, 75, 10)
    assert gpus_named("native") == (GpuMachine(109, 142, 101376, 1536, 100663296),)


def test_a_gpu_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "_driver", Driver)
    monkeypatch.setitem(ATTRIBUTES, 75, 6)
    with pytest.raises(GraphcError, match="too old: a compute capability of 80 or more, got 69"):
        gpus_named("native")


@pytest.mark.parametrize("driver", [None, Driver(100)], ids=["no driver", "no device"])
def test_native_without_a_gpu_is_a_default(
    driver: Driver | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target, "_driver", lambda: driver)
    assert device_machine() is None
    assert gpus_named("native") == (GPUS["sm_90"],)


@needs_nvrtc
def test_every_gpu_with_a_name_is_one_that_nvrtc_knows() -> None:
    nvrtc: Nvrtc = require_nvrtc()
    for name, machine in GPUS.items():
        assert machine.arch == name
        assert machine.capability in nvrtc.architectures
        assert not machine.misfit()


@pytest.mark.parametrize(
    ("backend", "machine", "said"),
    [
        ("llvm", GPUS["sm_90"], "llvm requires the machine of a processor, got a GPU"),
        ("cuda", MACHINES["aarch64"], "cuda requires the machine of a GPU, got a processor"),
    ],
)
def test_code_by_schedules_of_another_kind_of_machine_is_refused(
    backend: str, machine: AnyMachine, said: str
) -> None:
    with pytest.raises(GraphcError, match=said):
        check_machine(CompileOptions(backend=backend, machine=machine))
    check_machine(CompileOptions(backend=backend))
