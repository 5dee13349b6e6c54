"""Named phases of a compilation."""

from __future__ import annotations

import pytest

from graphc.support.phases import Phases


def test_phases_stand_in_the_order_in_which_they_came() -> None:
    phases = Phases()
    for name in ("b", "a", "b"):
        with phases.measure(name):
            pass
    assert list(phases.seconds) == ["b", "a"]


def test_a_phase_that_comes_again_is_added() -> None:
    phases = Phases()
    phases.add("codegen", 1.0)
    phases.add("codegen", 0.5)
    assert phases.seconds == {"codegen": 1.5}


def test_a_phase_that_fails_is_counted() -> None:
    phases = Phases()
    with pytest.raises(ValueError, match="no"), phases.measure("x"):
        raise ValueError("no")
    assert phases.seconds["x"] >= 0
