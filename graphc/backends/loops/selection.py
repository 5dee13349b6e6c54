"""The places of the largest elements of each row as one function, by repeated passes over the row.

Elements become integers in the same order: nan the largest, zeros equal. A pass finds the largest
key that comes after the one of the pass before, equal keys by place, so nothing is moved or marked.
That is `count` times the row, which is little where few are wanted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from graphc.backends.loops import memory
from graphc.backends.loops.control import loop, loop_if_any, mul, offset, size_value
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I32, I64, PTR, Val, constant, element_of, index
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.passes.analysis.loopnest import Size


@dataclass(frozen=True, slots=True)
class Selected:
    """`count` of each row's `columns` elements."""

    rows: Size
    columns: int
    count: int
    dtype: DType


def emit_selection(module: ModuleWriter, machine: Machine, selected: Selected) -> str:
    """`@name` of `void (x, y, sizes of selected.rows.symbols…)`."""
    code = module.body()
    s = LaneScalars(code, has_fma=machine.has_fma)
    symbols = tuple(sorted(set(selected.rows.symbols)))
    sizes = {name: Val(f"%s{i}", I64) for i, name in enumerate(symbols)}
    x, y = Val("%x", PTR), Val("%y", PTR)
    with loop_if_any(code, index(0), _rows(s, selected, sizes), 1, []) as state:
        if state:
            step = mul(code, state.index, index(selected.columns))
            row = offset(code, x, element_of(selected.dtype), step)
            place = mul(code, state.index, index(selected.count))
            _select(s, selected, row, offset(code, y, "i32", place))
    code.leave()
    return module.add("top", [x, y, *sizes.values()], code)


def _rows(s: LaneScalars, selected: Selected, sizes: Mapping[str, Val]) -> Val:
    return size_value(s.code, selected.rows, sizes)


def _select(s: LaneScalars, selected: Selected, row: Val, out: Val) -> None:
    """The places of one row; each pass starts from the key and place that were found before."""
    least, most = _limits(selected.dtype)
    with loop(s.code, index(0), index(selected.count), 1, [most, index(-1)]) as turn:
        last, last_place = turn.carried
        columns = index(selected.columns)
        with loop(s.code, index(0), columns, 1, [least, index(0)]) as inner:
            best, best_place = inner.carried
            key = _key(s, memory.load(s, row, inner.index, selected.dtype, 1))
            is_later = s.logical_and(
                s.compare("eq", key, last), s.compare("sgt", inner.index, last_place)
            )
            is_left = s.logical_or(s.compare("slt", key, last), is_later)
            is_best = s.logical_and(is_left, s.compare("sgt", key, best))
            inner.carried[:] = [
                s.select(is_best, key, best),
                s.select(is_best, inner.index, best_place),
            ]
        memory.store(s, s.convert("trunc", inner.carried[1], I32), out, turn.index)
        turn.carried[:] = inner.carried


def _limits(dtype: DType) -> tuple[Val, Val]:
    """Below every key; the key of nan."""
    type_, bits = (I32, 31) if dtype is DType.F32 else (I64, 63)
    return constant(-(2**bits), type_), constant(2**bits - 1, type_)


def _key(s: LaneScalars, x: Val) -> Val:
    """An integer in the order of the floats: of negative ones the other bits are turned round."""
    bits = s.bits(s.add(x, s.const(0.0, x)))  # adding 0 makes -0 a 0
    most = s.const(2 ** (31 if x.type.element == "float" else 63) - 1, bits)
    b_transposed = s.code.binary("xor", bits, most)
    ordered = s.select(s.compare("slt", bits, s.const(0, bits)), b_transposed, bits)
    return s.select(s.compare("uno", x, x), most, ordered)
