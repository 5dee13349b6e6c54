"""Values and gradients where a step in between is 0 times infinity, lost or beyond the type.

The judges are numpy's extended type, whose range and digits exceed those of f64.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest

import graphc as gc

Array = np.ndarray
Precision = Literal["f32", "f64"]
BACKENDS = ("reference", "numpy", "llvm")
DTYPES: dict[Precision, type[np.floating[Any]]] = {"f32": np.float32, "f64": np.float64}
TOLERANCES: dict[Precision, float] = {"f32": 2e-6, "f64": 1e-14}

every_way = pytest.mark.parametrize(
    ("backend", "precision"), [(b, p) for b in BACKENDS for p in DTYPES]
)


def wide(x: object) -> Array:
    return np.asarray(x, np.longdouble)


# --- a label of 0 for what is impossible ---------------------------------------------------------

ENTROPY = "y = Input(3)\nz = Input(3)\nv = CrossEntropyWithSoftmax(y, z)"


def entropy(backend: str, precision: Precision, label: object, score: object) -> dict[str, Array]:
    exe = gc.compile(
        gc.loads(ENTROPY), ["v"], gradients=["y", "z"], backend=backend, precision=precision
    )
    return dict(exe(y=np.array([label], float), z=np.array([score], float)))


@every_way
def test_a_score_of_minus_infinity_without_a_label_is_as_if_it_were_not_there(
    backend: str, precision: Precision
) -> None:
    found = entropy(backend, precision, [0.25, 0, 0.75], [1, -np.inf, 2])
    p = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()
    assert found["v"] == pytest.approx(-0.25 * np.log(p[0]) - 0.75 * np.log(p[1]), rel=1e-6)
    gradient = [p[0] - 0.25, 0, p[1] - 0.75]
    np.testing.assert_allclose(found["gradient.z"][0], gradient, rtol=1e-5)
    of_label = found["gradient.y"][0]
    np.testing.assert_allclose(of_label[[0, 2]], -np.log(p), rtol=1e-5)
    assert of_label[1] == np.finfo(DTYPES[precision]).max


@every_way
def test_scores_further_apart_than_the_type_reaches_are_no_nan(
    backend: str, precision: Precision
) -> None:
    most = float(np.finfo(DTYPES[precision]).max)
    found = entropy(backend, precision, [0, 0, 1], [-most, 0, most])
    assert found["v"] == 0
    assert not found["gradient.z"].any()


@every_way
def test_a_label_for_what_is_impossible_costs_infinity(backend: str, precision: Precision) -> None:
    found = entropy(backend, precision, [1, 0, 0], [-np.inf, 1, 1])
    assert found["v"] == np.inf
    np.testing.assert_allclose(found["gradient.z"][0], [-1, 0.5, 0.5], rtol=1e-6)


@every_way
def test_nan_is_not_hidden_by_a_label_of_zero(backend: str, precision: Precision) -> None:
    assert np.isnan(entropy(backend, precision, [0, 0, 0], [np.nan, 1, 2])["v"])


# --- lengths -------------------------------------------------------------------------------------

ROWS = 13  # no multiple of a vector's width
SCALES: dict[Precision, list[int]] = {
    "f32": [-145, -126, -100, -64, -41, -40, -39, 0, 39, 40, 41, 63, 64, 100, 124],
    "f64": [-1070, -1022, -600, -301, -299, 0, 299, 301, 511, 512, 600, 1020],
}
"""Powers of two next to where the compiled function changes over, and at the ends of the type."""


def columns(precision: Precision, seed: int) -> Array:
    """Six columns of numbers that are 0 or from 1 to 2, with as few digits as denormals have."""
    generator = np.random.default_rng(seed)
    numbers = 1 + generator.integers(0, 8, (6, ROWS)) / 8
    numbers *= generator.choice([-1, 0, 1, 1], (6, ROWS))
    numbers[:, 0] = 1.5
    return numbers.astype(DTYPES[precision])


def cosines(x: Array, y: Array) -> tuple[Array, Array]:
    """Of rows, and their gradient by x."""
    u, v = (wide(a) / np.sqrt((wide(a) ** 2).sum(axis=1, keepdims=True)) for a in (x, y))
    value = (u * v).sum(axis=1, keepdims=True)
    length = np.sqrt((wide(x) ** 2).sum(axis=1, keepdims=True))
    return value, (v - value * u) / length


def agrees(found: Array, wanted: Array, precision: Precision) -> None:
    """Up to rounding, and to what is lost or infinite in the type that the result has."""
    info = np.finfo(DTYPES[precision])
    with np.errstate(over="ignore"):
        beyond = np.abs(wanted) > info.max * (1 - 1e-6)
    np.testing.assert_array_equal(np.isinf(found[beyond]), True)
    scale = np.abs(wanted).max(axis=-1, keepdims=True)
    error = np.abs(wide(found) - wanted)
    allowed = TOLERANCES[precision] * scale + wide(4) * info.smallest_subnormal
    assert (error <= np.broadcast_to(allowed, error.shape))[~beyond].all()


@every_way
def test_cosines_do_not_depend_on_the_size_of_the_numbers(
    backend: str, precision: Precision
) -> None:
    net = gc.loads(f"""
        a = Input({ROWS})
        b = Input({ROWS})
        d = CosDistance(a, b)
        n = CosDistanceWithNegativeSamples(a, b, 1, 2)
        v = SumElements(d)
    """)
    exe = gc.compile(
        net, ["v", "d", "n"], gradients=["a", "b"], backend=backend, precision=precision
    )
    x, y = columns(precision, 1), columns(precision, 2)
    ordinary = exe(a=x, b=y)
    for i in SCALES[precision]:
        for j in (0, i, SCALES[precision][0], SCALES[precision][-1]):
            a, b = np.ldexp(x, i), np.ldexp(y, j)
            found = exe(a=a, b=b)
            # Powers of two change no digit, of what has few of them.
            np.testing.assert_array_equal(found["d"], ordinary["d"], err_msg=f"{i}, {j}")
            np.testing.assert_array_equal(found["n"], ordinary["n"], err_msg=f"{i}, {j}")
            value, by_x = cosines(a, b)
            agrees(found["d"], value, precision)
            agrees(found["gradient.a"], by_x, precision)
            agrees(found["gradient.b"], cosines(b, a)[1], precision)


@every_way
def test_the_norm_of_a_parameter_is_right_for_any_size(backend: str, precision: Precision) -> None:
    net = gc.loads(f"W = Parameter(6, {ROWS})\nv = MatrixL2Reg(W)")
    numbers = columns(precision, 3)
    for i in SCALES[precision]:
        given = np.ldexp(numbers, i)
        net.parameters["W"] = given
        exe = gc.compile(net, ["v"], gradients=["W"], backend=backend, precision=precision)
        found = exe()
        length = np.sqrt((wide(given) ** 2).sum())
        agrees(np.reshape(found["v"], 1), np.reshape(length, 1), precision)
        plain_is_finite = length**2 < np.finfo(given.dtype).max
        wanted = wide(given) / length if plain_is_finite else np.zeros((6, ROWS))
        if length > np.finfo(given.dtype).tiny:
            agrees(found["gradient.W"], wide(wanted), precision)


@every_way
def test_infinity_and_nan_are_not_hidden_in_lengths(backend: str, precision: Precision) -> None:
    net = gc.loads("a = Input(2)\nb = Input(2)\nd = CosDistance(a, b)")
    exe = gc.compile(net, ["d"], backend=backend, precision=precision)
    a = np.array([[np.nan, 1], [1, 0], [np.inf, 1], [0, 0]])
    b = np.array([[1, 1], [np.nan, 1], [1, 1], [np.nan, 1]])
    assert np.isnan(exe(a=a, b=b)["d"]).all()
    for number in (np.nan, np.inf):
        net = gc.loads("W = Parameter(2)\nv = MatrixL2Reg(W)")
        net.parameters["W"] = [[number], [1]]
        found = gc.compile(net, ["v"], backend=backend, precision=precision)()["v"]
        np.testing.assert_equal(float(found), number)


# --- mixtures ------------------------------------------------------------------------------------


@every_way
@pytest.mark.parametrize("scale", [-80, -66, 0, 66, 80])
def test_a_mixture_is_judged_in_deviations_whatever_the_size(
    scale: int, backend: str, precision: Precision
) -> None:
    """Numbers, means and deviations times s: 1 / s of the density, 1 / s of slopes by numbers."""
    net = gc.loads("p = Input(2)\nm = Input(4)\nl = Input(2)\nx = Input(2)\n"
                   "v = GMMLogLikelihood(p, m, l, x)")  # fmt: skip
    exe = gc.compile(
        net, ["v"], gradients=["p", "m", "l", "x"], backend=backend, precision=precision
    )

    def run(power: int) -> dict[str, Array]:
        logarithm = np.full((1, 2), power * np.log(2))
        given = {"m": np.array([[0, 0.5, 1, 2]]), "x": np.array([[1, 1.5]])}
        scaled = {name: np.ldexp(a, power) for name, a in given.items()}
        return dict(exe(p=np.array([[0, 1.0]]), l=logarithm, **scaled))

    ordinary, found = run(0), run(scale)
    moved = ordinary["v"] - 2 * scale * np.log(2)
    np.testing.assert_allclose(found["v"], moved, rtol=1e-6)
    for name, power in (("p", 0), ("l", 0), ("m", scale), ("x", scale)):
        wanted = np.ldexp(ordinary[f"gradient.{name}"], -power)
        tolerance = 2e-5 * np.abs(wanted).max()
        np.testing.assert_allclose(found[f"gradient.{name}"], wanted, rtol=0, atol=tolerance)


@every_way
def test_a_component_that_has_collapsed_on_its_point_is_no_nan(
    backend: str, precision: Precision
) -> None:
    net = gc.loads("p = Input(1)\nm = Input(2)\nl = Input(1)\nx = Input(2)\n"
                   "v = GMMLogLikelihood(p, m, l, x)")  # fmt: skip
    exe = gc.compile(net, ["v"], gradients=["l", "m"], backend=backend, precision=precision)
    x = np.array([[1.0, 2.0]])
    found = exe(p=np.zeros((1, 1)), m=x, l=np.full((1, 1), -1000.0), x=x)
    assert found["v"] == pytest.approx(2000 - np.log(2 * np.pi), rel=1e-6)
    assert found["gradient.l"] == -2
    assert not found["gradient.m"].any()


# --- chains in which some steps never happen -----------------------------------------------------


@every_way
@pytest.mark.parametrize("time", [0, 8])
@pytest.mark.parametrize("forbidden", [[(0, 1)], [(0, 1), (1, 1), (2, 1)], [(2, 0), (1, 2)]])
def test_a_chain_takes_no_forbidden_step(
    forbidden: list[tuple[int, int]], time: int, backend: str, precision: Precision
) -> None:
    labels, steps = 3, 4
    taken = [0, 2, 2, 2]
    generator = np.random.default_rng(0)
    score = generator.standard_normal((steps, labels))
    score[2, 1] = -np.inf
    transition = generator.standard_normal((labels, labels))
    transition[tuple(np.transpose(forbidden))] = -np.inf
    wanted, by_score, by_transition = by_all_paths(taken, score, transition)
    net = gc.loads("l = Input(3)\ns = Input(3)\nT = Parameter(3, 3)\nv = CRF(l, s, T)")
    net.parameters["T"] = transition
    exe = gc.compile(
        net, ["v"], gradients=["s", "T"], backend=backend, precision=precision, time=time
    )
    found = exe(l=np.eye(labels)[taken], s=score)
    assert found["v"] == pytest.approx(wanted, rel=1e-5)
    of_score = np.reshape(found["gradient.s"], (steps, labels))
    np.testing.assert_allclose(of_score, by_score, atol=1e-5)
    np.testing.assert_allclose(found["gradient.T"], by_transition, atol=1e-5)


def by_all_paths(taken: list[int], score: Array, transition: Array) -> tuple[float, Array, Array]:
    """The criterion and its gradients, path by path."""
    steps, labels = score.shape
    paths = list(itertools.product(range(labels), repeat=steps))

    def total(path: Sequence[int]) -> float:
        moves = sum(transition[i, j] for i, j in itertools.pairwise(path))
        return sum(score[t, i] for t, i in enumerate(path)) + moves

    totals = np.array([total(path) for path in paths])
    every = np.logaddexp.reduce(totals)
    by_score, by_transition = np.zeros_like(score), np.zeros_like(transition)
    weights = [*np.exp(totals - every), -1.0]
    for path, weight in zip([*paths, tuple(taken)], weights, strict=True):
        for t, i in enumerate(path):
            by_score[t, i] += weight
        for i, j in itertools.pairwise(path):
            by_transition[i, j] += weight
    return every - total(taken), by_score, by_transition


# --- gaps between sequences ----------------------------------------------------------------------

# exp(100 - x) is infinite in f32 where x is 0, as it is in a gap.
EXPONENTIAL = """
    x = Input(1)
    W = Parameter(1, 1, init=fixedValue, value=-1)
    b = Parameter(1, 1, init=fixedValue, value=100)
    Q = Parameter(1, 1, init=fixedValue, value=0.5)
    z = Plus(Times(W, x), b)
    h = Exp(z)
    v = SumElements(Times(Q, h))
"""
IN_A_CYCLE = EXPONENTIAL.replace(
    "z = Plus(Times(W, x), b)",
    "past = PastValue(1, g)\ng = Tanh(h)\nz = Plus(Plus(Times(W, x), b), past)",
)
# The root of a negative number in a gap.
ROOT = (
    EXPONENTIAL.replace("Exp(z)", "Sqrt(z)")
    .replace("value=-1", "value=1")
    .replace("value=100", "value=-99")
)
# The deviation is exp(x - 150): its square has no inverse in f32 where x is 0.
MIXTURE = """
    x = Input(1)
    W = Parameter(2, 1, init=fixedValue, value=1)
    b = Parameter(2, 1, init=fixedValue, value=-150)
    Q = Parameter(2, 1, init=fixedValue, value=149)
    none = Times(Constant(0, rows=2), x)
    deviation = Plus(Times(W, x), b)
    mean = Plus(Q, none)
    g = GMMLogLikelihood(none, mean, deviation, x)
    v = SumElements(g)
"""


@every_way
@pytest.mark.parametrize("text", [EXPONENTIAL, IN_A_CYCLE, ROOT, MIXTURE])
def test_what_overflows_in_a_gap_reaches_no_gradient(
    text: str, backend: str, precision: Precision
) -> None:
    middle = 150.0 if text is MIXTURE else 100.0
    sequences = [middle + np.arange(n).reshape(n, 1) / 4 for n in (3, 5, 1)]
    names = ["W", "b", "Q"]

    def run(given: object, side_by_side: int) -> dict[str, Array]:
        exe = gc.compile(
            gc.loads(text),
            ["v"],
            gradients=names,
            backend=backend,
            precision=precision,
            time=8,
            sequences=side_by_side,
        )
        return dict(exe(x=given))

    together = run(sequences, 3)
    alone = [run([one], 1) for one in sequences]
    for name in ("v", *(f"gradient.{n}" for n in names)):
        wanted = sum(np.asarray(found[name], float) for found in alone)
        assert np.isfinite(wanted).all()
        np.testing.assert_allclose(together[name], wanted, rtol=1e-5)
