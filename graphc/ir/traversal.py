"""Walks over the IR, without recursion, in a fixed order."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from graphc.ir.core import Block, Function, Level, Module, Operation, Region, Value
from graphc.support.graphs import reachable, topological_order


def walk(root: Module | Function | Region | Block | Operation) -> Iterator[Operation]:
    """Every operation below `root` (itself included), outer before inner, in program order."""
    work: list[Operation] = list(reversed(_top_level(root)))
    while work:
        op = work.pop()
        inner = [child for region in op.regions for block in region.blocks for child in block]
        yield op
        work.extend(reversed(inner))


def _top_level(root: Module | Function | Region | Block | Operation) -> list[Operation]:
    match root:
        case Module():
            return [op for f in root.functions for b in f.body.blocks for op in b]
        case Function():
            return [op for b in root.body.blocks for op in b]
        case Region():
            return [op for b in root.blocks for op in b]
        case Block():
            return list(root)
        case Operation():
            return [root]


def blocks(root: Function | Region) -> Iterator[Block]:
    """Every block below `root`, outer before inner."""
    region = root.body if isinstance(root, Function) else root
    yield from region.blocks
    for op in walk(region):
        for inner in op.regions:
            yield from inner.blocks


def straight_blocks(function: Function) -> Iterator[Block]:
    """The function's block and those of loops, outer before inner; not the bodies of kernels."""
    yield from function.body.blocks
    for op in walk(function.body):
        if op.opdef.level is not Level.KERNEL:
            for inner in op.regions:
                yield from inner.blocks


def function_of(op: Operation) -> Function | None:
    """The function that an operation stands in, however deep."""
    owner: Operation | Function | None = op
    while isinstance(owner, Operation):
        region = owner.block.region if owner.block is not None else None
        owner = region.owner if region is not None else None
    return owner


def made_of(value: Value, is_end: Callable[[Value], bool]) -> list[Value]:
    """`value` and what it is computed from, each once, operands first; nothing behind the ends."""

    def operands(v: Value) -> tuple[Value, ...]:
        return () if v.op is None or is_end(v) else v.op.operands

    order = topological_order(reachable([value], operands), operands)
    assert order is not None
    return order
