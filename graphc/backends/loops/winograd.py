"""Winograd's algorithm F(2x2, 3x3): four results of a 3x3 convolution by 16 products, not 36.

    u = G g Gᵀ                    weights, for each channel and output: 3x3 -> 4x4, once a call or
                                  before all calls
    v = Bᵀ d B                    windows of 4x4 pixels, two pixels apart, for each channel
    m[i] = Σ over channels v[i] u[i]      for each of the 16: a product of tiles and outputs
    y = Aᵀ m A                    2x2 results of each tile

Tiles are worked on in blocks of tile columns: their v, and m for one panel of outputs, stay in a
near cache. Where parts of outputs are computed apart, the v of all tiles are made before them. If
the number of results along an axis is odd, the last tile ends with them and writes only what the
one before has not. G, B and A have nothing but 0, 1 and 1/2, and the sums are nine times shorter
than those of windows, so results are no less exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

from graphc.backends.loops import memory
from graphc.backends.loops.control import add, loop, loop_if_any, mul, offset, smaller, when
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I64, PTR, Val, constant, element_of, index, lane_type
from graphc.backends.loops.writer import ModuleWriter
from graphc.ir.machine import Machine
from graphc.passes.analysis.loopnest import Chunking, Size
from graphc.passes.analysis.window_products import PRODUCTS, Convolution, Span, spans

Vectors = Sequence[Val]
CHUNK_BYTES = 65536
"""Of windows that are transformed together: some microseconds."""
CHUNK = 256
"""Channels of blocks of weights that are transformed together: some microseconds."""


def weight_chunks(what: Convolution) -> Chunking:
    """How the transformation of weights is cut for threads: by channels of a block of outputs."""
    return Chunking(0, Size(), Size(what.outputs // what.weight_block * what.channels), CHUNK)


def emit_weights(module: ModuleWriter, machine: Machine, what: Convolution) -> str:
    """`@name` of `void (weights, transformed, begin, end)`.

    From [outputs / block, 3, 3, channels, block] to [outputs / block, 16, channels, block], for
    some channels of some blocks, counted through both. Turned weights come from those of a gradient
    to images, [3, 3, outputs / block, channels, block] or [3, channels, 3, outputs].
    """
    code, element = module.body(), element_of(what.dtype)
    s, lanes = LaneScalars(code, has_fma=machine.has_fma), machine.lanes(what.dtype)
    given, goal, begin, end = (Val("%a", PTR), Val("%b", PTR), Val("%begin", I64), Val("%end", I64))
    row = what.channels * what.weight_block
    channel_step, block_step, places = _weight_places(what)
    with loop_if_any(code, begin, end, 1, []) as turn:
        assert turn is not None
        block = code.binary("udiv", turn.index, index(what.channels))
        channel = code.binary("urem", turn.index, index(what.channels))
        at = mul(code, channel, index(channel_step))
        source = offset(code, given, element, add(code, at, mul(code, block, index(block_step))))
        at = mul(code, channel, index(what.weight_block))
        target = offset(code, goal, element, add(code, at, mul(code, block, index(PRODUCTS * row))))
        for start, width in spans(what.weight_block, lanes):
            half = constant(0.5, lane_type(element, width))

            def widened(g: Vectors, half: Val = half) -> list[Val]:
                around = s.add(g[0], g[2])
                sums = s.add(around, g[1]), s.sub(around, g[1])
                return [g[0], *(s.mul(total, half) for total in sums), g[2]]

            weights = [
                [memory.load(s, source, index(p + start), what.dtype, width) for p in column]
                for column in places
            ]
            for number, value in enumerate(both_ways(weights, widened)):
                memory.store(s, value, target, index(number * row + start))
    code.leave()
    return module.add("weights", [given, goal, begin, end], code)


def _weight_places(what: Convolution) -> tuple[int, int, list[list[int]]]:
    """How far channels and blocks of the given weights are apart, and where the elements of a
    window lie, column by column."""
    block, row, of_one = what.weight_block, what.channels * what.weight_block, range(3)
    if not what.is_turned:
        return block, 9 * row, [[(3 * i + j) * row for j in of_one] for i in of_one]
    step = what.channels * what.outputs
    if what.block:
        return block, row, [[(3 * i + j) * step for j in (2, 1, 0)] for i in (2, 1, 0)]
    return 3 * block, 0, [[3 * i * step + j * block for j in (2, 1, 0)] for i in (2, 1, 0)]


def emit_windows(
    module: ModuleWriter, machine: Machine, what: Convolution, columns: int, goal_columns: int
) -> str:
    """`@name` of `void (image, transformed, first)`: the windows of so many tile columns from
    `first` on, to [16, tiles, channels] of `goal_columns`."""
    code, element = module.body(), element_of(what.dtype)
    s, lanes = LaneScalars(code, has_fma=machine.has_fma), machine.lanes(what.dtype)
    image, goal, first = Val("%a", PTR), Val("%b", PTR), Val("%first", I64)
    down = what.tile_grid[1]
    plane = goal_columns * down * what.channels

    def turned(d: Vectors) -> list[Val]:
        return [s.sub(d[0], d[2]), s.add(d[1], d[2]), s.sub(d[2], d[1]), s.sub(d[1], d[3])]

    with loop(code, index(0), index(columns * down), 1) as tile:
        i, j = tile_of(s, what, first, tile.index)
        p, q = (_position_of(s, at, n) for at, n in zip((i, j), what.output_positions, strict=True))
        across = mul(code, p, index(what.column))
        at = add(code, across, mul(code, q, index(what.channels)))
        source = offset(code, image, element, at)
        target = offset(code, goal, element, mul(code, tile.index, index(what.channels)))

        def channels(at: Val, width: int) -> None:
            pixels = [
                [
                    memory.load(s, source, add(code, at, index(place)), what.dtype, width)
                    for place in (a * what.column + b * what.channels for b in range(4))
                ]
                for a in range(4)
            ]
            for number, value in enumerate(both_ways(pixels, turned)):
                memory.store(s, value, target, add(code, at, index(number * plane)))

        whole = what.channels // lanes * lanes
        with loop_if_any(code, index(0), index(whole), lanes, []) as state:
            if state is not None:
                channels(state.index, lanes)
        for start, width in spans(what.channels - whole, lanes):
            channels(index(whole + start), width)
    code.leave()
    return module.add("windows", [image, goal, first], code)


def window_chunks(what: Convolution) -> Chunking:
    """How the transformation of all windows is cut for threads: by columns of tiles."""
    columns = Size(what.images.factor * what.tile_grid[0], what.images.symbols)
    column = what.windows // what.tile_grid[0] * what.dtype.itemsize
    return Chunking(0, Size(), columns, max(1, CHUNK_BYTES // column))


def emit_all_windows(module: ModuleWriter, machine: Machine, what: Convolution) -> str:
    """`@name` of `void (images, transformed, sizes of what.symbols()…, begin, end)`: the windows of
    these tile columns of all images, to [images, 16, tiles, channels]."""
    code, element = module.body(), element_of(what.dtype)
    across, down = what.tile_grid
    images, goal, begin, end = (
        Val("%a", PTR),
        Val("%b", PTR),
        Val("%begin", I64),
        Val("%end", I64),
    )
    name = emit_windows(module, machine, what, 1, across)
    with loop_if_any(code, begin, end, 1, []) as turn:
        assert turn is not None
        image = code.binary("udiv", turn.index, index(across))
        column = code.binary("urem", turn.index, index(across))
        source = offset(code, images, element, mul(code, image, index(what.image)))
        at = mul(code, column, index(down * what.channels))
        at = add(code, mul(code, image, index(what.windows)), at)
        code.invoke(name, (source, offset(code, goal, element, at), column))
    code.leave()
    sizes = [Val(f"%d{i}", I64) for i in range(len(what.symbols()))]
    return module.add("windows", [images, goal, *sizes, begin, end], code)


def emit_results(
    module: ModuleWriter,
    machine: Machine,
    what: Convolution,
    columns: int,
    vectors: Sequence[Span],
) -> str:
    """`@name` of `void (products, results, first)`: [16, tiles, a panel] to the results of so many
    tile columns from `first` on."""
    code, element = module.body(), element_of(what.dtype)
    s = LaneScalars(code, has_fma=machine.has_fma)
    products, goal, first = Val("%a", PTR), Val("%c", PTR), Val("%first", I64)
    down, width = what.tile_grid[1], panel_width(vectors)
    plane = columns * down * width

    def gathered(m: Vectors) -> list[Val]:
        return [s.add(s.add(m[0], m[1]), m[2]), s.sub(s.sub(m[1], m[2]), m[3])]

    with loop(code, index(0), index(columns * down), 1) as tile:
        numbers = tile_of(s, what, first, tile.index)
        at = results_of(s, what, numbers)
        target = offset(code, goal, element, at)
        source = offset(code, products, element, mul(code, tile.index, index(width)))
        found = [
            both_ways(
                [
                    [
                        memory.load(s, source, index((4 * a + b) * plane + start), what.dtype, n)
                        for b in range(4)
                    ]
                    for a in range(4)
                ],
                gathered,
            )
            for start, n in vectors
        ]
        for number, (a, b) in enumerate(((0, 0), (0, 1), (1, 0), (1, 1))):
            with ExitStack() as conditions:
                for side, tile_number, extent in zip(
                    (a, b), numbers, what.output_positions, strict=True
                ):
                    if side == 0 and extent % 2:
                        # The tile before has written these.
                        is_new = code.compare("ult", tile_number, index(extent // 2))
                        conditions.enter_context(when(code, is_new, []))
                for (start, _), values in zip(vectors, found, strict=True):
                    memory.store(s, values[number], target, index(what.place(a, b) + start))
    code.leave()
    return module.add("results", [products, goal, first], code)


def panel_width(vectors: Sequence[Span]) -> int:
    """Elements of neighbouring vectors."""
    return sum(lanes for _, lanes in vectors)


def both_ways(rows: Sequence[Vectors], change: Callable[[Vectors], list[Val]]) -> list[Val]:
    """`change` of every column, then of every row of what that gives; row by row."""
    columns = [change(column) for column in zip(*rows, strict=True)]
    return [value for row in zip(*columns, strict=True) for value in change(row)]


def tile_of(s: LaneScalars, what: Convolution, first: Val, number: Val) -> tuple[Val, Val]:
    """The column and row of a tile in the grid of all, by its number in a block."""
    down = index(what.tile_grid[1])
    column = add(s.code, first, s.code.binary("udiv", number, down))
    return column, s.code.binary("urem", number, down)


def results_of(s: LaneScalars, what: Convolution, numbers: tuple[Val, Val]) -> Val:
    """Where the results of a tile of this column and row begin in those of an image."""
    p, q = (_position_of(s, at, n) for at, n in zip(numbers, what.output_positions, strict=True))
    across = mul(s.code, p, index(what.output_column))
    return add(s.code, across, mul(s.code, q, index(what.outputs)))


def _position_of(s: LaneScalars, tile: Val, extent: int) -> Val:
    """Where a tile begins along an axis of so many results."""
    return smaller(s.code, mul(s.code, tile, index(2)), index(extent - 2))
