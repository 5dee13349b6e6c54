"""Convolutions, poolings and their gradients."""

from __future__ import annotations

from graphc.backends.cuda.launcher import Launcher
from graphc.ir.codegen import Folding
from graphc.ir.core import Operation


def launch_convolution(program: Launcher, op: Operation) -> None:
    raise NotImplementedError


def launch_pooling(program: Launcher, op: Operation, folding: Folding) -> None:
    raise NotImplementedError
