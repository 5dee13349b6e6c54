"""Winograd's algorithm for the gradient to the weights of a 3x3 convolution: 16 products, not 36.

The derivative of y = Aᵀ [(G g Gᵀ) (Bᵀ d B)] A to g (`winograd.py`), for each channel and output:

    e = A dy Aᵀ                         2x2 slopes of results -> 4x4
    s[i] = Σ over all tiles v[i] e[i]   for each of the 16: a product, with v of `winograd.py`
    dg = Gᵀ s G                         4x4 -> 3x3, once a call or chunk of images

The sums of a panel of outputs lie together: [panels, 16, channels, a panel]. Where the number of
results along an axis is odd, the last tile counts only what the one before has not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from graphc.backends.loops import memory
from graphc.backends.loops.control import add, loop, mul, offset
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import I64, PTR, Val, constant, element_of, index, lane_type
from graphc.backends.loops.windowtiles import Turns, WindowTile, emit_window_tile
from graphc.backends.loops.winograd import (
    Vectors,
    both_ways,
    panel_width,
    results_of,
    tile_of,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.machine import Machine
from graphc.passes.analysis.window_products import (
    PRODUCTS,
    Convolution,
    Panel,
    Span,
    balanced,
    most_rows,
    panels_of,
)


def emit_weight_sums(
    module: ModuleWriter, machine: Machine, what: Convolution, columns: int, lanes: int
) -> str:
    """`@name` of `void (windows, slopes, products, sums, first)`: adds what so many tile columns
    from `first` on give, whose windows are transformed already, to all sums.

    products  memory for the transformed slopes of a panel
    """
    code, element = module.body(), element_of(what.dtype)
    windows, slopes, products, sums = (Val(f"%{n}", PTR) for n in "abcd")
    first, count = Val("%first", I64), columns * what.tile_grid[1]

    for panel, start in _panels(code, what, lanes):
        vectors, width = panel.vectors, panel_width(panel.vectors)
        name = _emit_slopes(module, machine, what, columns, vectors)
        code.invoke(name, (offset(code, slopes, element, start), products, first))
        own = offset(code, sums, element, mul(code, start, index(PRODUCTS * what.channels)))
        with loop(code, index(0), index(PRODUCTS), 1) as number:
            a, b, c = (
                offset(code, base, element, mul(code, number.index, index(size)))
                for base, size in (
                    (windows, count * what.channels),
                    (products, count * width),
                    (own, what.channels * width),
                )
            )
            at = 0
            for high, many in balanced(what.channels, most_rows(machine, len(vectors))):
                shape = WindowTile(
                    what.dtype,
                    tuple(range(high)),
                    tuple(i * width for i in range(high)),
                    vectors,
                    tuple(at for at, _ in vectors),
                    Turns(1, 0, 0),
                    Turns(count, what.channels, width),
                    adds=True,
                )
                name = emit_window_tile(module, machine, shape)
                with loop(code, index(at), index(at + high * many), high) as row:
                    goal = offset(code, c, element, mul(code, row.index, index(width)))
                    code.invoke(name, (offset(code, a, element, row.index), b, goal))
                at += high * many
    code.leave()
    return module.add("weightsums", [windows, slopes, products, sums, first], code)


def _panels(code: Writer, what: Convolution, lanes: int) -> Iterator[tuple[Panel, Val]]:
    """Each panel with its first column, in a loop over those that are alike."""
    for panel in panels_of(what, lanes):
        step = max(panel.step, 1)
        stop = panel.start + panel.count * step
        with loop(code, index(panel.start), index(stop), step) as state:
            yield panel, state.index


def _emit_slopes(
    module: ModuleWriter,
    machine: Machine,
    what: Convolution,
    columns: int,
    vectors: Sequence[Span],
) -> str:
    """`@name` of `void (slopes, transformed, first)`: those of a panel of outputs, of so many tile
    columns from `first` on, to [16, tiles, a panel]."""
    code, element = module.body(), element_of(what.dtype)
    s = LaneScalars(code, has_fma=machine.has_fma)
    slopes, goal, first = Val("%a", PTR), Val("%b", PTR), Val("%first", I64)
    down, width = what.tile_grid[1], panel_width(vectors)
    plane = columns * down * width

    def spread(d: Vectors) -> list[Val]:
        return [d[0], s.add(d[0], d[1]), s.sub(d[0], d[1]), s.neg(d[1])]

    with loop(code, index(0), index(columns * down), 1) as tile:
        numbers = tile_of(s, what, first, tile.index)
        there = results_of(s, what, numbers)
        source = offset(code, slopes, element, there)
        target = offset(code, goal, element, mul(code, tile.index, index(width)))
        # Of an odd number of results the tile before the last has counted the first ones.
        are_new = [
            code.compare("ult", number, index(extent // 2)) if extent % 2 else None
            for number, extent in zip(numbers, what.output_positions, strict=True)
        ]
        for start, n in vectors:
            zero = constant(0.0, lane_type(element, n))

            def slope(a: int, b: int, start: int = start, n: int = n, zero: Val = zero) -> Val:
                value = memory.load(s, source, index(what.place(a, b) + start), what.dtype, n)
                for side, is_new in zip((a, b), are_new, strict=True):
                    if side == 0 and is_new is not None:
                        value = code.select(is_new, value, zero)
                return value

            found = both_ways([[slope(a, b) for b in range(2)] for a in range(2)], spread)
            for number, value in enumerate(found):
                memory.store(s, value, target, index(number * plane + start))
    code.leave()
    return module.add("slopes", [slopes, goal, first], code)


def emit_weights_of_sums(
    module: ModuleWriter, machine: Machine, what: Convolution, lanes: int
) -> str:
    """`@name` of `void (sums, weights)`: to [3, 3, channels, outputs]."""
    code, element = module.body(), element_of(what.dtype)
    s = LaneScalars(code, has_fma=machine.has_fma)
    sums, weights = Val("%a", PTR), Val("%b", PTR)
    channels, row = what.channels, what.channels * what.outputs

    def gathered(u: Vectors) -> list[Val]:
        half = constant(0.5, u[0].type)
        plus, minus = s.mul(s.add(u[1], u[2]), half), s.mul(s.sub(u[1], u[2]), half)
        return [s.add(u[0], plus), minus, s.add(plus, u[3])]

    for panel, start in _panels(code, what, lanes):
        width = panel_width(panel.vectors)
        base = mul(code, start, index(PRODUCTS * channels))
        with loop(code, index(0), index(channels), 1) as channel:
            there = add(code, base, mul(code, channel.index, index(width)))
            source = offset(code, sums, element, there)
            here = add(code, mul(code, channel.index, index(what.outputs)), start)
            goal = offset(code, weights, element, here)
            for at, n in panel.vectors:
                places = [[(4 * a + b) * channels * width + at for b in range(4)] for a in range(4)]
                found = [
                    [memory.load(s, source, index(p), what.dtype, n) for p in c] for c in places
                ]
                for number, value in enumerate(both_ways(found, gathered)):
                    memory.store(s, value, goal, index(number * row + at))
    code.leave()
    return module.add("weights", [sums, weights], code)
