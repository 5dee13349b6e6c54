"""A rearrangement as one function: a fill where it needs one, then a loop nest per copy.

Segments that are contiguous on both sides are moved by vectors, reversed ones too. Where operand
and result are contiguous along different loops, square blocks are transposed in registers. The rest
is moved element by element. Short loops of known extents are unrolled.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from graphc.backends.loops.affine import CopyNest, Distance, Walk, copy_nest, fill_of
from graphc.backends.loops.control import (
    add,
    loop,
    loop_if_any,
    mul,
    offset,
    round_down,
    size_value,
    sub,
    when,
)
from graphc.backends.loops.shuffles import transposed
from graphc.backends.loops.values import (
    ELEMENT_BYTES,
    I64,
    PTR,
    Val,
    constant,
    element_of,
    index,
    lane_type,
    memory_element,
    number_of,
)
from graphc.backends.loops.writer import Binary, ModuleWriter, Writer
from graphc.ir.codegen import StridedCopy
from graphc.ir.machine import Machine
from graphc.ir.params import Params
from graphc.ir.types import DType, TensorType
from graphc.passes.analysis.loopnest import Size

UNROLL = 4
"""Vectors, or single elements, that one iteration over a long segment moves."""

MAX_STRAIGHT = 32
"""Loops of at most this many loads and stores are unrolled."""

MIN_BLOCK = 4
"""The smallest block that is worth a transposition in registers."""

Piece = Callable[[Val, int], None]
"""Writes the code for a number of elements from a position of a segment on."""


@dataclass(frozen=True, slots=True)
class Move:
    """What the function of a rearrangement does.

    elements   of the result
    fill       what it is set to first; None where every element is written anyway
    adds       elements that meet are added
    """

    nests: tuple[CopyNest, ...]
    operands: int
    dtype: DType
    elements: Size
    bound: int
    fill: bool | int | float | None
    adds: bool

    def symbols(self) -> tuple[str, ...]:
        """The dimensions of the call that the function asks for."""
        names = {name for nest in self.nests for name in nest.symbols()}
        return tuple(sorted(names.union(self.elements.symbols)))


def move_of(
    how: StridedCopy, params: Params, operands: Sequence[TensorType], result: TensorType
) -> Move:
    """The move of an operation with these settings and types."""
    copies = how.copies(params, operands, result)
    return Move(
        tuple(copy_nest(c, operands[c.operand], result, in_order=how.adds) for c in copies),
        len(operands),
        result.dtype,
        Size.of(result.dims),
        result.bound_elements,
        fill_of(how, params, result.dtype),
        how.adds,
    )


def emit_move(module: ModuleWriter, machine: Machine, move: Move, lanes: int = 0) -> str:
    """`@name` of `void (operands…, result, sizes of move.symbols()…)`."""
    code = module.body()
    symbols = move.symbols()
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(symbols)}
    goal = Val("%to", PTR)
    element = memory_element(element_of(move.dtype))
    lanes = lanes or machine.vector_bits // (8 * ELEMENT_BYTES[element])
    if move.fill is not None:
        _fill(code, move, _fitting(lanes, move.bound), size_value(code, move.elements, sizes))
    for nest in move.nests:
        if any(walk.extent.factor == 0 for walk in nest.walks):
            continue
        source = Val(f"%from{nest.operand}", PTR)
        _CopyEmitter(code, element, lanes, source, goal, sizes, move.adds).copy(nest)
    code.leave()
    sources = (Val(f"%from{i}", PTR) for i in range(move.operands))
    return module.add("move", (*sources, goal, *sizes.values()), code)


def _fill(code: Writer, move: Move, lanes: int, elements: Val) -> None:
    element = memory_element(element_of(move.dtype))
    assert move.fill is not None
    fill = move.fill

    def piece(position: Val, count: int) -> None:
        _store(code, constant(fill, lane_type(element, count)), Val("%to", PTR), position)

    _run(code, elements, lanes, piece)


def _fitting(lanes: int, bound: int) -> int:
    """The largest vector, at most `lanes`, that a segment of up to `bound` elements fills."""
    while lanes > 1 and lanes > bound:
        lanes //= 2
    return lanes


def _run(code: Writer, extent: Val, lanes: int, piece: Piece) -> None:
    """Calls `piece` over 0 … extent: several vectors at once, then one, then ever shorter ones."""
    number = number_of(extent)
    start = index(0)
    if number is None or number > MAX_STRAIGHT * lanes:
        step = UNROLL * lanes
        start = round_down(code, extent, step)
        with loop_if_any(code, index(0), start, step, []) as state:
            assert state is not None
            for i in range(UNROLL):
                piece(add(code, state.index, index(i * lanes)), lanes)
    if number is None:
        _unknown_rest(code, start, extent, lanes, piece)
        return
    for position, count in _pieces(number_of(start) or 0, number, lanes):
        piece(index(position), count)


def _pieces(start: int, stop: int, lanes: int) -> list[tuple[int, int]]:
    """Positions and lengths, each a power of two up to `lanes`, from start to stop."""
    made: list[tuple[int, int]] = []
    while start < stop:
        while lanes > stop - start:
            lanes //= 2
        made.append((start, lanes))
        start += lanes
    return made


def _unknown_rest(code: Writer, start: Val, stop: Val, lanes: int, piece: Piece) -> None:
    whole = round_down(code, stop, lanes)
    with loop(code, start, whole, lanes) as state:
        piece(state.index, lanes)
    position = whole
    while lanes > 1:
        lanes //= 2
        bit = code.binary("and", stop, index(lanes))
        has_more = code.compare("ne", bit, index(0))
        carried = [position]
        with when(code, has_more, carried) as inside:
            piece(inside[0], lanes)
            inside[0] = add(code, inside[0], index(lanes))
        (position,) = carried


class _CopyEmitter:
    """Writes the loops of one copy."""

    def __init__(
        self,
        code: Writer,
        element: str,
        lanes: int,
        source: Val,
        goal: Val,
        sizes: Mapping[str, Val],
        adds: bool,
    ) -> None:
        self.code = code
        self.element = element
        self.lanes = lanes
        self.source = source
        self.goal = goal
        self.sizes = sizes
        self.adds = adds

    def copy(self, nest: CopyNest) -> None:
        """The nest, by blocks or by rows."""
        block = None if self.adds else self._block(nest.walks)
        if block is not None:
            across, lanes = block
            self._by_blocks(nest, across, lanes)
        else:
            self._by_rows(nest)

    def _value(self, distance: Distance) -> Val:
        total = index(0)
        for size in distance.sizes:
            total = add(self.code, total, size_value(self.code, size, self.sizes))
        return total

    def _extent(self, walk: Walk) -> Val:
        return size_value(self.code, walk.extent, self.sizes)

    def _enter(
        self, loops: ExitStack, walks: Sequence[Walk], source: Val, goal: Val
    ) -> tuple[Val, Val]:
        """Opens loops; gives the addresses of the first element that an iteration moves."""
        for walk in walks:
            # Loop-invariant: computed before the loop.
            extent, a, b = self._extent(walk), self._value(walk.source), self._value(walk.target)
            state = loops.enter_context(loop(self.code, index(0), extent, 1))
            source = add(self.code, source, mul(self.code, state.index, a))
            goal = add(self.code, goal, mul(self.code, state.index, b))
        return source, goal

    # --- rows

    def _by_rows(self, nest: CopyNest) -> None:
        walks = nest.walks or (_ONE,)
        *outer, inner = walks
        steps = inner.source.number, inner.target.number
        lanes = _fitting(self.lanes, inner.bound) if steps in ((1, 1), (-1, 1)) else 1
        written_out = _written_out(outer, inner, lanes)
        looped = outer[: len(outer) - len(written_out)]
        with ExitStack() as loops:
            starts = self._value(nest.source), self._value(nest.target)
            source, goal = self._enter(loops, looped, *starts)
            for turn in itertools.product(*(range(w.extent.factor) for w in written_out)):
                at, to = source, goal
                for walk, i in zip(written_out, turn, strict=True):
                    at = add(self.code, at, self._value(walk.source.times(Size(i))))
                    to = add(self.code, to, self._value(walk.target.times(Size(i))))
                self._row(inner, lanes, at, to)

    def _row(self, walk: Walk, lanes: int, source: Val, goal: Val) -> None:
        code = self.code
        is_backward = walk.source.number == -1
        a, b = self._value(walk.source), self._value(walk.target)

        def piece(position: Val, count: int) -> None:
            there = add(code, source, mul(code, position, a))
            if is_backward:
                there = sub(code, there, index(count - 1))
            value = self._load(self.source, there, count)
            if is_backward:
                value = _backwards(code, value)
            self._put(value, add(code, goal, mul(code, position, b)))

        _run(code, self._extent(walk), lanes, piece)

    # --- blocks

    def _block(self, walks: Sequence[Walk]) -> tuple[Walk, int] | None:
        """The loop along which the operand's neighbours lie, and the side of a block."""
        if not walks or walks[-1].target.number != 1 or walks[-1].source.number in (1, -1):
            return None
        across = next((w for w in walks[:-1] if w.source.number == 1), None)
        if across is None or ELEMENT_BYTES[self.element] < 4:
            return None
        lanes = _fitting(self.lanes, min(across.bound, walks[-1].bound))
        return (across, lanes) if lanes >= MIN_BLOCK else None

    def _by_blocks(self, nest: CopyNest, across: Walk, lanes: int) -> None:
        code = self.code
        along = nest.walks[-1]
        row, column = self._value(along.source), self._value(across.target)
        rows, columns = self._extent(across), self._extent(along)
        others = [w for w in nest.walks[:-1] if w is not across]
        with ExitStack() as loops:
            starts = self._value(nest.source), self._value(nest.target)
            source, goal = self._enter(loops, others, *starts)

            def place(i: Val, j: Val) -> tuple[Val, Val]:
                there = add(code, add(code, source, i), mul(code, j, row))
                return there, add(code, add(code, goal, j), mul(code, i, column))

            def single(i: Val, j: Val) -> None:
                there, to = place(i, j)
                self._put(self._load(self.source, there, 1), to)

            whole_rows, whole_columns = (round_down(code, v, lanes) for v in (rows, columns))
            with loop_if_any(code, index(0), whole_rows, lanes, []) as i:
                assert i is not None  # a block fits, and a size of the call is not known here
                with loop_if_any(code, index(0), whole_columns, lanes, []) as j:
                    assert j is not None
                    self._exchange(*place(i.index, j.index), row, column, lanes)
                with loop_if_any(code, whole_columns, columns, 1, []) as j:
                    if j is not None:
                        for k in range(lanes):
                            single(add(code, i.index, index(k)), j.index)
            with loop_if_any(code, whole_rows, rows, 1, []) as i:
                if i is not None:
                    with loop(code, index(0), columns, 1) as j:
                        single(i.index, j.index)

    def _exchange(self, source: Val, goal: Val, row: Val, column: Val, lanes: int) -> None:
        """Reads `lanes` vectors `row` apart and writes their transposition `column` apart."""
        code = self.code
        block = [
            self._load(self.source, add(code, source, mul(code, index(k), row)), lanes)
            for k in range(lanes)
        ]
        for k, value in enumerate(transposed(code, block)):
            _store(code, value, self.goal, add(code, goal, mul(code, index(k), column)))

    # --- elements

    def _load(self, base: Val, position: Val, lanes: int) -> Val:
        type_ = lane_type(self.element, lanes)
        pointer = offset(self.code, base, self.element, position)
        align = ELEMENT_BYTES[self.element]
        return self.code.load(type_, pointer, align)

    def _put(self, value: Val, position: Val) -> None:
        if self.adds:
            held = self._load(self.goal, position, value.type.lanes)
            value = self.code.binary(_SUMS.get(self.element, "add"), held, value)
        _store(self.code, value, self.goal, position)


_SUMS: dict[str, Binary] = {"float": "fadd", "double": "fadd", "i8": "or"}
"""The sum of two elements in memory; truth values are bytes of 0 and 1."""

_ONE = Walk(Size(), 1, Distance((Size(),)), Distance((Size(),)))
"""The loop of a copy of one element."""


def _written_out(outer: Sequence[Walk], inner: Walk, lanes: int) -> Sequence[Walk]:
    """The innermost outer loops that are short enough to unroll."""
    if inner.extent.symbols:
        return ()
    count = len(_pieces(0, inner.extent.factor, lanes))
    first = len(outer)
    while first and not outer[first - 1].extent.symbols:
        count *= outer[first - 1].extent.factor
        if count > MAX_STRAIGHT:
            break
        first -= 1
    return outer[first:]


def _backwards(code: Writer, value: Val) -> Val:
    lanes = value.type.lanes
    if lanes == 1:
        return value
    return code.shuffle(value, None, range(lanes)[::-1])


def _store(code: Writer, value: Val, base: Val, position: Val) -> None:
    pointer = offset(code, base, value.type.element, position)
    align = ELEMENT_BYTES[value.type.element]
    code.store(value, pointer, align)
