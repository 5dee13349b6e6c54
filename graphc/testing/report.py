"""What the judges of this package hand back: comparisons, and a table of them for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One comparison: of what, where, and its largest error over what is allowed."""

    what: str
    backend: str
    precision: str
    excess: float

    @property
    def passed(self) -> bool:
        return self.excess <= 1

    def __str__(self) -> str:
        outcome = "passed" if self.passed else "FAILED"
        return (
            f"{self.what:<24} {self.backend:<10} {self.precision}  {outcome}, "
            f"{self.excess:.2g} of what is allowed"
        )


@dataclass(frozen=True)
class Report:
    """All comparisons of a judge, and why backends cannot be used here, by their names. `str` of it
    is a table."""

    title: str
    checks: tuple[Check, ...]
    left_out: Mapping[str, str]

    @property
    def passed(self) -> bool:
        """Whether there were comparisons, and none of them failed."""
        return bool(self.checks) and all(check.passed for check in self.checks)

    def __str__(self) -> str:
        missing = [f"{name}: not available here: {why}" for name, why in self.left_out.items()]
        return "\n".join([self.title, *map(str, self.checks), *missing])
