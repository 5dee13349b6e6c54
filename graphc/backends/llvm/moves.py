"""A transposition as one LLVM function: the result in order, the operand wherever it lies."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack

from graphc.backends.llvm import memory
from graphc.backends.llvm.loops import add, loop, mul, number_of, size_value
from graphc.backends.llvm.scalars import LlvmScalars
from graphc.backends.llvm.text import I64, PTR, Code, Module, Val, index
from graphc.backends.loopnest import Size
from graphc.ir.types import TensorType


def move_symbols(operand: TensorType) -> tuple[str, ...]:
    """The dimensions of the call that the function asks for."""
    return tuple(sorted({d.name for d in operand.symbols()}))


def emit_move(module: Module, operand: TensorType, permutation: Sequence[int]) -> str:
    """`@name` of `void (operand, result, sizes of move_symbols…)`; result dim i is operand dim
    `permutation[i]`."""
    code = Code(module)
    s = LlvmScalars(code, has_fma=False)
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(move_symbols(operand))}
    extents = [size_value(code, Size.of((d,)), sizes) for d in operand.dims]
    strides = [index(1)] * operand.rank
    for axis in reversed(range(operand.rank - 1)):
        strides[axis] = mul(code, strides[axis + 1], extents[axis + 1])
    if 0 not in map(number_of, extents):
        source = goal = index(0)
        with ExitStack() as loops:
            for axis in permutation:
                state = loops.enter_context(loop(code, index(0), extents[axis], 1))
                source = add(code, source, mul(code, state.index, strides[axis]))
                goal = add(code, mul(code, goal, extents[axis]), state.index)
            value = memory.load(s, Val("%from", PTR), source, operand.dtype, 1)
            memory.store(s, value, Val("%to", PTR), goal)
    code.do("ret void")
    parameters = ["ptr %from", "ptr %to", *(f"i64 {v.ref}" for v in sizes.values())]
    return module.add_internal("move", ", ".join(parameters), code)
