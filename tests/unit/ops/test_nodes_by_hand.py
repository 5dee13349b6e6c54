"""Nodes of which order, ties or zeros are the point, in numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.core import Array
from graphc.ir.types import DType
from tests.support.nodes import computed, gradients, network

X1, X2, X3 = (f"node.input {{rows = {rows}}}" for rows in (1, 2, 3))


def columns(*rows: list[float]) -> Array:
    return np.array(rows, float)


def test_in_a_khatri_rao_product_the_row_of_the_first_operand_varies_fastest() -> None:
    net = network({"a": X2, "b": X3, "v": "node.khatri_rao_product %a, %b"})
    leaves = {"a": columns([1, 0], [2, 1]), "b": columns([10, 5], [20, 6], [30, 7])}
    found = computed(net, "v", leaves, 2)
    assert found.T.tolist() == [[10, 20, 20, 40, 30, 60], [0, 5, 0, 6, 0, 7]]


def test_row_repeat_repeats_the_block_of_rows_and_not_each_row() -> None:
    net = network({"a": X2, "v": "node.row_repeat %a {num_repeats = 2}"})
    found = computed(net, "v", {"a": columns([1, 3], [2, 4])}, 2)
    assert found.tolist() == [[1, 3], [2, 4], [1, 3], [2, 4]]


def test_a_diagonal_is_a_row_vector_and_what_is_beside_it_does_not_matter() -> None:
    net = network({"a": "node.parameter {rows = 2, cols = 2}", "v": "node.diagonal %a"})
    found = computed(net, "v", {"a": columns([1, np.nan], [np.inf, 2])}, 0)
    assert found.tolist() == [[1, 2]]


def test_transposing_twice_gives_the_matrix() -> None:
    net = network(
        {
            "a": "node.parameter {rows = 2, cols = 3}",
            "t": "node.transpose %a",
            "v": "node.transpose %t",
        }
    )
    a = columns([1, 2, 3], [4, 5, 6])
    assert computed(net, "t", {"a": a}, 0).tolist() == [[1, 4], [2, 5], [3, 6]]
    assert computed(net, "v", {"a": a}, 0).tolist() == a.tolist()


def test_denormalization_undoes_normalization() -> None:
    net = network(
        {
            "x": X2,
            "m": "node.parameter {rows = 2}",
            "s": "node.parameter {rows = 2}",
            "n": "node.per_dim_mean_var_normalization %x, %m, %s",
            "v": "node.per_dim_mean_var_de_normalization %n, %m, %s",
        }
    )
    leaves = {"x": columns([1, 2], [3, 4]), "m": columns([5], [-6]), "s": columns([0.5], [4])}
    assert computed(net, "v", leaves, 2).tolist() == [[1, 2], [3, 4]]


# --- hardmax ---


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        ([1, 3, 2], [0, 1, 0]),
        ([3, 1, 3], [1, 0, 0]),  # a tie: the first
        ([-0.0, 0.0, -1], [1, 0, 0]),
        ([-np.inf, -np.inf, -np.inf], [1, 0, 0]),
        ([0, np.inf, np.inf], [0, 1, 0]),
        ([1, np.nan, 2], [0, 0, 0]),  # no number is largest
    ],
)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
def test_hardmax_marks_the_first_maximum(
    column: list[float], expected: list[float], dtype: DType
) -> None:
    net = network({"a": X3, "v": "node.hardmax %a"})
    found = computed(net, "v", {"a": np.array([column], float).T}, 1, dtype)
    assert found[:, 0].tolist() == expected


def test_hardmax_has_a_gradient_of_zero() -> None:
    net = network({"a": X3, "h": "node.hardmax %a", "v": "node.element_times %h, %a"})
    a = columns([1, 5], [3, 2], [2, 4])
    found = gradients(net, "v", {"a": a}, 2, ["a"])["a"]  # of h alone: that of the other factor
    assert found.tolist() == [[0, 1], [1, 0], [0, 0]]
    assert not gradients(net, "h", {"a": a}, 2, ["a"])["a"].any()


# --- norms ---


def test_the_l2_norm_is_not_squared() -> None:
    net = network({"a": X2, "v": "node.matrix_l2_reg %a"})
    assert computed(net, "v", {"a": columns([3, 0], [0, -4])}, 2).tolist() == [[5]]


def test_the_l1_norm_is_the_sum_of_absolute_values() -> None:
    net = network({"a": X2, "v": "node.matrix_l1_reg %a"})
    assert computed(net, "v", {"a": columns([3, 0], [0, -4])}, 2).tolist() == [[7]]


@pytest.mark.parametrize("op", ["matrix_l1_reg", "matrix_l2_reg"])
@pytest.mark.parametrize("zero", [0.0, -0.0])
def test_the_norm_of_zero_is_zero_and_so_is_its_slope(op: str, zero: float) -> None:
    net = network({"a": "node.parameter {rows = 2, cols = 3}", "v": f"node.{op} %a"})
    leaves = {"a": np.full((2, 3), zero)}
    assert computed(net, "v", leaves, 0).tolist() == [[0]]
    assert gradients(net, "v", leaves, 0, ["a"])["a"].tolist() == [[0] * 3] * 2


def test_the_slope_of_the_l1_norm_is_the_sign() -> None:
    net = network({"a": X1, "v": "node.matrix_l1_reg %a"})
    found = gradients(net, "v", {"a": columns([-2, 0, 1e-300])}, 3, ["a"])
    assert found["a"].tolist() == [[-1, 0, 1]]


@pytest.mark.parametrize("op", ["matrix_l1_reg", "matrix_l2_reg"])
def test_a_norm_does_not_hide_nan(op: str) -> None:
    net = network({"a": X1, "v": f"node.{op} %a"})
    assert np.isnan(computed(net, "v", {"a": columns([0, np.nan])}, 2)).all()


@pytest.mark.parametrize("op", ["matrix_l1_reg", "matrix_l2_reg"])
def test_a_norm_over_no_samples_is_zero(op: str) -> None:
    net = network({"a": X2, "v": f"node.{op} %a"})
    assert computed(net, "v", {"a": np.zeros((2, 0))}, 0).tolist() == [[0]]


# --- cosines ---


def cosines(a: Array, b: Array) -> list[float]:
    net = network({"a": X2, "b": X2, "v": "node.cos_distance %a, %b"})
    return computed(net, "v", {"a": a, "b": b}, a.shape[1])[0].tolist()


def test_the_cosine_distance_is_1_for_the_same_direction_and_minus_1_for_the_opposite() -> None:
    a, b = columns([3, 3, 3], [4, 4, 4]), columns([6, -6, 4], [8, -8, -3])
    np.testing.assert_allclose(cosines(a, b), [1, -1, 0], rtol=1e-15, atol=1e-15)


def test_the_cosine_with_a_zero_column_is_zero_and_so_is_its_slope() -> None:
    net = network({"a": X2, "b": X2, "v": "node.cos_distance %a, %b"})
    leaves = {"a": columns([0, 1, 0], [0, 2, 0]), "b": columns([1, 0, 0], [2, 0, 0])}
    assert computed(net, "v", leaves, 3).tolist() == [[0, 0, 0]]
    found = gradients(net, "v", leaves, 3, ["a", "b"])
    assert not found["a"].any()
    assert not found["b"].any()


def test_a_zero_column_does_not_hide_nan_in_the_other() -> None:
    assert np.isnan(cosines(columns([0], [0]), columns([np.nan], [1]))).all()


def test_the_cosine_of_long_and_short_columns_does_not_lose_accuracy() -> None:
    a, b = columns([3e-100, 3e100], [4e-100, 4e100]), columns([6e90, 6e-90], [8e90, 8e-90])
    np.testing.assert_allclose(cosines(a, b), [1, 1], rtol=1e-14)
