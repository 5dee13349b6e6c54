"""LookupTable: a table times each block of rows."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.types import DType
from tests.support.nodes import (
    complaint,
    computed,
    difference_quotients,
    gradients,
    judged,
    network,
)


def nodes(blocks: int, cols: str = "") -> dict[str, str]:
    """A table of 4 words as 2 numbers each."""
    x = (
        f"node.parameter {{rows = {4 * blocks}, cols = {cols}}}"
        if cols
        else (f"node.input {{rows = {4 * blocks}}}")
    )
    return {"t": "node.parameter {rows = 2, cols = 4}", "x": x, "v": "node.lookup_table %t, %x"}


TABLE = np.random.default_rng(0).normal(size=(2, 4))


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("blocks", [1, 2, 5])
def test_one_hot_blocks_give_columns_of_the_table(blocks: int, dtype: DType) -> None:
    words = np.random.default_rng(1).integers(0, 4, (blocks, 6))
    x = np.concatenate([np.eye(4)[:, words[k]] for k in range(blocks)])
    found = computed(network(nodes(blocks)), "v", {"t": TABLE, "x": x}, 6, dtype)
    expected = np.concatenate([TABLE[:, words[k]] for k in range(blocks)])
    np.testing.assert_array_equal(found, expected.astype(dtype.numpy))


@pytest.mark.parametrize(("blocks", "cols", "samples"), [(3, "", 5), (1, "", 0), (2, "3", 3)])
def test_any_numbers_are_weights_of_columns(blocks: int, cols: str, samples: int) -> None:
    net = network(nodes(blocks, cols))
    x = np.random.default_rng(2).normal(size=(4 * blocks, samples))
    found = computed(net, "v", {"t": TABLE, "x": x}, samples)
    expected = (TABLE @ x.reshape(blocks, 4, samples)).reshape(2 * blocks, samples)
    np.testing.assert_allclose(found, expected, rtol=1e-13)
    np.testing.assert_allclose(judged(net, "v", {"t": TABLE, "x": x}), expected, rtol=1e-13)


@pytest.mark.parametrize(("blocks", "cols"), [(1, ""), (3, ""), (2, "3")])
def test_gradients_are_what_central_differences_say(blocks: int, cols: str) -> None:
    net = network(
        {**nodes(blocks, cols), "u": "node.element_times %v, %v", "j": "node.sum_elements %u"}
    )
    leaves = {"t": TABLE, "x": np.random.default_rng(3).normal(size=(4 * blocks, 3))}
    found = gradients(net, "j", leaves, 3, ["t", "x"])
    for name in leaves:
        expected = difference_quotients(net, "j", leaves, name)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"x": "node.input {rows = 6}"}, "requires rows that are a multiple of the table's 4 colu"),
        ({"t": "node.input {rows = 4}"}, "requires a table whose columns are not samples, got"),
        ({"x": "node.input {rows = 3}"}, "got matrix<3x*>"),
        ({"t": "node.parameter {rows = 2, cols = 0}"}, "the size of `t` cannot be inferred"),
        (
            {"t": "node.parameter {rows = 65536, cols = 1}", "x": "node.input {rows = 32768}"},
            "requires a result of at most 2147483647 rows, got 2147483648",
        ),
    ],
)
def test_operands_that_do_not_fit_are_refused(changed: dict[str, str], message: str) -> None:
    assert message in complaint({**nodes(2), **changed})
