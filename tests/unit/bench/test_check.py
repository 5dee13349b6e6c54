"""The comparison before the timing: it accepts rounding, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from bench.check import LOSSES, OUTPUTS, TF32_SLACK, difference
from bench.workloads.record import Values


def expected() -> Values:
    rng = np.random.default_rng(0)
    return {LOSSES: np.array([3.0, 2.0, 1.0]), "W0": rng.normal(size=(4, 5)) * 1e-4}


def test_results_up_to_rounding_are_accepted() -> None:
    found = {n: v * (1 + 1e-6) for n, v in expected().items()}
    assert difference(found, expected()) == ""


@pytest.mark.parametrize(
    ("name", "factor", "said"),
    [(LOSSES, 1.001, "losses is off"), ("W0", 1.1, "W0 is off"), ("W0", np.nan, "W0 is off")],
)
def test_other_losses_or_another_way_of_a_parameter_are_refused(
    name: str, factor: float, said: str
) -> None:
    found = expected()
    found[name] = found[name] * factor
    assert difference(found, expected()).startswith(said)


def test_a_parameter_that_has_not_moved_is_refused() -> None:
    found = expected()
    found["W0"] = np.zeros((4, 5))
    assert "W0 is off by 1 " in difference(found, expected())


def test_with_slack_results_may_be_further_off() -> None:
    found = {n: v * 1.001 for n, v in expected().items()}
    assert difference(found, expected()).startswith(LOSSES)
    assert difference(found, expected(), TF32_SLACK) == ""
    assert difference({n: v * 1.2 for n, v in expected().items()}, expected(), TF32_SLACK)


def test_outputs_of_another_shape_are_refused() -> None:
    found, wanted = {OUTPUTS: np.ones((2, 3))}, {OUTPUTS: np.ones((3, 2))}
    assert difference(found, wanted) == "outputs has shape (2, 3), expected (3, 2)"


def test_missing_results_are_named() -> None:
    assert "expected ['W0', 'losses']" in difference({}, expected())
