"""Convolution, and its two gradients, as one function each, without a copy of the windows.

    result   y[n, p, q, o]               = Σ x[n, s p + i, t q + j, c] · w[i, j, c, o]
    image    x[n, s p + i, t q + j, c]  += Σ y[n, p, q, o] · w[i, o, j, c], for each p, q, i
    weights  w[i, j, c, o]               = Σ x[n, s p + i, t q + j, c] · y[n, p, q, o]

A column of a window, j and c, lies together in an image: it is one run. Positions of the result and
elements of a run lie at distances that are known here, so each product goes by tiles that read
the image itself (`windowtiles.py`). Images are worked on in blocks of columns that stay near.

Weights may lie in blocks of outputs (of channels for `data_grad`), so that a panel of columns is
one stretch of memory: `block` columns of all rows, then the next ones.

An image with zeros around it is a copy, one at a time, in the workspace: each chunk has its own.
Where chunks are parts of the result of one image they share its copy, which `padding.py` makes
before; there is an image of the workspace for each one then.

Sums over many images are cut into chains (`chains.py`). Where weights are computed in chunks of
images, each chunk has sums of its own (`chunk_sum.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from graphc.backends.loops import memory
from graphc.backends.loops.chains import MAX_BYTES, chain_ends
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
from graphc.backends.loops.padded_image import PaddedImage
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I64, PTR, Val, element_of, index, number_of
from graphc.backends.loops.windowtiles import Turns, WindowTile, emit_window_tile
from graphc.backends.loops.winograd import emit_results, emit_windows, panel_width
from graphc.backends.loops.winograd_gradient import emit_weight_sums, emit_weights_of_sums
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.machine import Machine
from graphc.ops.schedules import ConvSchedule, WeightGradSchedule
from graphc.passes.analysis.window_products import (
    LINE_BYTES,
    NEAR_BYTES,
    PRODUCTS,
    AnySchedule,
    Convolution,
    Panel,
    balanced,
    choose_convolution,
    most_rows,
    panels_of,
    whole_steps,
)

ONE_TURN = Turns(1, 0, 0)

Position = tuple[int, int]
"""Of a window: a column and a row; or of an element in it: a column and an output position in its
run."""


def emit_convolution(
    module: ModuleWriter, machine: Machine, what: Convolution, schedule: AnySchedule | None = None
) -> str:
    """`@name` of `void (first, second, result, workspace…, sizes of what.symbols()…)`.

    schedule  how it is computed; None: chosen for the machine
    """
    code = module.body()
    _Emitter(code, machine, what, schedule or choose_convolution(what, machine)).emit()
    code.leave()
    pointers = ["%a", "%b", "%c", *["%padded"] * what.is_padded, *["%sums"] * what.sums_chunks]
    pointers += ["%tiles"] * what.winograd
    numbers = [f"%d{i}" for i in range(len(what.symbols()))]
    numbers += ["%begin", "%end"] if what.parallel is not None else []
    parameters = [*(Val(n, PTR) for n in pointers), *(Val(n, I64) for n in numbers)]
    return module.add("conv", parameters, code, long_stack=True)


@dataclass(frozen=True, slots=True)
class _Weights:
    """Where a column of the weights begins: `width` columns of `rows` rows lie together."""

    width: int
    rows: int

    def start(self, column: int) -> int:
        block, rest = divmod(column, self.width)
        return block * self.rows * self.width + rest

    def at(self, code: Writer, column: Val) -> Val:
        """Of a column known at run time."""
        known = number_of(column)
        if known is not None:
            return index(self.start(known))
        block = code.binary("udiv", column, index(self.width))
        rest = code.binary("urem", column, index(self.width))
        return add(code, mul(code, block, index(self.rows * self.width)), rest)

    def starts(self, panel: Panel) -> tuple[int, ...]:
        """Where the vectors of a panel begin, from its first column on."""
        first = self.start(panel.start)
        return tuple(self.start(panel.start + at) - first for at, _ in panel.vectors)


class _Emitter:
    """Writes the loops around the tiles."""

    def __init__(
        self, code: Writer, machine: Machine, what: Convolution, schedule: AnySchedule
    ) -> None:
        self.code = code
        self.machine = machine
        self.what = what
        self.element = element_of(what.dtype)
        self.lanes, self.columns = schedule.lanes, schedule.columns
        self.prefetch = schedule.prefetch if isinstance(schedule, ConvSchedule) else 0
        if what.winograd:
            self.columns //= 2  # of tiles
        self.tiles = {(t.columns, t.vectors): t.tile for t in schedule.tiles}
        self.column_part = self.first_output = index(0)
        self.scalars = LaneScalars(code, has_fma=machine.has_fma)
        self.padded = self._padded_image() if what.is_padded else None
        self.stack: list[Val] = []
        if isinstance(schedule, WeightGradSchedule) and schedule.pack:
            column = 2 * self.lanes * what.output_positions[1]
            panel = max(NEAR_BYTES // what.dtype.itemsize, column * self.columns)
            self.stack = [memory.stack_array(code, self.element, panel, LINE_BYTES)]

    def _padded_image(self) -> PaddedImage:
        what = self.what
        columns, rows = what.inner
        first = what.low[0] * what.column + what.low[1] * what.channels
        base, length = self._own("%padded", what.image), rows * what.channels
        return PaddedImage(
            base, what.image, columns, length, first, what.column, what.dtype, self.lanes
        )

    def _own(self, name: str, elements: int) -> Val:
        """What this chunk has in an array of the workspace, which has so many for each."""
        base, what = Val(name, PTR), self.what
        if what.parallel is None:
            return base
        number = self.code.binary("udiv", Val("%begin", I64), index(what.chunk))
        return self._from(base, mul(self.code, number, index(elements)))

    def emit(self) -> None:
        """All images, one after the other."""
        what = self.what
        chains = self._chain_memory() if what.role == "weight_grad" else []
        if self.padded is not None and what.role != "data_grad":
            self.padded.clear(self.scalars)
        sizes = {name: Val(f"%d{i}", I64) for i, name in enumerate(what.symbols())}
        begin, end = index(0), size_value(self.code, what.images, sizes)
        if what.parts > 1:
            self._part(Val("%begin", I64))
            return
        if what.parallel == "images":
            begin, end = Val("%begin", I64), Val("%end", I64)
        if what.role == "weight_grad":
            goal = self._own("%sums", what.weights) if what.sums_chunks else Val("%c", PTR)
            if not what.winograd:
                self._sums(goal, (begin, end), chains)
                return
            sums = self._from(self._own_tiles(), index(self._tiles_size))
            self._sums(sums, (begin, end), chains)
            name = emit_weights_of_sums(self.code.module, self.machine, what, self.lanes)
            self.code.invoke(name, (sums, goal))
            return
        with loop_if_any(self.code, begin, end, 1, []) as state:
            if state is None:
                return
            image, outputs = self._image_and_outputs(state.index)
            if what.role == "result":
                self._result(self._padded(self._at("%a", image)), self._at("%c", outputs))
            else:
                goal = self._at("%c", image)
                self._image(self._at("%a", outputs), self.padded.base if self.padded else goal)
                if self.padded is not None:
                    self.padded.copy(self.scalars, goal, is_back=True)

    def _part(self, number: Val) -> None:
        """One part of the result of an image, which has its zeros around it."""
        code, what = self.code, self.what
        image_number = code.binary("udiv", number, index(what.parts))
        image, outputs = self._image_and_outputs(image_number)
        if what.shares_windows:
            image = mul(code, image_number, index(what.windows))
        part = code.binary("urem", number, index(what.parts))
        feature_part = code.binary("urem", part, index(what.feature_parts))
        self.column_part = code.binary("udiv", part, index(what.feature_parts))
        self.first_output = mul(code, feature_part, index(what.part_outputs))
        self._result(self._at("%a", image), self._at("%c", outputs))

    def _image_and_outputs(self, number: Val) -> tuple[Val, Val]:
        """Where those of an image begin among those of all images."""
        what = self.what
        inner = what.inner[0] * what.inner[1] * what.channels
        outputs = what.output_positions[0] * what.output_column
        return mul(self.code, number, index(inner)), mul(self.code, number, index(outputs))

    # --- sums over images

    def _sums(self, goal: Val, images: tuple[Val, Val], chains: list[tuple[int, Val]]) -> None:
        """The weights of these images, in chains of so many images that each have memory."""
        code = self.code
        self._clear(self._from(goal, self._first_weight()), self._weight_count)
        step = chains[0][0] if chains else 1
        with loop_if_any(code, *images, step, []) as state:
            if state is None:
                return
            if chains:
                chain = chains[0][1]
                stop = smaller(code, add(code, state.index, index(step)), images[1])
                self._sums(chain, (state.index, stop), chains[1:])
                there, here = (self._from(x, self._first_weight()) for x in (goal, chain))
                count, dtype = self._weight_count, self.what.dtype
                memory.add_to(self.scalars, there, here, count, self.lanes, dtype)
            else:
                image, outputs = self._image_and_outputs(state.index)
                x = self._padded(self._at("%a", image))
                self._weights(x, self._at("%b", outputs), goal)

    def _chain_ends(self) -> list[int]:
        """The images of a chain, the longest first; none if there is no memory for their sums."""
        what = self.what
        columns = what.tile_grid[0] if what.winograd else what.output_positions[0]
        blocks = -(-columns // self.columns)
        images = min(what.most_images, what.chunk) if what.sums_chunks else what.most_images
        ends, _ = chain_ends(images, blocks)
        size = self._weight_count * what.dtype.itemsize
        return ends[::-1] if size * len(ends) <= MAX_BYTES else []

    def _chain_memory(self) -> list[tuple[int, Val]]:
        """The images of each chain, and where its weights would begin if all of them were there."""
        before = sub(self.code, index(0), self._first_weight())
        made: list[tuple[int, Val]] = []
        for end in self._chain_ends():
            count = self._weight_count
            array = memory.stack_array(self.code, self.element, count, LINE_BYTES)
            made.append((end, self._from(array, before)))
        return made

    @property
    def _weight_count(self) -> int:
        """Of the weights that a call computes, or of the sums that they are made of."""
        what = self.what
        if what.winograd:
            return PRODUCTS * what.channels * what.outputs
        return what.chunk * what.outputs if what.parallel == "rows" else what.weights

    def _first_weight(self) -> Val:
        return mul(self.code, self._first_row(), index(self.what.outputs))

    def _first_row(self) -> Val:
        """Of the weights that are computed."""
        return Val("%begin", I64) if self.what.parallel == "rows" else index(0)

    def _padded(self, image: Val) -> Val:
        """The image, or its copy among zeros, which are there already."""
        if self.padded is None:
            return image
        self.padded.copy(self.scalars, image, is_back=False)
        return self.padded.base

    @property
    def _tiles_size(self) -> int:
        """Elements of the tiles and products of a block by Winograd's algorithm."""
        tiles = self.columns * self.what.tile_grid[1]
        channels = 0 if self.what.shares_windows else self.what.channels
        return PRODUCTS * tiles * (channels + 2 * self.lanes)

    def _own_tiles(self) -> Val:
        sums = self._weight_count if self.what.role == "weight_grad" else 0
        return self._own("%tiles", self._tiles_size + sums)

    def _winograd(self, x: Val, y: Val) -> None:
        """The result by `winograd.py`, of weights that are transformed already; and windows, if
        parts share them, which `x` is then."""
        code, what, machine = self.code, self.what, self.machine
        block_width, down = what.weight_block, what.tile_grid[1]
        weights = _Weights(block_width, PRODUCTS * what.channels)
        inner = Turns(what.channels, 1, block_width)
        tiles = self._own_tiles()

        def block(first: Val, columns: int) -> None:
            count = columns * down
            if what.shares_windows:
                products, plane = tiles, what.windows // PRODUCTS
                windows = self._from(x, mul(code, first, index(down * what.channels)))
            else:
                windows, plane = tiles, count * what.channels
                name = emit_windows(code.module, machine, what, columns, columns)
                code.invoke(name, (x, windows, first))
                products = self._from(tiles, index(PRODUCTS * plane))

            def panels(panel: Panel, panel_start: Val) -> None:
                start = add(code, self.first_output, panel_start)
                source = self._from(Val("%b", PTR), weights.at(code, start))
                vectors, width = panel.vectors, panel_width(panel.vectors)
                rows = most_rows(machine, len(vectors))
                with loop(code, index(0), index(PRODUCTS), 1) as number:
                    a, b, c = (
                        self._from(base, mul(code, number.index, index(size)))
                        for base, size in (
                            (windows, plane),
                            (source, what.channels * block_width),
                            (products, count * width),
                        )
                    )

                    def tile(row: Val, high: int) -> None:
                        shape = WindowTile(
                            what.dtype,
                            tuple(i * what.channels for i in range(high)),
                            tuple(i * width for i in range(high)),
                            vectors,
                            weights.starts(panel),
                            ONE_TURN,
                            inner,
                            adds=False,
                            prefetch=self.prefetch,
                        )
                        there = self._from(a, mul(code, row, index(what.channels)))
                        self._tile(shape, there, b, self._from(c, mul(code, row, index(width))))

                    self._pieces(count, balanced(count, rows), tile)
                name = emit_results(code.module, machine, what, columns, vectors)
                code.invoke(name, (products, self._from(y, start), first))

            self._panels(panels)

        self._blocks(block)

    def _result(self, x: Val, y: Val) -> None:
        what = self.what
        if what.winograd:
            self._winograd(x, y)
            return
        weights = _Weights(what.weight_block, what.sizes[0] * what.run)
        outer = Turns(what.sizes[0], what.column, what.run * weights.width)
        inner = Turns(what.run, 1, weights.width)

        def block(first: Val, width: int) -> None:
            def columns(panel: Panel, panel_start: Val) -> None:
                start = add(self.code, self.first_output, panel_start)
                source = self._from(Val("%b", PTR), weights.at(self.code, start))

                def tile(p: Val, q: Val, rows: Sequence[Position]) -> None:
                    shape = WindowTile(
                        what.dtype,
                        tuple(what.window(*row) for row in rows),
                        tuple(what.place(*row) for row in rows),
                        panel.vectors,
                        weights.starts(panel),
                        outer,
                        inner,
                        adds=False,
                        prefetch=self.prefetch,
                    )
                    goal = self._from(y, add(self.code, self._place(p, q), start))
                    self._tile(shape, self._from(x, self._window(p, q)), source, goal)

                self._grid(first, width, len(panel.vectors), tile)

            self._panels(columns)

        self._blocks(block)

    def _image(self, y: Val, x: Val) -> None:
        what = self.what
        self._clear(x, what.image)
        weights = _Weights(what.block or what.run, what.outputs)
        inner = Turns(what.outputs, 1, weights.width)

        def block(first: Val, width: int) -> None:
            with loop(self.code, index(0), index(what.sizes[0]), 1) as turn:
                across = mul(self.code, turn.index, index(what.column))
                there = self._at("%b", mul(self.code, turn.index, index(what.outputs * what.run)))

                def columns(panel: Panel, start: Val) -> None:
                    source = self._from(there, weights.at(self.code, start))
                    goal = self._from(x, add(self.code, across, start))

                    def tile(p: Val, q: Val, rows: Sequence[Position]) -> None:
                        shape = WindowTile(
                            what.dtype,
                            tuple(what.place(*row) for row in rows),
                            tuple(what.window(*row) for row in rows),
                            panel.vectors,
                            weights.starts(panel),
                            ONE_TURN,
                            inner,
                            adds=True,
                        )
                        place, window = self._place(p, q), self._window(p, q)
                        self._tile(shape, self._from(y, place), source, self._from(goal, window))

                    self._grid(first, width, len(panel.vectors), tile)

                self._panels(columns)

        self._blocks(block)

    def _weights(self, x: Val, y: Val, sums: Val) -> None:
        """Adds what one image gives to the sums."""
        code, what = self.code, self.what

        def winograd_block(first: Val, columns: int) -> None:
            tiles = self._own_tiles()
            products = self._from(
                tiles, index(PRODUCTS * columns * what.tile_grid[1] * what.channels)
            )
            name = emit_windows(code.module, self.machine, what, columns, columns)
            code.invoke(name, (x, tiles, first))
            name = emit_weight_sums(code.module, self.machine, what, columns, self.lanes)
            code.invoke(name, (tiles, y, products, sums, first))

        if what.winograd:
            self._blocks(winograd_block)
            return

        def block(first: Val, width: int) -> None:
            here = self._from(x, self._window(first, index(0)))
            there = self._from(y, self._place(first, index(0)))

            def columns(panel: Panel, start: Val) -> None:
                source, row = self._near_panel(panel, self._from(there, start), width)
                outer = Turns(width, what.strides[0] * what.column, what.output_positions[1] * row)
                inner = Turns(what.output_positions[1], what.strides[1] * what.channels, row)

                def tile(column: Val, j: Val, rows: Sequence[Position]) -> None:
                    shape = WindowTile(
                        what.dtype,
                        tuple(i * what.column + k for i, k in rows),
                        tuple((i * what.run + k) * what.outputs for i, k in rows),
                        panel.vectors,
                        tuple(at for at, _ in panel.vectors),
                        outer,
                        inner,
                        adds=True,
                    )
                    element = add(self.code, mul(self.code, column, index(what.column)), j)
                    weight = add(self.code, mul(self.code, column, index(what.run)), j)
                    goal = add(self.code, mul(self.code, weight, index(what.outputs)), start)
                    self._tile(shape, self._from(here, element), source, self._from(sums, goal))

                self._elements(len(panel.vectors), tile)

            self._panels(columns)

        self._blocks(block)

    def _near_panel(self, panel: Panel, source: Val, width: int) -> tuple[Val, int]:
        """A panel of the output positions of a block, and how far its rows are apart: a copy where
        the output positions' own rows are far apart, which would share few sets of a cache.
        """
        what, lanes = self.what, 2 * self.lanes
        if not self.stack or panel.vectors != ((0, self.lanes), (self.lanes, self.lanes)):
            return source, what.outputs
        (goal,) = self.stack
        with loop_if_any(
            self.code, index(0), index(width * what.output_positions[1]), 1, []
        ) as place:
            assert place is not None
            row = self._from(source, mul(self.code, place.index, index(what.outputs)))
            copy = self._from(goal, mul(self.code, place.index, index(lanes)))
            for at, n in panel.vectors:
                value = memory.load(self.scalars, row, index(at), what.dtype, n)
                memory.store(self.scalars, value, copy, index(at))
        return goal, lanes

    # --- loops

    def _blocks(self, block: Callable[[Val, int], None]) -> None:
        """Calls `block(first column, how many)` so that all columns of output positions, or those
        of the part, are covered."""
        code, pieces = self.code, self.what.column_pieces()
        start = parts = 0
        for order, (size, many) in zip(("ult", "uge"), pieces, strict=False):
            here = sub(code, self.column_part, index(parts))
            first = add(code, index(start), mul(code, here, index(size)))

            def shifted(at: Val, width: int, first: Val = first) -> None:
                block(add(code, first, at), width)

            is_here = nullcontext()
            if len(pieces) > 1:
                is_here = when(code, code.compare(order, self.column_part, index(pieces[0][1])), [])
            with is_here:
                self._pieces(size, balanced(size, self.columns), shifted)
            start, parts = start + size * many, parts + many

    def _panels(self, body: Callable[[Panel, Val], None]) -> None:
        """Calls `body(panel, its first column)` for all panels."""
        for panel in panels_of(self.what, self.lanes):
            if panel.count == 1:
                body(panel, index(panel.start))
                continue
            with loop(self.code, index(0), index(panel.count * panel.step), panel.step) as state:
                body(panel, state.index)

    def _grid(
        self,
        first: Val,
        width: int,
        vectors: int,
        tile: Callable[[Val, Val, Sequence[Position]], None],
    ) -> None:
        """Calls `tile(p, q, its output positions from there)` over a block of output positions."""
        across, down = self.tiles[width, vectors]

        def columns(p: Val, many: int) -> None:
            def outputs(q: Val, high: int) -> None:
                tile(add(self.code, first, p), q, _box(many, high))

            self._pieces(
                self.what.output_positions[1],
                whole_steps(self.what.output_positions[1], down),
                outputs,
            )

        self._pieces(width, whole_steps(width, across), columns)

    def _elements(self, vectors: int, tile: Callable[[Val, Val, Sequence[Position]], None]) -> None:
        """Calls `tile(i, j, its elements from there)` over the elements of a window, or a part."""
        what = self.what
        across, rows = self.tiles[0, vectors]
        if what.parallel == "rows":
            begin, run = self._first_row(), what.run
            column = self.code.binary("udiv", begin, index(run))
            first = self.code.binary("urem", begin, index(run))
            self._pieces(
                what.chunk,
                balanced(what.chunk, rows),
                lambda j, high: tile(column, add(self.code, first, j), _box(1, high)),
            )
            return
        pieces = balanced(what.run, rows)

        def columns(i: Val, many: int) -> None:
            self._pieces(what.run, pieces, lambda j, high: tile(i, j, _box(many, high)))

        self._pieces(what.sizes[0], whole_steps(what.sizes[0], across), columns)

    def _pieces(
        self, extent: int, pieces: Sequence[tuple[int, int]], body: Callable[[Val, int], None]
    ) -> None:
        """Calls `body(start, size)` for pieces, (size, how many), one after the other."""
        start = 0
        for size, many in pieces:
            stop = start + size * many
            if many == 1:
                body(index(start), size)
            else:
                with loop(self.code, index(start), index(stop), size) as state:
                    body(state.index, size)
            start = stop
        assert start == extent

    # --- output positions

    def _tile(self, shape: WindowTile, a: Val, b: Val, c: Val) -> None:
        name = emit_window_tile(self.code.module, self.machine, shape)
        self.code.invoke(name, (a, b, c))

    def _at(self, name: str, position: Val) -> Val:
        return self._from(Val(name, PTR), position)

    def _from(self, base: Val, position: Val) -> Val:
        return offset(self.code, base, self.element, position)

    def _window(self, p: Val, q: Val) -> Val:
        """Where the window of an output position begins in its image."""
        across = mul(self.code, p, index(self.what.strides[0] * self.what.column))
        return add(
            self.code, across, mul(self.code, q, index(self.what.strides[1] * self.what.channels))
        )

    def _place(self, p: Val, q: Val) -> Val:
        across = mul(self.code, p, index(self.what.output_column))
        return add(self.code, across, mul(self.code, q, index(self.what.outputs)))

    def _clear(self, base: Val, elements: int) -> None:
        memory.clear(self.scalars, base, elements, self.lanes, self.element)


def _box(across: int, down: int) -> list[Position]:
    return [(i, j) for i in range(across) for j in range(down)]
