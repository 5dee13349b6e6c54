"""A function for many values of some arguments at once: they get a leading axis, so do results.

    func @main(%x: tensor<3xf32>, %W: tensor<2x3xf32>)        for 5 values of x
 =>
    func @main(%x: tensor<5x3xf32>, %W: tensor<2x3xf32>) -> (…: tensor<5x2xf32>)

Every operation that depends on them works along the new axis; the others are computed once. One
rule for each operation, O(operations). Jacobians are this: all directions in one call.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from graphc.ir.codegen import Elementwise
from graphc.ir.core import Function, IRBuilder, OpDef, Operation, RegionKind, ResultInfo, Value
from graphc.ir.types import TensorType
from graphc.ops.contraction import MATMUL, MatmulParams, matmul
from graphc.ops.control import RETURN
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
from graphc.ops.reduction import BROADCAST, REDUCE_MAX, REDUCE_MIN, REDUCE_SUM, broadcast
from graphc.ops.windows import OVERLAP_ADD, WINDOWS
from graphc.support.diagnostics import fail

Rule = Callable[[IRBuilder, Operation, "Sequence[Value]", "Sequence[bool]", int], Value]
"""(builder, operation, its new operands, which of them have the new axis, its size) -> result."""


def batched(
    function: Function, names: Sequence[str], size: int, results: Sequence[int]
) -> Function:
    """A copy that takes `size` values of the arguments `names`, and gives as many of `results`."""
    copy = Function(function.name, RegionKind.SSA, location=function.location)
    values: dict[Value, Value] = {}
    many: set[Value] = set()
    for argument, role in zip(function.arguments, function.roles, strict=True):
        type = _type(argument)
        if argument.name in names:
            type = type.with_dims((size, *type.dims))
            many.add(argument)
        values[argument] = copy.add_argument(argument.name or "", type, role)
    b = IRBuilder(copy.block)
    for op in function.block:
        if op.opdef is not RETURN:
            with b.at(op.location):
                _copy(b, op, values, many, size)
    returned = [
        values[v] if v in many else _repeated(b, values[v], size)
        for v in (function.returned[i] for i in results)
    ]
    b.emit(RETURN, returned)
    copy.results = [ResultInfo(function.results[i].name) for i in results]
    return copy


def _copy(
    b: IRBuilder, op: Operation, values: dict[Value, Value], many: set[Value], size: int
) -> None:
    operands = [values[v] for v in op.operands]
    has_axis = [v in many for v in op.operands]
    if not any(has_axis):
        made = b.emit(op.opdef, operands, op.params)
        values.update(zip(op.results, made.results, strict=True))
        return
    rule = _elementwise if isinstance(op.opdef.codegen, Elementwise) else RULES.get(op.opdef)
    if rule is None:
        raise fail(
            "not-supported",
            f"{op.opdef.name} cannot be computed for many directions at once; "
            "use gc.jvp or gc.vjp, one direction at a time",
            op.location,
        )
    values[op.result] = rule(b, op, operands, has_axis, size)
    many.add(op.result)


def _type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _repeated(b: IRBuilder, x: Value, size: int) -> Value:
    dims = _type(x).dims
    return broadcast(b, reshape(b, x, (1, *dims)), (size, *dims))


def _all(b: IRBuilder, operands: Sequence[Value], has: Sequence[bool], size: int) -> list[Value]:
    """The operands, those without the axis repeated along it."""
    pairs = zip(operands, has, strict=True)
    return [v if there else _repeated(b, v, size) for v, there in pairs]


def _elementwise(
    b: IRBuilder, op: Operation, operands: Sequence[Value], has: Sequence[bool], size: int
) -> Value:
    return b.emit_one(op.opdef, *_all(b, operands, has, size), params=op.params)


def _with_params(change: Callable[[Any, int], Mapping[str, object]]) -> Rule:
    """A rule that changes the settings: `change` gives the new ones."""

    def rule(
        b: IRBuilder, op: Operation, operands: Sequence[Value], has: Sequence[bool], size: int
    ) -> Value:
        params = replace(op.params, **change(op.params, size))
        return b.emit_one(op.opdef, *_all(b, operands, has, size), params=params)

    return rule


def _shifted(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(a + 1 for a in axes)


def _matmul(
    b: IRBuilder, op: Operation, operands: Sequence[Value], has: Sequence[bool], size: int
) -> Value:
    params = op.params
    assert isinstance(params, MatmulParams)
    x, y = operands
    if not params.batch and has == [True, False] and not params.transpose_a:
        # The new axis is one more of x's free ones: a single product with more rows.
        return matmul(b, x, y, transpose_b=params.transpose_b, contract=params.contract)
    if not params.batch and has == [False, True] and params.transpose_b:
        product = matmul(
            b, x, y, transpose_a=params.transpose_a, transpose_b=True, contract=params.contract
        )
        rows = _type(x).rank - params.contract
        rest = [i for i in range(_type(product).rank) if i != rows]
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
        for op in (CONCAT, WINDOWS, OVERLAP_ADD)
    },
    TRANSPOSE: _with_params(lambda p, _n: {"permutation": (0, *_shifted(p.permutation))}),
    SLICE: _with_params(
        lambda p, n: {"starts": (0, *p.starts), "stops": (n, *p.stops), "steps": (1, *p.steps)}
    ),
    PAD: _with_params(
        lambda p, _n: {"low": (0, *p.low), "high": (0, *p.high), "inner": (0, *p.inner)}
    ),
    MATMUL: _matmul,
}
