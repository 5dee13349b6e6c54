"""How each operation computes many values at once: its operands get a new first axis.

One rule for each operation that has one. Derivatives in many directions are made with them
(`tensor/batching.py`), and what loops hand over to be computed for all steps (`hoist_loops.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphc.ir.codegen import Elementwise
from graphc.ir.core import IRBuilder, OpDef, Operation, Value
from graphc.ir.types import Dim
from graphc.ops.contraction import MATMUL, MatmulParams, matmul
from graphc.ops.movement import (
    CONCAT,
    PAD,
    RESHAPE,
    REVERSE,
    SLICE,
    TRANSPOSE,
    reshape,
    transpose,
)
from graphc.ops.patches import OVERLAP_ADD, PATCHES
from graphc.ops.reduction import BROADCAST, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, broadcast

Rule = Callable[[IRBuilder, Operation, "Sequence[Value]", "Sequence[bool]", Dim], Value]
"""(builder, operation, its new operands, which of them have the new axis, its size) -> result."""


def batching_rule(op: Operation) -> Rule | None:
    """The rule of `op`; None where it has none."""
    return _elementwise if isinstance(op.opdef.codegen, Elementwise) else RULES.get(op.opdef)


def repeated(b: IRBuilder, x: Value, size: Dim) -> Value:
    """`x` once for each place of a new first axis."""
    dims = x.tensor.dims
    return broadcast(b, reshape(b, x, (1, *dims)), (size, *dims))


def _all(b: IRBuilder, operands: Sequence[Value], has: Sequence[bool], size: Dim) -> list[Value]:
    """The operands, those without the axis repeated along it."""
    pairs = zip(operands, has, strict=True)
    return [v if there else repeated(b, v, size) for v, there in pairs]


def _elementwise(
    b: IRBuilder, op: Operation, operands: Sequence[Value], has: Sequence[bool], size: Dim
) -> Value:
    return b.emit_one(op.opdef, *_all(b, operands, has, size), params=op.params)


def _with_params(change: Callable[[Any, Dim], Mapping[str, object]]) -> Rule:
    """A rule that changes the settings: `change` gives the new ones."""

    def rule(
        b: IRBuilder, op: Operation, operands: Sequence[Value], has: Sequence[bool], size: Dim
    ) -> Value:
        params = replace(op.params, **change(op.params, size))
        return b.emit_one(op.opdef, *_all(b, operands, has, size), params=params)

    return rule


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)


def _matmul(
    b: IRBuilder, op: Operation, operands: Sequence[Value], has: Sequence[bool], size: Dim
) -> Value:
    params = op.params_as(MatmulParams)
    x, y = operands
    if not params.batch and has == [True, False] and not params.transpose_a:
        # The new axis is one more of x's free ones: a single product with more rows.
        return matmul(b, x, y, transpose_b=params.transpose_b, contract=params.contract)
    if not params.batch and has == [False, True] and params.transpose_b:
        product = matmul(
            b, x, y, transpose_a=params.transpose_a, transpose_b=True, contract=params.contract
        )
        rows = x.tensor.rank - params.contract
        rest = [i for i in range(product.tensor.rank) if i != rows]
        return transpose(b, product, [rows, *rest])
    both = _all(b, operands, has, size)
    return b.emit_one(MATMUL, *both, params=replace(params, batch=params.batch + 1))


RULES: dict[OpDef, Rule] = {
    **{
        op: _with_params(lambda p, _n: {"axes": _shifted(p.axes)})
        for op in (REDUCE_SUM, REDUCE_MAX, REDUCE_MIN, REVERSE)
    },
    **{op: _with_params(lambda p, n: {"dims": (n, *p.dims)}) for op in (BROADCAST, RESHAPE)},
    **{
        op: _with_params(lambda p, _n: {"axis": p.axis + 1})
        for op in (CONCAT, PATCHES, OVERLAP_ADD)
    },
    TRANSPOSE: _with_params(lambda p, _n: {"permutation": (0, *_shifted(p.permutation))}),
    SLICE: _with_params(
        lambda p, n: {
            "starts": (0, *p.starts),
            "stops": (n, *p.stops),
            "steps": (1, *p.steps),
            "behind": (0, *p.behind) if p.behind else (),
        }
    ),
    PAD: _with_params(
        lambda p, _n: {"low": (0, *p.low), "high": (0, *p.high), "inner": (0, *p.inner)}
    ),
    MATMUL: _matmul,
}
