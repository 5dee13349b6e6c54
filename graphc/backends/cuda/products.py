"""Matrix products, plain and with a body."""

from __future__ import annotations

from graphc.backends.cuda.launcher import Launcher
from graphc.ir.core import Operation


def launch_product(program: Launcher, op: Operation) -> None:
    raise NotImplementedError


def launch_fused(program: Launcher, op: Operation) -> None:
    raise NotImplementedError
