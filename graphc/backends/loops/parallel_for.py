"""One operation computed in chunks, by the threads of a pool or one chunk after the other.

    void graphc.parallel_for(ptr pool, ptr task, ptr context, i64 count)

calls `task(context, i)` for each i below count. A pool is a struct whose first field points to its
own `run`, which does this on several threads. Without a pool, or with a single chunk, the calls are
made here. The context is a table of the pointers and sizes that the operation's function takes,
eight bytes each.

    void run(ptr pool, ptr task, ptr context, i64 count)
    void task(ptr context, i64 index)

The task of operations that are computed at the same time calls another function for each i.

Any struct that begins with a pointer to such a `run` is a pool; `pool.py` is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.backends.loops.control import add, mul, offset, size_value, smaller, when
from graphc.backends.loops.values import I64, PTR, LaneType, Val, index, number_of
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.passes.analysis.loopnest import Chunking


@dataclass(frozen=True, slots=True)
class ChunkCall:
    """The call of `function(pointers…, sizes…, begin, end)` for a chunk, with the sizes that
    `symbols` name; pointers and sizes stand in the context from `slot` on."""

    function: str
    slot: int
    pointers: int
    symbols: tuple[str, ...]
    chunking: Chunking


def emit_task(module: ModuleWriter, calls: Sequence[ChunkCall]) -> str:
    """`@name` of the task that makes these calls for a chunk, one after the other."""
    code = module.body()
    context, number = Val("%context", PTR), Val("%index", I64)
    for call in calls:
        chunking, slots = call.chunking, range(call.slot, call.slot + call.pointers)
        arguments = [_loaded(code, context, slot, PTR) for slot in slots]
        sizes = {
            name: _loaded(code, context, slot, I64)
            for slot, name in enumerate(call.symbols, slots.stop)
        }
        begin = mul(code, number, index(chunking.length))
        end = smaller(
            code, add(code, begin, index(chunking.length)), size_value(code, chunking.extent, sizes)
        )
        step = size_value(code, chunking.step, sizes)
        given = [*arguments, *sizes.values(), mul(code, begin, step), mul(code, end, step)]
        code.invoke(call.function, given)
    code.leave()
    return module.add("task", (context, number), code, only_calls=True)


@dataclass(frozen=True, slots=True)
class WholeCall:
    """The call of a function with pointers and sizes that stand in the context from `slot` on; what
    it gives, of the types `results`, nobody reads."""

    function: str
    slot: int
    pointers: int
    sizes: int
    results: tuple[LaneType, ...] = ()


def emit_calls(module: ModuleWriter, calls: Sequence[WholeCall]) -> str:
    """`@name` of the task that makes the call of this number."""
    code = module.body()
    context, number = Val("%context", PTR), Val("%index", I64)
    for i, call in enumerate(calls):
        with when(code, code.compare("eq", number, index(i)), []):
            middle = call.slot + call.pointers
            given = [_loaded(code, context, slot, PTR) for slot in range(call.slot, middle)]
            sizes = range(middle, middle + call.sizes)
            given += [_loaded(code, context, s, I64) for s in sizes]
            if call.results:
                code.invoke_for(call.function, given, call.results)
            else:
                code.invoke(call.function, given)
    code.leave()
    return module.add("task", (context, number), code, only_calls=True)


def chunk_count(code: Writer, chunking: Chunking, sizes: Mapping[str, Val]) -> Val:
    """How many chunks there are."""
    extent = size_value(code, chunking.extent, sizes)
    known = number_of(extent)
    if known is not None:
        return index(-(-known // chunking.length))
    last = add(code, extent, index(chunking.length - 1))
    return code.binary("udiv", last, index(chunking.length))


def _loaded(code: Writer, context: Val, slot: int, type_: LaneType) -> Val:
    place = offset(code, context, "i64", index(slot))
    return code.load(type_, place, 8)
