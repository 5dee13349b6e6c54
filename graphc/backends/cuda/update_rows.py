"""A learner's rule on the rows that a call looks up."""

from __future__ import annotations

from graphc.backends.cuda.launcher import Launcher
from graphc.ir.core import Operation


def launch_update_rows(program: Launcher, op: Operation) -> None:
    raise NotImplementedError
