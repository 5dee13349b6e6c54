"""Depthwise convolution, and its two gradients, as one function each: channels in the lanes.

    result   y[n, p, q, c] = Σ x[n, s p + d i - a, t q + e j - b, c] · w[i, j, c]
    image    x[n, u, v, c] = Σ y[n, p, q, c] · w[i, j, c] over s p + d i - a = u, t q + e j - b = v
    weights  w[i, j, c]    = Σ x[n, s p + d i - a, t q + e j - b, c] · y[n, p, q, c]

What lies outside of an image is left out of the sums. The first two are computed in rows of the
result: which rows of a window lie inside is worked out for each row. A row is cut into tiles of
neighbouring places, whose sums are in registers, for one vector of channels; what each of them
reads is known here, so that tiles that read alike are the turns of one loop, and those at the
edges, where elements of windows are missing, code of their own. Windows too long for that are
walked over in loops, place by place.

Sums of weights are taken along a row, then over the rows of an image, then over images, so that
rounding errors grow with none of their products.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

from graphc.backends.loops import memory
from graphc.backends.loops.control import (
    add,
    loop,
    loop_if_any,
    mul,
    offset,
    size_value,
    smaller,
    sub,
    when,
)
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import (
    I64,
    PTR,
    Val,
    constant,
    element_of,
    index,
    lane_type,
    number_of,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.codegen import Role
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.ops.depthwise import DepthwiseShape
from graphc.passes.analysis.loopnest import Size
from graphc.passes.analysis.window_products import spans

PLACES = 8
"""Of a tile, at most: their sums, a row of a kernel and what is read stay in 16 registers."""

MOST_STRAIGHT = 1024
"""Products that are written one by one, in all tiles of a row together."""

MOST_SOUGHT = 1 << 16
"""Places times elements of a window that are looked at to find tiles that read alike."""

LONG_ROW = 8
"""Elements of a row of a window whose products are added to those of the other rows one by one, at
most."""

VECTORS = 4
"""Vectors of channels whose sums of weights are taken together: additions have to wait for each
other."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One walked axis; `image` and `places` are its extents in images and in results."""

    image: int
    places: int
    size: int
    stride: int
    low: int
    dilation: int

    def read(self, role: Role, at: int, element: int) -> int | None:
        """Where a place of the result reads for an element of a window; None for nowhere."""
        if role == "data_grad":
            place, rest = divmod(at + self.low - element * self.dilation, self.stride)
            return place if not rest and 0 <= place < self.places else None
        found = at * self.stride + element * self.dilation - self.low
        return found if 0 <= found < self.image else None


@dataclass(frozen=True, slots=True)
class Depthwise:
    """What is computed; one walked axis is a row of an image that is one row high.

    parallel  the function takes `begin, end` as last arguments and computes these rows of result
              images, or these channels, only
    """

    role: Role
    images: Size
    rows: Axis
    columns: Axis
    channels: int
    dtype: DType
    parallel: bool = False
    chunk: int = 0

    @staticmethod
    def of(role: Role, shape: DepthwiseShape, dtype: DType) -> Depthwise:
        """What an operation computes, in one piece."""
        axes = [
            Axis(*numbers)
            for numbers in zip(
                shape.extents,
                shape.places,
                shape.sizes,
                shape.strides,
                shape.low,
                shape.dilations,
                strict=True,
            )
        ]
        rows, columns = (Axis(1, 1, 1, 1, 0, 1), *axes)[-2:]
        return Depthwise(role, Size.of(shape.lead), rows, columns, shape.channels, dtype)

    def symbols(self) -> tuple[str, ...]:
        """The dimensions of the call that the function asks for."""
        return tuple(dict.fromkeys(self.images.symbols))

    def goal(self, axis: Axis) -> int:
        """The extent of an axis in what is computed, unless that is weights."""
        return axis.image if self.role == "data_grad" else axis.places

    def source(self, axis: Axis) -> int:
        """The extent of an axis in the first operand."""
        return axis.places if self.role == "data_grad" else axis.image

    @property
    def all_rows(self) -> Size:
        """Of all result images."""
        return Size(self.images.factor * self.goal(self.rows), self.images.symbols)


def emit_depthwise(module: ModuleWriter, machine: Machine, what: Depthwise, lanes: int = 0) -> str:
    """`@name` of `void (first, second, result, sizes of what.symbols()…)`."""
    code = module.body()
    sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(what.symbols())}
    emitter = _Emitter(code, machine, what, lanes or machine.lanes(what.dtype))
    ends = [Val("%begin", I64), Val("%end", I64)] if what.parallel else []
    if what.role == "weight_grad":
        first = ends[0] if ends else index(0)
        emitter.weights(first, what.chunk or what.channels, size_value(code, what.images, sizes))
    else:
        begin, end = ends or (index(0), size_value(code, what.all_rows, sizes))
        with loop_if_any(code, begin, end, 1, []) as state:
            if state is not None:
                emitter.row(state.index)
    code.leave()
    parameters = [*(Val(name, PTR) for name in ("%a", "%b", "%c")), *sizes.values(), *ends]
    return module.add("depthwise", parameters, code)


Reads = tuple[tuple[int, int], ...]
"""Of a place in a tile: elements of a window and where they are read, from the tile's start on."""


@dataclass(frozen=True, slots=True)
class _Tiles:
    """`count` tiles of `len(reads)` places, one after the other, that read alike."""

    first: int
    count: int
    reads: tuple[Reads, ...]


def tiles_of(what: Depthwise) -> list[_Tiles]:
    """A row of the result in tiles; none where that would be too much code."""
    axis, extent = what.columns, what.goal(what.columns)
    if extent * axis.size > MOST_SOUGHT:
        return []
    step = axis.stride if what.role == "data_grad" else 1
    width = -(-extent // -(-extent // PLACES))
    width = -(-width // step) * step  # so that all tiles are alike towards the windows

    def reads(start: int) -> tuple[Reads, ...]:
        origin = _origin(what, start)
        places = range(start, min(start + width, extent))
        found = ([(j, axis.read(what.role, at, j)) for j in range(axis.size)] for at in places)
        return tuple(tuple((j, at - origin) for j, at in of if at is not None) for of in found)

    made: list[_Tiles] = []
    for pattern, same in groupby(range(0, extent, width), reads):
        starts = list(same)
        made.append(_Tiles(starts[0], len(starts), pattern))
    products = sum(len(of) for tiles in made for of in tiles.reads)
    return made if products <= MOST_STRAIGHT else []


def _origin(what: Depthwise, start: int) -> int:
    """Where a tile that starts there reads from, give or take what its pattern says."""
    stride = what.columns.stride
    return start // stride if what.role == "data_grad" else start * stride


class _Emitter:
    """Writes the loops around the sums."""

    def __init__(self, code: Writer, machine: Machine, what: Depthwise, lanes: int) -> None:
        self.code = code
        self.what = what
        self.s = LaneScalars(code, has_fma=machine.has_fma)
        self.element = element_of(what.dtype)
        self.lanes = lanes

    # --- results and images

    def row(self, number: Val) -> None:
        """One row of all result images together."""
        what, code = self.what, self.code
        goals = what.goal(what.rows)
        image = number if goals == 1 else code.binary("udiv", number, index(goals))
        at = index(0) if goals == 1 else code.binary("urem", number, index(goals))
        size = what.source(what.rows) * what.source(what.columns) * what.channels
        source = self._from(Val("%a", PTR), mul(code, image, index(size)))
        row = mul(code, number, index(what.goal(what.columns) * what.channels))
        goal = self._from(Val("%c", PTR), row)
        tiles = tiles_of(what)
        for some in tiles:
            self._tiles(source, goal, at, some)
        if not tiles:
            self._places(source, goal, at)

    def _tiles(self, source: Val, goal: Val, at: Val, tiles: _Tiles) -> None:
        what, code = self.what, self.code
        width = len(tiles.reads)
        with loop(code, index(0), index(tiles.count), 1) as turn:
            start = add(code, index(tiles.first), mul(code, turn.index, index(width)))
            origin = add(
                code,
                index(_origin(what, tiles.first)),
                mul(code, turn.index, index(_origin(what, width))),
            )
            here = self._from(source, mul(code, origin, index(what.channels)))
            there = self._from(goal, mul(code, start, index(what.channels)))

            def vector(channel: Val, lanes: int) -> None:
                def window_row(i: Val, row: Val, sums: list[Val]) -> None:
                    kernel = self._kernel(i, channel)
                    line = self._from(here, add(code, self._line(row), channel))
                    self._add_row(line, kernel, lanes, tiles.reads, sums)

                sums = self._zeros(len(tiles.reads), lanes)
                self._elements(what.rows, at, sums, window_row)
                for place, value in enumerate(sums):
                    position = add(code, channel, index(place * what.channels))
                    memory.store(self.s, value, there, position)

            self._each_vector(vector)

    def _add_row(
        self, line: Val, kernel: Val, lanes: int, reads: Sequence[Reads], sums: list[Val]
    ) -> None:
        """Adds the products of one row of the windows of a tile: those of a long row, which are
        added up by themselves first, so that rounding errors do not grow with the area."""
        what = self.what
        is_long = what.columns.size > LONG_ROW
        totals = self._zeros(len(reads), lanes) if is_long else sums
        weights: dict[int, Val] = {}
        loaded: dict[int, Val] = {}
        for place, of in enumerate(reads):
            for j, position in of:
                if j not in weights:
                    weights[j] = self._load(kernel, index(j * what.channels), lanes)
                if position not in loaded:
                    loaded[position] = self._load(line, index(position * what.channels), lanes)
                totals[place] = self.s.fma(loaded[position], weights[j], totals[place])
        if is_long:
            sums[:] = map(self.s.add, sums, totals)

    def _elements(
        self, axis: Axis, at: Val, sums: list[Val], body: Callable[[Val, Val, list[Val]], None]
    ) -> None:
        """Calls `body(element, place that is read, sums)` for the elements of a window along an
        axis that lie inside."""
        code = self.code
        if self.what.role != "data_grad":
            start = sub(code, mul(code, at, index(axis.stride)), index(axis.low))
            begin = self._steps_to(sub(code, index(0), start), axis.dilation)
            end = self._steps_to(sub(code, index(axis.image), start), axis.dilation)
            with loop_if_any(code, begin, smaller(code, end, index(axis.size)), 1, sums) as turn:
                if turn is not None:
                    found = add(code, start, mul(code, turn.index, index(axis.dilation)))
                    body(turn.index, found, turn.carried)
            return
        last = add(code, at, index(axis.low))
        beyond = sub(code, last, index(axis.places * axis.stride - 1))
        begin = self._steps_to(beyond, axis.dilation)
        end = self._steps_to(add(code, last, index(1)), axis.dilation)
        with loop_if_any(code, begin, smaller(code, end, index(axis.size)), 1, sums) as turn:
            if turn is None:
                return
            place = sub(code, last, mul(code, turn.index, index(axis.dilation)))
            if axis.stride == 1:
                body(turn.index, place, turn.carried)
            else:
                rest = code.binary("urem", place, index(axis.stride))
                is_there = code.compare("eq", rest, index(0))
                with when(code, is_there, turn.carried) as carried:
                    whole = code.binary("udiv", place, index(axis.stride))
                    body(turn.index, whole, carried)

    def _steps_to(self, length: Val, step: int) -> Val:
        """How many steps until a length is reached; 0 for what is below 0."""
        known = number_of(length)
        if known is not None:
            return index(max(-(-known // step), 0))
        code = self.code
        most = code.select(code.compare("sgt", length, index(0)), length, index(0))
        if step == 1:
            return most
        return code.binary("udiv", add(code, most, index(step - 1)), index(step))

    def _places(self, source: Val, goal: Val, at: Val) -> None:
        """A row of results one by one, their windows in loops."""
        what, code = self.what, self.code
        with loop_if_any(code, index(0), index(what.goal(what.columns)), 1, []) as place:
            if place is None:
                return
            here = self._from(goal, mul(code, place.index, index(what.channels)))

            def vector(channel: Val, lanes: int) -> None:
                def window_row(i: Val, row: Val, sums: list[Val]) -> None:
                    line = self._from(source, add(code, self._line(row), channel))
                    kernel = self._kernel(i, channel)

                    def element(j: Val, column: Val, inner: list[Val]) -> None:
                        x, w = (
                            self._load(base, mul(code, k, index(what.channels)), lanes)
                            for base, k in ((line, column), (kernel, j))
                        )
                        inner[0] = self.s.fma(x, w, inner[0])

                    inner = self._zeros(1, lanes)
                    self._elements(what.columns, place.index, inner, element)
                    sums[0] = self.s.add(sums[0], inner[0])

                sums = self._zeros(1, lanes)
                self._elements(what.rows, at, sums, window_row)
                memory.store(self.s, sums[0], here, channel)

            self._each_vector(vector)

    def _zeros(self, count: int, lanes: int) -> list[Val]:
        return [constant(0.0, lane_type(self.element, lanes)) for _ in range(count)]

    def _each_vector(self, body: Callable[[Val, int], None]) -> None:
        """Calls `body(first channel, lanes)` for all channels."""
        channels, lanes = self.what.channels, self.lanes
        whole = channels // lanes * lanes
        with loop_if_any(self.code, index(0), index(whole), lanes, []) as state:
            if state is not None:
                body(state.index, lanes)
        for at, width in spans(channels - whole, lanes):
            body(index(whole + at), width)

    # --- weights

    def weights(self, first: Val, channels: int, images: Val) -> None:
        """The sums of the kernels of so many channels."""
        what, code = self.what, self.code
        step = VECTORS * self.lanes
        whole = channels // step * step
        groups = [(i * self.lanes, self.lanes) for i in range(VECTORS)]
        rows, columns = index(what.rows.size), index(what.columns.size)
        with loop(code, index(0), rows, 1) as i, loop(code, index(0), columns, 1) as j:
            with loop_if_any(code, index(0), index(whole), step, []) as state:
                if state is not None:
                    channel = add(code, first, state.index)
                    self._weight(i.index, j.index, channel, groups, images)
            if whole < channels:
                rest = spans(channels - whole, self.lanes)
                self._weight(i.index, j.index, add(code, first, index(whole)), rest, images)

    def _weight(
        self, i: Val, j: Val, channel: Val, vectors: Sequence[tuple[int, int]], images: Val
    ) -> None:
        """One element of the kernels of some vectors of channels."""
        what, code = self.what, self.code
        channels = index(what.channels)
        up, across = self._inside(what.rows, i), self._inside(what.columns, j)

        def element(x: Val, y: Val, q: Val, sums: list[Val]) -> None:
            column = across.read(code, q)
            for k, (at, lanes) in enumerate(vectors):
                places = [(x, mul(code, column, channels)), (y, mul(code, q, channels))]
                a, b = (self._load(base, add(code, n, index(at)), lanes) for base, n in places)
                sums[k] = self.s.fma(a, b, sums[k])

        def row(image: Val, p: Val, sums: list[Val]) -> None:
            x = self._row_at("%a", what.rows.image, what.columns.image, image, up.read(code, p))
            y = self._row_at("%b", what.rows.places, what.columns.places, image, p)
            x, y = self._from(x, channel), self._from(y, channel)
            self._summed(
                across.begin, across.end, vectors, sums, lambda q, inner: element(x, y, q, inner)
            )

        def rows(image: Val, sums: list[Val]) -> None:
            self._summed(up.begin, up.end, vectors, sums, lambda p, inner: row(image, p, inner))

        sums = [constant(0.0, lane_type(self.element, lanes)) for _, lanes in vectors]
        self._summed(index(0), images, vectors, sums, rows)
        goal = self._kernel(i, channel, Val("%c", PTR))
        goal = self._from(goal, mul(code, j, index(what.channels)))
        for value, (at, _) in zip(sums, vectors, strict=True):
            memory.store(self.s, value, goal, index(at))

    def _summed(
        self,
        begin: Val,
        end: Val,
        vectors: Sequence[tuple[int, int]],
        sums: list[Val],
        body: Callable[[Val, list[Val]], None],
    ) -> None:
        """Adds to `sums` what `body(number, sums from 0 on)` adds up for the numbers of a range."""
        inner = [constant(0.0, lane_type(self.element, lanes)) for _, lanes in vectors]
        with loop_if_any(self.code, begin, end, 1, inner) as turn:
            if turn is None:
                return
            body(turn.index, turn.carried)
        sums[:] = map(self.s.add, sums, inner)

    def _row_at(self, name: str, rows: int, columns: int, image: Val, row: Val) -> Val:
        """A row of an image in an operand of images of so many rows and columns."""
        number = add(self.code, mul(self.code, image, index(rows)), row)
        size = index(columns * self.what.channels)
        return self._from(Val(name, PTR), mul(self.code, number, size))

    def _inside(self, axis: Axis, element: Val) -> _Inside:
        """The windows whose element lies inside of an image."""
        code = self.code
        shift = sub(code, mul(code, element, index(axis.dilation)), index(axis.low))
        begin = self._steps_to(sub(code, index(0), shift), axis.stride)
        end = self._steps_to(sub(code, index(axis.image), shift), axis.stride)
        return _Inside(begin, smaller(code, end, index(axis.places)), shift, axis.stride)

    # --- memory

    def _from(self, base: Val, position: Val) -> Val:
        return offset(self.code, base, self.element, position)

    def _line(self, row: Val) -> Val:
        """Where a row of the first operand begins in its image."""
        what = self.what
        return mul(self.code, row, index(what.source(what.columns) * what.channels))

    def _kernel(self, i: Val, channel: Val, base: Val | None = None) -> Val:
        """The row of the kernels, from a channel on."""
        what = self.what
        row = mul(self.code, i, index(what.columns.size * what.channels))
        return self._from(base or Val("%b", PTR), add(self.code, row, channel))

    def _load(self, base: Val, position: Val, lanes: int) -> Val:
        return memory.load(self.s, base, position, self.what.dtype, lanes)


@dataclass(frozen=True, slots=True)
class _Inside:
    """Windows from `begin` to before `end`, and where an element of theirs lies."""

    begin: Val
    end: Val
    shift: Val
    stride: int

    def read(self, code: Writer, window: Val) -> Val:
        return add(code, mul(code, window, index(self.stride)), self.shift)
