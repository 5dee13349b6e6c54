"""A matrix product at least as wide as a tile: panels of columns, in blocks of k and of rows.

What is left over at the right is computed by a tile of no more vectors than it takes, moved left to
end with the matrix: so it needs no masks. Where that computes columns of the panel before again, it
is the last in the only block of k, or is done before all others, which set them again: the bits are
the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from graphc.backends.loops import amx, packing, pair_packing, pairs, tiles
from graphc.backends.loops.control import (
    add,
    loop,
    mul,
    offset,
    remainder,
    round_down,
    smaller,
    sub,
    when,
)
from graphc.backends.loops.operands import Operands, call
from graphc.backends.loops.tiles import NO_FETCHES, Fetches, Tile
from graphc.backends.loops.values import I1, Val, constant, index, number_of
from graphc.backends.loops.writer import Order, Writer
from graphc.ir.machine import Machine
from graphc.ops.contraction import STRETCH
from graphc.ops.prepacking import PAIRS_APART, WHOLE_PAIRS
from graphc.ops.schedules import ReadB, Tiling
from graphc.passes.analysis.product_tiles import ProductRange

LEAST_LANES = 8
"""Shorter vectors than these are not faster."""
UNCUT = 1 << 40
"""Of a length that is not cut."""


@dataclass(frozen=True, slots=True)
class Blocking:
    """A tiling of one range.

    tile       the tile of all panels but what is left over
    height     rows of a tile
    depth      steps of k in a panel
    is_long    a panel may hold more than one stretch
    rows       rows of C in a block
    packs_a    blocks of A are copied into panels
    read_b     how tiles get B
    fetches    what of B a tile of the full height asks for, where it reads B as it lies
    asks       lines of the next panel that it asks for in each step, where B lies in panels
    fetches_c  a tile's part of C is asked for before
    """

    tile: Tile
    height: int
    depth: int
    is_long: bool
    rows: int
    packs_a: bool
    read_b: ReadB
    fetches: Fetches
    asks: int
    fetches_c: bool

    @staticmethod
    def of(tiling: Tiling, x: ProductRange) -> Blocking:
        lanes, count = tiling.lanes, tiling.vectors
        starts = [i * lanes for i in range(count)]
        if x.n is not None and x.n < count * lanes:
            starts[-1] = x.n - lanes
        depth, most_k = tiling.depth or UNCUT, x.most_k if x.k is None else x.k
        lies_in_panels = tiling.b in ("panels", "prepacked")
        fetches = Fetches(tiling.prefetch, tiling.prefetch_level)
        return Blocking(
            Tile(x.dtype, lanes, tuple(starts), x.a_transposed, x.pairs, x.amx),
            tiling.rows,
            depth,
            min(depth, most_k) > STRETCH,
            tiling.block or UNCUT,
            tiling.a == "packed",
            tiling.b,
            NO_FETCHES if lies_in_panels else fetches,
            tiling.prefetch if lies_in_panels else 0,
            tiling.prefetch_c,
        )


@dataclass(frozen=True, slots=True)
class ProductWriter:
    """What is needed to write one product.

    panel   workspace for a packed panel of B
    block   workspace for a packed block of A, where that is packed
    """

    code: Writer
    machine: Machine
    blocking: Blocking
    panel: Val
    block: Val


@dataclass(frozen=True, slots=True)
class _Part:
    """`depth` steps of k from `start` on, for the rows from `row` on, in columns of one tile.

    adds   whether C holds the sums of the steps before
    """

    tile: Tile
    start: Val
    depth: Val
    row: Val
    rows: Val
    adds: Val


def emit_panels(w: ProductWriter, x: Operands) -> None:
    """The whole range; it is as wide as a tile at least, or as a panel where B lies in them."""
    code, tile = w.code, w.blocking.tile
    if x.panel:
        _ready_panels(w, x)
        return
    rest = remainder(code, x.n, tile.width)
    whole = sub(code, x.n, rest)
    if number_of(rest) is None:
        with when(code, _compare(code, "sgt", rest, index(0)), []):
            _left_over(w, x, rest)
    elif number_of(rest) != 0:
        last = _last_tile(tile, rest)
        sets_once = _most(x.k, x.most_k) <= w.blocking.depth < UNCUT
        if last == tile and sets_once:
            _blocks(w, x, tile, (index(0), x.n))  # one loop is less code
            return
        if number_of(whole) != 0 and (sets_once or number_of(rest) == last.width):
            _blocks(w, x, tile, (index(0), whole), last)
            return
        _left_over(w, x, rest)
    if number_of(whole) != 0:
        _blocks(w, x, tile, (index(0), whole))


def _ready_panels(w: ProductWriter, x: Operands) -> None:
    """Where B lies in panels: several of them in a tile; of the last, which ends with the matrix,
    as many vectors as it takes."""
    code, tile = w.code, w.blocking.tile
    one = replace(tile, starts=tuple(s for s in tile.starts if s < x.panel))
    rest = remainder(code, x.n, x.panel)
    whole = sub(code, x.n, rest)
    if number_of(rest) != 0:
        last = _last_tile(one, rest)
        with when(code, _compare(code, "sgt", rest, index(0)), []):
            _blocks(w, x, last, (sub(code, x.n, index(last.width)), x.n))
    if number_of(whole) is None:
        tile = one
    if number_of(whole) != 0:
        _blocks(w, x, tile, (index(0), whole))


def _left_over(w: ProductWriter, x: Operands, rest: Val) -> None:
    tile = _last_tile(w.blocking.tile, rest)
    start = sub(w.code, x.n, index(tile.width))
    _blocks(w, x, tile, (start, x.n))


def _last_tile(tile: Tile, rest: Val) -> Tile:
    """The tile of so many columns that are left over: of fewer vectors than the others where that
    is enough, of half as long ones where one of these is."""
    columns = number_of(rest)
    if columns is None or tile.pairs or tile.amx:
        return tile
    lanes = tile.lanes
    if columns <= lanes // 2 and lanes > LEAST_LANES:
        lanes //= 2
    starts = tuple(range(0, columns, lanes))
    is_narrower = lanes * len(starts) < tile.width
    return replace(tile, lanes=lanes, starts=starts) if is_narrower else tile


def _blocks(
    w: ProductWriter, x: Operands, tile: Tile, columns: tuple[Val, Val], last: Tile | None = None
) -> None:
    """All rows of these columns, whole tiles; and of a `last` one at the end of the range."""
    code = w.code

    def in_depth(start: Val, depth: Val) -> None:
        adds = _compare(code, "sgt", start, index(0))

        def in_rows(row: Val, rows: Val) -> None:
            _columns(w, x, _Part(tile, start, depth, row, rows, adds), columns, last)

        _cut(code, x.m, x.most_m, w.blocking.rows, in_rows)

    cut_depth(w, x, in_depth)


def cut_depth(w: ProductWriter, x: Operands, write: Callable[[Val, Val], None]) -> None:
    """`write(start, length)` for each part of k; one, empty, for k = 0: it sets C to zeros."""
    code, k, step = w.code, x.k, w.blocking.depth
    if number_of(k) is not None or x.most_k <= step:
        _cut(code, k, x.most_k, step, write)
    else:
        is_empty = _compare(code, "slt", k, index(1))
        end = code.select(is_empty, index(1), k)
        with loop(code, index(0), end, step) as state:
            write(state.index, smaller(code, index(step), sub(code, k, state.index)))


def _cut(
    code: Writer, length: Val, most: int, step: int, write: Callable[[Val, Val], None]
) -> None:
    """`write(start, length)` for each part of a length; all but the last are `step` long."""
    if _most(length, most) <= step:
        write(index(0), length)
        return
    with loop(code, index(0), length, step) as state:
        write(state.index, smaller(code, index(step), sub(code, length, state.index)))


def _most(length: Val, most: int) -> int:
    """A length, or what it is at most where only the call knows it."""
    known = number_of(length)
    return most if known is None else known


def _columns(
    w: ProductWriter, x: Operands, part: _Part, columns: tuple[Val, Val], last: Tile | None
) -> None:
    """All panels of one part."""
    code, (begin, end) = w.code, columns
    a = x.at(code, x.a, x.a_offset(code, part.row, part.start))
    if w.blocking.packs_a:
        _pack_a(w, x, part, a)
    with loop(code, begin, end, part.tile.width) as state:
        start = state.index
        if number_of(sub(code, end, begin)) and number_of(remainder(code, end, part.tile.width)):
            start = smaller(code, start, sub(code, end, index(part.tile.width)))
        _panel(w, x, part, a, start)
    if last is not None:
        _panel(w, x, replace(part, tile=last), a, sub(code, x.n, index(last.width)))


def _pack_a(w: ProductWriter, x: Operands, part: _Part, a: Val) -> None:
    """The rows and steps of one part."""
    code, height = w.code, w.blocking.height
    if part.tile.pairs:
        pack_pairs_of_a(w, x, a, part.depth, part.rows)
        return
    pack = packing.emit_pack_rows(code.module, w.machine, part.tile, height)
    call(code, pack, a, x.lda, part.depth, part.rows, w.block)


def pack_pairs_of_a(w: ProductWriter, x: Operands, a: Val, depth: Val, rows: Val) -> None:
    """The block of A that begins at `a`."""
    code, height = w.code, w.blocking.height
    if x.a_transposed and w.blocking.tile.amx:
        pack = amx.emit_pack_a_turned(code.module, w.machine)
    elif x.a_transposed:
        pack = pair_packing.emit_pack_a_transposed(code.module, w.machine, height)
    else:
        pack = pair_packing.emit_pack_a(code.module, w.machine)
    call(code, pack, a, x.lda, depth, rows, w.block, pitch_of_a(code, depth))


def row_of_pairs(w: ProductWriter, x: Operands, depth: Val, row: Val) -> tuple[Val, Val]:
    """Where the packed block of A has a row, and the stride of what a tile reads of it."""
    code, pitch = w.code, pitch_of_a(w.code, depth)
    if not x.a_transposed or w.blocking.tile.amx:
        return x.at(code, w.block, mul(code, row, pitch)), pitch
    height = w.blocking.height
    inside = remainder(code, row, height)
    place = add(code, mul(code, sub(code, row, inside), pitch), inside)
    return x.at(code, w.block, place), index(height)


def pitch_of_a(code: Writer, depth: Val) -> Val:
    """Pairs from one row of a packed block of A to the next, or of one panel, for each row."""
    return add(code, pairs.count_of(code, depth), index(PAIRS_APART))


def pitch_of_b(code: Writer, k: Val) -> Val:
    """Pairs of a panel of a B that is copied whole."""
    last = add(code, pairs.count_of(code, k), index(WHOLE_PAIRS - 1))
    return round_down(code, last, WHOLE_PAIRS)


def _panel(w: ProductWriter, x: Operands, part: _Part, a: Val, start: Val) -> None:
    """All rows of one part of one panel."""
    code = w.code
    goal = x.at(code, x.c, x.c_offset(code, part.row, start))
    column, ldb = start, x.ldb
    if x.panel:  # what is left over is a panel of its own, which begins earlier in C alone
        after = add(code, start, index(x.panel - 1))
        column = sub(code, after, remainder(code, after, x.panel))
        ldb = mul(code, x.ldb, index(x.panel)) if part.tile.width > x.panel else index(x.panel)
    is_ready = bool(x.panel) and part.tile.pairs
    step = pairs.count_of(code, part.start) if is_ready else part.start
    source = x.at(code, x.b, x.b_offset(code, step, column))
    if part.tile.width < x.panel:  # the last columns of the last panel
        source = x.at(code, source, index(x.panel - part.tile.width))
    b = (source, ldb)
    if w.blocking.read_b == "packed" and part.tile.pairs:
        pack_panel_of_pairs(
            *(code, w.machine, part.tile, w.blocking.fetches.ahead, source, x.ldb),
            *(part.depth, w.panel),
            transposed=x.b_transposed,
        )
        b = (w.panel, index(part.tile.width))
    elif w.blocking.read_b == "packed":
        pack_transposed_panel(code, w.machine, part.tile, source, x.ldb, part.depth, w.panel)
        b = (w.panel, index(part.tile.width))
    _Rows(w, x, part, a, goal).emit(b)


def pack_transposed_panel(
    code: Writer, machine: Machine, tile: Tile, source: Val, ldb: Val, depth: Val, panel: Val
) -> None:
    """`depth` steps of the columns of a tile that begin at `source`, of a B stored by columns."""
    pack = packing.emit_pack_transposed(code.module, machine, tile)
    for first in map(index, tile.starts):
        rows = offset(code, source, tile.element, mul(code, first, ldb))
        goal = offset(code, panel, tile.element, first)
        call(code, pack, rows, ldb, depth, goal, index(tile.width))


def pack_panel_of_pairs(
    code: Writer,
    machine: Machine,
    tile: Tile,
    ahead: int,
    source: Val,
    ldb: Val,
    depth: Val,
    panel: Val,
    *,
    transposed: bool,
) -> None:
    """`depth` steps of the columns of a tile that begin at `source`, of a B stored by columns if it
    is `transposed`."""
    if not transposed:
        pack = pair_packing.emit_pack_b(code.module, machine, tile, ahead)
        call(code, pack, source, ldb, depth, panel)
        return
    if tile.lanes < pair_packing.LEAST_LANES:
        pack = pair_packing.emit_pack_narrow(code.module, machine, tile)
        call(code, pack, source, index(1), ldb, depth, index(tile.width), panel)
        return
    pack = pair_packing.emit_pack_b_transposed(code.module, machine, tile)
    for first in map(index, tile.starts):
        rows = offset(code, source, tile.element, mul(code, first, ldb))
        call(code, pack, rows, ldb, depth, offset(code, panel, tile.element, first))


class _Rows:
    """All rows of one part of one panel: full tiles, then lower ones."""

    def __init__(self, w: ProductWriter, x: Operands, part: _Part, a: Val, goal: Val) -> None:
        self.w, self.x, self.part, self.a, self.goal = w, x, part, a, goal
        self.packed = (w.panel, index(part.tile.width))

    def emit(self, b: tuple[Val, Val]) -> None:
        rows = number_of(self.part.rows)
        if self.part.tile.amx:
            in_registers(self.w, self.part.rows, lambda row, *how: self._amx(row, b, *how))
        elif rows is not None:
            self._known(rows, b)
        else:
            self._decided_at_the_call(b)

    def _amx(self, row: Val, b: tuple[Val, Val], height: int, rows: Val | None) -> None:
        """A tile of AMX's registers, for so many `rows`; None: all of its height."""
        code, x, part = self.w.code, self.x, self.part
        if x.a_ready:
            a, lda = x.at(code, self.a, x.a_offset(code, row, index(0))), x.lda
        else:
            a, lda = row_of_pairs(self.w, x, part.depth, row)
        c = x.at(code, self.goal, x.c_offset(code, row, index(0)))
        steps = pairs.count_of(code, part.depth)
        whole = rows is None
        name = amx.emit_tile(code.module, self.w.machine, part.tile, height, whole=whole)
        given = (a, lda, *b, c, x.ldc, steps, part.adds)
        call(code, name, *given, *(() if rows is None else (rows,)))

    def _known(self, rows: int, b: tuple[Val, Val]) -> None:
        row, height = 0, self.w.blocking.height
        packs = self.w.blocking.read_b == "packed by tiles"
        balanced = not (self.w.blocking.packs_a and self.part.tile.a_transposed)
        for count, high in _heights(rows, height, balanced=balanced):
            many = count
            if packs and row == 0:
                self._tile(index(0), high, b, packs=True)
                row, many, b = high, count - 1, self.packed
            if many == 1:
                self._tile(index(row), high, b)
            elif many:
                with loop(self.w.code, index(row), index(row + many * high), high) as state:
                    self._tile(state.index, high, b)
            row += many * high

    def _decided_at_the_call(self, b: tuple[Val, Val]) -> None:
        code, rows, height = self.w.code, self.part.rows, self.w.blocking.height
        is_in_panels = self.w.blocking.packs_a and self.part.tile.a_transposed
        if self.x.most_m <= height and not is_in_panels:
            self._at_most(self.x.most_m, b)
            return
        whole = sub(code, rows, remainder(code, rows, height))
        first = index(0)
        if self.w.blocking.read_b == "packed by tiles":
            is_any = _compare(code, "sgt", whole, index(0))
            with when(code, is_any, carried := [first, *b]) as values:
                self._tile(index(0), height, b, packs=True)
                values[:] = [index(height), *self.packed]
            first, b = carried[0], (carried[1], carried[2])
        with loop(code, first, whole, height) as state:
            self._tile(state.index, height, b)
        each_lower(
            code, whole, rows, height, lambda row, high: self._tile(row, high, b, is_lower=True)
        )

    def _at_most(self, most: int, b: tuple[Val, Val]) -> None:
        """Where one tile has room for all rows that there may be."""
        code, rows = self.w.code, self.part.rows
        with when(code, _compare(code, "sge", rows, index(most)), []):
            self._tile(index(0), most, b)
        with when(code, _compare(code, "slt", rows, index(most)), []):
            each_lower(
                *(code, index(0), rows, most),
                lambda row, high: self._tile(row, high, b, is_lower=True),
            )

    def _tile(
        self,
        row: Val,
        rows: int,
        b: tuple[Val, Val],
        *,
        packs: bool = False,
        is_lower: bool = False,
    ) -> None:
        """One tile whose first row is `row` of the part.

        is_lower  it runs once a panel at most, for what the full tiles leave over
        """
        code, x, part, blocking = self.w.code, self.x, self.part, self.w.blocking
        machine, tile, is_long = self.w.machine, part.tile, blocking.is_long
        if not blocking.packs_a:
            a, lda = x.at(code, self.a, x.a_offset(code, row, index(0))), x.lda
        elif tile.pairs:
            a, lda = row_of_pairs(self.w, x, part.depth, row)
        else:
            a, lda = self._packed_row(row, rows), index(blocking.height)
        c = x.at(code, self.goal, x.c_offset(code, row, index(0)))
        pairs_b = tile.pairs and blocking.read_b == "in place"
        if blocking.fetches_c:
            fetch = code.module.once(
                ("fetch", tile.dtype, tile.width),
                lambda: tiles.emit_fetch(code.module, tile.dtype, tile.width),
            )
            call(code, fetch, c, x.ldc, index(rows))
        fetches = self._fetches(packs=packs, is_lower=is_lower)
        steps = pairs.count_of(code, part.depth) if tile.pairs and not pairs_b else part.depth
        arguments = (a, lda, *b, c, x.ldc, steps, part.adds)
        if pairs_b or blocking.read_b == "transposed by tiles":
            emit = tiles.emit_pairing_tile if pairs_b else tiles.emit_transposing_tile
            function = emit(code.module, machine, tile, rows, is_long=is_long, fetches=fetches)
            call(code, function, *arguments)
            return
        panel = x.panel if tile.width > x.panel else 0  # one panel is rows of its own
        asks = blocking.asks if rows == blocking.height and tile.width == x.panel else 0
        function = code.module.once(
            ("tile", machine, tile, rows, is_long, packs, fetches, panel, asks),
            lambda: tiles.emit_tile(
                *(code.module, machine, tile, rows),
                is_long=is_long,
                packs=packs,
                fetches=fetches,
                panel=panel,
                asks=asks,
            ),
        )
        besides = [self.w.panel] if packs else [self._asked(row, b[0], steps)] if asks else []
        call(code, function, *arguments, *besides)

    def _asked(self, row: Val, panel: Val, steps: Val) -> Val:
        """What the tile at a row asks for of the next panel, the first tiles a part each; the
        others for lines of this one, which are near."""
        code, x, tile, asks = self.w.code, self.x, self.part.tile, self.w.blocking.asks
        per_step = tile.width * tile.dtype.itemsize // tiles.LINE_BYTES
        line = tiles.LINE_BYTES // tile.dtype.itemsize
        number = code.binary("udiv", row, index(self.w.blocking.height))
        skipped = mul(code, mul(code, number, steps), index(asks * line))
        place = add(code, mul(code, x.ldb, index(x.panel)), skipped)
        following = code.offset(panel, tile.element, place, inside=False)
        is_first = code.compare("slt", number, index(-(-per_step // asks)))
        return code.select(is_first, following, panel)

    def _fetches(self, *, packs: bool, is_lower: bool) -> Fetches:
        """Of B as it lies. Lower tiles ask for nothing, so that products have them in common."""
        reads_as_it_lies = packs or self.w.blocking.read_b not in ("packed", "packed by tiles")
        return self.w.blocking.fetches if reads_as_it_lies and not is_lower else NO_FETCHES

    def _packed_row(self, row: Val, rows: int) -> Val:
        """Where the packed block of A has this row, of a tile with so many `rows`."""
        code, height, part = self.w.code, self.w.blocking.height, self.part
        panel, pitch = row, add(code, part.depth, index(packing.APART))
        if rows < height:
            # Lower tiles are in the last panel, which ends with the rows.
            rest = remainder(code, part.rows, height)
            panel = sub(code, part.rows, rest)
            row = add(code, row, sub(code, index(height), rest))
        place = add(code, mul(code, panel, pitch), sub(code, row, panel))
        return self.x.at(code, self.w.block, place)


def in_registers(w: ProductWriter, rows: Val, tile: Callable[[Val, int, Val | None], None]) -> None:
    """`tile(first row, height, rows that there are)` for so many rows, in AMX's registers; None for
    as many as its height."""
    code, height, is_narrow = w.code, w.blocking.height, w.blocking.tile.width < amx.SIDE
    whole = sub(code, rows, remainder(code, rows, height))
    if number_of(whole) != 0:
        with loop(code, index(0), whole, height) as state:
            tile(state.index, height, index(height) if is_narrow else None)
    rest = sub(code, rows, whole)
    if number_of(rest) == 0:
        return
    if height > amx.SIDE:
        with when(code, _compare(code, "sgt", rest, index(amx.SIDE)), []):
            tile(whole, height, rest)
    is_low = _compare(code, "sle", rest, index(amx.SIDE))
    with when(code, _compare(code, "sgt", rest, index(0)), []), when(code, is_low, []):
        tile(whole, amx.SIDE, rest)


def each_lower(
    code: Writer, row: Val, rows: Val, height: int, tile: Callable[[Val, int], None]
) -> None:
    """`tile(first row, height)` from `row` to `rows`, less than `height`, by ever lower ones."""
    lower = 1 << (height - 1).bit_length() >> 1
    while lower:
        following = add(code, row, index(lower))
        with when(code, _compare(code, "sle", following, rows), carried := [row]) as values:
            tile(row, lower)
            values[0] = following
        row = carried[0]
        lower //= 2


def _heights(rows: int, height: int, *, balanced: bool) -> list[tuple[int, int]]:
    """How many tiles of which heights: two neighbouring ones, or whole ones and a rest."""
    whole, rest = divmod(rows, height)
    found = [(whole, height), (1, rest)]
    if balanced and rows:
        count = -(-rows // height)
        low, more = divmod(rows, count)
        found = [(more, low + 1), (count - more, low)]
    return [(count, high) for count, high in found if count and high]


def _compare(code: Writer, order: Order, a: Val, b: Val) -> Val:
    """A comparison of integers, decided here where both are known."""
    p, q = number_of(a), number_of(b)
    if p is not None and q is not None:
        return constant({"sgt": p > q, "sge": p >= q, "slt": p < q, "sle": p <= q}[order], I1)
    return code.compare(order, a, b)
