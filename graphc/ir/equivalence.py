"""Structural equality: same operations, params, schedules, places, types and edges, in order.

Names count in graphs (they are the nodes' names) and in signatures, not in SSA bodies. Locations
never count.
"""

from __future__ import annotations

from graphc.ir.core import Block, Function, Module, RegionKind, Value
from graphc.ir.params import print_params


def modules_equal(a: Module, b: Module) -> bool:
    return (
        a.dims == b.dims
        and len(a.functions) == len(b.functions)
        and all(map(functions_equal, a.functions, b.functions))
    )


def functions_equal(a: Function, b: Function) -> bool:
    if (a.name, a.kind, a.roles, a.results, a.arena, a.contraction, a.launch) != (
        b.name,
        b.kind,
        b.roles,
        b.results,
        b.arena,
        b.contraction,
        b.launch,
    ):
        return False
    if [x.name for x in a.arguments] != [x.name for x in b.arguments]:
        return False
    return blocks_equal(a.block, b.block, named=a.kind is RegionKind.GRAPH)


def blocks_equal(a: Block, b: Block, *, named: bool = False) -> bool:
    """Equality of blocks that read nothing from outside themselves."""
    same: dict[Value, Value] = {}
    pairs = [(a, b)]
    while pairs:
        left, right = pairs.pop()
        if not _match_shapes(left, right, same, named, pairs):
            return False
    return _match_edges(a, b, same)


def _match_shapes(
    a: Block, b: Block, same: dict[Value, Value], named: bool, pairs: list[tuple[Block, Block]]
) -> bool:
    """Everything but operands; records which value stands for which."""
    if len(a) != len(b) or [v.type for v in a.arguments] != [v.type for v in b.arguments]:
        return False
    same.update(zip(a.arguments, b.arguments, strict=True))
    for left, right in zip(a, b, strict=True):
        if left.opdef is not right.opdef or len(left.operands) != len(right.operands):
            return False
        if print_params(left.params) != print_params(right.params):
            return False
        if print_params(left.schedule) != print_params(right.schedule):
            return False
        if (left.placement, left.workspace) != (right.placement, right.workspace):
            return False
        if [v.type for v in left.results] != [v.type for v in right.results]:
            return False
        if named and [v.name for v in left.results] != [v.name for v in right.results]:
            return False
        if len(left.regions) != len(right.regions):
            return False
        same.update(zip(left.results, right.results, strict=True))
        for x, y in zip(left.regions, right.regions, strict=True):
            if len(x.blocks) != len(y.blocks):
                return False
            pairs.extend(zip(x.blocks, y.blocks, strict=True))
    return True


def _match_edges(a: Block, b: Block, same: dict[Value, Value]) -> bool:
    pairs = [(a, b)]
    while pairs:
        left, right = pairs.pop()
        for x, y in zip(left, right, strict=True):
            if any(same.get(u) is not v for u, v in zip(x.operands, y.operands, strict=True)):
                return False
            for p, q in zip(x.regions, y.regions, strict=True):
                pairs.extend(zip(p.blocks, q.blocks, strict=True))
    return True
