"""Turns tensor-level functions into kernels, products, transpositions and views.

    %0 = matmul %x, %w : tensor<Nx32xf32>
    %1 = broadcast %b {dims = [N, 32]} : tensor<Nx32xf32>
    %2 = add %0, %1 : tensor<Nx32xf32>
 =>
    %0 = gemm %x, %w : tensor<Nx32xf32>
    %2 = kernel %0, %b : tensor<Nx32xf32> {
    ^(%3: tensor<Nx32xf32>, %4: tensor<1x32xf32>):
      %5 = broadcast %4 {dims = [N, 32]} : tensor<Nx32xf32>
      %6 = add %3, %5 : tensor<Nx32xf32>
      yield %6
    }

Every element-wise operation, reduction, broadcast and constant ends up in a `kernel`; `matmul`
becomes `gemm`, `transpose` becomes `move.transpose`, and so on (`ops/kernel.py`, FORMS). Leaves
alone: `reshape` (a view), operations at kernel level, functions with a memory plan. The body of a
loop is fused for itself.

Which operations share a kernel is decided in `analysis/fusion_groups.py`, by bytes not written and
read again; nothing but constants, positions, extents and broadcasts is computed twice. A reshape
ends a kernel. A slice that only kernels read is part of these, and so is a `concat` of what one
kernel makes, where `parts` are asked for: then it moves no element (`ops/parts.py`).
O(operations + operands).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.codegen import FUSABLE
from graphc.ir.context import Context
from graphc.ir.core import Block, Function, Level, Module, Operation, Region, Trait, Value
from graphc.ir.names import fix_names
from graphc.ir.traversal import straight_blocks
from graphc.ops.control import YIELD
from graphc.ops.kernel import FORMS, KERNEL
from graphc.passes.analysis.fusion_groups import FusionGroups, fusion_groups
from graphc.passes.eliminate_dead_code import remove_dead_in_block
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.passes.sink_slices import sink_slices
from graphc.support.source import merge_locations


def is_fused(function: Function) -> bool:
    """Whether nothing is left to do: no operation of the tensor level but views."""
    return all(_stays(op) for block in straight_blocks(function) for op in block)


def fuse(function: Function, limit: int = 256, *, parts: bool = True) -> int:
    """Rewrite `function` to kernel level, at most `limit` operations a kernel; the kernel count."""
    fix_names(function)  # a value is called in a kernel's body, and behind it, as it was before
    blocks = reversed(list(straight_blocks(function)))
    return sum(_fuse_block(block, limit, parts=parts) for block in blocks)


def _fuse_block(block: Block, limit: int, *, parts: bool) -> int:
    remove_dead_in_block(block)
    if parts:
        sink_slices(block)
    groups = fusion_groups(block, limit, parts=parts)
    replaced = [op for op in block if not _stays(op)]
    terminator = block.end
    new: dict[Value, Value] = {}
    for members, is_kernel in zip(groups.steps, groups.kernels, strict=True):
        op = _kernel(members, groups, new) if is_kernel else _single(members[0], new)
        if op is not terminator:
            block.insert_before(terminator, op)
    for op in reversed(replaced):
        op.erase()
    return sum(groups.kernels)


def _stays(op: Operation) -> bool:
    if op.opdef.level is Level.KERNEL:
        return True
    return not isinstance(op.opdef.codegen, FUSABLE) and op.opdef not in FORMS


def _single(op: Operation, new: dict[Value, Value]) -> Operation:
    """The kernel-level form of an operation outside kernels, in no block (but for `return`)."""
    operands = [new.get(v, v) for v in op.operands]
    if _stays(op):
        for index, value in enumerate(operands):
            op.set_operand(index, value)
        if op.block is not None and not op.opdef.has(Trait.TERMINATOR):
            op.block.unlink(op)
        return op
    types = [v.type for v in op.results]
    made = Operation(FORMS[op.opdef], operands, types, op.params, location=op.location)
    _stand_for(op.results, made, new)
    return made


def _stand_for(old: Sequence[Value], made: Operation, new: dict[Value, Value]) -> None:
    """Let the results of `made` be found as, and called like, those that they stand for."""
    for value, result in zip(old, made.results, strict=True):
        result.call_like(value)
        new[value] = result


def _kernel(
    members: Sequence[Operation], groups: FusionGroups, new: dict[Value, Value]
) -> Operation:
    """The kernel of `members`, in no block; `new` learns where its results are."""
    body = Block()
    inside: dict[Value, Value] = {}
    inputs: list[Value] = []
    own = frozenset(members)
    for member in members:
        for value in member.operands:
            _bring_in(value, body, inside, inputs, own, groups.free)
        _clone_into(body, member, inside)
    leaving = [v for m in members for v in m.results if v in groups.leaving]
    body.append(Operation(YIELD, [inside[v] for v in leaving], ()))
    kernel = Operation(
        KERNEL,
        [new.get(v, v) for v in inputs],
        [v.type for v in leaving],
        regions=[Region([body])],
        location=merge_locations([m.location for m in members]),
    )
    _stand_for(leaving, kernel, new)
    return kernel


def _bring_in(
    value: Value,
    body: Block,
    inside: dict[Value, Value],
    inputs: list[Value],
    own: frozenset[Operation],
    free: frozenset[Operation],
) -> None:
    """Make `value` readable in `body`: by repeating free operations, otherwise as an argument."""
    chain: list[Operation] = []
    while value not in inside and value.op is not None and value.op in free:
        chain.append(value.op)
        if not value.op.operands:
            break
        (value,) = value.op.operands
    made_here = chain and not chain[-1].operands
    if value not in inside and value.op not in own and not made_here:
        inside[value] = body.add_argument(value.type)
        inputs.append(value)
    for op in reversed(chain):
        _clone_into(body, op, inside)


def _clone_into(body: Block, op: Operation, inside: dict[Value, Value]) -> None:
    if op.result in inside:
        return  # a free operation that something outside reads too
    operands = [inside[v] for v in op.operands]
    copy = Operation(op.opdef, operands, [op.result.type], op.params, location=op.location)
    _stand_for(op.results, body.append(copy), inside)


@dataclass(frozen=True)
class FuseKernels(Pass):
    """max_operations  the most in the body of one kernel
    parts           slices are read where they are, and joined values written where they stand
    """

    name: ClassVar[str] = "fuse-kernels"
    summary: ClassVar[str] = "group tensor operations into kernels"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    max_operations: int = 256
    parts: bool = True

    def run(self, module: Module, context: Context) -> PassOutcome:
        todo = [f for f in module.functions if not is_fused(f)]
        kernels = sum(fuse(f, self.max_operations, parts=self.parts) for f in todo)
        return PassOutcome(changed=bool(todo), counters={"kernels": kernels})
