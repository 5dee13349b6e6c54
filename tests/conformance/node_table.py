"""One row per node operation: the sizes to try, the numbers, and how exact a backend must be.

A new node needs a row here (`test_nodes.py` demands it). Every use with a column per sample runs
with each of `SAMPLES` samples, so three sizes of rows make 18 shape classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from tests.conformance import node_judges as judges
from tests.conformance.node_judges import NodeJudge

Array = np.ndarray
Numbers = Callable[[np.random.Generator, int, int], Array]
"""(rng, rows, columns) -> a matrix."""

BOUND = 37
"""Samples that every function is compiled for: a prime, no multiple of a vector."""
SAMPLES = (0, 1, 2, 7, BOUND - 1, BOUND)
WIDE = 67
"""Rows: more than a vector and a block of registers, and no multiple of either."""

Specials = Literal["all", "tame", "none"]
"""Which special values stand in for numbers.

all   zeros of both signs, infinities, nan, subnormal, tiny, huge and ordinary corners
tame  those that do not overflow in a sum or square, where the order of operations decides
none  the operands have a form (one-hot, indices) or the values are not defined
"""


def numbers(rng: np.random.Generator, rows: int, cols: int) -> Array:
    return rng.uniform(-3, 3, (rows, cols))


def positive(rng: np.random.Generator, rows: int, cols: int) -> Array:
    return rng.uniform(0.1, 3, (rows, cols))


def probabilities(rng: np.random.Generator, rows: int, cols: int) -> Array:
    x = rng.uniform(0.05, 1, (rows, cols))
    return x / np.sum(x, axis=0, keepdims=True)


def one_hot(rng: np.random.Generator, rows: int, cols: int) -> Array:
    return np.eye(rows)[:, rng.integers(0, rows, cols)]


@dataclass(frozen=True)
class Leaf:
    """An operand: an input (`cols` None) or a parameter, made by the node `op`."""

    rows: int
    cols: int | None
    op: str = "input"
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def arguments(self) -> dict[str, object]:
        """The settings of the leaf's node."""
        if self.settings:
            return dict(self.settings)
        size: dict[str, object] = {"rows": self.rows}
        return size if self.cols is None else {**size, "cols": self.cols}

    def __str__(self) -> str:
        return f"{self.rows}x{'*' if self.cols is None else self.cols}"


def samples(rows: int) -> Leaf:
    """An input: one column per sample."""
    return Leaf(rows, None)


def matrix(rows: int, cols: int) -> Leaf:
    """A parameter."""
    return Leaf(rows, cols, "parameter")


@dataclass(frozen=True)
class Use:
    """The node over these leaves."""

    leaves: tuple[Leaf, ...]
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def has_samples(self) -> bool:
        return any(leaf.cols is None for leaf in self.leaves)

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.leaves))
        return f"{sizes} {dict(self.settings)}" if self.settings else sizes


@dataclass(frozen=True)
class NodeRow:
    """How a node is tested.

    numbers  of each operand, the last for all that follow
    exact    for a node whose own reference loses digits where the node need not
    kind     "statistic": computed over the data before; "delay": see `test_nodes.py`
    """

    op: str
    uses: tuple[Use, ...]
    judge: NodeJudge
    numbers: tuple[Numbers, ...] = (numbers,)
    specials: Specials = "tame"
    kind: Literal["plain", "statistic", "delay"] = "plain"
    exact: Callable[..., Array] | None = None

    def numbers_of(self, operand: int) -> Numbers:
        return self.numbers[min(operand, len(self.numbers) - 1)]

    @property
    def classes(self) -> int:
        """Shape classes: uses times the sample counts of each."""
        return sum(len(SAMPLES) if use.has_samples else 1 for use in self.uses)


def _uses(*leaves: tuple[Leaf, ...], **settings: object) -> tuple[Use, ...]:
    return tuple(Use(each, settings) for each in leaves)


_ROWS = (1, 5, WIDE)
_ONE = _uses(
    *((samples(r),) for r in _ROWS),
    *((matrix(r, c),) for r, c in ((1, 1), (1, 19), (19, 1), (5, 7), (WIDE, 11))),
)
_TWO = _uses(
    *((samples(r), samples(r)) for r in _ROWS),
    *((matrix(r, c), matrix(r, c)) for r, c in ((1, 1), (1, 19), (19, 1), (5, 7), (WIDE, 11))),
)
_SPREAD_VECTORS = _uses(
    *((samples(r), samples(1)) for r in (5, WIDE)),
    *((samples(1), samples(r)) for r in (5, WIDE)),
    *((samples(r), matrix(r, 1)) for r in _ROWS),
    *((matrix(r, 1), samples(r)) for r in _ROWS),
    (samples(10), matrix(5, 1)),
    (matrix(2, 1), samples(10)),
    (samples(5), matrix(1, 1)),
    (matrix(1, 1), samples(5)),
    (matrix(5, 7), matrix(1, 7)),
    (matrix(5, 1), matrix(5, 7)),
    (matrix(6, 4), matrix(2, 1)),
    (matrix(1, 1), matrix(5, 7)),
)
_FEWER_COLUMNS = _uses((matrix(3, 4), matrix(3, 2)), (matrix(2, 6), matrix(2, 3)))
_PRODUCTS = _uses(
    *((matrix(m, k), samples(k)) for m, k in ((1, 1), (5, 3), (WIDE, 5), (3, WIDE), (16, 64))),
    *((matrix(m, k), matrix(k, n)) for m, k, n in ((1, 1, 1), (2, 3, 4), (17, 33, 65), (1, 37, 1))),
)
_TRANSPOSED_PRODUCTS = _uses(
    *((matrix(k, m), samples(k)) for m, k in ((1, 1), (5, 3), (WIDE, 5), (3, WIDE), (16, 64))),
    *((matrix(k, m), matrix(k, n)) for m, k, n in ((1, 1, 1), (2, 3, 4), (17, 33, 65), (1, 37, 1))),
)
_SQUARES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 37, WIDE)
_SIZES = (
    *((1, 1), (1, 19), (19, 1), (3, 4), (4, 3), (7, 7)),
    *((16, 16), (16, 17), (37, 5), (WIDE, 64), (2, WIDE), (64, 128)),
)
_VALUES = (0.0, -0.0, 0.1, -3.0, 1e30, 1e-40, np.inf, -np.inf, np.nan, 1.0, 7.0, 0.5)


def _plain(op: str, uses: tuple[Use, ...] = _ONE, specials: Specials = "all") -> NodeRow:
    """Rounded once or not at all."""
    return NodeRow(op, uses, judges.EXACT, specials=specials)


def _function(op: str, specials: Specials = "all") -> NodeRow:
    return NodeRow(op, _ONE, judges.FUNCTION, specials=specials)


def _criterion(op: str, judge: NodeJudge, *fills: Numbers, specials: Specials = "none") -> NodeRow:
    return NodeRow(op, _TWO, judge, fills, specials)


_COLUMNS = tuple((samples(r), matrix(r, 1), matrix(r, 1)) for r in _ROWS)
_BATCHES = _uses(*((samples(r), *(matrix(r, 1),) * 4) for r in _ROWS))
_STATISTICS = _uses(*((samples(r),) for r in (1, 2, 5, 64, WIDE)))

ROWS: tuple[NodeRow, ...] = (
    # leaves
    _plain("input", _uses(*((samples(r),) for r in _ROWS))),
    _plain("parameter", _uses(*((matrix(r, c),) for r, c in _SIZES))),
    NodeRow(
        "constant",
        tuple(
            Use((), {"value": value, "rows": rows, "cols": cols})
            for (rows, cols), value in zip(_SIZES, _VALUES, strict=True)
        ),
        judges.EXACT,
        specials="none",
    ),
    # arithmetic
    _plain("plus", _TWO + _SPREAD_VECTORS + _FEWER_COLUMNS),
    _plain("minus", _TWO + _SPREAD_VECTORS),
    _plain("negate"),
    _plain("element_times", _TWO),
    _plain(
        "scale",
        _uses(
            *((matrix(1, 1), samples(r)) for r in _ROWS),
            *((matrix(1, 1), matrix(r, c)) for r, c in ((1, 1), (5, 7))),
        ),
    ),
    _plain(
        "row_element_times",
        _uses(*((samples(r), samples(1)) for r in _ROWS), (matrix(5, 7), matrix(1, 7))),
    ),
    _plain(
        "column_element_times",
        _uses(*((samples(r), matrix(r, 1)) for r in _ROWS), (matrix(5, 7), matrix(5, 1))),
    ),
    _plain(
        "diag_times",
        _uses(*((matrix(r, 1), samples(r)) for r in _ROWS), (matrix(5, 1), matrix(5, 7))),
    ),
    _plain(
        "khatri_rao_product",
        _uses(
            *((samples(a), samples(b)) for a, b in ((1, 1), (3, 5), (WIDE, 2), (2, WIDE))),
            (matrix(2, 4), matrix(3, 4)),
        ),
    ),
    NodeRow("times", _PRODUCTS, judges.PRODUCT),
    NodeRow("transpose_times", _TRANSPOSED_PRODUCTS, judges.TRANSPOSED_PRODUCT),
    NodeRow("sum_elements", _ONE, judges.TOTAL),
    NodeRow("sum_column_elements", _ONE, judges.COLUMN_TOTAL),
    # functions of each element or column
    _plain("rectified_linear"),
    # Its reference goes by tanh, so far below 0 nothing is left of it.
    replace(_function("sigmoid"), exact=lambda x: 1 / (1 + np.exp(-x))),
    _function("tanh"),
    _function("exp"),
    NodeRow("log", _ONE, judges.FUNCTION, (positive,), "all"),
    NodeRow("softmax", _ONE, judges.SOFTMAX),
    NodeRow("log_softmax", _ONE, judges.LOG_SOFTMAX),
    _plain("hardmax"),
    # shape
    _plain("row_repeat", _uses(*((samples(r),) for r in _ROWS), (matrix(3, 4),), num_repeats=3)),
    _plain("transpose", _uses(*((matrix(r, c),) for r, c in _SIZES))),
    _plain(
        "diagonal",
        _uses(*((matrix(r, r),) for r in _SQUARES)),
    ),
    # statistics
    NodeRow("mean", _STATISTICS, judges.MEAN, kind="statistic", specials="none"),
    NodeRow("inv_std_dev", _STATISTICS, judges.DEVIATION, kind="statistic", specials="none"),
    NodeRow(
        "per_dim_mean_var_normalization",
        _uses(*_COLUMNS, (matrix(5, 7), matrix(5, 1), matrix(5, 1))),
        judges.NORMALIZATION,
        (numbers, numbers, positive),
    ),
    NodeRow(
        "per_dim_mean_var_de_normalization",
        _uses(*_COLUMNS, (matrix(5, 7), matrix(5, 1), matrix(5, 1))),
        judges.DENORMALIZATION,
        (numbers, numbers, positive),
    ),
    _plain("dropout"),
    NodeRow(
        "batch_normalization",
        _BATCHES
        + _uses(
            (samples(6), *(matrix(2, 1),) * 4),
            (samples(WIDE), *(matrix(1, 1),) * 4),
            spatial=True,
        ),
        judges.BATCH_NORMALIZATION,
        (numbers, numbers, numbers, numbers, positive),
    ),
    # criteria
    _criterion("square_error", judges.SQUARE_ERROR, numbers),
    _criterion("cross_entropy", judges.CROSS_ENTROPY, probabilities),
    _criterion(
        "cross_entropy_with_softmax", judges.CROSS_ENTROPY_WITH_SOFTMAX, probabilities, numbers
    ),
    _criterion("error_prediction", judges.EXACT, one_hot, numbers),
    _criterion("cos_distance", judges.COSINE, numbers),
    NodeRow("matrix_l1_reg", _ONE, judges.TOTAL),
    NodeRow("matrix_l2_reg", _ONE, judges.NORM),
    # recurrence
    NodeRow("past_value", _STATISTICS, judges.EXACT, kind="delay", specials="none"),
    NodeRow("future_value", _STATISTICS, judges.EXACT, kind="delay", specials="none"),
)
