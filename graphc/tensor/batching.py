"""A function for many values of some arguments at once: they get a leading axis, so do results.

    func @main(%x: tensor<3xf32>, %W: tensor<2x3xf32>)        for 5 values of x
 =>
    func @main(%x: tensor<5x3xf32>, %W: tensor<2x3xf32>) -> (…: tensor<5x2xf32>)

Every operation that depends on them works along the new axis; the others are computed once. One
rule for each operation, O(operations). Jacobians are this: all directions in one call.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import Function, IRBuilder, Operation, RegionKind, ResultInfo, Value
from graphc.ir.types import TensorType
from graphc.ops.control import RETURN
from graphc.passes.batching_rules import batching_rule, repeated
from graphc.support.diagnostics import fail


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
        values[v] if v in many else repeated(b, values[v], size)
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
    rule = batching_rule(op)
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
