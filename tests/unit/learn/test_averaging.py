"""Members that train by themselves and average what they have learnt, with and without momentum."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from tests.unit.learn.test_members_training import (
    DENSE,
    LOOP,
    PATIENCE,
    RNG,
    ROWS,
    STEPS,
    TABLE,
    WORDS,
    Training,
    together,
)

Array = np.ndarray
LINEAR = """
    x = Input(5)
    t = Input(3)
    W = Parameter(3, 5)
    e = SquareError(t, Times(W, x), tag=criteria)
"""
X, T = RNG.standard_normal((24, 5)), RNG.standard_normal((24, 3))
TWENTY_FOUR = {"x": X, "t": T}


def trained(training: Training, averaging: object, members: int = 2) -> list[gc.Network]:
    """By members that end with the same bits."""
    options = {**training.options, "averaging": averaging}
    found = together(members, replace(training, options=options).member)
    first, records = found[0]
    for net, its in found:
        assert [r.criterion for r in its] == [r.criterion for r in records]
        for name, value in first.parameters.items():
            assert np.array_equal(net.parameters[name], value)
    return [net for net, _ in found]


def test_an_average_after_every_minibatch_is_that_of_gradients() -> None:
    """At twice the rate, which is for a minibatch of all."""
    options: dict[str, object] = {"minibatch": 4}
    alone, _ = Training(DENSE, TWENTY_FOUR, gc.SGD(0.05), options=options).alone()
    twice = Training(DENSE, TWENTY_FOUR, gc.SGD(0.1), options=options)
    net, _ = trained(twice, gc.ModelAveraging(period=2))
    for name, value in alone.parameters.items():
        np.testing.assert_allclose(net.parameters[name], value, 1e-11, 1e-12)


@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("reset", [False, True])
def test_block_momentum_is_that_of_the_paper(nesterov: bool, reset: bool) -> None:
    """Written apart: W is the model, `start` where blocks begin."""
    rate, momentum, eta, zeta = 0.1, 0.5, 0.4, 0.9
    options: dict[str, object] = {"minibatch": 6, "shuffle": False, "epochs": 3}
    training = Training(LINEAR, TWENTY_FOUR, gc.SGD(rate, momentum), options=options)
    net, _ = trained(training, gc.BlockMomentum(6, eta, zeta, nesterov=nesterov, reset=reset))

    start = np.array(gc.loads(LINEAR).parameters["W"], np.float64)
    model, delta, velocities = start, np.zeros_like(start), [0.0, 0.0]
    mu = momentum ** (3 / 6)  # a member has half of a minibatch
    for block in (slice(0, 12), slice(12, 24)) * 3:
        ends: list[Array] = []
        for member in range(2):
            w, velocity = start, velocities[member]
            for first in (0, 6):
                some = slice(block.start + first + member, block.start + first + 6, 2)
                gradient = (w @ X[some].T - T[some].T) @ X[some]
                velocity = mu * velocity + (1 - mu) * rate / 6 * gradient
                w = w - velocity
            ends.append(w)
            velocities[member] = velocity
        delta = eta * delta + zeta * ((ends[0] + ends[1]) / 2 - start)
        model = model + delta
        start = model + eta * delta if nesterov else model
        velocities = [0.0, 0.0] if reset else [(velocities[0] + velocities[1]) / 2] * 2
    np.testing.assert_allclose(net.parameters["W"], start, 1e-10, 1e-12)


@pytest.mark.parametrize(
    ("text", "data", "backend", "members"),
    [(DENSE, ROWS, "numpy", 4), (TABLE, WORDS, "llvm", 2), (LOOP, STEPS, "numpy", 2)],
)
def test_all_members_end_with_the_same_bits(
    text: str, data: dict[str, object], backend: str, members: int
) -> None:
    """19 samples by 6: of the last minibatch, some of four members have none."""
    options: dict[str, object] = {"minibatch": 5 if text == LOOP else 6}
    learner = gc.Adam(0.01) if text == DENSE else gc.SGD(0.05, 0.9)
    training = Training(text, data, learner, backend=backend, options=options)
    trained(training, gc.BlockMomentum(period=4), members)


def test_a_training_goes_on_between_epochs_with_its_momentum(tmp_path: Path) -> None:
    options: dict[str, object] = {"minibatch": 6, "precision": "f32", "epochs": 4}
    training = Training(DENSE, ROWS, options=options)
    averaging = gc.BlockMomentum(period=4)
    whole, _ = trained(training, averaging)
    options["checkpoints"] = gc.Checkpoints(tmp_path / "here", resume=True)
    options["epochs"] = 2
    trained(training, averaging)
    options["epochs"] = 4
    net, _ = trained(training, averaging)
    for name, value in whole.parameters.items():
        assert np.array_equal(net.parameters[name], value)


def test_averages_reach_what_one_member_does_on_digits() -> None:
    folder = Path(__file__).parents[3] / "examples" / "digits"
    cells = np.loadtxt(folder / "train.txt")
    data = {"features": cells[:, :64], "labels": np.eye(10)[cells[:, 64].astype(int)]}
    options: dict[str, object] = {"precision": "f32", "minibatch": 32, "epochs": 8}
    text = (folder / "digits.ndl").read_text(encoding="utf-8")
    training = Training(text, data, gc.SGD(1.0, 0.9), options=options)
    _, expected = training.alone()
    options["averaging"] = gc.ModelAveraging(64)
    twice = replace(training, learner=gc.SGD(2.0, 0.9))
    (_, records), _ = together(2, twice.member)
    assert records[-1].criterion < 1.1 * expected[-1].criterion < 0.1 * expected[0].criterion


@pytest.mark.parametrize(
    ("averaging", "options", "message"),
    [
        (lambda: gc.ModelAveraging(0), {}, "a period of 1 sample or more, got 0"),
        (lambda: gc.BlockMomentum(momentum=1.0), {}, "a momentum of from 0 to below 1, got 1.0"),
        (lambda: gc.BlockMomentum(), {"comm": None}, "averaging is for members"),
        (lambda: gc.BlockMomentum(), {"comm": gc.comm.alone(4)}, "have no shards"),
        (lambda: gc.BlockMomentum(), {"learner": gc.SteppingHeuristic(1e-3)}, "follows losses"),
        (lambda: 3, {}, "averaging requires a gc.BlockMomentum or gc.ModelAveraging, got"),
    ],
)
def test_what_cannot_be_averaged_is_refused(
    averaging: object, options: dict[str, object], message: str
) -> None:
    member, _ = gc.comm.threads(2, PATIENCE)
    given = {"comm": member, "learner": gc.SGD(0.1), **options}
    with pytest.raises(gc.GraphcError, match=message):
        gc.train(gc.loads(DENSE), ROWS, averaging=averaging(), **given)  # type: ignore[operator,arg-type]
