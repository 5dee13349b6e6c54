"""Rearrangements as kernels."""

from __future__ import annotations

from graphc.backends.cuda.launcher import Launcher
from graphc.ir.codegen import StridedCopy
from graphc.ir.core import Operation


def launch_move(program: Launcher, op: Operation, how: StridedCopy) -> None:
    raise NotImplementedError
