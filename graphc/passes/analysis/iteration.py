"""The loop nest an operation stands for: dims, common spaces, which loops a value varies in."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.codegen import Reduction
from graphc.ir.core import Operation, Value
from graphc.ir.types import Dim
from graphc.ops.convolution import ConvDataGradParams, ConvParams
from graphc.ops.parts import parts_joined, walked_values
from graphc.ops.pooling import MaxGradParams, PoolParams, SumGradParams
from graphc.ops.reduction import ReduceParams


def dims_of(value: Value) -> tuple[Dim, ...]:
    """The dims of a tensor value."""
    return value.tensor.dims


def iteration_dims(op: Operation) -> tuple[Dim, ...]:
    """The dims over which `op` runs: a reduction's are its operand's, those of joined parts a
    part's."""
    if isinstance(op.opdef.codegen, Reduction) or parts_joined(op):
        return dims_of(op.operands[0])
    return dims_of(op.result)


def merge_dims(a: Sequence[Dim], b: Sequence[Dim]) -> tuple[Dim, ...] | None:
    """The smallest iteration space that contains `a` and `b`; None if there is none."""
    if len(a) != len(b):
        return None
    merged: list[Dim] = []
    for x, y in zip(a, b, strict=True):
        if x != y and x != 1 and y != 1:
            return None
        merged.append(y if x == 1 else x)
    return tuple(merged)


def is_row_reduction(op: Operation) -> bool:
    """A reduction over the innermost axis alone; its result may be read in the same kernel."""
    return op.params_as(ReduceParams).axes == (len(dims_of(op.operands[0])) - 1,)


def varies_in_leading_dims(dims: Sequence[Dim], space: Sequence[Dim]) -> bool:
    """Whether a value over `dims` in a loop nest over `space` is fixed before the inner loops."""
    ended = False
    for own, full in zip(dims, space, strict=True):
        if own != full:
            ended = True
        elif ended and own != 1:
            return False
    return True


def kernel_space(kernel: Operation) -> tuple[Dim, ...]:
    """The extent of each axis of a kernel: every value that is walked has it, or 1."""
    values = walked_values(kernel.regions[0].block)
    extents: list[Dim] = [1] * len(dims_of(values[0]))
    for value in values:
        for axis, dim in enumerate(dims_of(value)):
            if dim != 1:
                extents[axis] = dim
    return tuple(extents)


def walked_axis(op: Operation) -> int:
    """The first axis inside an image, of what goes over images one by one."""
    params = op.params
    assert isinstance(
        params, ConvParams | ConvDataGradParams | PoolParams | MaxGradParams | SumGradParams
    )
    return params.axis
