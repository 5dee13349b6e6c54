"""Runs: neighbouring entries of an index that point at neighbours, such as the words of a class."""

from __future__ import annotations

from collections.abc import Callable

from graphc.backends.llvm import memory
from graphc.backends.llvm.loops import loop_if_any, round_down, when
from graphc.backends.llvm.scalars import LlvmScalars
from graphc.backends.llvm.text import I1, I64, Code, Val, lane_type

Work = Callable[[Val, list[Val]], None]
"""(position, carried): works on what is there; it may change the carried values in place."""


def all_of(s: LlvmScalars, condition: Val) -> Val:
    """Whether the condition holds in all lanes."""
    name = f"llvm.vector.reduce.and.{condition.type.mangled}"
    function = s.code.module.intrinsic(name, "i1", condition.type.text)
    return s.code.call(I1, function, [condition])


def run_start(s: LlvmScalars, values: Val) -> tuple[Val, Val]:
    """The first lane of an i32 vector as i64, and whether the others count up from it by one."""
    element = lane_type(values.type.element)
    first = s.code.value(element, f"extractelement {values}, i64 0")
    counted = s.add(s.splat(first, values.type.lanes), memory.steps(values.type))
    return s.convert("sext", first, I64), all_of(s, s.compare("eq", values, counted))


def whole_or_each(
    code: Code, begin: Val, end: Val, lanes: int, carried: list[Val], whole: Work, each: Work
) -> None:
    """`whole` for every `lanes` positions from `begin` on, and `each` for those that are left."""
    middle = round_down(code, end, lanes)
    with loop_if_any(code, begin, middle, lanes, carried) as state:
        if state:
            whole(state.index, state.carried)
    with loop_if_any(code, middle, end, 1, carried) as state:
        if state:
            each(state.index, state.carried)


def either(
    s: LlvmScalars,
    condition: Val,
    carried: list[Val],
    some: Callable[[list[Val]], None],
    other: Callable[[list[Val]], None],
) -> None:
    """`some` if the condition holds, else `other`; both may change the carried values in place."""
    with when(s.code, condition, carried) as values:
        some(values)
    with when(s.code, s.logical_not(condition), carried) as values:
        other(values)
