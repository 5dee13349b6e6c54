"""Loop nests as kernels: maps, reductions of rows and of columns."""

from __future__ import annotations

from graphc.backends.cuda.launcher import Launcher
from graphc.ir.core import Operation


def launch_kernel(program: Launcher, op: Operation) -> None:
    raise NotImplementedError
