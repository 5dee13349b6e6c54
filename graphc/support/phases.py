"""Where the time of a compilation goes: named phases, measured one after the other."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field


@dataclass(slots=True)
class Phases:
    """The seconds of each phase, in order of first occurrence; repeated phases add up.

    Phases do not lie inside each other, so their sum is the time that is accounted for.
    """

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, name: str) -> Generator[None]:
        """Counts the time of the body for the phase `name`, also when it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add(name, time.perf_counter() - start)

    def add(self, name: str, seconds: float) -> None:
        """Counts time that was measured elsewhere."""
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds
