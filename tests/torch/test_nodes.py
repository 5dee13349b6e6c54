"""Every node that PyTorch has: compiled by LLVM, its values and its gradients.

The uses are those of the conformance table, with 7 samples. What is judged is the whole way from a
node to machine code, backwards included: the gradient of the sum of the node's elements, each
times a weight.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np
import pytest

from graphc.builder import GraphBuilder
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.driver.prepare import prepare
from graphc.ir.types import DType, MatrixType
from graphc.ops.nodes import OPS
from graphc.ops.nodes.layout import node_type, operand_types
from graphc.runtime.executable import Results
from graphc.support.diagnostics import render
from tests.conformance.node_table import ROWS, NodeRow, Use
from tests.torch.conftest import Tally
from tests.torch.node_functions import (
    FUNCTIONS,
    NOT_DIFFERENTIATED,
    NOT_IN_TORCH,
    WITHOUT_GRADIENT,
)
from tests.torch.tensor_functions import Tensor, torch

Array = np.ndarray

FLOATS = (DType.F32, DType.F64)
SAMPLES = 7
# Times the largest element: both sides round, in sums of up to some hundred terms. The gradient of
# LayerNormalization of one row is 0; PyTorch's has what rounding leaves of differences.
TOLERANCE = {DType.F32: 1e-4, DType.F64: 1e-12}
IN_TORCH = [row for row in ROWS if row.op in FUNCTIONS]


def test_every_node_is_in_pytorch_or_has_a_reason_not_to_be() -> None:
    names = {op.name.removeprefix("node.") for op in OPS}
    assert names == set(FUNCTIONS) | set(NOT_IN_TORCH)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("row", IN_TORCH, ids=lambda row: row.op)
def test_a_node_has_the_value_and_the_gradients_that_pytorch_finds(
    row: NodeRow, dtype: DType, tally: Tally
) -> None:
    for use in row.uses:
        # No input could weigh other columns than samples; tests/conformance judges these.
        if use.skips_zeros or not use.keeps_columns:
            continue
        builder, names = _network(row, use)
        leaves = _values(row, use, dtype, names)
        value, slopes = _in_torch(row, use, builder, [leaves[n] for n in names])
        wanted = {n: s for n, s in zip(names, slopes, strict=True) if s is not None}
        got = _compiled(builder, names, list(wanted), leaves, dtype)
        _require_near(_shown(got["v"], builder, "v"), value, dtype, f"value of {use}")
        tally.add(f"node.{row.op}", f"values {dtype}")
        for name, slope in wanted.items():
            found = _shown(got.gradients[name], builder, name)
            _require_near(found, slope, dtype, f"gradient of {name} of {use}")
            tally.add(f"node.{row.op}", f"gradients {dtype}")


def _network(row: NodeRow, use: Use) -> tuple[GraphBuilder, list[str]]:
    """The node `v` over its leaves, and `total`, the sum of its elements times `weights`."""
    builder = GraphBuilder()
    names = list("abcdefgh"[: len(use.leaves)])
    pairs = zip(names, use.leaves, strict=True)
    leaves = [builder.apply(leaf.op, settings=leaf.arguments, name=n) for n, leaf in pairs]
    node = builder.apply(row.op, leaves, use.settings, name="v")
    prepare(builder.model)
    type = node_type(node.operation)
    size: dict[str, object] = {"rows": type.rows}
    if not type.has_samples:
        size["cols"] = type.cols
    weights = builder.apply("input" if type.has_samples else "parameter", (), size, name="weights")
    weighted = builder.apply("element_times", [node, weights], name="weighted")
    builder.apply("sum_elements", [weighted], name="total")
    assert not builder.sink.diagnostics, render(builder.sink.diagnostics)
    prepare(builder.model)
    return builder, names


def _values(row: NodeRow, use: Use, dtype: DType, names: Sequence[str]) -> dict[str, Array]:
    rng = np.random.default_rng(zlib.crc32(f"{row.op} {use}".encode()))
    values: dict[str, Array] = {}
    for operand, (name, leaf) in enumerate(zip(names, use.leaves, strict=True)):
        cols = SAMPLES if leaf.cols is None else leaf.cols
        values[name] = row.numbers_of(operand)(rng, leaf.rows, cols).astype(dtype.numpy)
    return values


def _weights(shape: tuple[int, ...], dtype: np.dtype) -> Array:
    return np.random.default_rng(1).uniform(-1, 1, shape).astype(dtype)


def _in_torch(
    row: NodeRow, use: Use, builder: GraphBuilder, matrices: Sequence[Array]
) -> tuple[Tensor, list[Tensor | None]]:
    """The node's value, and the gradient of each operand that has one."""
    node = builder.find("v")
    assert node is not None
    types: list[MatrixType] = operand_types(node.operation)
    fixed = NOT_DIFFERENTIATED.get(row.op, frozenset())
    tensors = [torch.from_numpy(x).requires_grad_(i not in fixed) for i, x in enumerate(matrices)]
    value = FUNCTIONS[row.op](node.operation.params, types, *tensors)
    if row.op in WITHOUT_GRADIENT:
        return value, [None] * len(tensors)
    weights = torch.from_numpy(_weights(tuple(value.shape), matrices[0].dtype))
    moved = [t for t in tensors if t.requires_grad]
    found = torch.autograd.grad(value, moved, weights, allow_unused=True)
    slopes = iter(
        [torch.zeros_like(t) if s is None else s for t, s in zip(moved, found, strict=True)]
    )
    return value, [next(slopes) if t.requires_grad else None for t in tensors]


def _compiled(
    builder: GraphBuilder,
    names: Sequence[str],
    wrt: Sequence[str],
    leaves: dict[str, Array],
    dtype: DType,
) -> Results:
    outputs = ["total", "v"]
    options = CompileOptions("llvm", dtype, SAMPLES)
    executable = bind(builder.model, lambda m, o: evaluation_passes(m, outputs, wrt, o), options)
    node = builder.find("v")
    assert node is not None
    type = node_type(node.operation)
    shape = (int(type.rows or 0), SAMPLES if type.has_samples else int(str(type.cols)))
    given = {**leaves, "weights": _weights(shape, dtype.numpy)}
    for name in builder.model.values:
        builder.model.values[name] = np.ascontiguousarray(given[name])
    inputs = [a.name for a in executable.signature.with_role("input")]
    return executable(**{n: np.ascontiguousarray(given[n].T) for n in inputs})


def _shown(array: Array, builder: GraphBuilder, name: str) -> Array:
    """A result as the book writes it, rows x columns."""
    node = builder.find(name)
    assert node is not None
    return array.T if node_type(node.operation).has_samples else np.atleast_2d(array)


def _require_near(got: Array, wanted: Tensor, dtype: DType, what: str) -> None:
    expected = wanted.detach().numpy()
    assert got.shape == expected.shape, what
    largest = float(np.max(np.abs(expected), initial=1.0))
    np.testing.assert_allclose(got, expected, rtol=0, atol=TOLERANCE[dtype] * largest, err_msg=what)
