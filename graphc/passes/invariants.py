"""Named conditions between passes, each with a checker that says what is in the way."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from graphc.ir.codegen import Collective, Loop, View
from graphc.ir.core import Level, Module, RegionKind, Trait
from graphc.ir.traversal import straight_blocks, walk
from graphc.ir.types import MatrixType
from graphc.passes.analysis.memory import check_plan, has_buffers
from graphc.passes.analysis.needed import needed_nodes


class Invariant(Enum):
    """The value is the sentence used in messages."""

    SHAPED = "every node that a result needs to have known rows and columns"
    SSA = "SSA functions without nodes"
    FUSED = "functions at kernel level"
    PLANNED = "every buffer to have a place"

    @property
    def made_by(self) -> str:
        return _MADE_BY[self]


_MADE_BY = {
    Invariant.SHAPED: "infer-shapes",
    Invariant.SSA: "expand-nodes",
    Invariant.FUSED: "fuse-kernels",
    Invariant.PLANNED: "plan-memory",
}

Checker = Callable[[Module], list[str]]


def check_shaped(module: Module) -> list[str]:
    problems: list[str] = []
    for function in module.functions:
        is_graph = function.kind is RegionKind.GRAPH
        for op in needed_nodes(function) if is_graph else walk(function):
            for value in op.results:
                if isinstance(value.type, MatrixType) and not value.type.is_known:
                    problems.append(f"{value.name} is {value.type}")
    return problems


def check_ssa(module: Module) -> list[str]:
    return [f"@{f.name} is a graph" for f in module.functions if f.kind is not RegionKind.SSA]


def check_fused(module: Module) -> list[str]:
    problems = check_ssa(module)
    for function in module.functions:
        for op in (op for block in straight_blocks(function) for op in block):
            known = (View, Loop, Collective)
            allowed = op.opdef.level is Level.KERNEL or isinstance(op.opdef.codegen, known)
            if not allowed and not op.opdef.has(Trait.TERMINATOR):
                problems.append(f"`{op.opdef.name}` in @{function.name} is in no kernel")
    return problems


def check_planned(module: Module) -> list[str]:
    problems = check_fused(module)
    for function in module.functions:
        if function.arena is None:
            problems.append(f"@{function.name} has no arena")
        for op in (op for block in straight_blocks(function) for op in block):
            if has_buffers(op) and len(op.placement) != len(op.results):
                problems.append(f"a `{op.opdef.name}` in @{function.name} has no place")
        if not problems:
            problems.extend(check_plan(function))
    return problems


CHECKERS: dict[Invariant, Checker] = {
    Invariant.SHAPED: check_shaped,
    Invariant.SSA: check_ssa,
    Invariant.FUSED: check_fused,
    Invariant.PLANNED: check_planned,
}
