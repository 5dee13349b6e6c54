"""A function for many values of some arguments at once: they get a leading axis, so do results.

    func @main(%x: tensor<3xf32>, %W: tensor<2x3xf32>)        for 5 values of x
 =>
    func @main(%x: tensor<5x3xf32>, %W: tensor<2x3xf32>) -> (…: tensor<5x2xf32>)

Every operation that depends on them works along the new axis; the others are computed once. One
rule for each operation, O(operations). A loop's steps work along it too: its sequences and stacks
have it behind time. Jacobians are this: all directions in one call.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.clone import clone_region
from graphc.ir.codegen import Loop
from graphc.ir.core import Block, Function, IRBuilder, Operation, RegionKind, ResultInfo, Value
from graphc.ir.types import Dim
from graphc.ops.control import RETURN
from graphc.ops.loop import LoopParts, loop, loop_parts
from graphc.ops.movement import transpose
from graphc.passes.batching_rules import batching_rule, repeated
from graphc.passes.loop_gradient import dependent_values
from graphc.support.diagnostics import fail


def batched(
    function: Function, names: Sequence[str], size: int, results: Sequence[int]
) -> Function:
    """A copy that takes `size` values of the arguments `names`, and gives as many of `results`."""
    copy = Function(function.name, RegionKind.SSA, location=function.location)
    values: dict[Value, Value] = {}
    many: set[Value] = set()
    for argument, role in zip(function.arguments, function.roles, strict=True):
        type = argument.tensor
        if argument.name in names:
            type = type.with_dims((size, *type.dims))
            many.add(argument)
        values[argument] = copy.add_argument(argument.name or "", type, role)
    b = IRBuilder(copy.block)
    wanted = [function.returned[i] for i in results]
    b.emit(RETURN, emit_batched(b, function, wanted, values, many, size))
    copy.results = [ResultInfo(function.results[i].name) for i in results]
    return copy


def emit_batched(
    b: IRBuilder,
    function: Function,
    wanted: Sequence[Value],
    values: dict[Value, Value],
    many: set[Value],
    size: Dim,
) -> list[Value]:
    """Emit what a function computes for `size` values of the arguments `many`; the `wanted` values
    of it, with the leading axis.

    values  what each argument is here; extended by what is computed, as `many` is
    """
    _copy_all(b, function.block, values, many, size)
    return [values[v] if v in many else repeated(b, values[v], size) for v in wanted]


def _copy_all(
    b: IRBuilder, block: Block, values: dict[Value, Value], many: set[Value], size: Dim
) -> None:
    """Copy a block's operations but the last, which hands out what it computed."""
    for op in block:
        if op is not block.terminator:
            with b.at(op.location):
                _copy(b, op, values, many, size)


def _copy(
    b: IRBuilder, op: Operation, values: dict[Value, Value], many: set[Value], size: Dim
) -> None:
    operands = [values[v] for v in op.operands]
    has_axis = [v in many for v in op.operands]
    if not any(has_axis):
        regions = [clone_region(region) for region in op.regions]
        made = b.emit(op.opdef, operands, op.params, regions=regions)
        values.update(zip(op.results, made.results, strict=True))
        return
    if isinstance(op.opdef.codegen, Loop):
        _copy_loop(b, loop_parts(op), values, many, size)
        return
    rule = batching_rule(op)
    if rule is None:
        raise fail(
            "not-supported",
            f"{op.opdef.name} cannot be computed for many values of its operands at once; "
            "of derivatives use gc.jvp or gc.vjp, one direction at a time",
            op.location,
        )
    values[op.result] = rule(b, op, operands, has_axis, size)
    many.add(op.result)


def _copy_loop(
    b: IRBuilder, parts: LoopParts, values: dict[Value, Value], many: set[Value], size: Dim
) -> None:
    """A loop whose steps work along the new axis where they depend on it."""
    dependent = dependent_values(parts, dict.fromkeys(many))
    inside = {v for v in parts.block.arguments if v in dependent}
    sequences = [_exchanged(b, values[s]) if s in many else values[s] for s in parts.sequences]
    initial = [
        repeated(b, values[v], size) if before in inside and v not in many else values[v]
        for v, before in zip(parts.initial, parts.carry_in, strict=True)
    ]

    def step(
        inner: IRBuilder,
        shared: Sequence[Value],
        elements: Sequence[Value],
        before: Sequence[Value],
    ) -> tuple[list[Value], list[Value]]:
        local = dict(zip(parts.block.arguments, (*shared, *elements, *before), strict=True))
        _copy_all(inner, parts.block, local, inside, size)
        after = [
            repeated(inner, local[v], size) if before in inside and v not in inside else local[v]
            for v, before in zip(parts.carry_out, parts.carry_in, strict=True)
        ]
        return after, [local[v] for v in parts.stacked]

    made = loop_parts(
        loop(
            b,
            parts.params.count,
            step,
            [values[v] for v in parts.invariants],
            sequences,
            initial,
            backward=parts.params.backward,
        )
    )
    for before, final, new in zip(parts.carry_in, parts.final, made.final, strict=True):
        values[final] = new
        if before in inside:
            many.add(final)
    for kept, stack, new in zip(parts.stacked, parts.stacks, made.stacks, strict=True):
        values[stack] = _exchanged(b, new) if kept in inside else new
        if kept in inside:
            many.add(stack)


def _exchanged(b: IRBuilder, x: Value) -> Value:
    """`x` with its first two axes exchanged: the new one and time."""
    return transpose(b, x, [1, 0, *range(2, x.tensor.rank)])
