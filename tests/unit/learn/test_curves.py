"""Rates along curves: their values, how they are put together, and where they are asked for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest

import graphc as gc
from graphc.learn.curves import Curve
from tests.support.networks import classes, classifier


def rates(curve: Curve, count: int) -> list[float]:
    return [curve.at_update(u) for u in range(count)]


def test_a_cosine_falls_from_its_start_to_its_end_and_stays() -> None:
    found = rates(gc.Cosine(1.0, 4, 0.2), 7)
    wanted = [0.2 + 0.8 * (1 + math.cos(math.pi * u / 4)) / 2 for u in range(5)]
    assert found == pytest.approx([*wanted, 0.2, 0.2])
    assert found[4] == 0.2


def test_steps_decay_after_every_so_many_updates() -> None:
    assert rates(gc.StepDecay(0.8, 3, 0.5), 8) == pytest.approx([0.8] * 3 + [0.4] * 3 + [0.2] * 2)


def test_a_warm_up_ends_at_the_first_rate_of_what_follows() -> None:
    assert rates(gc.Warmup(4, 0.8), 6) == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 0.8])
    assert rates(gc.Warmup(2, 0.8, start=0.4), 3) == pytest.approx([0.4, 0.6, 0.8])


def test_curves_are_put_together() -> None:
    cosine = gc.Cosine(0.5, 10, 0.1)
    curve = gc.Warmup(3, gc.Warmup(2, cosine, start=0.25))
    assert rates(curve, 18)[5:] == rates(cosine, 13)
    assert rates(curve, 5) == pytest.approx([0, 0.25 / 3, 0.5 / 3, 0.25, 0.375])


@dataclass(frozen=True)
class Bumpy:
    """A curve of one's own."""

    heights: tuple[float, ...]

    def at_update(self, update: int) -> float:
        return self.heights[update % len(self.heights)]


@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_each_update_has_the_rate_of_its_curve(backend: str) -> None:
    """Over epochs, whose last minibatch is shorter: the rate is still divided by the whole one."""
    heights = tuple(np.random.default_rng(0).random(5).tolist())
    one, other = classifier(), classifier()
    data = {n: a.astype(np.float32) for n, a in classes(37).items()}
    gc.train(
        one,
        data,
        epochs=3,
        minibatch=8,
        learner=gc.SGD(Bumpy(heights), 0.5),
        shuffle=False,
        backend=backend,
    )
    step = gc.compile_training(other, learner=gc.SGD(0.1, 0.5), batch=8, backend=backend)
    for update in range(15):
        step.learner = gc.SGD(heights[update % 5], 0.5)
        part = slice(update % 5 * 8, update % 5 * 8 + 8)
        step(**{n: a[part] for n, a in data.items()})
    for name, value in one.parameters.items():
        assert value.tobytes() == other.parameters[name].tobytes()


def test_a_record_has_the_rate_of_a_curve() -> None:
    learner = gc.SGD(gc.StepDecay(0.8, 4, 0.5))
    assert learner.rate_per_sample(8, 3) == 0.1
    assert learner.rate_per_sample(8, 4) == 0.05
    assert learner.at(7) == learner
    assert learner.with_rate_per_sample(0.3).rate_per_sample(8, 100) == 0.3


@pytest.mark.parametrize("height", [-0.1, math.nan, math.inf, "much"])
def test_a_curve_that_is_no_rate_is_one_error(height: object) -> None:
    step = gc.compile_training(
        classifier(),
        learner=gc.SGD(Bumpy((0.1, height))),  # type: ignore[arg-type]
        backend="numpy",
    )
    step(**classes(4))
    with pytest.raises(gc.GraphcError, match=r"a curve requires rates .* in update 1"):
        step(**classes(4))
