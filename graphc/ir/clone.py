"""Copies of functions and blocks, with a map from old values to new ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from graphc.ir.core import Block, Function, Module, Operation, Region, Value


def clone_module(module: Module) -> Module:
    """A deep copy; OpDefs, params, types and locations are shared (they are frozen)."""
    return Module([clone_function(f) for f in module.functions], module.dims)


def empty_like(function: Function) -> Function:
    """One of the same name, results and settings, without arguments and operations."""
    return Function(
        function.name,
        function.kind,
        results=list(function.results),
        location=function.location,
        contraction=function.contraction,
        launch=function.launch,
    )


def clone_function(function: Function) -> Function:
    copy = Function(
        function.name,
        function.kind,
        roles=list(function.roles),
        results=list(function.results),
        location=function.location,
        arena=function.arena,
        contraction=function.contraction,
        launch=function.launch,
    )
    values: dict[Value, Value] = {}
    for argument in function.arguments:
        values[argument] = copy.block.add_argument(argument.type, argument.name)
    clone_operations(function.block, copy.block, values)
    return copy


def clone_operations(
    source: Iterable[Operation], target: Block, values: dict[Value, Value]
) -> None:
    """Append copies of the operations to `target`; `values` maps and is extended.

    Operands missing from `values` are kept as they are. Operations may refer to later ones.
    """
    copies: list[tuple[Operation, Operation]] = []
    for op in source:
        copy = clone_shallow(op)
        values.update(zip(op.results, copy.results, strict=True))
        target.append(copy)
        copies.append((op, copy))
    for op, copy in copies:
        copy.set_operands(values.get(v, v) for v in op.operands)


def clone_shallow(op: Operation) -> Operation:
    """A copy without operands; regions are copied whole (they read nothing from outside)."""
    copy = Operation(
        op.opdef,
        (),
        [v.type for v in op.results],
        op.params,
        regions=[clone_region(r) for r in op.regions],
        schedule=op.schedule,
        placement=op.placement,
        workspace=op.workspace,
        location=op.location,
        names=[v.name for v in op.results],
    )
    _copy_labels(op.results, copy.results)
    return copy


def _copy_labels(old: Sequence[Value], new: Sequence[Value]) -> None:
    for value, copy in zip(old, new, strict=True):
        copy.label = value.label


def clone_region(region: Region) -> Region:
    copy = Region()
    for block in region.blocks:
        new = copy.add_block(Block())
        values: dict[Value, Value] = {}
        for argument in block.arguments:
            values[argument] = new.add_argument(argument.type, argument.name)
        _copy_labels(block.arguments, new.arguments)
        clone_operations(block, new, values)
    return copy
