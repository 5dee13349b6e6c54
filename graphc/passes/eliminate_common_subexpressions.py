"""Merges pure operations that compute the same value in the same block.

    %0 = add %x, %y : tensor<4xf32>            %0 = add %x, %y : tensor<4xf32>
    %1 = add %y, %x : tensor<4xf32>      =>    %2 = mul %0, %0 : tensor<4xf32>
    %2 = mul %0, %1 : tensor<4xf32>

Leaves alone: graphs (their nodes are what the user wrote), functions with a memory plan (two equal
results may live in different places on purpose), operations with regions, operations that are not
pure, and constants of more than `max_constant_elements` elements (comparing them costs more than
it saves).

Algorithm: value numbering by hashing in one walk over each block (Cocke 1970; "hash-consing").
Params are compared by their printed form, which tells 0.0 from -0.0 and takes nan as itself; the
operands of commutative operations are sorted. The survivor is the first, and its location
remembers those merged into it. O(operations + operands).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.codegen import Fill
from graphc.ir.context import Context
from graphc.ir.core import Block, Function, Module, Operation, RegionKind, Trait, Value
from graphc.ir.params import print_params
from graphc.ir.traversal import blocks
from graphc.ops.constant import ConstantParams
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.source import Location, merge_locations


def is_mergeable(op: Operation, max_constant_elements: int) -> bool:
    """Whether two operations like `op` may become one."""
    if not op.opdef.has(Trait.PURE) or op.opdef.has(Trait.TERMINATOR) or op.regions:
        return False
    if isinstance(op.opdef.codegen, Fill) and isinstance(op.params, ConstantParams):
        return len(op.params.value) <= max_constant_elements
    return True


def merge_duplicates(function: Function, max_constant_elements: int = 16) -> int:
    """Merge duplicates in every block of `function`; the number of operations removed."""
    if function.kind is not RegionKind.SSA or function.arena is not None:
        return 0
    return sum(_merge_in_block(b, max_constant_elements) for b in list(blocks(function)))


def _merge_in_block(block: Block, max_constant_elements: int) -> int:
    numbers: dict[Value, int] = {a: i for i, a in enumerate(block.arguments)}
    seen: dict[Hashable, Operation] = {}
    merged: dict[Operation, list[Location]] = {}
    count = 0
    for op in block:
        survivor = op
        if is_mergeable(op, max_constant_elements):
            survivor = seen.setdefault(_key(op, numbers), op)
        if survivor is op:
            for value in op.results:
                numbers[value] = len(numbers)
            continue
        merged.setdefault(survivor, [survivor.location]).append(op.location)
        op.replace_with(survivor.results)
        count += 1
    for survivor, locations in merged.items():
        survivor.location = merge_locations(locations)
    return count


def _key(op: Operation, numbers: dict[Value, int]) -> Hashable:
    operands = [numbers[v] for v in op.operands]
    if op.opdef.has(Trait.COMMUTATIVE):
        operands.sort()
    types = tuple(v.type for v in op.results)
    return op.opdef, print_params(op.params), tuple(operands), types


@dataclass(frozen=True)
class EliminateCommonSubexpressions(Pass):
    """`max_constant_elements`: constants with more elements are not compared."""

    name: ClassVar[str] = "cse"
    summary: ClassVar[str] = "merge pure operations that compute the same value"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    max_constant_elements: int = 16

    def run(self, module: Module, context: Context) -> PassOutcome:
        merged = sum(merge_duplicates(f, self.max_constant_elements) for f in module.functions)
        return PassOutcome(changed=merged > 0, counters={"merged": merged})
