"""A parameter as a product of two smaller ones, by its singular values (the toolkit's SVD).

    T = Times(W, x)      becomes      W-SVD = Times(W-U, W-V);  T = Times(W-SVD, x)

with U = P·√Σ and V = √Σ·Qᵀ of W = P·Σ·Qᵀ, cut after r singular values: as few as have more than
the share `keep_ratio` of the sum of all (not of their squares), rounded up to a multiple of 8 and
at most all of them. Vectors stay as they are. The product is a node of its own, as in the toolkit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Operation
from graphc.ir.types import MatrixType
from graphc.model.model import Model
from graphc.model.patterns import by_name
from graphc.ops.nodes.layout import PlainNode, node_params
from graphc.ops.nodes.leaves import PARAMETER, ParameterParams
from graphc.ops.nodes.products import TIMES
from graphc.support.diagnostics import fail
from graphc.support.source import UNKNOWN, Location

RANK_STEP = 8
"""Ranks are multiples of this, unless the whole matrix has fewer."""


@dataclass(frozen=True)
class Factorised:
    """What became of a parameter: `rank` columns of `<name>-U` and rows of `<name>-V`."""

    name: str
    rows: int
    cols: int
    rank: int


def factorise(
    model: Model, nodes: Sequence[Operation], keep_ratio: float, where: Location = UNKNOWN
) -> list[Factorised]:
    """Replace parameters, which have their values, by products of two; what became of each.

    GraphcError `bad-value` for a ratio that is not over 0 and up to 1 or a value that is not
    finite, `argument-type` if none of the nodes is a matrix, `duplicate-name` for a name in use.
    """
    if not 0 < keep_ratio <= 1:
        message = f"the share of singular values to keep is over 0 and at most 1, got {keep_ratio}"
        raise fail("bad-value", message, where)
    matrices = [op for op in nodes if op.opdef is PARAMETER and not _is_vector(model, op)]
    if not matrices:
        names = ", ".join(f"`{op.result.name}`" for op in nodes[:3])
        message = f"parameters with several rows and columns are required, got {names}"
        raise fail("argument-type", message, where)
    taken = by_name(model.graph.block)
    factors: list[tuple[Operation, np.ndarray, np.ndarray]] = []
    for op in matrices:
        name = op.result.name or ""
        for new in _new_names(name):
            if new.lower() in taken:
                message = f"`{name}` cannot be factorised: a node is called `{new}` already"
                raise fail("duplicate-name", message, where)
        value = np.array(model.exactly(name), np.float64)
        if not np.isfinite(value).all():
            message = f"`{name}` cannot be factorised: not all of its numbers are finite"
            raise fail("bad-value", message, where)
        factors.append((op, *low_rank(value, keep_ratio)))
    return [_replace_by_product(model, *factor) for factor in factors]


def low_rank(value: np.ndarray, keep_ratio: float) -> tuple[np.ndarray, np.ndarray]:
    """f64 (rows, r) and (r, cols) whose product is near `value`, f64 (rows, cols)."""
    left, singular, right = np.linalg.svd(value, full_matrices=False)
    sums = np.cumsum(singular)
    most = len(singular)
    count = int(np.searchsorted(sums, keep_ratio * sums[-1], side="right")) + 1
    rank = min(-(-count // RANK_STEP) * RANK_STEP, most)
    root = np.sqrt(singular[:rank])
    return left[:, :rank] * root, root[:, None] * right[:rank]


def _is_vector(model: Model, op: Operation) -> bool:
    rows, cols = model.values[op.result.name or ""].shape
    return 1 in (rows, cols)


def _new_names(name: str) -> tuple[str, str, str]:
    return f"{name}-U", f"{name}-V", f"{name}-SVD"


def _replace_by_product(
    model: Model, op: Operation, left: np.ndarray, right: np.ndarray
) -> Factorised:
    """Put a product in the place of a parameter, for all who read it."""
    name = op.result.name or ""
    u_name, v_name, product_name = _new_names(name)
    u, v = _factor(op, u_name, left), _factor(op, v_name, right)
    product = Operation(
        TIMES,
        (u.result, v.result),
        [MatrixType(left.shape[0], right.shape[1])],
        PlainNode(node_params(op).tags),
        location=op.location,
        names=[product_name],
    )
    for node in (u, v, product):
        model.graph.block.insert_before(op, node)
    op.result.replace_all_uses(product.result)
    op.erase()
    model.drop_values([name])
    model.replace_values({u_name: left, v_name: right})
    return Factorised(name, left.shape[0], right.shape[1], left.shape[1])


def _factor(op: Operation, name: str, value: np.ndarray) -> Operation:
    """A parameter of this value that is trained if `op` is."""
    rows, cols = value.shape
    gradient = op.params_as(ParameterParams).need_gradient
    params = ParameterParams(rows, cols, need_gradient=gradient)
    type = MatrixType(rows, cols)
    return Operation(PARAMETER, (), [type], params, location=op.location, names=[name])
