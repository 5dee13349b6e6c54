"""What tests of calls share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from graphc.runtime.executable import Executable


@pytest.fixture
def thorough(monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """How many calls went the long way since it was asked before."""
    count = 0
    run = Executable._run_thoroughly

    def counted(self: Executable, inputs: object, hyperparameters: object) -> object:
        nonlocal count
        count += 1
        return run(self, inputs, hyperparameters)  # type: ignore[arg-type]

    monkeypatch.setattr(Executable, "_run_thoroughly", counted)

    def taken() -> int:
        nonlocal count
        before, count = count, 0
        return before

    return taken
