"""Sums of lookups, and the largest elements of rows."""

from __future__ import annotations

from graphc.backends.cuda.launcher import Launcher
from graphc.ir.core import Operation


def launch_indexed(program: Launcher, op: Operation, texts: tuple[str, ...]) -> None:
    raise NotImplementedError


def launch_selection(program: Launcher, op: Operation) -> None:
    raise NotImplementedError
