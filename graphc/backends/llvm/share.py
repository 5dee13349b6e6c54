"""One operation computed in parts, by the threads of a pool or one part after the other.

    void graphc.share(ptr pool, ptr task, ptr context, i64 count)

calls `task(context, i)` for each i below count: through the pool's own `run`, to which a pool
begins with a pointer, or, where there is no pool or nothing to share, here. The context is a table
of eight bytes for each pointer and size that the operation's function takes.

    void run(ptr pool, ptr task, ptr context, i64 count)
    void task(ptr context, i64 index)

Anything that begins with a pointer to such a `run` can be a pool; `pool.py` is ours.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from graphc.backends.llvm.loops import (
    add,
    loop_if_any,
    mul,
    number_of,
    offset,
    size_value,
    smaller,
)
from graphc.backends.llvm.text import CALLER, I1, I64, PTR, Code, LaneType, Module, Val, index
from graphc.backends.loopnest import Cut


def emit_task(
    module: Module, function: str, pointers: int, symbols: Sequence[str], cut: Cut
) -> str:
    """`@name` of the task that calls `function(pointers…, sizes…, begin, end)` for a part."""
    code = Code(module)
    context, number = Val("%context", PTR), Val("%index", I64)
    arguments = [_loaded(code, context, i, PTR) for i in range(pointers)]
    sizes = {name: _loaded(code, context, i, I64) for i, name in enumerate(symbols, pointers)}
    begin = mul(code, number, index(cut.length))
    end = smaller(code, add(code, begin, index(cut.length)), size_value(code, cut.extent, sizes))
    step = size_value(code, cut.step, sizes)
    given = [*arguments, *sizes.values(), mul(code, begin, step), mul(code, end, step)]
    code.invoke(function, given)
    code.leave()
    return module.add_internal(
        "task", "ptr %context, i64 %index", code, attributes=f"nounwind {CALLER}"
    )


def emit_share(module: Module) -> str:
    """`@name` of the function that has the parts computed."""
    code = Code(module)
    pool, count = Val("%pool", PTR), Val("%count", I64)
    several = code.value(I1, f"icmp sgt {count}, 1")
    given = code.value(I1, f"icmp ne {pool}, null")
    both = code.binary("and", several, given)
    code.do(f"br {both}, label %ask, label %alone")
    code.enter("ask")
    # A pool of which nothing is left, in the child of a fork, has no `run`.
    run = code.value(PTR, f"load ptr, {pool}, align 8")
    lives = code.value(I1, f"icmp ne {run}, null")
    code.do(f"br {lives}, label %shared, label %alone")
    code.enter("shared")
    code.do(f"call void {run.ref}({pool}, ptr %task, ptr %context, {count})")
    code.leave()
    code.enter("alone")
    with loop_if_any(code, index(0), count, 1, []) as state:
        assert state is not None
        code.do(f"call void %task(ptr %context, {state.index})")
    code.leave()
    parameters = "ptr %pool, ptr %task, ptr %context, i64 %count"
    return module.add_internal("share", parameters, code, attributes=f"nounwind {CALLER}")


def parts_of(code: Code, cut: Cut, sizes: Mapping[str, Val]) -> Val:
    """How many parts there are."""
    extent = size_value(code, cut.extent, sizes)
    known = number_of(extent)
    if known is not None:
        return index(-(-known // cut.length))
    last = add(code, extent, index(cut.length - 1))
    return code.binary("udiv", last, index(cut.length))


def _loaded(code: Code, context: Val, slot: int, type_: LaneType) -> Val:
    place = offset(code, context, "i64", index(slot))
    return code.load(type_, place, 8)
