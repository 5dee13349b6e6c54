"""Members with GPUs by NCCL, with stand-ins for CuPy and its communicator."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import graphc as gc
from graphc.backends.cuda import nccl
from graphc.backends.cuda.nccl import NcclMember
from graphc.runtime.communicators.communicator import Communicator, DeviceCommunicator
from graphc.runtime.device_arrays import DeviceArray
from graphc.support.diagnostics import BackendUnavailable, GraphcError

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


class Group:
    """Of two members of which the other one has the same."""

    def __init__(self) -> None:
        self.streams: list[object] = []
        self.fails: Exception | None = None

    def all_reduce(self, given: np.ndarray, made: np.ndarray, stream: object = None) -> None:
        if self.fails is not None:
            raise self.fails
        self.streams.append(stream)
        np.add(given, given, out=made)


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def met(monkeypatch: pytest.MonkeyPatch, group: Group) -> list[tuple[object, ...]]:
    """With whom processes met."""
    found: list[tuple[object, ...]] = []

    def meet(size: int, rank: int, *, host: str, port: int) -> Group:
        found.append((size, rank, host, port))
        if group.fails is not None:
            raise group.fails
        return group

    cuda = SimpleNamespace(
        ExternalStream=lambda handle: ("stream", handle), nccl=SimpleNamespace(available=True)
    )
    cupy = SimpleNamespace(asarray=np.array, asnumpy=lambda array: array, cuda=cuda)
    distributed = SimpleNamespace(init_process_group=meet)
    modules = {"cupy": cupy, "cupyx.distributed": distributed}
    monkeypatch.setattr(nccl, "import_module", modules.__getitem__)
    monkeypatch.setattr(nccl, "first_device", lambda: None)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return found


def test_a_member_is_what_the_environment_says(
    met: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in zip(VARIABLES, ("1", "4", "10.0.0.7", "29500"), strict=True):
        monkeypatch.setenv(name, value)
    member = gc.comm.nccl()
    assert isinstance(member, Communicator)
    assert isinstance(member, DeviceCommunicator)
    assert (member.rank, member.size) == (1, 4)
    gc.comm.nccl(0, 2, port=5)
    assert met == [(4, 1, "10.0.0.7", 29500), (2, 0, "10.0.0.7", 5)]


def test_without_a_place_members_meet_on_this_machine(met: list[tuple[object, ...]]) -> None:
    gc.comm.nccl(0, 1)
    assert met == [(1, 0, "127.0.0.1", 13333)]


def test_arrays_are_added_here_and_there(met: list[tuple[object, ...]], group: Group) -> None:
    member = NcclMember(0, 2, group)
    counts, there = np.array([3, 4]), np.array([1.5, -2.0])
    member.all_reduce(counts)
    member.all_reduce_there(DeviceArray(1 << 20, (2,), there.dtype, None, there), 99)
    assert counts.tolist() == [6, 8]
    assert there.tolist() == [3.0, -4.0]
    assert group.streams == [None, ("stream", 99)]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ((2, 2), "from 0 to size - 1, got rank 2 of size 2"),
        ((-1, 2), "got rank -1 of size 2"),
        ((0, 0), "got rank 0 of size 0"),
        ((None, 2), "rank is a number, or RANK says one, got None"),
    ],
)
def test_ranks_that_cannot_be_are_refused(
    met: list[tuple[object, ...]], given: tuple[int | None, int], message: str
) -> None:
    with pytest.raises(GraphcError, match=message):
        gc.comm.nccl(*given)
    assert met == []


def test_a_variable_that_is_no_number_is_shown(
    met: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_PORT", "http")
    with pytest.raises(GraphcError, match="port is a number, or MASTER_PORT says one, got 'http'"):
        gc.comm.nccl(0, 1)


@pytest.mark.parametrize("problem", [RuntimeError("unhandled"), ConnectionRefusedError("nobody")])
def test_what_goes_wrong_between_members_is_reported(
    met: list[tuple[object, ...]], group: Group, problem: Exception
) -> None:
    group.fails = problem
    with pytest.raises(GraphcError, match="cannot add their arrays"):
        gc.comm.nccl(0, 1)
    with pytest.raises(GraphcError, match="cannot add their arrays"):
        NcclMember(0, 2, group).all_reduce(np.array([1]))


def test_nccl_that_is_missing_is_named(
    met: list[tuple[object, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    nccl.import_module("cupy").cuda.nccl.available = False
    with pytest.raises(BackendUnavailable, match="need NVIDIA's library NCCL: pip install"):
        gc.comm.nccl(0, 1)


def test_cupy_has_what_is_used_of_it() -> None:
    distributed = pytest.importorskip("cupyx.distributed", reason="CuPy is not installed")
    assert callable(distributed.init_process_group)
    assert callable(distributed.NCCLBackend.all_reduce)
