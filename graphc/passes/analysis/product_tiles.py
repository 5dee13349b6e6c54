"""How a matrix product is cut for a machine: the shape of its tiles, blocks that stay in a cache.

C is computed tile by tile. A panel of B, as wide as a tile and `depth` long, stays in the first
level cache while all rows of a block of A, `block` x `depth` in the second level cache, pass by.

A call computes a product, or a chunk of its rows or columns: a `ProductRange`. Where only the call
knows how many rows there are, one or two rows have a tiling of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ir.types import Dim, DType, bound_elements
from graphc.ops.contraction import STRETCH, MatmulParams, groups
from graphc.ops.schedules import ProductSchedule, ReadB, Tiling
from graphc.passes.analysis.nestplan import epilogue_pitch
from graphc.support.diagnostics import fail

PANEL_BYTES = 49152
"""A panel of B: three quarters of a first-level cache, and at most so much of the stack."""
PACKED_BLOCK_BYTES = 131072
"""A packed block of A: a quarter of a second-level cache, and at most so much of the stack."""
NARROW_BITS = 256
"""Of the vectors of machines on which a block of A is a quarter of a second-level cache where B
lies in panels: more blocks copy nothing again there. Longer ones were not measured so."""
NEAR_BYTES = 512
"""Rows of B up to this length are read where they are: copying them would not pay."""
FEW_ROWS = 2
"""So many rows are computed one by one, where only the call knows that they are few."""
FEW_ROWS_ELEMENTS = 16384
"""That has code of its own where B is at least so large."""
TRANSPOSED_ROWS = 3
"""Up to so many rows of C, B stored by columns is transposed by the tiles: a copy would cost
more."""
WIDE_TRANSPOSED_ROWS = 6
"""The same on machines with tiles of `WIDE_TILE`, which multiply faster than they copy."""
TRANSPOSED_BITS = 256
"""Of vectors that are transposed, at most: larger blocks take more code, and more lines at once of
a cache, to no gain."""
WAY_BYTES = 4096
"""Rows a multiple of this apart lie in the same few lines of a first-level cache: tiles that read
more of them than it has ways would fetch each line again and again."""
SHORT_ROW_BYTES = 1536
"""Rows of B up to this length end before the hardware prefetcher recognises the stream."""
FAR_BYTES = 2097152
"""A B from this size on comes from so far away that its rows are fetched long before their use."""
FAR_TILE = 6, 4
"""Rows and vectors of 512 bits of tiles that copy a far B as they read it: of half as many rows and
twice as wide, so that they read longer pieces of B's rows, and less often what is far of A."""
WIDE_TILE = 8, 3
"""Rows and vectors of tiles of machines on which two sums of 512 bits are added to at once, so that
loads bind: 11 of them for 24 sums, where a tile of 12 x 2 has 14."""
WIDE_L1 = 49152
"""The least first-level cache of such machines: a panel of one stretch fills it."""
WIDE_K = 128
"""The least length of sums in such a tile."""
FEW_ROWS_VECTORS = {1: 8, 2: 5, 3: 3, 4: 3}
FEW_ROWS_VECTORS_512 = {1: 10, 2: 8, 3: 4, 4: 4}
"""Vectors that a tile of so many rows has at most; with vectors of 512 bits there are more
registers."""

PAIR_BYTES = 2
"""Of a number in a pair."""
PAIR_PANEL_BYTES = 65536
"""Of a panel of B in pairs: tiles read it slowly enough for a second-level cache."""
PAIR_BLOCK_BYTES = 524288
"""Of a block of A in pairs, at most."""
MOST_PAIR_ROWS = 1020
"""Of such a block."""
AMX_SIDE = 16
"""Rows and columns of the sums of a register; a tile is two by two registers at most."""
MOST_FEW_VECTORS = 8
"""Of a tile that reads several panels at once: enough sums are under way then."""

UNBOUNDED = 1 << 40
"""Of a length for which there is no bound."""
LEAST_PAIR_LANES = 4
"""Of pairs that tiles make of a B in place."""


@dataclass(frozen=True, slots=True)
class ProductRange:
    """What one call computes of a product; None for extents that only the call knows.

    m, n, k         rows and columns of C, length of the sums
    pitch           the length of a row of B as it lies in memory
    most_m, most_k  m and k are no larger
    a_transposed    A is stored [k, m]
    b_transposed    B is stored [n, k]
    is_exchanged    it is the transposed product: one column of C is computed as a row
    has_few_rows    one or two rows, which only the call tells, have a tiling of their own
    panel           columns of the panels that B lies in (`b = "panels"` or "prepacked"); 0: it lies
                    by rows
    pairs           the factors are multiplied as pairs of bf16
    amx             these in the registers of AMX
    c_bytes         of the whole C in memory, at most; 0 where it is not known or always near
    """

    dtype: DType
    m: int | None
    n: int | None
    k: int | None
    pitch: int | None
    most_m: int
    most_k: int
    a_transposed: bool = False
    b_transposed: bool = False
    is_exchanged: bool = False
    has_few_rows: bool = False
    panel: int = 0
    pairs: bool = False
    amx: bool = False
    c_bytes: int = 0

    @property
    def most_rows(self) -> int:
        """No call computes more."""
        return self.most_m if self.m is None else self.m

    @property
    def one_row(self) -> ProductRange:
        return replace(self, m=1)


@dataclass(frozen=True, slots=True)
class ProductForm:
    """A product before it is cut: extents, None where only the call knows them, and layouts.

    split  what a call computes a part of, "rows", "cols" or nothing: `part` of it, the last call
           what is left; 0 where only the call knows how much
    pitch  elements from row to row of C, 0 for n
    panel, pairs, amx  as of a `ProductRange`
    """

    dtype: DType
    m: int | None
    n: int | None
    k: int | None
    transpose_a: bool
    transpose_b: bool
    split: str = ""
    part: int = 0
    pitch: int = 0
    most_m: int = UNBOUNDED
    most_k: int = UNBOUNDED
    panel: int = 0
    pairs: bool = False
    amx: bool = False

    def call_range(self) -> ProductRange:
        """What one call computes; of columns, every call but a last one that computes fewer."""
        return self._range(self.part)

    def last_range(self) -> ProductRange | None:
        """What the last call computes, where it computes fewer columns than the others."""
        extent = self.m if self.split == "rows" else self.n
        rest = extent % self.part if self.part and extent is not None else 0
        if not rest or (self.split == "rows") != self.is_exchanged:
            return None
        return replace(self._range(rest), has_few_rows=False)

    @property
    def is_exchanged(self) -> bool:
        """One column is computed as a row."""
        return self.n == 1 and self.pitch in (0, 1)

    def _range(self, part: int) -> ProductRange:
        m, n, k, split = self.m, self.n, self.k, self.split
        a_transposed, b_transposed = self.transpose_a, self.transpose_b
        pitch = k if b_transposed else n
        if self.is_exchanged:
            pitch = m if a_transposed else k
            m, n, a_transposed, b_transposed = n, m, False, not a_transposed
            split = {"rows": "cols", "cols": "rows"}.get(split, "")
        rows = m
        if rows == 1:  # one row lies in memory like one column
            a_transposed = False
        if split == "rows":
            m = even_part(m, part) or None
        elif split == "cols":
            n = part or None
        is_small = n is None or (k is not None and n * k < FEW_ROWS_ELEMENTS)
        return ProductRange(
            self.dtype,
            *(
                m,
                n,
                k,
                pitch,
                self.most_m,
                self.most_k,
                a_transposed,
                b_transposed,
                self.is_exchanged,
            ),
            has_few_rows=rows is None
            and not (a_transposed or is_small or self.amx or (self.pairs and b_transposed)),
            panel=self.panel,
            pairs=self.pairs,
            amx=self.amx,
            c_bytes=self._c_bytes(),
        )

    def _c_bytes(self) -> int:
        """A product with a pitch has a body, which takes it from a near cache."""
        if self.pitch or self.n is None:
            return 0
        return (self.most_m if self.m is None else self.m) * self.n * self.dtype.itemsize


def form_of(op: Operation, schedule: ProductSchedule) -> ProductForm:
    """The product of a `gemm` or `gemm.fused` with this schedule."""
    params = op.params_as(MatmulParams)
    a, b = (v.tensor for v in op.operands[:2])
    roles = groups(params, a, b)
    m, n, k = _known(roles.rows), _known(roles.cols), _known(roles.inner)
    part = pitch = 0
    tile = schedule.tile
    # Copies of whole factors lie in one way.
    transpose_a = params.transpose_a and (tile is None or tile.a != "prepacked")
    transpose_b = params.transpose_b and (tile is None or tile.b != "prepacked")
    split = schedule.parallel if schedule.parallel in ("rows", "cols") else ""
    if split:
        extent = m if split == "rows" else n
        part = 0 if extent is None else min(schedule.chunk, extent)
    if op.regions:
        if schedule.parallel is None:
            wanted = 'chunks to be made in: schedule {parallel = "cols", chunk = 128}, say'
            message = f"`{op.opdef.name}` on a processor requires {wanted}"
            raise fail("bad-schedule", message, op.location)
        pitch = epilogue_pitch(op)
    return ProductForm(
        a.dtype,
        *(m, n, k, transpose_a, transpose_b),
        split=split,
        part=part,
        pitch=pitch,
        most_m=bound_elements(roles.rows),
        most_k=bound_elements(roles.inner),
        panel=panel_width(schedule, "panels", "prepacked"),
        pairs=schedule.pairs,
        amx=schedule.amx,
    )


def panel_width(schedule: ProductSchedule, *read: ReadB) -> int:
    """Columns of the panels that tiles read B from, in one of these ways; 0 if in none."""
    tile = schedule.tile
    return tile.vectors * tile.lanes if tile is not None and tile.b in read else 0


def even_part(extent: int | None, length: int) -> int:
    """The length of each part of an extent, if all are as long; else 0."""
    return length if length and extent is not None and extent % length == 0 else 0


def _known(dims: Sequence[Dim]) -> int | None:
    """The number of elements, if no call is needed to know it."""
    if all(isinstance(d, int) for d in dims) or 0 in dims:
        return bound_elements(dims)
    return None


def with_tilings(schedule: ProductSchedule, machine: Machine, form: ProductForm) -> ProductSchedule:
    """The schedule with the tilings that it leaves open: none for a product without elements."""
    if 0 in (form.m, form.n):
        return schedule
    ranged, last = form.call_range(), form.last_range()
    if schedule.tile is None:
        few = choose_tiling(machine, ranged.one_row) if ranged.has_few_rows else None
        schedule = replace(schedule, tile=choose_tiling(machine, ranged), few_rows=few)
    if schedule.last is None and last is not None:
        assert schedule.tile is not None
        chosen = schedule.tile if last.panel else choose_tiling(machine, last)
        if schedule.tile.a == "prepacked":
            chosen = replace(chosen, a="prepacked")
        schedule = replace(schedule, last=chosen)
    return schedule


def choose_tiling(machine: Machine, x: ProductRange) -> Tiling:
    """The tiling for this range."""
    rows = _rows(x, machine)
    read_b = _read_b(x, rows, machine)
    panel = min(machine.l1 * 3 // 4, PANEL_BYTES)
    if x.pairs:
        return _pair_tiling(machine, x)
    vectors = _vectors(x, read_b, machine)
    copies_far_b = read_b == "packed by tiles" and _bytes_of_b(x) >= FAR_BYTES
    if read_b in ("packed", "packed by tiles") and is_wide(x, machine):
        rows, vectors = WIDE_TILE
    elif copies_far_b and machine.vector_bits == 512 and rows == machine.tile_rows:
        rows, vectors = FAR_TILE
    elif x.n is None or read_b == "packed":
        # More would make a panel of one stretch too large for a near cache.
        vectors = min(vectors, max(panel * 8 // (STRETCH * machine.vector_bits), 2))
    lanes = machine.lanes(x.dtype)
    if read_b == "transposed by tiles":
        lanes = min(lanes, TRANSPOSED_BITS // (8 * x.dtype.itemsize))
    if x.n is not None and x.n < lanes * vectors:
        while lanes > max(x.n, 1):
            lanes //= 2
        vectors = max(-(-x.n // lanes), 1)
    width = vectors * lanes if x.n is None else min(vectors * lanes, x.n)
    prefetch = _prefetch(read_b, x, width, machine.l2)
    level = 1 if prefetch and read_b == "in place" and machine.vector_bits == 512 else 2
    fetches_c = machine.vector_bits == 512 and x.c_bytes > machine.l2
    is_narrow = _row_bytes(x) <= NEAR_BYTES and not x.b_transposed
    if x.n is not None and (
        read_b == "transposed by tiles" or (read_b == "in place" and not is_narrow)
    ):
        return Tiling(
            rows,
            vectors,
            lanes,
            b=read_b,
            prefetch=prefetch,
            prefetch_level=level,
            prefetch_c=fetches_c,
        )
    packs_a = x.a_transposed and x.most_rows > 4 * rows and (x.n is None or x.n >= 4 * width)
    most_k = x.most_k if x.k is None else x.k
    depth = _depth(x.k, most_k, max(panel // (width * x.dtype.itemsize), STRETCH))
    bytes_of_a = min(machine.l2 // 4, PACKED_BLOCK_BYTES) if packs_a else machine.l2 // 2
    most_rows = bytes_of_a // (depth * x.dtype.itemsize)
    block = 0
    if x.most_m > most_rows or packs_a:
        block = _part(x.m, max(most_rows // rows, 1) * rows, rows)
    return Tiling(
        *(rows, vectors, lanes, depth, block),
        a="packed" if packs_a else "in place",
        b=read_b,
        prefetch=prefetch,
        prefetch_level=level,
        prefetch_c=fetches_c,
    )


def _pair_tiling(machine: Machine, x: ProductRange) -> Tiling:
    """Both factors are copied, as half as many bytes."""
    rows, vectors = machine.tile_rows, _vectors(x, "packed", machine)
    if x.amx:
        rows = AMX_SIDE if x.most_rows <= AMX_SIDE else 2 * AMX_SIDE
        vectors = 2
    lanes, width = machine.lanes(x.dtype), vectors * machine.lanes(x.dtype)
    if x.n is not None and x.n < width:
        while lanes > max(x.n, 1):
            lanes //= 2
        vectors = max(-(-x.n // lanes), 1)
        width = vectors * lanes
    most_k = x.most_k if x.k is None else x.k
    is_read_once = x.most_rows <= rows and not x.b_transposed and lanes >= LEAST_PAIR_LANES
    is_in_place = is_read_once and x.n is not None and not x.amx
    row_bytes = (rows if is_in_place else width) * PAIR_BYTES
    deepest = PAIR_BLOCK_BYTES // (rows * PAIR_BYTES)  # of a block of one tile
    depth = _depth(x.k, most_k, min(max(PAIR_PANEL_BYTES // row_bytes, STRETCH), deepest))
    most_rows = min(machine.l2 // 2, PAIR_BLOCK_BYTES) // (depth * PAIR_BYTES)
    most_rows = min(most_rows, MOST_PAIR_ROWS, -(-x.most_rows // rows) * rows)
    block = _part(x.m, max(most_rows // rows, 1) * rows, rows)
    is_far = (x.n or 0) * (x.k or 0) * x.dtype.itemsize >= machine.l2 // 2
    ahead = 0 if x.b_transposed else 32 if is_far else 8
    ahead = 8 if is_in_place else ahead
    fetches_c = x.c_bytes > machine.l2 and not x.amx
    return Tiling(
        *(rows, vectors, lanes, depth, block),
        a="packed",
        b="in place" if is_in_place else "packed",
        prefetch=ahead,
        prefetch_level=1 if is_in_place else 2,
        prefetch_c=fetches_c,
    )


def has_wide_tiles(machine: Machine) -> bool:
    """Whether it adds to two vectors of 512 bits at once, as far as its caches tell."""
    return machine.vector_bits >= 512 and machine.l1 >= WIDE_L1


def is_wide(x: ProductRange, machine: Machine) -> bool:
    """Whether a `WIDE_TILE` suits a range whose B is copied: large, with little left over at the
    right. Rows of A that are packed are read fast: there it pays only where B is far."""
    lanes, most_k = machine.lanes(x.dtype), x.most_k if x.k is None else x.k
    width = WIDE_TILE[1] * lanes
    if not has_wide_tiles(machine) or x.n is None or x.n < width:
        return False
    is_even = -(-x.n // lanes) % WIDE_TILE[1] == 0 or x.n >= 4 * width
    is_far = x.n * most_k * x.dtype.itemsize > FAR_BYTES
    is_large = x.most_rows >= 4 * WIDE_TILE[0] and most_k >= WIDE_K
    return is_even and is_large and (is_far or not x.a_transposed)


def _rows(x: ProductRange, machine: Machine) -> int:
    """Rows of a tile. Of a longer A whose rows share lines of a first-level cache no more than that
    has ways, so that what a step of k fetches of it is still there at the next."""
    rows = machine.tile_rows
    shares_lines = x.k is not None and x.k * x.dtype.itemsize % WAY_BYTES == 0
    if shares_lines and not x.a_transposed and x.most_rows > rows:
        return min(rows, max(machine.l1 // WAY_BYTES, rows // 2))
    return rows


def _row_bytes(x: ProductRange) -> int:
    return UNBOUNDED if x.pitch is None else x.pitch * x.dtype.itemsize


def _bytes_of_b(x: ProductRange) -> int:
    """0 where only the call knows."""
    return (x.n or 0) * (x.k or 0) * x.dtype.itemsize


def _read_b(x: ProductRange, rows: int, machine: Machine) -> ReadB:
    if x.b_transposed:
        most = WIDE_TRANSPOSED_ROWS if has_wide_tiles(machine) else TRANSPOSED_ROWS
        is_few = x.m is not None and x.m <= most
        shares_lines = x.pitch is not None and x.pitch * x.dtype.itemsize % WAY_BYTES == 0
        is_near = not shares_lines or machine.l1 >= WIDE_L1
        return "transposed by tiles" if is_few and is_near else "packed"
    if _row_bytes(x) <= NEAR_BYTES or x.most_rows <= rows:
        return "in place"
    return "packed by tiles"


def _prefetch(read_b: ReadB, x: ProductRange, width: int, l2: int) -> int:
    """`Tiling.prefetch`; `l2` are the bytes of a second-level cache."""
    size = _bytes_of_b(x)
    if read_b == "in place":  # whole rows are one stream, which the processor fetches by itself
        return 4 if _row_bytes(x) > NEAR_BYTES and width != x.pitch else 0
    if read_b == "packed by tiles":
        return 32 if size >= FAR_BYTES else 8
    is_short = (x.pitch or 0) * x.dtype.itemsize <= SHORT_ROW_BYTES
    return width if read_b == "transposed by tiles" and is_short and size >= l2 else 0


def _vectors(x: ProductRange, read_b: ReadB, machine: Machine) -> int:
    """Vectors of a tile: more for few rows, so that enough sums are under way at once. Then panels
    are equally wide, as the last one computes again what it lacks."""
    is_turned = read_b == "transposed by tiles"
    rows = x.most_rows
    if is_turned or (read_b == "packed" and rows > TRANSPOSED_ROWS):
        return 2
    most = (FEW_ROWS_VECTORS_512 if machine.vector_bits == 512 else FEW_ROWS_VECTORS).get(rows)
    if most is None:
        return 2
    if x.n is None:
        return most
    vectors = -(-x.n // machine.lanes(x.dtype))
    # A row has registers for twice as many, where fewer columns are computed again then.
    widest = 2 * most if rows == 1 and machine.vector_bits == 512 else most
    panels = range(-(-vectors // most), -(-vectors // widest) - 1, -1)
    return -(-vectors // max(min(panels, key=lambda p: p * -(-vectors // max(p, 1))), 1))


def _depth(k: int | None, most_k: int, most: int) -> int:
    """Steps of k in a panel that has room for `most`: all of them, or whole stretches."""
    step = 16 if most_k <= most // 16 * 16 else STRETCH
    return _part(k, most // step * step, step)


def _part(length: int | None, most: int, step: int) -> int:
    """The length of equal parts of at most `most`, a multiple of `step`."""
    if length is None:
        return most
    parts = max(-(-length // most), 1)
    part = -(-length // parts)
    return max(-(-part // step) * step, step)


def panel_schedule(op: Operation, machine: Machine) -> ProductSchedule | None:
    """The schedule of a product whose B lies in panels, made of its complete schedule; None where
    B is better read as it is or cannot be."""
    params = op.params_as(MatmulParams)
    if params.transpose_b or params.batch:
        return None
    return in_panels(op, op.schedule_as(ProductSchedule), machine, "panels")


def in_panels(
    op: Operation, schedule: ProductSchedule, machine: Machine, read_b: ReadB
) -> ProductSchedule | None:
    """The schedule with tiles that read B so; None where it lies better by rows or cannot."""
    if schedule.tile is None:
        return None
    tile, few = replace(schedule.tile, b=read_b), None
    form = form_of(op, replace(schedule, tile=tile))
    x = form.call_range()
    is_whole = form.pairs or schedule.parallel != "cols"
    if is_whole and x.n is not None and x.n < tile.vectors * tile.lanes:
        tile = replace(tile, vectors=-(-tile.vectors // 2))
    width = tile.vectors * tile.lanes
    is_near = _row_bytes(x) <= NEAR_BYTES and not form.pairs
    if x.is_exchanged or form.n is None or form.n < width or is_near:
        return None
    rest = 0
    if schedule.parallel == "cols":
        chunk = _columns_of_panels(form.n, schedule.chunk, tile, pairs=form.pairs)
        if not chunk:
            return None
        schedule, rest = replace(schedule, chunk=chunk), form.n % chunk
        form = form_of(op, replace(schedule, tile=tile))
        x = form.call_range()
    if replace(form, panel=width).call_range().has_few_rows:
        count = 1 if x.n is None else x.n // width
        most = max(MOST_FEW_VECTORS // tile.vectors, 1)
        together = -(-count // -(-count // most))
        if form.pairs and tile.depth < (x.most_k if x.k is None else x.k):
            # Columns that two tiles compute would have the sums of each depth added twice.
            together = next(n for n in range(together, 0, -1) if count % n == 0)
        rows = FEW_ROWS if machine.registers > FEW_ROWS * MOST_FEW_VECTORS else 1
        few = Tiling(rows, together * tile.vectors, tile.lanes, b=read_b)
        if form.pairs:
            few = replace(few, a=tile.a, depth=tile.depth, block=tile.block // tile.rows * rows)
    if read_b == "panels" and not form.pairs and machine.vector_bits <= NARROW_BITS:
        tile = replace(tile, block=_near_block(x, tile, machine))
    # Each panel is read from one end to the other: the processor fetches that by itself, sooner.
    tile = replace(tile, prefetch=_lines_of_next_panel(x, tile, machine))
    last = None if form.last_range() is None else tile
    if 0 < rest < width:
        last = replace(tile, vectors=rest // tile.lanes, prefetch=0)
    return replace(schedule, tile=tile, few_rows=few, last=last)


def _near_block(x: ProductRange, tile: Tiling, machine: Machine) -> int:
    """Rows of A of which there are a quarter of a second-level cache, for more than two blocks of
    about the same length where all rows are there; as many as before for fewer."""
    depth = tile.depth or (x.most_k if x.k is None else x.k)
    most = machine.l2 // 4 // (depth * x.dtype.itemsize) // tile.rows * tile.rows
    return _part(x.most_rows, most, tile.rows) if 0 < 2 * most < x.most_rows else tile.block


def _columns_of_panels(n: int, wanted: int, tile: Tiling, *, pairs: bool) -> int:
    """Columns of a chunk of whole panels, about as many as are wanted; 0 if there are none. What
    the last chunk has is a panel too, or whole vectors of one."""
    width = tile.vectors * tile.lanes
    if (tile.rows, tile.vectors) == WIDE_TILE:  # nothing is copied: threads share shorter ones
        wanted //= 2

    def fits(chunk: int) -> bool:
        rest = n % chunk
        return chunk % width == 0 and (rest == 0 or rest >= width or rest % tile.lanes == 0)

    if pairs:  # whose last panel is read whole
        return wanted if wanted < n and wanted % width == 0 and not 0 < n % wanted < width else 0
    found = [chunk for chunk in range(width, n, width) if fits(chunk)]
    return min(found, key=lambda chunk: abs(chunk - wanted), default=0)


def _lines_of_next_panel(x: ProductRange, tile: Tiling, machine: Machine) -> int:
    """That each step of a full tile asks for, so that all tiles of a panel ask for the next one: on
    machines with wide tiles, which multiply fast next to their third-level caches, for a B that
    shares no near cache with others. A panel of a single tile is asked for as fast as it is read.
    """
    is_one = x.most_rows <= tile.rows
    if not has_wide_tiles(machine) or is_one or x.pairs or x.pitch is None:
        return 0
    if x.pitch * (x.most_k if x.k is None else x.k) * x.dtype.itemsize < machine.l2 // 4:
        return 0
    return -(-tile.vectors // (x.most_rows // tile.rows))
