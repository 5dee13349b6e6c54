"""Structured loops and branches over LLVM text: guarded, bottom-tested, carried values as phis.

Counts and indices are i64. Arithmetic on constants is done here and not left to LLVM, because no
passes run.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager

from graphc.backends.llvm.text import I1, I64, Code, Val, index
from graphc.backends.loopnest import Size


def number_of(value: Val) -> int | None:
    """The integer of a constant, None for a value known at run time."""
    return None if value.ref.startswith("%") else int(value.ref)


def add(code: Code, a: Val, b: Val) -> Val:
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(x + y)
    if x == 0:
        return b
    if y == 0:
        return a
    return code.binary("add nsw", a, b)


def sub(code: Code, a: Val, b: Val) -> Val:
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(x - y)
    if y == 0:
        return a
    return code.binary("sub nsw", a, b)


def mul(code: Code, a: Val, b: Val) -> Val:
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(x * y)
    if 0 in (x, y):
        return index(0)
    if x == 1:
        return b
    if y == 1:
        return a
    return code.binary("mul nsw", a, b)


def smaller(code: Code, a: Val, b: Val) -> Val:
    """The lesser of two integers."""
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(min(x, y))
    return code.select(code.compare("slt", a, b), a, b)


def remainder(code: Code, a: Val, step: int) -> Val:
    """What is left of a length after whole steps."""
    x = number_of(a)
    if x is not None:
        return index(x % step)
    return code.binary("urem", a, index(step))


def round_down(code: Code, a: Val, step: int) -> Val:
    """The largest multiple of `step`, a power of two, that is not above `a`."""
    x = number_of(a)
    if x is not None:
        return index(x - x % step)
    return code.binary("and", a, index(-step))


def parts_of(code: Code, extent: Val, widest: int) -> list[tuple[Val, Val, int]]:
    """(begin, end, width): the extent cut into multiples of ever smaller powers of two."""
    parts: list[tuple[Val, Val, int]] = []
    begin, width = index(0), widest
    while width:
        end = round_down(code, extent, width)
        parts.append((begin, end, width))
        begin, width = end, width // 2
    return parts


def size_value(code: Code, size: Size, sizes: Mapping[str, Val]) -> Val:
    """The size as a value, from those of the call's dimensions."""
    value = index(size.factor)
    for name in size.symbols:
        value = mul(code, value, sizes[name])
    return value


def offset(code: Code, base: Val, element: str, position: Val) -> Val:
    """The address of an element of an array."""
    if number_of(position) == 0:
        return base
    return code.offset(base, element, position)


class Loop:
    """The inside of a loop: its index, and the values that it carries."""

    def __init__(self, index: Val, carried: list[Val]) -> None:
        self.index = index
        self.carried = carried


@contextmanager
def loop(
    code: Code, start: Val, stop: Val, step: int, carried: Sequence[Val] = ()
) -> Generator[Loop]:
    """Runs the block for start, start + step, … below stop.

    Inside, `carried` holds the values of this turn; the caller puts there those of the next, and
    finds there the final ones afterwards.
    """
    first, last = number_of(start), number_of(stop)
    if first is not None and last is not None and first >= last:
        raise ValueError("a loop that never runs must not be written")
    if first is not None and last is not None and last - first <= step:
        yield Loop(start, list(carried))
        return
    is_guarded = first is None or last is None
    before, head, done = code.block, code.fresh_label("loop"), code.fresh_label("done")
    if is_guarded:
        enters = code.value(I1, f"icmp slt i64 {start.ref}, {stop.ref}")
        code.do(f"br {enters}, label %{head}, label %{done}")
    else:
        code.do(f"br label %{head}")
    code.enter(head)
    holes = [code.hole() for _ in range(len(carried) + 1)]
    counter = code.fresh(I64)
    phis = [code.fresh(v.type) for v in carried]
    state = Loop(counter, list(phis))
    yield state

    following = code.value(I64, f"add nsw i64 {counter.ref}, {step}")
    more = code.value(I1, f"icmp slt i64 {following.ref}, {stop.ref}")
    latch = code.block
    ends = [(counter, start, following), *zip(phis, carried, state.carried, strict=True)]
    for hole, (phi, initial, next_value) in zip(holes, ends, strict=True):
        pairs = f"[ {initial.ref}, %{before} ], [ {next_value.ref}, %{latch} ]"
        code.fill(hole, f"  {phi.ref} = phi {phi.type.text} {pairs}")
    code.do(f"br {more}, label %{head}, label %{done}")
    code.enter(done)
    if is_guarded:
        state.carried = [
            code.value(v.type, f"phi {v.type.text} [ {i.ref}, %{before} ], [ {v.ref}, %{latch} ]")
            for i, v in zip(carried, state.carried, strict=True)
        ]


@contextmanager
def loop_if_any(
    code: Code, start: Val, stop: Val, step: int, carried: list[Val]
) -> Generator[Loop | None]:
    """Like `loop`, but gives None where it is known that it never runs; nothing is written then."""
    first, last = number_of(start), number_of(stop)
    if first is not None and last is not None and first >= last:
        yield None
        return
    with loop(code, start, stop, step, carried) as state:
        yield state
    carried[:] = state.carried


@contextmanager
def when(code: Code, condition: Val, carried: list[Val]) -> Generator[list[Val]]:
    """Runs the block if the condition holds; `carried` then has the values of either way."""
    before, inside, done = code.block, code.fresh_label("then"), code.fresh_label("end")
    code.do(f"br {condition}, label %{inside}, label %{done}")
    code.enter(inside)
    values = list(carried)
    yield values
    end = code.block
    code.do(f"br label %{done}")
    code.enter(done)
    carried[:] = [
        code.value(v.type, f"phi {v.type.text} [ {i.ref}, %{before} ], [ {v.ref}, %{end} ]")
        for i, v in zip(carried, values, strict=True)
    ]
