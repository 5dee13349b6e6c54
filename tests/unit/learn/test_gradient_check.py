"""`gc.check_training_gradient`: right gradients pass in all that training does, wrong ones fail."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from graphc.learn.gradient_check import ParameterSlope
from graphc.ops import functions
from tests.support.networks import classes, classifier

RANDOM = """
    x = Input(4)
    y = Input(2)
    W = Parameter(5, 4)
    V = Parameter(2, 5)
    d = Dropout(Tanh(Times(W, x)))
    e = SquareError(y, Times(V, d), tag=criteria)
"""
NORMALISED = """
    x = Input(4)
    y = Input(3)
    W = Parameter(3, 4)
    s = Parameter(3, 1, init=fixedValue, value=1)
    b = Parameter(3, 1, init=fixedValue, value=0)
    m = Parameter(3, 1, init=fixedValue, value=0, needGradient=false)
    v = Parameter(3, 1, init=fixedValue, value=1, needGradient=false)
    n = BatchNormalization(Times(W, x), s, b, m, v)
    e = SquareError(y, n, tag=criteria)
"""
RECURRENT = """
    x = Input(2)
    y = Input(1)
    W = Parameter(3, 2)
    R = Parameter(3, 3)
    V = Parameter(1, 3)
    h = Tanh(Plus(Times(W, x), Times(R, PastValue(3, 1, h))))
    e = SquareError(y, Times(V, h), tag=criteria)
"""
KINK = """
    x = Input(1)
    W = Parameter(1, 1, init=fixedValue, value=0)
    e = SumElements(RectifiedLinear(Times(W, x)), tag=criteria)
"""


def numbers(rows: int, samples: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((samples, rows))


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
def test_a_network_passes_and_stays_as_it_is(backend: str) -> None:
    net = classifier()
    before = {n: v.copy() for n, v in net.parameters.items()}
    report = gc.check_training_gradient(net, classes(6), elements=5, backend=backend)
    assert report.passed
    assert report.criterion == "ce"
    counts = {n: sum(s.parameter == n for s in report.slopes) for n in before}
    assert counts == {n: min(5, v.size) for n, v in before.items()}
    for name, value in net.parameters.items():
        assert value.dtype == before[name].dtype
        assert value.tobytes() == before[name].tobytes()


def test_the_computed_slopes_are_those_of_a_compiled_gradient() -> None:
    net = gc.loads(RANDOM)
    data = {"x": numbers(4), "y": numbers(2, seed=1)}
    report = gc.check_training_gradient(net, data)
    exe = gc.compile(net, ["e"], gradients=["W", "V"], backend="reference", precision="f64")
    found = exe(**data)
    assert len(report.slopes) == 30
    for slope in report.slopes:
        wanted = found[f"gradient.{slope.parameter}"][slope.index]
        assert slope.computed == pytest.approx(wanted, rel=1e-10, abs=1e-12)


def test_what_is_random_in_training_is_the_same_in_each_call() -> None:
    data = {"x": numbers(4), "y": numbers(2, seed=1)}
    plain = gc.check_training_gradient(gc.loads(RANDOM), data)
    report = gc.check_training_gradient(gc.loads(RANDOM), data, dropout=0.5, seed=3)
    assert report.passed
    assert [s.computed for s in report.slopes] != [s.computed for s in plain.slopes]


def test_normalisation_by_the_minibatch_is_checked_as_it_is_trained() -> None:
    data = {"x": numbers(4), "y": numbers(3, seed=1)}
    report = gc.check_training_gradient(gc.loads(NORMALISED), data)
    assert {s.parameter for s in report.slopes} == {"W", "s", "b"}


def test_sequences_are_checked() -> None:
    lists = [numbers(2, n, n) for n in (3, 1, 5)]
    data = {"x": lists, "y": [a[:, :1] for a in lists]}
    assert gc.check_training_gradient(gc.loads(RECURRENT), data).passed


def test_a_gradient_that_is_wrong_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(b: object, op: object, dy: object) -> list[object]:
        return [dy]

    monkeypatch.setenv("GRAPHC_CACHE", "off")
    monkeypatch.setitem(vars_of(functions.TANH), "vjp", wrong)
    data = {"x": numbers(4), "y": numbers(2, seed=1)}
    with pytest.raises(gc.GraphcError, match=r"worst is element .* of `W`") as raised:
        gc.check_training_gradient(gc.loads(RANDOM), data)
    assert [d.slug for d in raised.value.diagnostics] == ["not-differentiable"]


def vars_of(record: object) -> dict[str, object]:
    """The fields of a frozen record, to be changed in a test."""
    return record.__dict__


def test_a_kink_is_found() -> None:
    with pytest.raises(gc.GraphcError, match=r"0\.5 by differences"):
        gc.check_training_gradient(gc.loads(KINK), {"x": np.ones((1, 1))})


@pytest.mark.parametrize(
    ("computed", "difference", "passes"),
    [
        (0.5, 0.5 + 9e-7, True),
        (0.5, 0.5 + 2e-6, False),
        (50.0, 50.0 + 9e-5, True),  # two digits above the point: 100 times as far
        (50.0, 50.0 + 2e-4, False),
        (0.0, 9e-7, True),
        (-5.0, -5.0 + 9e-6, True),
        (float("nan"), 1.0, False),
    ],
)
def test_so_many_digits_have_to_agree(computed: float, difference: float, passes: bool) -> None:
    assert (ParameterSlope("W", (0,), computed, difference).excess(6) <= 1) is passes


@pytest.mark.parametrize("given", [{"digits": 0}, {"elements": 0}, {"digits": 1.5}])
def test_what_makes_no_sense_is_refused(given: dict[str, object]) -> None:
    with pytest.raises(gc.GraphcError, match=r"requires a whole number"):
        gc.check_training_gradient(classifier(), classes(4), **given)  # type: ignore[arg-type]
