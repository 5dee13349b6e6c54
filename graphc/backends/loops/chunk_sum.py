"""The sum of arrays that chunks have computed, one each: what makes one result of them.

Chunks are added in their order, by one thread, so that the bits depend on the chunks alone.
"""

from __future__ import annotations

from graphc.backends.loops import memory
from graphc.backends.loops.control import loop_if_any, mul, offset
from graphc.backends.loops.parallel_for import chunk_count
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I64, PTR, Val, element_of, index
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.passes.analysis.loopnest import Chunking


def emit_chunk_sum(
    module: ModuleWriter, machine: Machine, elements: int, dtype: DType, chunking: Chunking
) -> str:
    """`@name` of `void (result, arrays of the chunks, sizes of chunking.extent.symbols…)`."""
    code = module.body()
    result, arrays = Val("%result", PTR), Val("%chunks", PTR)
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(chunking.extent.symbols)}
    scalars = LaneScalars(code, has_fma=machine.has_fma)
    lanes, element = machine.lanes(dtype), element_of(dtype)
    memory.clear(scalars, result, elements, lanes, element)
    with loop_if_any(code, index(0), chunk_count(code, chunking, sizes), 1, []) as state:
        if state is not None:
            array = offset(code, arrays, element, mul(code, state.index, index(elements)))
            memory.add_to(scalars, result, array, elements, lanes, dtype)
    code.leave()
    return module.add("sum", (result, arrays, *sizes.values()), code)
