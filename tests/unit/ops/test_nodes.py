"""Every node: its expansion against its reference, special values, gradients, sizes, wrong uses.

The references (`OpDef.reference`) are plain numpy over rows x columns and share nothing with the
expansions, which work on the layout in memory. Gradients are judged twice: by central differences
of the references, and by the formulas that chapter 2 of the book prints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from graphc.ir.core import Array
from graphc.ir.types import SAMPLES, DType, MatrixType
from graphc.ops.nodes import OPS
from graphc.ops.nodes.leaves import ParameterParams
from graphc.ops.nodes.pointwise import OF_OPERATIONS
from tests.support.nodes import (
    complaint,
    computed,
    difference_quotients,
    gradients,
    judged,
    network,
)
from tests.support.op_table import ROWS as ROWS_OF_OPERATIONS

Shape = tuple[int, int | str]

COUNTS = (0, 1, 2, 7, 31)
ROWS = (1, 2, 3, 10)
DOMAINS = {row.op: row.domain for row in ROWS_OF_OPERATIONS}
POSITIVE = {
    *(("log", "a"), ("cross_entropy", "b"), ("per_dim_mean_var_de_normalization", "c")),
    *(
        (n.name.removeprefix("node."), name)
        for n, op in OF_OPERATIONS.items()
        if DOMAINS[op][0] > 0
        for name in "abc"[: len(op.operands)]
    ),
}
TOLERANCE = {DType.F32: 2e-5, DType.F64: 1e-12}  # relative to the sum of a few hundred terms


def leaf(shape: Shape) -> str:
    """An input for `(rows, "*")`, a parameter otherwise."""
    rows, cols = shape
    if cols == "*":
        return f"node.input {{rows = {rows}}}"
    return f"node.parameter {{rows = {rows}, cols = {cols}}}"


def nodes_of(op: str, *shapes: Shape) -> dict[str, str]:
    """The node `v` of this kind over leaves `a`, `b`, … of these shapes."""
    names = "abc"[: len(shapes)]
    leaves = {name: leaf(shape) for name, shape in zip(names, shapes, strict=True)}
    return {**leaves, "v": f"node.{op} {', '.join('%' + name for name in names)}"}


def values(shapes: Mapping[str, Shape], samples: int, seed: int, op: str = "") -> dict[str, Array]:
    """Numbers for leaves, exact in f32, where it is required positive."""
    generator = np.random.default_rng(seed)
    found: dict[str, Array] = {}
    for name, (rows, cols) in shapes.items():
        size = (rows, samples if cols == "*" else cols)
        numbers = generator.uniform(-2, 2, size).astype(np.float32).astype(np.float64)  # type: ignore[arg-type]
        if (op, name) in POSITIVE:
            numbers = np.abs(numbers) + 0.25
        found[name] = numbers
    return found


@dataclass(frozen=True)
class Case:
    """A kind of node over leaves of these shapes."""

    op: str
    shapes: tuple[Shape, ...]
    settings: str = ""

    def __str__(self) -> str:
        return f"{self.op}-{'-'.join(f'{r}x{c}' for r, c in self.shapes)}{self.settings}"

    @property
    def nodes(self) -> dict[str, str]:
        nodes = nodes_of(self.op, *self.shapes)
        return {**nodes, "v": f"{nodes['v']} {{{self.settings}}}"} if self.settings else nodes

    @property
    def leaves(self) -> dict[str, Shape]:
        return dict(zip("abc", self.shapes, strict=False))

    @property
    def sample_counts(self) -> tuple[int, ...]:
        return COUNTS if any(cols == "*" for _, cols in self.shapes) else (3,)


UNARY = (
    *(op.name.removeprefix("node.") for op in OF_OPERATIONS if len(op.operands) == 1),
    "rectified_linear",
    "log",
    "softmax",
    "log_softmax",
    "hardmax",
    "sum_elements",
    "sum_column_elements",
    "matrix_l1_reg",
    "matrix_l2_reg",
)
CRITERIA = ("square_error", "cross_entropy", "cross_entropy_with_softmax", "error_prediction")
SUM_SHAPES: tuple[tuple[Shape, Shape], ...] = (
    ((3, "*"), (3, "*")),  # equal sizes
    ((10, "*"), (1, "*")),  # a row vector over the same columns
    ((1, "*"), (10, "*")),
    ((10, "*"), (10, 1)),  # a column vector
    ((10, 1), (10, "*")),
    ((10, "*"), (5, 1)),  # tiled downwards
    ((2, 1), (10, "*")),
    ((10, "*"), (1, 1)),  # a scalar
    ((1, 1), (10, "*")),
    ((1, 1), (1, "*")),
    ((3, 4), (3, 4)),  # matrices without samples
    ((3, 4), (1, 4)),
    ((1, 4), (3, 4)),
    ((3, 4), (3, 1)),
    ((6, 4), (2, 1)),
    ((2, 1), (6, 4)),
    ((3, 4), (1, 1)),
    ((1, 1), (3, 4)),
    ((6, 1), (3, 1)),
    ((1, 1), (1, 1)),
)
NORMALIZATIONS = (
    "layer_normalization",
    "per_dim_mean_var_normalization",
    "per_dim_mean_var_de_normalization",
)
SLICES = ((0, 1), (0, 10), (3, 5), (9, 1), (8, 2))
REPEATED: tuple[tuple[Shape, Shape], ...] = (((3, 4), (3, 2)), ((2, 6), (2, 3)), ((1, 6), (1, 2)))

CASES = [
    *(Case(op, ((rows, "*"),)) for op in UNARY for rows in ROWS),
    *(Case(op, ((3, 4),)) for op in UNARY),
    *(Case(op, ((rows, "*"), (rows, "*"))) for op in CRITERIA for rows in ROWS),
    *(Case(op, ((3, 4), (3, 4))) for op in CRITERIA),
    *(Case(op, shapes) for op in ("plus", "minus") for shapes in SUM_SHAPES),
    *(Case("plus", shapes) for shapes in REPEATED),
    *(
        Case(op.name.removeprefix("node."), (*shapes, *shapes[:1])[: len(op.operands)])
        for op in OF_OPERATIONS
        if len(op.operands) > 1
        for shapes in SUM_SHAPES
    ),
    *(Case("element_times", ((rows, "*"), (rows, "*"))) for rows in ROWS),
    Case("element_times", ((3, 4), (3, 4))),
    *(Case("times", ((rows, 3), (3, "*"))) for rows in ROWS),
    *(Case("times", ((2, rows), (rows, "*"))) for rows in ROWS),
    Case("times", ((2, 3), (3, 4))),
    Case("times", ((1, 1), (1, 1))),
    *(Case("scale", ((1, 1), (rows, "*"))) for rows in ROWS),
    Case("scale", ((1, 1), (3, 4))),
    Case("scale", ((1, 1), (1, 1))),
    *(Case(op, ((rows, "*"), (rows, 1), (rows, 1))) for op in NORMALIZATIONS for rows in ROWS),
    *(Case(op, ((3, 4), (3, 1), (3, 1))) for op in NORMALIZATIONS),
    *(
        Case(op, shapes, f"k = {k}")
        for op in ("top_k", "top_k_rows")
        for shapes, k in ((((1, "*"),), 1), (((5, "*"),), 2), (((5, "*"),), 5), (((4, 3),), 3))
    ),
    *(Case("dropout", ((rows, "*"),)) for rows in ROWS),
    Case("dropout", ((3, 4),)),
    *(Case("transpose_times", ((3, rows), (3, "*"))) for rows in ROWS),
    *(Case("transpose_times", ((rows, 2), (rows, "*"))) for rows in ROWS),
    Case("transpose_times", ((3, 2), (3, 4))),
    Case("transpose_times", ((1, 1), (1, 1))),
    *(Case("row_element_times", ((rows, "*"), (1, "*"))) for rows in ROWS),
    Case("row_element_times", ((3, 4), (1, 4))),
    Case("row_element_times", ((3, 1), (1, 1))),
    *(Case("column_element_times", ((rows, "*"), (rows, 1))) for rows in ROWS),
    Case("column_element_times", ((3, 4), (3, 1))),
    Case("column_element_times", ((1, 4), (1, 1))),
    *(Case("diag_times", ((rows, 1), (rows, "*"))) for rows in ROWS),
    Case("diag_times", ((3, 1), (3, 4))),
    Case("diag_times", ((3, 1), (3, 1))),
    *(Case("khatri_rao_product", ((rows, "*"), (3, "*"))) for rows in ROWS),
    *(Case("khatri_rao_product", ((2, "*"), (rows, "*"))) for rows in ROWS),
    Case("khatri_rao_product", ((2, 4), (3, 4))),
    Case("khatri_rao_product", ((2, 1), (3, 1))),
    *(Case("column_times", ((rows, "*"), (rows, "*")), f"inner = {rows}") for rows in ROWS),
    *(Case("column_times", ((6, "*"), (12, "*")), f"inner = {inner}") for inner in (1, 2, 3, 6)),
    Case("column_times", ((6, 3), (4, 3)), "inner = 2"),
    *(Case("attention", ((rows, "*"), (rows, "*"), (3, "*"))) for rows in ROWS),
    Case("attention", ((4, "*"), (4, "*"), (6, "*")), "heads = 2, causal = true"),
    Case("attention", ((4, 5), (4, 5), (2, 5)), "heads = 2"),
    *(Case("cos_distance", ((rows, "*"), (rows, "*"))) for rows in ROWS[1:]),
    Case("cos_distance", ((3, 4), (3, 4))),
    *(Case("row_repeat", ((rows, "*"),), "num_repeats = 3") for rows in ROWS),
    Case("row_repeat", ((3, "*"),), "num_repeats = 1"),
    Case("row_repeat", ((3, 4),), "num_repeats = 2"),
    *(Case("transpose", (shape,)) for shape in ((3, 4), (1, 4), (4, 1), (1, 1))),
    *(Case("diagonal", ((rows, rows),)) for rows in ROWS),
    *(Case("row_slice", ((10, "*"),), f"start_row = {s}, num_rows = {n}") for s, n in SLICES),
    *(Case("row_slice", ((10, 3),), f"start_row = {s}, num_rows = {n}") for s, n in SLICES),
    *(Case("row_stack", ((rows, "*"), (2, "*"))) for rows in ROWS),
    *(Case("row_stack", ((1, "*"), (rows, "*"), (3, "*"))) for rows in ROWS),
    Case("row_stack", ((3, 4), (1, 4), (2, 4))),
    Case("row_stack", ((3, 1), (2, 1))),
    *(Case("reshape", ((rows, "*"),), f"num_rows = {rows}") for rows in ROWS),
    *(Case("reshape", ((3, 4),), f"num_rows = {rows}") for rows in (0, 1, 2, 3, 4, 6, 12)),
    Case("reshape", ((6, "*"),), "num_rows = 0, image_width = 2, image_channels = 3"),
    *(Case("time_reverse", ((rows, "*"),)) for rows in ROWS),
    Case("time_reverse", ((3, 4),)),
    Case("time_reverse", ((3, 1),)),
]
WITHOUT_GRADIENT = {
    *("error_prediction", "hardmax", "top_k_rows"),
    *(n.name.removeprefix("node.") for n, op in OF_OPERATIONS.items() if not callable(op.vjp)),
}
DIFFERENTIABLE = [case for case in CASES if case.op not in WITHOUT_GRADIENT]
WITHOUT_CASES = {
    "input",
    "sparse_input",  # tests/e2e/test_sparse_inputs.py
    "parameter",
    "constant",
    "mean",
    "inv_std_dev",
    "past_value",
    "future_value",
    "crf",  # tests/unit/ops/test_chains.py
    "logistic",  # tests/unit/ops/test_logistic.py
    "gmm_log_likelihood",  # tests/unit/ops/test_mixtures.py
    "class_based_cross_entropy_with_softmax",  # tests/unit/ops/test_classes.py
    "cos_distance_with_negative_samples",  # tests/unit/ops/test_negatives.py
    "batch_normalization",  # tests/unit/ops/test_batch_normalization.py
    "lookup_table",  # tests/unit/ops/test_lookup_table.py
    "convolution",  # tests/unit/ops/test_images.py
    "max_pooling",  # tests/unit/ops/test_images.py
    "average_pooling",  # tests/unit/ops/test_images.py
}


def test_every_node_has_cases_or_tests_of_its_own() -> None:
    names = {op.name.removeprefix("node.") for op in OPS}
    assert {case.op for case in CASES} | WITHOUT_CASES == names


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_expansion_computes_what_the_reference_says(case: Case, dtype: DType) -> None:
    net = network(case.nodes)
    for samples in case.sample_counts:
        leaves = values(case.leaves, samples, seed=samples, op=case.op)
        found = computed(net, "v", leaves, samples, dtype)
        expected = judged(net, "v", leaves)
        assert found.dtype == dtype.numpy
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])


ELEMENT_WISE = {
    *(op.name.removeprefix("node.") for op in OF_OPERATIONS),
    *("rectified_linear", "log"),
}
SPECIAL = np.array([[np.nan, np.inf, -np.inf, -0.0, 0.0, 1e30, -1e30, 100.0, -100.0, 1e-40]])


@pytest.mark.parametrize("rows", [1, 2])
@pytest.mark.parametrize("op", [op for op in UNARY if op in ELEMENT_WISE])
def test_special_values_go_through_element_wise_nodes(op: str, rows: int) -> None:
    net = network(nodes_of(op, (rows, "*")))
    leaves = {"a": np.repeat(SPECIAL, rows, axis=0)}
    found = computed(net, "v", leaves, SPECIAL.size)
    expected = judged(net, "v", leaves)
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)
    if op == "negate":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("op", ["softmax", "log_softmax"])
def test_softmax_of_large_numbers_does_not_overflow(op: str) -> None:
    net = network(nodes_of(op, (3, "*")))
    leaves = {"a": np.array([[1000.0, -1e30, 0.0], [1001.0, 0.0, -np.inf], [999.0, 1.0, 0.0]])}
    found = computed(net, "v", leaves, 3)
    np.testing.assert_allclose(found, judged(net, "v", leaves), rtol=1e-12, atol=1e-300)
    assert not np.isnan(found).any()


def test_a_nan_in_one_column_leaves_the_others_alone() -> None:
    net = network(nodes_of("softmax", (2, "*")))
    found = computed(net, "v", {"a": np.array([[np.nan, 0.0], [1.0, 0.0]])}, 2)
    assert np.isnan(found[:, 0]).all()
    assert found[:, 1].tolist() == [0.5, 0.5]


def test_log_takes_what_is_below_its_floor_as_the_floor() -> None:
    net = network(nodes_of("log", (1, "*")))
    found = computed(net, "v", {"a": np.array([[0.0, -5.0, 1e-38, 1e-37]])}, 4)
    np.testing.assert_allclose(found, np.full((1, 4), np.log(1e-37)))


def test_cross_entropy_with_softmax_of_a_sure_and_right_prediction_is_zero() -> None:
    net = network(nodes_of("cross_entropy_with_softmax", (2, "*"), (2, "*")))
    leaves = {"a": np.array([[1.0], [0.0]]), "b": np.array([[1e4], [-1e4]])}
    assert computed(net, "v", leaves, 1).tolist() == [[0.0]]


@pytest.mark.parametrize(
    ("label", "prediction", "errors"),
    [
        ([1, 0, 0], [5, 5, 0], 0),  # a tie: the first maximum counts
        ([0, 1, 0], [5, 5, 0], 1),
        ([0, 0, 0], [1, 1, 1], 0),  # ties on both sides
        ([1, 1, 0], [1, 0, 0], 0),
        ([0, 1, 1], [0, 0, 1], 1),
        ([1, 0, 0], [-np.inf, -np.inf, -np.inf], 0),
        ([0, 1, 0], [-0.0, 0.0, -0.0], 1),
        ([0, 1, 0], [0, np.inf, np.inf], 0),
        ([1, 0, 0], [np.nan, 0, 0], 1),  # no number is largest, so nothing is predicted
    ],
)
def test_error_prediction_compares_the_first_maxima(
    label: list[float], prediction: list[float], errors: int
) -> None:
    net = network(nodes_of("error_prediction", (3, "*"), (3, "*")))
    leaves = {"a": np.array([label], float).T, "b": np.array([prediction], float).T}
    assert computed(net, "v", leaves, 1).tolist() == [[errors]]


def test_error_prediction_counts_columns() -> None:
    net = network(nodes_of("error_prediction", (10, "*"), (10, "*")))
    labels = np.eye(10)[:, np.arange(31) % 10]
    scores = np.eye(10)[:, (np.arange(31) + (np.arange(31) < 12)) % 10]
    assert computed(net, "v", {"a": labels, "b": scores}, 31).tolist() == [[12.0]]


@pytest.mark.parametrize("op", [*CRITERIA, "sum_elements"])
def test_a_criterion_over_no_samples_is_zero(op: str) -> None:
    shapes: tuple[Shape, ...] = ((3, "*"),) if op == "sum_elements" else ((3, "*"), (3, "*"))
    net = network(nodes_of(op, *shapes))
    empty = {name: np.zeros((3, 0)) for name in "ab"}
    assert computed(net, "v", empty, 0).tolist() == [[0.0]]


@pytest.mark.parametrize("op", CRITERIA)
def test_a_criterion_is_a_sum_over_columns_and_no_mean(op: str) -> None:
    net = network(nodes_of(op, (3, "*"), (3, "*")))
    leaves = values({"a": (3, "*"), "b": (3, "*")}, 4, seed=5, op=op)
    once = computed(net, "v", leaves, 4)
    twice = computed(net, "v", {k: np.tile(v, (1, 2)) for k, v in leaves.items()}, 8)
    np.testing.assert_allclose(twice, 2 * once)


def test_a_constant_is_its_value_everywhere() -> None:
    net = network({"v": "node.constant {value = 0.5, rows = 2, cols = 3}"})
    assert computed(net, "v", {}, 1).tolist() == [[0.5] * 3] * 2


@pytest.mark.parametrize("shape", [(3, "*"), (3, 2)])
def test_an_input_or_a_parameter_can_be_an_output(shape: Shape) -> None:
    net = network({"a": leaf(shape)})
    leaves = values({"a": shape}, 5, seed=1)
    np.testing.assert_array_equal(computed(net, "a", leaves, 5), leaves["a"])


def test_a_node_without_samples_can_be_added_to_one_that_only_has_constants_above_it() -> None:
    net = network(
        {
            "x": "node.input {rows = 2}",
            "c": "node.constant {value = 2.0}",
            "s": "node.scale %c, %x",
            "v": "node.plus %s, %c",
        }
    )
    found = computed(net, "v", {"x": np.array([[1.0, 2.0], [3.0, 4.0]])}, 2)
    assert found.tolist() == [[4.0, 6.0], [8.0, 10.0]]


# --- gradients ---


@pytest.mark.parametrize("case", DIFFERENTIABLE, ids=str)
def test_gradients_are_what_central_differences_say(case: Case) -> None:
    # A weighted sum, so that the cotangents of the elements differ.
    net = network(
        {
            **case.nodes,
            "w": leaf((1, 1)),
            "u": "node.element_times %v, %v",
            "j": "node.sum_elements %u",
        }
    )
    samples = 3
    leaves = {**values(case.leaves, samples, seed=11, op=case.op), "w": np.ones((1, 1))}
    names = list(case.leaves)
    found = gradients(net, "j", leaves, samples, names)
    for name in names:
        expected = difference_quotients(net, "j", leaves, name)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7, err_msg=name)


def _softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


@dataclass(frozen=True)
class Formula:
    """The book's gradients of one node: from the cotangent of V and the operands to theirs."""

    op: str
    shapes: tuple[Shape, ...]
    rule: Callable[..., tuple[Array, ...]]
    settings: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.op + "-" + "-".join(f"{r}x{c}" for r, c in self.shapes)


def _row_sums(d: Array) -> Array:
    return d @ np.ones((d.shape[1], 1))


def _column_sums(d: Array) -> Array:
    return np.ones((1, d.shape[0])) @ d


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def _norms(x: Array) -> Array:
    return np.sqrt(np.sum(x * x, axis=0))


def _cosines(x: Array, y: Array) -> Array:
    return np.sum(x * y, axis=0) / (_norms(x) * _norms(y))


def _cosine_rule(d: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Equations 2.104 and 2.105."""
    lengths, v = _norms(x) * _norms(y), _cosines(x, y)
    return (
        d * (y / lengths - x * v / _norms(x) ** 2),
        d * (x / lengths - y * v / _norms(y) ** 2),
    )


def _khatri_rao_rule(d: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """Equations 2.99 and 2.100: each column of d as a matrix, rows(X) by rows(Y)."""
    columns = range(d.shape[1])
    tables = [d[:, j].reshape((x.shape[0], y.shape[0]), order="F") for j in columns]
    return (
        np.stack([tables[j] @ y[:, j] for j in columns], axis=1),
        np.stack([tables[j].T @ x[:, j] for j in columns], axis=1),
    )


X = ((3, "*"),)
XY = ((3, "*"), (3, "*"))
FORMULAS = [
    Formula("negate", X, lambda d, x: (-d,)),
    Formula("sigmoid", X, lambda d, x: (d * _sigmoid(x) * (1 - _sigmoid(x)),)),
    Formula("tanh", X, lambda d, x: (d * (1 - np.tanh(x) * np.tanh(x)),)),
    Formula("rectified_linear", X, lambda d, x: (d * (x > 0),)),
    Formula("log", X, lambda d, x: (d / x,)),
    Formula("exp", X, lambda d, x: (d * np.exp(x),)),
    Formula("cosine", X, lambda d, x: (-d * np.sin(x),)),
    Formula("softmax", X, lambda d, x: ((d - (d * _softmax(x)).sum(axis=0)) * _softmax(x),)),
    Formula("log_softmax", X, lambda d, x: (d - _softmax(x) * d.sum(axis=0),)),
    Formula("sum_elements", X, lambda d, x: (d * np.ones_like(x),)),
    Formula("times", ((2, 3), (3, "*")), lambda d, x, y: (d @ y.T, x.T @ d)),
    Formula("element_times", XY, lambda d, x, y: (d * y, d * x)),
    Formula("scale", ((1, 1), (3, "*")), lambda d, s, y: (np.sum(d * y).reshape(1, 1), s * d)),
    Formula("plus", XY, lambda d, x, y: (d, d)),
    Formula("plus", ((1, "*"), (3, "*")), lambda d, x, y: (_column_sums(d), d)),
    Formula("plus", ((3, "*"), (3, 1)), lambda d, x, y: (d, _row_sums(d))),
    Formula("plus", ((3, "*"), (1, 1)), lambda d, x, y: (d, _row_sums(_column_sums(d)))),
    Formula("minus", XY, lambda d, x, y: (d, -d)),
    Formula("minus", ((3, "*"), (1, "*")), lambda d, x, y: (d, -_column_sums(d))),
    Formula("minus", ((3, 1), (3, "*")), lambda d, x, y: (_row_sums(d), -d)),
    Formula("minus", ((3, "*"), (1, 1)), lambda d, x, y: (d, -_row_sums(_column_sums(d)))),
    # The toolkit's criterion has the factor 1/2 that this place of the book leaves out.
    Formula("square_error", XY, lambda d, x, y: (d * (x - y), -d * (x - y))),
    Formula("cross_entropy", XY, lambda d, x, y: (-d * np.log(y), -d * (x / y))),
    Formula(
        "cross_entropy_with_softmax",
        XY,
        lambda d, x, y: (-d * np.log(_softmax(y)), d * (_softmax(y) * x.sum(axis=0) - x)),
    ),
    Formula("diag_times", ((3, 1), (3, "*")), lambda d, v, y: (_row_sums(d * y), v * d)),
    Formula("khatri_rao_product", ((2, "*"), (3, "*")), _khatri_rao_rule),
    Formula("cos_distance", XY, _cosine_rule),
    # The book names these and leaves their gradients to the reader.
    Formula("transpose_times", ((3, 2), (3, "*")), lambda d, x, y: (y @ d.T, x @ d)),
    Formula(
        "row_element_times",
        ((3, "*"), (1, "*")),
        lambda d, x, v: (d * v, _column_sums(d * x)),
    ),
    Formula(
        "column_element_times",
        ((3, "*"), (3, 1)),
        lambda d, x, v: (d * v, _row_sums(d * x)),
    ),
    Formula("sum_column_elements", X, lambda d, x: (d * np.ones_like(x),)),
    Formula("matrix_l1_reg", X, lambda d, x: (d * np.sign(x),)),
    Formula("matrix_l2_reg", X, lambda d, x: (d * x / np.sqrt(np.sum(x * x)),)),
    Formula(
        "per_dim_mean_var_de_normalization",
        ((3, "*"), (3, 1), (3, 1)),
        lambda d, x, m, s: (d / s, _row_sums(d), _row_sums(-d * x / s**2)),
    ),
]


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_gradients_are_what_the_book_prints(formula: Formula) -> None:
    type = network(nodes_of(formula.op, *formula.shapes)).type("v")
    assert type.rows is not None
    shape: Shape = (type.rows, "*" if type.has_samples else 1)
    net = network(
        {
            **nodes_of(formula.op, *formula.shapes),
            "d": leaf(shape),
            "u": "node.element_times %v, %d",
            "j": "node.sum_elements %u",
        }
    )
    shapes = {**dict(zip("abc", formula.shapes, strict=False)), "d": shape}
    leaves = values(shapes, 4, seed=3, op=formula.op)
    names = list("abc"[: len(formula.shapes)])
    found = gradients(net, "j", leaves, 4, names)
    expected = formula.rule(leaves["d"], *(leaves[n] for n in names))
    for name, gradient in zip(names, expected, strict=True):
        np.testing.assert_allclose(found[name], gradient, rtol=1e-12, atol=1e-12, err_msg=name)


def test_the_gradient_of_softmax_cross_entropy_of_a_distribution_is_p_minus_label() -> None:
    net = network(nodes_of("cross_entropy_with_softmax", (3, "*"), (3, "*")))
    label = np.eye(3)[:, [2, 0, 1]]
    score = np.random.default_rng(1).normal(size=(3, 3))
    found = gradients(net, "v", {"a": label, "b": score}, 3, ["b"])["b"]
    np.testing.assert_allclose(found, _softmax(score) - label, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("op", ["error_prediction"])
def test_counting_errors_has_a_gradient_of_zero(op: str) -> None:
    net = network(nodes_of(op, (3, "*"), (3, "*")))
    leaves = values({"a": (3, "*"), "b": (3, "*")}, 4, seed=2)
    found = gradients(net, "v", leaves, 4, ["a", "b"])
    assert all((g == 0).all() for g in found.values())


def test_the_slope_of_relu_at_zero_is_zero() -> None:
    net = network({**nodes_of("rectified_linear", (1, "*")), "j": "node.sum_elements %v"})
    found = gradients(net, "j", {"a": np.array([[0.0, -0.0, 1e-300, -1e-300]])}, 4, ["a"])
    assert found["a"].tolist() == [[0.0, 0.0, 1.0, 0.0]]


def test_log_has_no_slope_below_its_floor() -> None:
    net = network({**nodes_of("log", (1, "*")), "j": "node.sum_elements %v"})
    found = gradients(net, "j", {"a": np.array([[0.0, -1.0, 0.5]])}, 3, ["a"])
    assert found["a"].tolist() == [[0.0, 0.0, 2.0]]


def test_a_node_that_is_read_twice_gets_both_contributions() -> None:
    net = network(
        {
            "a": leaf((2, "*")),
            "s": "node.plus %a, %a",
            "u": "node.element_times %s, %a",
            "j": "node.sum_elements %u",
        }
    )
    leaves = values({"a": (2, "*")}, 3, seed=1)
    found = gradients(net, "j", leaves, 3, ["a"])
    np.testing.assert_allclose(found["a"], 4 * leaves["a"])


# --- sizes that are taken from other nodes ---


@pytest.mark.parametrize(
    ("nodes", "name", "expected"),
    [
        ({"w": "node.parameter {rows = 10, cols = 0}", "v": "node.times %w, %x"}, "w", (10, 4)),
        (
            {
                "w": "node.parameter {rows = 3, cols = 4}",
                "b": "node.parameter {rows = 0, cols = 2}",
                "v": "node.times %w, %b",
            },
            "b",
            (4, 2),
        ),
        ({"b": "node.parameter {rows = 0}", "v": "node.plus %x, %b"}, "b", (4, 1)),
        ({"b": "node.parameter {rows = 0, cols = 0}", "v": "node.plus %b, %x"}, "b", (4, 1)),
        ({"b": "node.parameter {rows = 0}", "v": "node.minus %x, %b"}, "b", (4, 1)),
        (
            {
                "m": "node.parameter {rows = 3, cols = 5}",
                "b": "node.parameter {rows = 0, cols = 0}",
                "v": "node.element_times %m, %b",
            },
            "b",
            (3, 5),
        ),
        ({"s": "node.parameter {rows = 0, cols = 0}", "v": "node.scale %s, %x"}, "s", (1, 1)),
        (
            {
                "m": "node.parameter {rows = 3, cols = 5}",
                "b": "node.parameter {rows = 0, cols = 5}",
                "v": "node.square_error %m, %b",
            },
            "b",
            (3, 5),
        ),
        (
            {
                "m": "node.parameter {rows = 0, cols = 0}",
                "s": "node.parameter {rows = 0, cols = 0}",
                "v": "node.per_dim_mean_var_normalization %x, %m, %s",
            },
            "s",
            (4, 1),
        ),
        (
            {
                "m": "node.parameter {rows = 0, cols = 0}",
                "s": "node.parameter {rows = 0, cols = 0}",
                "v": "node.per_dim_mean_var_de_normalization %x, %m, %s",
            },
            "m",
            (4, 1),
        ),
        (
            {"w": "node.parameter {rows = 0, cols = 3}", "v": "node.transpose_times %w, %x"},
            "w",
            (4, 3),
        ),
        (
            {
                "w": "node.parameter {rows = 3, cols = 4}",
                "b": "node.parameter {rows = 0, cols = 2}",
                "v": "node.transpose_times %w, %b",
            },
            "b",
            (3, 2),
        ),
        (
            {
                "m": "node.parameter {rows = 3, cols = 5}",
                "b": "node.parameter {rows = 0, cols = 0}",
                "v": "node.row_element_times %m, %b",
            },
            "b",
            (1, 5),
        ),
        (
            {
                "m": "node.parameter {rows = 3, cols = 0}",
                "b": "node.parameter {rows = 1, cols = 5}",
                "v": "node.row_element_times %m, %b",
            },
            "m",
            (3, 5),
        ),
        ({"b": "node.parameter {rows = 0}", "v": "node.column_element_times %x, %b"}, "b", (4, 1)),
        ({"b": "node.parameter {rows = 0, cols = 0}", "v": "node.diag_times %b, %x"}, "b", (4, 1)),
        (
            {
                "m": "node.parameter {rows = 0, cols = 5}",
                "b": "node.parameter {rows = 3}",
                "v": "node.diag_times %b, %m",
            },
            "m",
            (3, 5),
        ),
        (
            {
                "m": "node.parameter {rows = 3, cols = 5}",
                "b": "node.parameter {rows = 2, cols = 0}",
                "v": "node.khatri_rao_product %m, %b",
            },
            "b",
            (2, 5),
        ),
        (
            {
                "m": "node.parameter {rows = 3, cols = 5}",
                "b": "node.parameter {rows = 0, cols = 0}",
                "v": "node.cos_distance %b, %m",
            },
            "b",
            (3, 5),
        ),
    ],
)
def test_a_parameter_of_size_zero_takes_the_size_of_what_it_meets(
    nodes: dict[str, str], name: str, expected: tuple[int, int]
) -> None:
    net = network({"x": "node.input {rows = 4}", **nodes})
    assert net.type(name) == MatrixType(*expected)
    params = net.node(name).params
    assert isinstance(params, ParameterParams)
    assert (params.rows, params.cols) == expected


def test_sizes_flow_through_a_whole_network() -> None:
    net = network(
        {
            "z": "node.plus %t, %b",
            "t": "node.times %w2, %h",
            "h": "node.sigmoid %s",
            "s": "node.plus %u, %b1",
            "u": "node.times %w1, %x",
            "w1": "node.parameter {rows = 5, cols = 0}",
            "b1": "node.parameter {rows = 0}",
            "w2": "node.parameter {rows = 3, cols = 0}",
            "b": "node.parameter {rows = 0}",
            "x": "node.input {rows = 4}",
        }
    )
    assert net.type("w1") == MatrixType(5, 4)
    assert net.type("w2") == MatrixType(3, 5)
    assert net.type("b") == MatrixType(3, 1)
    assert net.type("z") == MatrixType(3, SAMPLES)


@pytest.mark.parametrize("first", ["t", "p"])
def test_a_sum_settles_an_open_size_only_when_no_other_node_does(first: str) -> None:
    nodes = {"t": "node.times %w, %x", "p": "node.plus %w, %b"}
    net = network(
        {
            first: nodes.pop(first),
            **nodes,
            "w": "node.parameter {rows = 2, cols = 0}",
            "x": "node.input {rows = 8}",
            "b": "node.parameter {rows = 2, cols = 4}",
        }
    )
    assert net.type("w") == MatrixType(2, 8)
    assert net.type("p") == MatrixType(2, 8)


def test_only_parameters_take_their_size_from_others() -> None:
    found = complaint(
        {
            "p": "node.parameter {rows = 0, cols = 0}",
            "n": "node.negate %p",
            "x": "node.input {rows = 4}",
            "v": "node.element_times %n, %x",
        }
    )
    assert found == ("shape-mismatch: the size of `p` cannot be inferred, it is matrix<?x?>")


def test_a_cycle_of_nodes_whose_size_nobody_knows_is_reported() -> None:
    found = complaint({"p": "node.past_value %h", "h": "node.sigmoid %p"})
    assert found == "shape-mismatch: the size of `p` cannot be inferred, it is matrix<?x*>"


def test_a_parameter_that_does_not_train_is_an_argument_like_any_other() -> None:
    net = network(
        {
            "w": "node.parameter {rows = 2, cols = 3, need_gradient = false}",
            "x": "node.input {rows = 3}",
            "v": "node.times %w, %x",
        }
    )
    params = net.node("w").params
    assert isinstance(params, ParameterParams)
    assert not params.need_gradient
    leaves = values({"w": (2, 3), "x": (3, "*")}, 4, seed=1)
    np.testing.assert_allclose(computed(net, "v", leaves, 4), leaves["w"] @ leaves["x"])


# --- wrong uses ---

X4, X5 = "node.input {rows = 4}", "node.input {rows = 5}"


@pytest.mark.parametrize(
    ("a", "b", "op", "message"),
    [
        # products
        (
            (3, 4),
            (5, "*"),
            "times",
            "requires the columns of A to match the rows of B, got 4 and 5",
        ),
        ((3, 4), (3, 4), "times", "requires the columns of A to match the rows of B, got 4 and 3"),
        ((4, "*"), (4, "*"), "times", "requires a left operand whose columns are not samples"),
        ((4, "*"), (3, 4), "times", "requires a left operand whose columns are not samples"),
        ((1, 1), (2, 2), "times", "requires the columns of A to match the rows of B, got 1 and 2"),
        # element-wise
        ((4, "*"), (5, "*"), "plus", "Plus requires equal sizes, or one operand a row vector"),
        ((4, "*"), (3, 1), "plus", "Plus requires equal sizes, or one operand a row vector"),
        ((4, "*"), (1, 4), "plus", "got matrix<4x*> and matrix<1x4>"),
        ((3, 4), (3, 3), "plus", "got matrix<3x4> and matrix<3x3>"),
        (
            (3, 2),
            (3, 4),
            "plus",
            "got matrix<3x2> and matrix<3x4>",
        ),  # the second repeats, not the first
        ((3, 4), (3, 2), "minus", "Minus requires equal sizes"),  # Minus does not repeat columns
        ((4, "*"), (4, 4), "minus", "got matrix<4x*> and matrix<4x4>"),
        ((4, "*"), (4, 1), "element_times", "ElementTimes requires operands of one size, got"),
        ((4, "*"), (1, 1), "element_times", "ElementTimes requires operands of one size, got"),
        ((4, "*"), (5, "*"), "element_times", "got matrix<4x*> and matrix<5x*>"),
        ((2, 1), (4, "*"), "scale", "Scale requires a 1x1 first operand, got matrix<2x1>"),
        ((1, "*"), (4, "*"), "scale", "Scale requires a 1x1 first operand, got matrix<1x*>"),
        # transposed and with vectors
        ((4, 2), (5, "*"), "transpose_times", "requires the rows of A to match the rows of B, got"),
        ((4, "*"), (4, "*"), "transpose_times", "a left operand whose columns are not samples"),
        ((4, "*"), (1, 4), "row_element_times", "a vector matrix<1x*> for matrix<4x*>, got"),
        ((4, "*"), (2, "*"), "row_element_times", "RowElementTimes requires a vector matrix<1x*>"),
        ((3, 4), (1, 3), "row_element_times", "for matrix<3x4>, got matrix<1x3>"),
        ((3, 4), (3, 1), "row_element_times", "for matrix<3x4>, got matrix<3x1>"),
        ((4, "*"), (2, 1), "column_element_times", "a vector matrix<4x1> for matrix<4x*>, got"),
        ((4, "*"), (4, "*"), "column_element_times", "for matrix<4x*>, got matrix<4x*>"),
        ((3, 4), (1, 4), "column_element_times", "for matrix<3x4>, got matrix<1x4>"),
        ((3, 1), (4, "*"), "diag_times", "DiagTimes requires a vector matrix<4x1> for matrix<4x*>"),
        ((4, 4), (4, "*"), "diag_times", "for matrix<4x*>, got matrix<4x4>"),
        (
            (4, "*"),
            (4, 3),
            "khatri_rao_product",
            "KhatriRaoProduct requires operands with the same",
        ),
        ((2, 3), (2, 4), "khatri_rao_product", "got matrix<2x3> and matrix<2x4>"),
        ((4, "*"), (5, "*"), "cos_distance", "CosDistance requires operands of one size, got"),
        # criteria
        (
            (4, "*"),
            (5, "*"),
            "square_error",
            "SquareError requires target and prediction of one size",
        ),
        ((4, "*"), (4, 1), "square_error", "got matrix<4x*> and matrix<4x1>"),
        (
            (4, "*"),
            (5, "*"),
            "cross_entropy",
            "CrossEntropy requires label and probability of one size",
        ),
        (
            (4, "*"),
            (5, "*"),
            "cross_entropy_with_softmax",
            "requires label and prediction of one size",
        ),
        (
            (4, 2),
            (4, "*"),
            "error_prediction",
            "ErrorPrediction requires label and prediction of one",
        ),
    ],
)
def test_operands_that_do_not_fit_are_refused_with_both_sizes(
    a: Shape, b: Shape, op: str, message: str
) -> None:
    found = complaint(nodes_of(op, a, b))
    assert found.startswith("shape-mismatch: ")
    assert message in found


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        # leaves
        (
            {"a": "node.input {rows = 0}"},
            "ill-typed: Input requires rows from 1 to 2147483647, got 0",
        ),
        (
            {"a": "node.input {rows = -1}"},
            "ill-typed: Input requires rows from 1 to 2147483647, got -1",
        ),
        ({"a": "node.input {rows = 2147483648}"}, "Input requires rows from 1 to 2147483647"),
        (
            {"a": "node.parameter {rows = -1}"},
            "Parameter requires rows from 0 to 2147483647, got -1",
        ),
        ({"a": "node.parameter {rows = 1, cols = -1}"}, "Parameter requires cols from 0"),
        (
            {"a": "node.parameter {rows = 0}"},
            "the size of `a` cannot be inferred, it is matrix<?x1>",
        ),
        ({"a": "node.constant {value = 1.0, rows = 0}"}, "Constant requires rows from 1"),
        ({"a": "node.constant {value = 1.0, cols = 0}"}, "Constant requires cols from 1"),
        # statistics
        (
            {"a": leaf((3, 4)), "v": "node.mean %a"},
            "Mean requires a node with one column per sample",
        ),
        (
            {"a": leaf((3, 4)), "v": "node.inv_std_dev %a"},
            "InvStdDev requires a node with one column",
        ),
        (
            {
                "a": X4,
                "b": leaf((3, 1)),
                "c": leaf((4, 1)),
                "v": "node.per_dim_mean_var_normalization %a, %b, %c",
            },
            "requires a mean and a deviation of size 4x1 for matrix<4x*>, got matrix<3x1>",
        ),
        (
            {
                "a": X4,
                "b": leaf((4, 1)),
                "c": leaf((4, 2)),
                "v": "node.per_dim_mean_var_normalization %a, %b, %c",
            },
            "size 4x1 for matrix<4x*>, got matrix<4x2>",
        ),
        (
            {
                "a": X4,
                "b": X4,
                "c": leaf((4, 1)),
                "v": "node.per_dim_mean_var_normalization %a, %b, %c",
            },
            "size 4x1 for matrix<4x*>, got matrix<4x*>",
        ),
        (
            {
                "a": X4,
                "b": leaf((4, 1)),
                "c": leaf((5, 1)),
                "v": "node.per_dim_mean_var_de_normalization %a, %b, %c",
            },
            "PerDimMeanVarDeNormalization requires a mean and a deviation of size 4x1",
        ),
        # shapes
        (
            {"a": X4, "v": "node.transpose %a"},
            "shape-mismatch: Transpose requires a matrix whose columns are not samples, got",
        ),
        (
            {"a": X4, "v": "node.diagonal %a"},
            "shape-mismatch: Diagonal requires a matrix whose columns are not samples, got",
        ),
        (
            {"a": leaf((3, 4)), "v": "node.diagonal %a"},
            "shape-mismatch: Diagonal requires a square matrix, got matrix<3x4>",
        ),
        (
            {"a": X4, "v": "node.row_repeat %a {num_repeats = 0}"},
            "RowRepeat requires at least 1 repeat, got 0",
        ),
        (
            {"a": X4, "v": "node.row_repeat %a {num_repeats = 536870912}"},
            "RowRepeat requires a result of at most 2147483647 rows, got 2147483648",
        ),
        (
            {
                "a": "node.input {rows = 65536}",
                "b": "node.input {rows = 32768}",
                "v": "node.khatri_rao_product %a, %b",
            },
            "KhatriRaoProduct requires a result of at most 2147483647 rows, got 2147483648",
        ),
        *(
            ({"a": X4, "v": f"node.row_slice %a {{start_row = {start}, num_rows = {rows}}}"}, said)
            for start, rows, said in (
                (0, 5, "shape-mismatch: RowSlice requires rows 0 to 4, counted from 0, got"),
                (4, 1, "shape-mismatch: RowSlice requires rows 4 to 4, counted from 0, got"),
                (2, 3, "requires rows 2 to 4, counted from 0, got matrix<4x*>"),
                (-1, 2, "ill-typed: RowSlice requires a start row from 0 on and at least 1 row"),
                (0, 0, "at least 1 row, got 0 and 0"),
                (2**31, 1, "requires rows 2147483648 to 2147483648"),
            )
        ),
        (
            {"a": X4, "v": "node.row_stack %a"},
            "ill-typed: RowStack requires at least 2 nodes, got 1",
        ),
        (
            {"v": "node.row_stack"},
            "ill-typed: RowStack requires at least 2 nodes, got 0",
        ),
        (
            {"a": X4, "b": leaf((4, 1)), "v": "node.row_stack %a, %b"},
            "shape-mismatch: RowStack requires nodes with the same columns, got matrix<4x*> and "
            "matrix<4x1>",
        ),
        (
            {"a": leaf((4, 2)), "b": leaf((4, 3)), "v": "node.row_stack %a, %a, %b"},
            "nodes with the same columns, got matrix<4x2> and matrix<4x3>",
        ),
        (
            {"a": "node.input {rows = 2147483647}", "v": "node.row_stack %a, %a"},
            "RowStack requires a result of at most 2147483647 rows, got 4294967294",
        ),
        (
            {"a": X4, "r": "node.reshape %a {num_rows = 2}", "v": "node.mean %r"},
            "Mean requires a node with one column per sample, got matrix<2x2*>",
        ),
        (
            {"a": leaf((3, 4)), "v": "node.reshape %a {num_rows = 5}"},
            "shape-mismatch: Reshape requires a number of rows that divides the 12 elements of "
            "matrix<3x4>, got 5",
        ),
        (
            {"a": X4, "v": "node.reshape %a {num_rows = -1}"},
            "ill-typed: Reshape requires 0 to 2147483647 rows, got -1",
        ),
        (
            {"a": X4, "v": "node.reshape %a {num_rows = 4, image_width = 2}"},
            "requires at least two of imageWidth, imageHeight and imageChannels, or none, "
            "got 2, 0 and 0",
        ),
        (
            {"a": X4, "v": "node.reshape %a {num_rows = 4, image_width = 2, image_height = 3}"},
            "shape-mismatch: Reshape requires an image of 4 rows, got 2x3x?",
        ),
        (
            {"a": X4, "v": "node.reshape %a {num_rows = 4, image_width = 5, image_channels = 1}"},
            "shape-mismatch: Reshape requires an image of 4 rows, got 5x?x1",
        ),
        (
            {
                "a": leaf((3, 4)),
                "v": "node.reshape %a {num_rows = 6, image_width = 3, image_height = 2, "
                "image_channels = 2}",
            },
            "Reshape requires an image of 6 rows, got 3x2x2",
        ),
        # delays
        (
            {"a": leaf((3, 4)), "v": "node.past_value %a"},
            "PastValue requires a node with one column per",
        ),
        (
            {"a": X4, "v": "node.past_value %a {rows = 5}"},
            "PastValue requires the 5 rows it declares, got",
        ),
        (
            {"a": X4, "v": "node.past_value %a {time_step = 0}"},
            "a time step of at least 1, got 0 and 0",
        ),
        (
            {"a": X4, "v": "node.future_value %a {rows = -1}"},
            "FutureValue requires rows of at least 0",
        ),
        (
            {"a": X4, "v": "node.future_value %a {rows = 5}"},
            "FutureValue requires the 5 rows it declares",
        ),
    ],
)
def test_a_wrong_setting_or_operand_is_refused(nodes: dict[str, str], message: str) -> None:
    assert message in complaint(nodes)


@pytest.mark.parametrize("op", ["sum_elements", "sigmoid"])
def test_an_error_is_reported_once_and_not_again_downstream(op: str) -> None:
    nodes = nodes_of("times", (3, 4), (5, "*"))
    assert complaint({**nodes, "w": f"node.{op} %v"}).startswith("shape-mismatch: Times")
