"""`self_test`: gradients of small networks against differences, on every backend of this machine.

What `graphc selftest` prints. Each network uses parts of graphc that the others do not. The judge
are central differences of values that the reference backend computes, in f64, along random
directions of all parameters; in f32 the gradient is compared with that in f64.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc import api
from graphc.builder import GraphBuilder
from graphc.learn.gradients import Gradients, PointGradient
from graphc.ops.nodes.layout import node_type
from graphc.support import arguments
from graphc.testing.backends import usable
from graphc.testing.report import Check, Report

Array = np.ndarray

JUDGE, JUDGED = "reference", "f64"
SAMPLES = 5
LENGTHS = (4, 1, 3)
"""Steps of the sequences that lie side by side."""
DIRECTIONS = 4
STEP = 1e-5
ALLOWED: Mapping[str, float] = {"f64": 2e-8, "f32": 2e-5}
"""Errors, relative to the length of the gradient."""


@dataclass(frozen=True)
class Case:
    """A network in NDL, whose inputs are filled at random: labels with one 1 in each column."""

    name: str
    text: str
    sequences: bool = False


CASES = (
    Case(
        "feed-forward",
        """
        x = Input(4, tag=feature)
        t = Input(3, tag=label)
        W = Parameter(5, 4, initValueScale=10)
        b = Parameter(5, 1, initValueScale=10)
        h = Tanh(Plus(Times(W, x), b))
        V = Parameter(3, 5, initValueScale=10)
        z = Times(V, ElementTimes(h, Sigmoid(h)))
        c = CrossEntropyWithSoftmax(t, z, tag=criterion)
        """,
    ),
    Case(
        "images",
        """
        x = ImageInput(6, 6, 2, tag=feature)
        t = Input(3, tag=label)
        K = Parameter(4, 18, initValueScale=10)
        h = Tanh(Convolution(K, x, 3, 3, 4, 1, 1, zeroPadding=true))
        p = MaxPooling(h, 2, 2, 2, 2)
        a = AveragePooling(p, 3, 3, 1, 1)
        V = Parameter(3, 4, initValueScale=10)
        c = CrossEntropyWithSoftmax(t, Times(V, a), tag=criterion)
        """,
    ),
    Case(
        "normalisation, dropout",
        """
        x = Input(4, tag=feature)
        t = Input(3, tag=label)
        W = Parameter(6, 4, initValueScale=10)
        s = Parameter(6, 1, init=fixedValue, value=1)
        o = Parameter(6, 1, initValueScale=10)
        m = Parameter(6, 1, init=fixedValue, value=0)
        d = Parameter(6, 1, init=fixedValue, value=1)
        h = Dropout(Tanh(BatchNormalization(Times(W, x), s, o, m, d)))
        V = Parameter(3, 6, initValueScale=10)
        c = SquareError(t, Times(V, h), tag=criterion)
        """,
    ),
    Case(
        "lookups of classes",
        """
        x = SparseInput(7, tag=feature)
        t = Input(3, tag=label)
        E = Parameter(4, 7, initValueScale=10)
        V = Parameter(3, 4, initValueScale=10)
        z = Times(V, Tanh(Times(E, x)))
        c = CrossEntropyWithSoftmax(t, z, tag=criterion)
        """,
    ),
    Case(
        "recurrent, both ways",
        """
        x = Input(3, tag=feature)
        t = Input(2, tag=label)
        W = Parameter(4, 3, initValueScale=10)
        R = Parameter(4, 4, initValueScale=10)
        S = Parameter(4, 4, initValueScale=10)
        before = PastValue(4, 1, h)
        h = Tanh(Plus(Times(W, x), Times(R, before)))
        after = FutureValue(4, 1, k)
        k = Tanh(Plus(Times(W, x), Times(S, after)))
        V = Parameter(2, 8, initValueScale=10)
        c = CrossEntropyWithSoftmax(t, Times(V, RowStack(h, k)), tag=criterion)
        """,
        sequences=True,
    ),
)


def self_test(backends: Sequence[str] = (), cases: Sequence[Case] = CASES) -> Report:
    """Check graphc on this machine: every network on every backend, by default all that can be
    used here, in f32 and f64. `report.passed` says whether all is well, `str(report)` is a table.

    GraphcError `bad-option` for a name that no backend has.
    """
    found, left_out = usable(backends)
    checks = [check for case in _cases(cases) for check in _checks(case, found)]
    return Report("graphc self test", tuple(checks), left_out)


def _cases(given: object) -> Sequence[Case]:
    """For callers without a type checker."""
    if not isinstance(given, tuple | list):
        raise arguments.kind_error("cases", "a list of Case", given)
    return [arguments.instance(case, Case, "each of cases", "a Case") for case in given]


def _checks(case: Case, backends: Sequence[str]) -> list[Check]:
    judge, data = _slopes(case, JUDGE, JUDGED), _data(case)
    point = judge.point
    rng = np.random.default_rng(2)
    directions = [d / np.linalg.norm(d) for d in rng.standard_normal((DIRECTIONS, len(point)))]
    slopes = [_difference(judge, point, d, data) for d in directions]
    exact = _at(judge, point, data).gradient
    found: list[Check] = []
    for backend in backends:
        for precision, allowed in ALLOWED.items():
            gradient = _at(_slopes(case, backend, precision), point, data).gradient
            if precision == JUDGED:
                errors = [d @ gradient - s for d, s in zip(directions, slopes, strict=True)]
            else:
                errors = [np.linalg.norm(gradient - exact)]
            largest = float(np.max(np.abs(errors)))
            excess = largest / (allowed * float(np.linalg.norm(exact)))
            # What is no number is worse than anything.
            excess = excess if np.isfinite(excess) else np.inf
            found.append(Check(case.name, backend, precision, excess))
    return found


def _network(case: Case) -> GraphBuilder:
    return api.loads(f"run = net\nnet = [{case.text}]", seed=3)


def _slopes(case: Case, backend: str, precision: str) -> Gradients:
    time, sequences = (max(LENGTHS), len(LENGTHS)) if case.sequences else (0, 1)
    return api.gradients(
        _network(case),
        batch=SAMPLES,
        time=time,
        sequences=sequences,
        dropout=0.3,
        seed=4,
        backend=backend,
        precision=precision,
    )


def _data(case: Case) -> dict[str, object]:
    """Numbers for every input: of labels and classes one 1 in each sample."""
    rng = np.random.default_rng(1)
    count = sum(LENGTHS) if case.sequences else SAMPLES
    found: dict[str, object] = {}
    for node in _network(case).nodes:
        if node.op not in ("input", "sparse_input"):
            continue
        rows = node_type(node.operation).rows or 0
        is_class = "label" in node.tags or node.op == "sparse_input"
        array = rng.standard_normal((count, rows))
        if is_class:
            array = np.eye(rows)[rng.integers(0, rows, count)]
        ends = np.cumsum(LENGTHS)[:-1]
        found[node.name] = np.split(array, ends) if case.sequences else array
    return found


def _at(slopes: Gradients, point: Array, data: Mapping[str, object]) -> PointGradient:
    """Value and gradient; Dropout drops the same elements in every call."""
    slopes.steps = 0
    return slopes.at(point, **data)


def _difference(
    slopes: Gradients, point: Array, direction: Array, data: Mapping[str, object]
) -> float:
    sides = [_at(slopes, point + sign * STEP * direction, data).value for sign in (1, -1)]
    return (sides[0] - sides[1]) / (2 * STEP)
