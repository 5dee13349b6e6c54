"""One row per node operation: the sizes to try, the numbers, and how exact a backend must be.

A new node needs a row here (`test_nodes.py` demands it). Every use with a column per sample runs
with each of `SAMPLES` samples, so three sizes of rows make 18 shape classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from graphc.ir.core import OpDef
from graphc.ops.nodes.pointwise import OF_OPERATIONS
from tests.conformance import node_judges as judges
from tests.conformance.node_judges import NodeJudge
from tests.support import op_table

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


def mostly_zero(rng: np.random.Generator, rows: int, cols: int) -> Array:
    return np.where(rng.random((rows, cols)) < 0.2, rng.uniform(-3, 3, (rows, cols)), 0.0)


def yes_or_no(rng: np.random.Generator, rows: int, cols: int) -> Array:
    return rng.integers(0, 2, (rows, cols)).astype(float)


def chances(rng: np.random.Generator, rows: int, cols: int) -> Array:
    """Probabilities, each for itself."""
    return rng.uniform(0.05, 0.95, (rows, cols))


def small(rng: np.random.Generator, rows: int, cols: int) -> Array:
    return rng.uniform(-0.5, 0.5, (rows, cols))


CLASSES = (0, 2, 3, 7, 10)
"""First words of the classes of `class_labels`, and the number of words."""


def class_labels(rng: np.random.Generator, _rows: int, cols: int) -> Array:
    """Word, class, first word of the class, first word after it."""
    chosen = rng.integers(0, len(CLASSES) - 1, cols)
    starts, ends = np.array(CLASSES[:-1])[chosen], np.array(CLASSES[1:])[chosen]
    words = rng.integers(starts, ends) if cols else starts
    return np.stack([words, chosen, starts, ends]).astype(float)


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


def image(width: int, height: int, channels: int) -> Leaf:
    """An input whose columns are images."""
    size = {"width": width, "height": height, "channels": channels}
    return Leaf(width * height * channels, None, "input", size)


@dataclass(frozen=True)
class Use:
    """The node over these leaves. `keeps_columns`: a column of the result for each of theirs."""

    leaves: tuple[Leaf, ...]
    settings: Mapping[str, object] = field(default_factory=dict)
    keeps_columns: bool = True

    @property
    def has_samples(self) -> bool:
        return any(leaf.cols is None for leaf in self.leaves)

    @property
    def skips_zeros(self) -> bool:
        """An infinite weight times a zero that is not there is not computed, so it is no nan."""
        return any(leaf.op == "sparse_input" for leaf in self.leaves)

    def __str__(self) -> str:
        sizes = ", ".join(map(str, self.leaves))
        return f"{sizes} {dict(self.settings)}" if self.settings else sizes


@dataclass(frozen=True)
class NodeRow:
    """How a node is tested.

    numbers  of each operand, the last for all that follow
    kind     "statistic": computed over the data before; "delay": see `test_nodes.py`
    """

    op: str
    uses: tuple[Use, ...]
    judge: NodeJudge
    numbers: tuple[Numbers, ...] = (numbers,)
    specials: Specials = "tame"
    kind: Literal["plain", "statistic", "delay"] = "plain"

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
_TOP = ((samples(5), 3), (samples(WIDE), WIDE), (matrix(5, 7), 5), (matrix(19, 1), 2))
_SQUARES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 37, WIDE)
_SIZES = (
    *((1, 1), (1, 19), (19, 1), (3, 4), (4, 3), (7, 7)),
    *((16, 16), (16, 17), (37, 5), (WIDE, 64), (2, WIDE), (64, 128)),
)
_VALUES = (0.0, -0.0, 0.1, -3.0, 1e30, 1e-40, np.inf, -np.inf, np.nan, 1.0, 7.0, 0.5)


def _plain(op: str, uses: tuple[Use, ...] = _ONE, specials: Specials = "all") -> NodeRow:
    """Rounded once or not at all."""
    return NodeRow(op, uses, judges.EXACT, specials=specials)


_THREE = (
    *(Use((*use.leaves, use.leaves[0])) for use in _TWO),
    *(Use((use.leaves[0], *use.leaves)) for use in _SPREAD_VECTORS),
    *_uses((samples(5), matrix(5, 1), samples(1)), (matrix(1, 1), samples(10), matrix(5, 1))),
)


def _of_operation(node: OpDef, op: OpDef) -> NodeRow:
    """A node that is an element-wise operation: as near as that has to be."""
    row = next(row for row in op_table.ROWS if row.op is op)
    judge, (low, high) = row.judge, row.domain

    def inside(rng: np.random.Generator, rows: int, cols: int) -> Array:
        return rng.uniform(low, high, (rows, cols))

    uses = (_ONE, _TWO + _SPREAD_VECTORS, _THREE)[len(op.operands) - 1]
    name = node.name.removeprefix("node.")
    fills = (inside if low > 0.0 else numbers,)  # a root of most normal numbers is none
    return NodeRow(name, uses, NodeJudge(judge.name, judge.bound), fills, specials="all")


def _criterion(op: str, judge: NodeJudge, *fills: Numbers, specials: Specials = "none") -> NodeRow:
    return NodeRow(op, _TWO, judge, fills, specials)


def _convolution(
    size: tuple[int, int, int],
    kernel: tuple[int, int],
    outputs: int,
    steps: tuple[int, int],
    padded: bool,
    groups: int = 1,
) -> Use:
    weight = matrix(outputs, kernel[0] * kernel[1] * size[2] // groups)
    settings = {
        "kernel_width": kernel[0],
        "kernel_height": kernel[1],
        "output_channels": outputs,
        "horizontal_subsample": steps[0],
        "vertical_subsample": steps[1],
        "zero_padding": padded,
        "groups": groups,
    }
    return Use((weight, image(*size)), settings)


def _pooling(size: tuple[int, int, int], window: tuple[int, int], steps: tuple[int, int]) -> Use:
    settings = {
        "window_width": window[0],
        "window_height": window[1],
        "step_width": steps[0],
        "step_height": steps[1],
    }
    return Use((image(*size),), settings)


_POOLINGS = (
    _pooling((1, 1, 1), (1, 1), (1, 1)),
    _pooling((6, 4, 3), (2, 2), (2, 2)),
    _pooling((7, 5, 2), (3, 2), (1, 2)),
    _pooling((9, 2, 5), (2, 1), (4, 1)),
    _pooling((3, 3, WIDE), (3, 3), (1, 1)),
)
_LARGEST_WINDOW = 9

_COLUMNS = tuple((samples(r), matrix(r, 1), matrix(r, 1)) for r in _ROWS)
_BATCHES = _uses(*((samples(r), *(matrix(r, 1),) * 4) for r in _ROWS))
_STATISTICS = _uses(*((samples(r),) for r in (1, 2, 5, 64, WIDE)))

ROWS: tuple[NodeRow, ...] = (
    # leaves
    _plain("input", _uses(*((samples(r),) for r in _ROWS))),
    NodeRow(
        "sparse_input",
        _uses(*((Leaf(r, None, "sparse_input"),) for r in _ROWS)),
        judges.EXACT,
        (mostly_zero,),
        "all",
    ),
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
    NodeRow(
        "column_times",
        tuple(
            Use(leaves, {"inner": inner})
            for inner, leaves in (
                *((1, (samples(1), samples(1))), (5, (samples(5), samples(5)))),
                *((1, (samples(3), samples(5))), (WIDE, (samples(WIDE), samples(2 * WIDE)))),
                *((3, (samples(12), samples(6))), (2, (matrix(4, 7), matrix(6, 7)))),
            )
        ),
        NodeJudge("2 rows u |A||B|", terms=lambda a, _b: a.shape[0]),
    ),
    NodeRow(
        "attention",
        (
            *_uses(
                *((samples(r), samples(r), samples(v)) for r, v in ((1, 1), (5, 3), (WIDE, 5))),
                (matrix(5, 7), matrix(5, 7), matrix(2, 7)),
            ),
            *_uses(
                (samples(6), samples(6), samples(8)),
                (matrix(4, 1), matrix(4, 1), matrix(2, 1)),
                heads=2,
                causal=True,
            ),
        ),
        judges.ATTENTION,
        (small, small, numbers),
        specials="none",
    ),
    NodeRow(
        "times",
        _PRODUCTS
        + _uses(*((matrix(m, k), Leaf(k, None, "sparse_input")) for m, k in ((5, 3), (WIDE, 64)))),
        judges.PRODUCT,
    ),
    NodeRow(
        "transpose_times",
        _TRANSPOSED_PRODUCTS + _uses((matrix(5, 3), Leaf(5, None, "sparse_input"))),
        judges.TRANSPOSED_PRODUCT,
    ),
    *(_of_operation(node, op) for node, op in OF_OPERATIONS.items()),
    NodeRow("sum_elements", _ONE, judges.TOTAL),
    NodeRow("sum_column_elements", _ONE, judges.COLUMN_TOTAL),
    # functions of each element or column
    _plain("rectified_linear"),
    NodeRow("log", _ONE, judges.FUNCTION, (positive,), "all"),
    NodeRow("softmax", _ONE, judges.SOFTMAX),
    NodeRow("log_softmax", _ONE, judges.LOG_SOFTMAX),
    _plain("hardmax"),
    *(
        _plain(op, (*_ONE, *(Use((leaf,), {"k": k}) for leaf, k in _TOP)))
        for op in ("top_k", "top_k_rows")
    ),
    # shape
    _plain(
        "row_slice",
        tuple(
            Use((leaf,), {"start_row": start, "num_rows": count})
            for leaf, start, count in (
                *((samples(1), 0, 1), (samples(5), 1, 3), (samples(5), 4, 1)),
                *((samples(WIDE), 3, 61), (matrix(5, 7), 2, 3)),
            )
        ),
    ),
    _plain(
        "row_stack",
        _uses(
            *((samples(a), samples(b)) for a, b in ((1, 1), (3, 5), (WIDE, 2))),
            (samples(2), samples(1), samples(5), samples(3)),
            (matrix(2, 4), matrix(3, 4), matrix(1, 4)),
        ),
    ),
    _plain(
        "reshape",
        (
            *(
                Use((matrix(r, c),), {"num_rows": rows})
                for r, c, rows in (
                    *((1, 1, 1), (1, 19, 19), (19, 1, 1), (3, 4, 2), (4, 3, 6), (7, 7, 49)),
                    *((16, 16, 8), (16, 17, 34), (37, 5, 5), (WIDE, 64, 64), (2, WIDE, 2)),
                    *((64, 128, 0),),
                )
            ),
            Use((samples(12),), {"num_rows": 12, "image_width": 3, "image_height": 2}),
            *(
                Use((samples(r),), {"num_rows": rows}, keeps_columns=False)
                for r, rows in ((12, 4), (12, 1), (WIDE, 1))
            ),
        ),
    ),
    _plain("time_reverse"),
    _plain("row_repeat", _uses(*((samples(r),) for r in _ROWS), (matrix(3, 4),), num_repeats=3)),
    _plain("transpose", _uses(*((matrix(r, c),) for r, c in _SIZES))),
    _plain(
        "diagonal",
        _uses(*((matrix(r, r),) for r in _SQUARES)),
    ),
    # images
    NodeRow(
        "convolution",
        tuple(
            _convolution(size, kernel, outputs, steps, padded, groups)
            for size, kernel, outputs, steps, padded, groups in (
                ((1, 1, 1), (1, 1), 1, (1, 1), False, 1),
                ((5, 4, 3), (2, 3), 4, (1, 1), False, 1),
                ((5, 4, 3), (3, 2), 2, (2, 1), True, 1),
                ((7, 3, 1), (3, 3), 5, (2, 2), True, 1),
                ((4, 4, 9), (4, 4), WIDE, (1, 1), False, 1),
                ((4, 5, 6), (3, 2), 4, (2, 1), True, 2),
                ((5, 4, 3), (3, 3), 3, (1, 1), True, 3),
                ((6, 4, 18), (3, 2), 18, (2, 1), False, 18),
            )
        ),
        judges.CONVOLUTION,
    ),
    _plain("max_pooling", _POOLINGS),
    NodeRow("average_pooling", _POOLINGS, judges.average(_LARGEST_WINDOW)),
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
    _plain("dropout"),  # which does nothing outside training
    NodeRow(
        "batch_normalization",
        _BATCHES
        + _uses(
            (samples(6), *(matrix(2, 1),) * 4),
            (samples(WIDE), *(matrix(1, 1),) * 4),
            (image(3, 2, 4), *(matrix(4, 1),) * 4),
            spatial=True,
        ),
        judges.BATCH_NORMALIZATION,
        (numbers, numbers, numbers, numbers, positive),
    ),
    NodeRow(
        "layer_normalization",
        _uses(*_COLUMNS, (matrix(5, 7), matrix(5, 1), matrix(5, 1))),
        judges.LAYER_NORMALIZATION,
        specials="none",
    ),
    # criteria
    _criterion("square_error", judges.SQUARE_ERROR, numbers),
    _criterion("cross_entropy", judges.CROSS_ENTROPY, probabilities),
    _criterion(
        "cross_entropy_with_softmax", judges.CROSS_ENTROPY_WITH_SOFTMAX, probabilities, numbers
    ),
    _criterion("error_prediction", judges.EXACT, one_hot, numbers),
    _criterion("cos_distance", judges.COSINE, numbers),
    NodeRow(
        "logistic",
        _TWO
        + _uses(
            (samples(5), samples(5), samples(1)),
            (samples(5), samples(5), samples(5)),
            (matrix(5, 7), matrix(5, 7), matrix(1, 7)),
        ),
        judges.LOGISTIC,
        (yes_or_no, chances, positive),
        "none",
    ),
    NodeRow(
        "class_based_cross_entropy_with_softmax",
        _uses(*((samples(4), samples(h), matrix(h, 10), samples(4)) for h in (1, 3, WIDE)))
        + _uses((samples(4), samples(3), matrix(3, 10), samples(4)), max_class_size=4),
        judges.CLASS_BASED,
        (class_labels, numbers),
        "none",
    ),
    NodeRow(
        "gmm_log_likelihood",
        _uses(
            *(
                (matrix(c, 1), matrix(c * r, 1), matrix(c, 1), samples(r))
                for c, r in ((1, 1), (3, 2), (5, WIDE))
            ),
            (samples(3), samples(6), samples(3), samples(2)),
            (matrix(3, 4), matrix(6, 4), matrix(3, 4), matrix(2, 4)),
        ),
        judges.MIXTURE,
        (numbers, numbers, small, numbers),
        "none",
    ),
    NodeRow(
        "cos_distance_with_negative_samples",
        _uses(*((samples(r), samples(r)) for r in _ROWS), shift=1, negatives=3)
        + _uses((samples(5), samples(5)), (matrix(5, 7), matrix(5, 7)), shift=4, negatives=2),
        judges.NEGATIVES,
        specials="none",
    ),
    NodeRow(
        "lookup_table",
        _uses(
            *((matrix(d, v), samples(k * v)) for d, v, k in ((1, 1, 1), (3, 5, 2), (WIDE, 4, 3))),
            (matrix(3, 5), matrix(10, 4)),
        ),
        judges.LOOKUP,
    ),
    NodeRow(
        "crf",
        _uses(
            *((samples(r), samples(r), matrix(r, r)) for r in (1, 3, 17)),
            (matrix(3, 7), matrix(3, 7), matrix(3, 3)),
        ),
        judges.FIELD,
        (one_hot, numbers),
        "none",
    ),
    NodeRow("matrix_l1_reg", _ONE, judges.TOTAL),
    NodeRow("matrix_l2_reg", _ONE, judges.NORM),
    # recurrence
    NodeRow("past_value", _STATISTICS, judges.EXACT, kind="delay", specials="none"),
    NodeRow("future_value", _STATISTICS, judges.EXACT, kind="delay", specials="none"),
)
