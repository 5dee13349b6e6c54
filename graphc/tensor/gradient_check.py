"""`check_gradient`: a function's derivatives, by reverse and forward mode, against differences.

Central differences in f64 along every element of the arguments, up to `FULL` elements, and along
random directions beyond; the results are weighted by random numbers, so one number is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.support.arguments import number, whole
from graphc.support.diagnostics import fail
from graphc.tensor.function import ArrayFunction, as_function
from graphc.tensor.transforms import jvp, vjp
from graphc.tensor.trees import Structure, flatten, unflatten

FULL = 64
DIRECTIONS = 16


@dataclass(frozen=True)
class Comparison:
    """One derivative: along an element of an argument (leaf, index) or a direction (None)."""

    leaf: int
    index: tuple[int, ...] | None
    computed: float
    difference: float

    @property
    def error(self) -> float:
        return abs(self.computed - self.difference)

    def excess(self, atol: float, rtol: float) -> float:
        """The error over what is allowed; above 1, or nan, it fails."""
        return self.error / (atol + rtol * abs(self.difference))

    def __str__(self) -> str:
        where = "a random direction" if self.index is None else f"element {list(self.index)}"
        return (
            f"array {self.leaf}, {where}: {self.computed:.9g} computed, "
            f"{self.difference:.9g} by differences"
        )


@dataclass(frozen=True)
class GradientReport:
    """What was compared. `str` of it is for reading."""

    comparisons: tuple[Comparison, ...]
    modes_differ_by: float
    step: float
    atol: float
    rtol: float

    @property
    def worst(self) -> Comparison:
        """The comparison that is furthest from what is allowed."""
        return max(self.comparisons, key=self._badness)

    @property
    def passed(self) -> bool:
        return self._badness(self.worst) <= 1 and self.modes_differ_by <= self.rtol

    def _badness(self, comparison: Comparison) -> float:
        excess = comparison.excess(self.atol, self.rtol)
        return np.inf if np.isnan(excess) else excess

    def __str__(self) -> str:
        return (
            f"{len(self.comparisons)} derivatives compared with central differences "
            f"(step {self.step:g}, allowed {self.atol:g} + {self.rtol:g} |d|); "
            f"worst is {self.worst}; "
            f"forward and reverse mode differ by {self.modes_differ_by:.2g} of their size"
        )


def check_gradient(
    f: Callable[..., Any],
    *arguments: Any,
    step: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    seed: int = 0,
) -> GradientReport:
    """Compare the derivatives of `f` at `arguments` with central differences, computed in f64.

    Raises GraphcError `not-differentiable` with the worst element where they differ by more than
    atol + rtol |difference|, or where forward and reverse mode do not agree. Points where `f` has
    a kink fail rightly: move the arguments.
    """
    for name, given in (("step", step), ("atol", atol), ("rtol", rtol)):
        number(given, name)
    whole(seed, "seed")
    if not 0 < step < np.inf:
        raise fail("bad-value", f"step requires a finite number above 0, got {step!r}")
    base = as_function(f).with_precision("f64")
    leaves, structure = flatten(arguments)
    moving = [i for i, x in enumerate(leaves) if _is_float(x)]
    point: list[Any] = [np.array(x, np.float64) if _is_float(x) else x for x in leaves]
    if not any(point[i].size for i in moving):
        raise fail("argument-type", "check_gradient requires an argument of floats", base.location)
    rng = np.random.default_rng(seed)
    problem = _Problem(base, structure, point, moving, step)
    report = GradientReport(
        *_compare(problem, rng),
        step=step,
        atol=atol,
        rtol=rtol,
    )
    if not report.passed:
        name = getattr(base.python, "__name__", "the function")
        raise fail(
            "not-differentiable",
            f"the derivative of `{name}` is not what differences give: {report}",
            base.location,
        )
    return report


def _is_float(leaf: object) -> bool:
    if isinstance(leaf, np.ndarray):
        return leaf.dtype.kind == "f"
    return isinstance(leaf, float | np.floating)


@dataclass(frozen=True)
class _Problem:
    base: ArrayFunction
    structure: Structure
    point: list[Any]
    moving: list[int]
    step: float

    def arguments(self, leaves: Sequence[object]) -> tuple[object, ...]:
        given = unflatten(self.structure, leaves)
        assert isinstance(given, tuple)
        return given

    def difference(self, leaf: int, direction: np.ndarray, weights: Sequence[Any]) -> float:
        """The central difference of the weighted results along a direction of one leaf."""
        sides: list[float] = []
        for sign in (1.0, -1.0):
            moved = list(self.point)
            moved[leaf] = self.point[leaf] + sign * self.step * direction
            out = flatten(self.base(*self.arguments(moved)))[0]
            sides.append(_weighted(out, weights))
        return (sides[0] - sides[1]) / (2 * self.step)


def _weighted(results: Sequence[Any], weights: Sequence[Any]) -> float:
    pairs = zip(results, weights, strict=True)
    return float(sum(np.sum(w * y) for y, w in pairs if w is not None))


def _compare(problem: _Problem, rng: np.random.Generator) -> tuple[tuple[Comparison, ...], float]:
    """Every comparison, and by how much the two modes differ relatively."""
    arguments = problem.arguments(problem.point)
    out, pullback = vjp(problem.base, *arguments)
    results, outputs = flatten(out)
    weights = [rng.standard_normal(np.asarray(y).shape) if _is_float(y) else None for y in results]
    gradients = flatten(pullback(unflatten(outputs, weights)))[0]
    comparisons: list[Comparison] = []
    for leaf in problem.moving:
        x, gradient = problem.point[leaf], np.asarray(gradients[leaf])
        for index, direction in _directions(x, rng):
            computed = float(np.sum(gradient * direction))
            difference = problem.difference(leaf, direction, weights)
            comparisons.append(Comparison(leaf, index, computed, difference))
    tangents = [
        rng.standard_normal(np.shape(x)) if i in problem.moving else None
        for i, x in enumerate(problem.point)
    ]
    _, pushed = jvp(problem.base, arguments, problem.arguments(tangents))
    forward = _weighted(flatten(pushed)[0], weights)
    pairs = [(g, t) for g, t in zip(gradients, tangents, strict=True) if t is not None]
    terms = [np.sum(np.asarray(g) * t) for g, t in pairs]
    scale = max(sum(np.sum(np.abs(np.asarray(g) * t)) for g, t in pairs), 1e-300)
    return tuple(comparisons), float(abs(forward - sum(terms)) / scale)


def _directions(
    x: np.ndarray, rng: np.random.Generator
) -> list[tuple[tuple[int, ...] | None, np.ndarray]]:
    """Every element for small arrays, random directions for others."""
    if x.size > FULL:
        drawn = [rng.standard_normal(x.shape) for _ in range(DIRECTIONS)]
        return [(None, d / np.sqrt(np.sum(d * d))) for d in drawn]
    found: list[tuple[tuple[int, ...] | None, np.ndarray]] = []
    for index in np.ndindex(x.shape):
        direction = np.zeros(x.shape)
        direction[index] = 1.0
        found.append((index, direction))
    return found
