"""The time that a run has, and how its parts share it."""

from __future__ import annotations

import time


class Budget:
    """Seconds that are left, counted from when this is made."""

    def __init__(self, seconds: float) -> None:
        self._start = time.monotonic()
        self._seconds = seconds

    @property
    def used(self) -> float:
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        return max(self._seconds - self.used, 0.0)

    def part(self, share: float, most: float) -> Budget:
        """A share of what is left, at most so many seconds."""
        return Budget(min(self.left * share, most))
