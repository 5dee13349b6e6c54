"""A judge that crashes at seed 2 and discards seed 3."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence


def judge(seed: int, _backends: Sequence[str]) -> str | None:
    if seed == 2:
        ctypes.memset(0, 0, 1)
    return None if seed == 3 else ""
