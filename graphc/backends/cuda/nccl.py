"""Members of a training that have a GPU each: NCCL adds their arrays where they lie.

CuPy's `cupyx.distributed` meets the other processes and calls NCCL.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from graphc.backends.cuda.cupy_device import first_device
from graphc.runtime.communicators.communicator import Communicator
from graphc.runtime.communicators.rendezvous import rendezvous
from graphc.runtime.device_arrays import DeviceArray
from graphc.support.diagnostics import BackendUnavailable, Severity, fail, make

Array = np.ndarray

PORT = 13333
PACKAGE = "pip install 'nvidia-nccl-cu13' (of drivers below 580 'nvidia-nccl-cu12') brings it"


@dataclass(frozen=True)
class NcclMember:
    """A process with a GPU. `group` is CuPy's."""

    rank: int
    size: int
    group: Any

    def all_reduce(self, array: Array) -> None:
        """See `Communicator`: by way of the GPU."""
        cupy = import_module("cupy")
        with _reported():
            there = cupy.asarray(array)
            self.group.all_reduce(there, there)
            array[...] = cupy.asnumpy(there)

    def all_reduce_there(self, array: DeviceArray, stream: int) -> None:
        """See `DeviceCommunicator`."""
        external = import_module("cupy").cuda.ExternalStream(stream)
        with _reported():
            self.group.all_reduce(array.owner, array.owner, stream=external)


def nccl(
    rank: int | None = None,
    size: int | None = None,
    *,
    host: str | None = None,
    port: int | None = None,
) -> Communicator:
    """This process as one of `size` members who train together, for
    `gc.compile_training(…, backend="cuda", comm=)`.

    Each member is a process that sees a GPU of its own (CUDA_VISIBLE_DEVICES); it uses the first
    one that it sees. It waits here until all members have come: the one of rank 0 is found at
    `host` and `port`.

    rank, size  by default what RANK and WORLD_SIZE say
    host, port  by default what MASTER_ADDR and MASTER_PORT say, else 127.0.0.1 and 13333

    Raises GraphcError `bad-value` for a rank or size that cannot be, `backend` without a GPU or
    NCCL, `training` where members do not find each other.
    """
    met = rendezvous(rank, size, host, port, PORT)
    first_device()
    distributed = import_module("cupyx.distributed")
    if not import_module("cupy").cuda.nccl.available:
        message = f"members with GPUs need NVIDIA's library NCCL: {PACKAGE}"
        raise BackendUnavailable([make(Severity.ERROR, "backend", message, None, "", ())])
    with _reported():
        group = distributed.init_process_group(met.size, met.rank, host=met.host, port=met.port)
        return NcclMember(met.rank, met.size, group)


@contextmanager
def _reported() -> Generator[None]:
    """NCCL's errors, CUDA's and those of sockets as ours."""
    try:
        yield
    except (RuntimeError, OSError) as problem:
        raise fail("training", f"the members cannot add their arrays: {problem}") from problem
