"""`gc.comm`: engines that add up what the members of a training have (docs/members.md)."""

from __future__ import annotations

from graphc.backends.cuda.nccl import nccl
from graphc.runtime.communicators.alone import alone
from graphc.runtime.communicators.communicator import Communicator, DeviceCommunicator
from graphc.runtime.communicators.gloo import gloo
from graphc.runtime.communicators.mpi import mpi
from graphc.runtime.communicators.threads import threads

__all__ = [
    "Communicator",
    "DeviceCommunicator",
    "alone",
    "gloo",
    "mpi",
    "nccl",
    "threads",
]
