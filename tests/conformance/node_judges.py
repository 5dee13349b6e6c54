"""How near its own reference a node must be on every backend, as bounds from rounding analysis.

A bound is counted in u, half the distance from 1 to the next number of the element type. It is
computed from the exact operands and the exact result, both in the next wider type, for each
element: the number of roundings times the size of what is rounded, doubled. Functions such as exp
may be 4 units in the last place off, which is at most 8 u.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tests.support.ulp import largest_ulp

Array = np.ndarray
Bound = Callable[..., Array]
"""(exact result, *exact operands) -> the error allowed, in u, of the result's shape."""

FUNCTION_ERROR = 8.0


@dataclass(frozen=True)
class NodeJudge:
    """A tolerance and its name; without a bound the numbers must be equal.

    terms  of a node that is a sum of products: how many, from the exact operands. Its bound is
           2 terms u times the node of the operands' absolute values.
    size   of a node whose terms may cancel and that has no `terms`: the absolute values of each
           element's terms, added; with the arguments of `bound`
    """

    name: str
    bound: Bound | None = None
    terms: Callable[..., float] | None = None
    size: Bound | None = None

    def check(
        self,
        got: Array,
        exact: Array,
        plain: Array,
        operands: Sequence[Array],
        magnitude: Array | None = None,
    ) -> str:
        """What is wrong with `got`, '' if nothing.

        plain      the node's reference in got's type
        magnitude  the reference for the operands' absolute values, where there are `terms`
        """
        if got.shape != plain.shape:
            return f"requires shape {plain.shape}, got {got.shape}"
        if not np.isfinite(plain).all() and not np.isfinite(exact).all():
            exact = np.where(np.isfinite(plain), exact, plain)
        same = (got == plain) | (np.isnan(got) & np.isnan(plain))
        if self.bound is not None or self.terms is not None:
            info = np.finfo(got.dtype)
            with np.errstate(all="ignore"):
                allowed = self._allowed(exact, operands, magnitude) * (float(info.eps) / 2)
                # A tiny product loses up to the smallest number in each of its roundings.
                tiny = (
                    64.0 * float(info.smallest_subnormal) * max(len(x) for x in (exact, *operands))
                )
                same |= np.abs(got - exact) <= allowed + tiny
        if bool(np.all(same)):
            return ""
        place = tuple(int(i) for i in np.argwhere(~same)[0])
        return (
            f"at {place} requires {plain[place]!r}, got {got[place]!r} "
            f"({int(np.sum(~same))} of {same.size} wrong)"
        )

    def error(
        self,
        got: Array,
        exact: Array,
        operands: Sequence[Array],
        magnitude: Array | None = None,
    ) -> float:
        """The largest error in units in the last place of what is added (see `largest_ulp`)."""
        with np.errstate(all="ignore"):
            size = magnitude if self.size is None else self.size(exact, *operands)
        return largest_ulp(got, exact, size)

    def _allowed(self, exact: Array, operands: Sequence[Array], magnitude: Array | None) -> Array:
        if self.bound is not None:
            return self.bound(exact, *operands)
        assert self.terms is not None and magnitude is not None
        return 2.0 * self.terms(*operands) * magnitude


EXACT = NodeJudge("exact")


def relative(roundings: float) -> NodeJudge:
    """A chain of this many roundings, each relative to the result."""
    return NodeJudge(f"{2 * roundings:g} u |V|", lambda v, *_: 2 * roundings * np.abs(v))


FUNCTION = NodeJudge("4 ulp", lambda v, *_: FUNCTION_ERROR * np.abs(v))


PRODUCT = NodeJudge("2 k u |A||B|", terms=lambda a, _b: a.shape[1])
TRANSPOSED_PRODUCT = NodeJudge("2 k u |A|'|B|", terms=lambda a, _b: a.shape[0])
TOTAL = NodeJudge("2 n u sum|x|", terms=lambda x: x.size)
COLUMN_TOTAL = NodeJudge("2 rows u sum|x|", terms=lambda x: x.shape[0])


def _depths(x: Array) -> tuple[Array, Array]:
    """How far each element is below its column's maximum, and the softmax."""
    depth = x.max(axis=0, keepdims=True, initial=-np.inf) - x
    depth = np.where(np.isfinite(depth), depth, 0)
    weights = np.exp(-depth)
    return depth, weights / np.sum(weights, axis=0, keepdims=True)


def _sum_error(x: Array) -> Array:
    """The relative error of a column's sum of exponentials, which is the absolute one of its log:
    the argument of each is rounded, the function has an error, and then they are added."""
    depth, p = _depths(x)
    return np.sum(p * (depth + FUNCTION_ERROR), axis=0, keepdims=True) + x.shape[0]


def _softmax(v: Array, x: Array) -> Array:
    depth, _ = _depths(x)
    return 2 * np.abs(v) * (depth + FUNCTION_ERROR + _sum_error(x) + 2)


def _log_error(x: Array) -> Array:
    """Of each element of the log softmax."""
    depth, _ = _depths(x)
    log = np.log(np.sum(np.exp(-depth), axis=0, keepdims=True))
    return 2 * (2 * depth + _sum_error(x) + (FUNCTION_ERROR + 1) * log)


def _log_softmax(_v: Array, x: Array) -> Array:
    return _log_error(x)


SOFTMAX = NodeJudge("exp, sum and quotient", _softmax)
LOG_SOFTMAX = NodeJudge("difference, exp, sum and log", _log_softmax)


def _cross_entropy_with_softmax(_v: Array, label: Array, x: Array) -> Array:
    depth, p = _depths(x)
    size = np.sum(np.abs(label) * (depth + np.log(1 / np.max(p, axis=0, initial=1e-300))))
    error = np.sum(np.abs(label) * _log_error(x)) + 2.0 * label.size * size
    return np.asarray(error).reshape(1, 1)


def _cross_entropy(_v: Array, label: Array, p: Array) -> Array:
    terms = np.sum(np.abs(label * np.log(np.maximum(p, 1e-37))))
    return np.asarray((2.0 * label.size + 2 * FUNCTION_ERROR) * terms).reshape(1, 1)


def _square_error(v: Array, a: Array, _b: Array) -> Array:
    return 2.0 * (a.size + 4) * np.abs(v)


def _norm(v: Array, x: Array) -> Array:
    return 2.0 * (x.size + 4) * np.abs(v)


def _cosine_size(_v: Array, a: Array, b: Array) -> Array:
    lengths = np.sqrt(np.sum(a * a, axis=0) * np.sum(b * b, axis=0))
    part = np.sum(np.abs(a * b), axis=0) / np.where(lengths == 0, 1, lengths)
    return part.reshape(1, -1)


def _cosine(v: Array, a: Array, b: Array) -> Array:
    return 2.0 * (2 * a.shape[0] + 8) * _cosine_size(v, a, b)


CROSS_ENTROPY_WITH_SOFTMAX = NodeJudge("log softmax, then 2 n u sum", _cross_entropy_with_softmax)
CROSS_ENTROPY = NodeJudge("log, then 2 n u sum", _cross_entropy)
SQUARE_ERROR = NodeJudge("2 (n + 4) u |V|", _square_error)
NORM = NodeJudge("2 (n + 4) u |V|", _norm)
COSINE = NodeJudge("2 (2 rows + 8) u |a||b| / lengths", _cosine, size=_cosine_size)


def _normalization(v: Array, *_: Array) -> Array:
    return 4 * np.abs(v)


def _denormalization(v: Array, x: Array, _m: Array, s: Array) -> Array:
    return 2 * np.abs(x / s) + 2 * np.abs(v)


NORMALIZATION = NodeJudge("4 u |V|", _normalization)
DENORMALIZATION = NodeJudge(
    "2 u (|x / s| + |V|)", _denormalization, size=lambda v, x, _m, s: np.abs(v) + np.abs(x / s)
)


def _batch_normalization(v: Array, x: Array, *columns: Array) -> Array:
    """Difference, two products and a sum: 4 roundings, and what cancels in the sum."""
    return 8 * _batch_size(v, x, *columns)


def _batch_size(v: Array, x: Array, *columns: Array) -> Array:
    _, bias, _, _ = (np.tile(c, (x.shape[0] // c.shape[0], 1)) for c in columns)
    return np.abs(v) + np.abs(bias)


def _attention(_v: Array, query: Array, key: Array, value: Array) -> Array:
    """A score's error is a relative one of its weight; a weight and a value are off by as much."""
    scores = np.max(np.abs(query).T @ np.abs(key), axis=1, initial=0)
    steps = 2 * (query.shape[0] + 4) * scores + 2 * (query.shape[1] + FUNCTION_ERROR + 4)
    return 2 * steps * np.max(np.abs(value), axis=1, initial=0, keepdims=True)


ATTENTION = NodeJudge("scores, then exp, sum and quotient, then the mean", _attention)
BATCH_NORMALIZATION = NodeJudge("8 u (|V| + |bias|)", _batch_normalization, size=_batch_size)


def _layer_normalization(v: Array, x: Array, scale: Array, bias: Array) -> Array:
    """Of sums of n terms: the difference's error, and the deviation's times the result."""
    size = np.abs(x) + np.mean(np.abs(x), axis=0)
    terms = size / np.sqrt(np.var(x, axis=0) + 1e-5)
    steps = 2 * (x.shape[0] + 8)
    moved = np.abs(scale) * terms * (1 + np.max(terms, axis=0, initial=0))
    return steps * (moved + np.abs(v) + np.abs(bias))


LAYER_NORMALIZATION = NodeJudge("2 (rows + 8) u |x| / deviation, twice", _layer_normalization)


def _mean_size(_v: Array, x: Array) -> Array:
    return np.mean(np.abs(x), axis=1, keepdims=True)


def _mean(v: Array, x: Array) -> Array:
    return 2.0 * (x.shape[1] + 1) * _mean_size(v, x)


def _deviation(v: Array, x: Array) -> Array:
    return 2.0 * (2 * x.shape[1] + 8) * np.abs(v)


MEAN = NodeJudge("2 (N + 1) u mean|x|", _mean, size=_mean_size)
DEVIATION = NodeJudge("2 (2 N + 8) u |V|", _deviation)


# --- images, tables ------------------------------------------------------------------------------

CONVOLUTION = NodeJudge("2 k u |W||Y|", terms=lambda weight, _y: weight.shape[1])
LOOKUP = NodeJudge("2 k u |W||x|", terms=lambda table, _x: table.shape[1])


def average(window: int) -> NodeJudge:
    """Of a window of this many pixels."""
    return NodeJudge("2 (k + 1) u mean|x|", terms=lambda _x: window + 1.0)


# --- criteria of several steps -------------------------------------------------------------------


def _logistic(_v: Array, label: Array, p: Array, *weight: Array) -> Array:
    w = np.abs(weight[0]) if weight else np.ones_like(p)
    terms = np.abs(label * np.log(p)) + np.abs((1 - label) * np.log(1 - p))
    # 1 - p is rounded before its logarithm.
    error = (2.0 * label.size + 2 * FUNCTION_ERROR) * np.sum(w * terms) + 2 * np.sum(w)
    return np.asarray(error).reshape(1, 1)


def _class_based(v: Array, label: Array, hidden: Array, weight: Array, score: Array) -> Array:
    """Scores are sums of `rows of hidden` products; what comes after is a log softmax each."""
    largest = np.max(np.abs(weight).T @ np.abs(hidden), axis=0, initial=0.0)
    scores = np.max(np.abs(score), axis=0, initial=0.0)
    each = 2 * (hidden.shape[0] + 4) * largest + 8 * scores + 4 * FUNCTION_ERROR + weight.shape[1]
    return np.asarray(2 * np.sum(each) + 2.0 * label.shape[1] * np.abs(v)).reshape(1, 1)


def _mixture(v: Array, prior: Array, mean: Array, deviation: Array, x: Array) -> Array:
    size, components = x.shape[0], prior.shape[0]
    means = mean.reshape(components, size, -1)
    squares = np.sum((np.abs(means) + np.abs(x)) ** 2, axis=1) / np.exp(2 * deviation)
    around = size * (np.abs(deviation) + 1) + np.max(np.abs(prior), axis=0) + np.log(components)
    terms = (size + 4 * FUNCTION_ERROR + 4 * np.abs(deviation)) * squares + 8 * around
    return 2 * (np.max(terms, axis=0, keepdims=True) + components + FUNCTION_ERROR + np.abs(v))


def _negatives(v: Array, a: Array, _b: Array) -> Array:
    return np.full(v.shape, 2.0 * (2 * a.shape[0] + 8))  # a cosine is at most 1


def _path(_v: Array, label: Array, score: Array, transition: Array) -> Array:
    """No path of labels scores more."""
    steps = np.max(np.abs(transition)) + 1
    return np.sum(np.max(np.abs(score), axis=0)) + label.shape[1] * steps


def _field(v: Array, label: Array, score: Array, transition: Array) -> Array:
    """log2 T rounds of logarithms of sums over labels, of numbers up to the size of a path."""
    labels, steps = label.shape
    path = _path(v, label, score, transition)
    rounds = np.ceil(np.log2(steps + 1))
    return np.full(v.shape, 2 * (path * (2 * rounds + 4) + rounds * (labels + FUNCTION_ERROR)))


LOGISTIC = NodeJudge("log, then 2 n u sum", _logistic)
CLASS_BASED = NodeJudge("scores, log softmax, 2 N u sum", _class_based)
MIXTURE = NodeJudge("squares, log of sum of exp", _mixture)
NEGATIVES = NodeJudge("2 (2 rows + 8) u", _negatives, size=lambda v, *_: np.ones_like(v))
FIELD = NodeJudge("log2 N rounds of log of sum of exp", _field, size=_path)
