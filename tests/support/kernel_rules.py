"""What backends may rely on in a fused function, checked from scratch.

Written against the list in `graphc/passes/analysis/fusion_groups.py`, sharing no code with it.
"""

from __future__ import annotations

from collections.abc import Iterator

from graphc.ir.codegen import FUSABLE, Broadcast, Extent, Fill, Position, Reduction
from graphc.ir.core import Function, Operation, Value
from graphc.ir.types import Dim, TensorType
from graphc.ops.control import YIELD
from graphc.ops.kernel import KERNEL
from graphc.ops.movement import CONCAT, SLICE
from graphc.ops.reduction import ReduceParams

FREE = (Broadcast, Fill, Position, Extent)


def broken_rules(function: Function, limit: int = 256) -> list[str]:
    """Every rule that some kernel of `function` breaks, with the kernel."""
    return [
        f"{rule}: {op.results}"
        for op in function.block
        if op.opdef is KERNEL
        for rule in _rules_of(op, limit)
    ]


def _rules_of(kernel: Operation, limit: int) -> Iterator[str]:
    block = kernel.regions[0].block
    body = [op for op in block if op.opdef is not YIELD]
    yielded = set(block.terminator.operands) if block.terminator is not None else set()
    cut = {op.operands[0] for op in body if op.opdef is SLICE}
    read = [a for a in block.arguments if a not in cut]
    space = _space([*read, *(op.result for op in body if op.opdef is not CONCAT)])
    for argument in cut:
        if argument.op is not None or any(u.opdef is not SLICE for u in argument.users()):
            yield "takes a part of what it computes, or reads whole"
    if len(body) > limit:
        yield f"more than {limit} operations"
    if space is None:
        yield "no common space"
        return
    if len(set(kernel.operands)) != len(kernel.operands):
        yield "the same operand twice"
    if len(yielded) != len(kernel.results):
        yield "a value yielded twice"
    for value in yielded:
        if value.op is None:
            yield "yields an argument"
    for op in body:
        yield from _rules_of_body_op(op, space, yielded)


def _rules_of_body_op(op: Operation, space: tuple[Dim, ...], yielded: set[Value]) -> Iterator[str]:
    dims = _dims(op.result)
    if op.opdef is CONCAT:
        if {_dims(v) for v in op.operands} != {space} and space[-1] in (0, 1):
            yield f"joins less than the space {space}"
        if any(user.opdef is not YIELD for user in op.result.users()):
            yield "reads what is joined"
        return
    if op.opdef is SLICE:
        whole = _dims(op.operands[0])
        if sum(own != full for own, full in zip(dims, whole, strict=True)) != 1:
            yield f"takes {dims} of {whole}"
        return
    if not isinstance(op.opdef.codegen, FUSABLE):
        yield f"{op.opdef.name} in a kernel"
    if not op.result.has_uses:
        yield f"{op.opdef.name} that nobody reads"
    if isinstance(op.params, ReduceParams) and isinstance(op.opdef.codegen, Reduction):
        if _dims(op.operands[0]) != space:
            yield "a reduction over less than the space"
        inside = [user for user in op.result.users() if user.opdef is not YIELD]
        if inside and op.params.axes != (len(space) - 1,):
            yield "a reduction over outer axes that is read inside"
        return
    if not isinstance(op.opdef.codegen, FREE):
        shared = [own == full for own, full in zip(dims, space, strict=True)]
        varying = [i for i, d in enumerate(dims) if d != 1]
        if not all(all(shared[: i + 1]) for i in varying):
            yield f"{op.opdef.name} over {dims} varies in trailing dims of {space}"
    if op.result in yielded and dims != space:
        last = space[-1]
        if dims[:-1] != space[:-1] or not isinstance(last, int) or last == 0:
            yield f"{op.opdef.name} over {dims} leaves a kernel over {space}"


def _space(values: list[Value]) -> tuple[Dim, ...] | None:
    space: list[Dim] | None = None
    for value in values:
        dims = _dims(value)
        if space is None:
            space = list(dims)
        if len(dims) != len(space):
            return None
        for i, dim in enumerate(dims):
            if space[i] == 1:
                space[i] = dim
            elif dim not in (1, space[i]):
                return None
    return None if space is None else tuple(space)


def _dims(value: Value) -> tuple[Dim, ...]:
    assert isinstance(value.type, TensorType)
    return value.type.dims
