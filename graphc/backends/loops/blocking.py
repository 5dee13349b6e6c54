"""How a matrix product is cut: the shape of its tiles, and blocks that stay in a cache.

C is computed tile by tile. A panel of B, as wide as a tile and `depth` long, stays in the first
level cache while all rows of a block of A, `rows` x `depth` in the second level cache, pass by.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from graphc.backends.loops.tiles import STRETCH, Tile
from graphc.ir.machine import Machine
from graphc.ir.types import DType

PANEL_BYTES = 49152
"""A panel of B: three quarters of a first-level cache, and at most so much of the stack."""
PACKED_BLOCK_BYTES = 131072
"""A packed block of A: a quarter of a second-level cache, and at most so much of the stack."""
NEAR_BYTES = 512
"""Rows of B up to this length are read where they are: copying them would not pay."""
FEW_ROWS = 2
"""So many rows are computed one by one, where only the call knows that they are few."""
FEW_ROWS_ELEMENTS = 16384
"""That has code of its own where B is at least so large."""
TURNED_ROWS = 3
"""Up to so many rows of C, B stored by columns is turned by the tiles: a copy would cost more."""
WAY_BYTES = 4096
"""Rows a multiple of this apart lie in the same few lines of a first-level cache: tiles that turn
more of them than it has ways would fetch each line again and again."""
SHORT_ROW_BYTES = 1536
"""Rows of B up to this length end before the hardware prefetcher recognises the stream."""
FAR_BYTES = 2097152
"""A B from this size on comes from so far away that its rows are fetched long before their use."""
UNCUT = 1 << 40

Source = Literal["near", "in place", "packed by tiles", "packed", "turned by tiles"]
"""How tiles get B: from rows that are near each other, or far; through a panel, which the tiles of
the first rows fill or which is filled before; or from columns, which the tiles turn."""


@dataclass(frozen=True, slots=True)
class Extents:
    """What is known of a product's extents; None for what only the call knows.

    `pitch` is the length of a row of B as it lies in memory; `most_m` and `most_k` are never less
    than m and k.
    """

    m: int | None
    n: int | None
    k: int | None
    pitch: int | None
    most_m: int
    most_k: int


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cuts of one product.

    tile       the tile of all panels: one more for what is left over would cost compilation
    height     rows of a tile
    depth      steps of k in a panel: whole stretches, unless it holds all of k
    is_long    a panel may hold more than one stretch
    rows       rows of C in a block
    packs_a    blocks of A are copied into panels
    source     how tiles get B
    ahead      steps of k before its use that a tile fetches a row of B; of tiles that turn B: rows
               of B before their use; 0 where the processor does so
    """

    tile: Tile
    height: int
    depth: int
    is_long: bool
    rows: int
    packs_a: bool
    source: Source
    ahead: int = 0


def cuts_for(
    machine: Machine, dtype: DType, extents: Extents, *, by_columns: bool, turned: bool
) -> Cuts:
    """The cuts for a product with these extents; A and B are stored as `Operands` says."""
    m, n, k = extents.m, extents.n, extents.k
    height = tile_rows(machine)
    source = _source(extents, height, dtype, turned=turned)
    panel = min(machine.l1 * 3 // 4, PANEL_BYTES)
    vectors = _vectors(m, source)
    if n is None or source == "packed":
        # More would make a panel of one stretch too large for a near cache.
        vectors = min(vectors, max(panel * 8 // (STRETCH * machine.vector_bits), 2))
    tile = _tile(dtype, machine.lanes(dtype), vectors, n, by_columns=by_columns)
    ahead = _ahead(source, extents, dtype, tile, machine.l2)
    packs_a = by_columns and (m is None or m > 4 * height) and (n is None or n >= 4 * tile.width)
    most_k = extents.most_k if k is None else k
    if n is not None and source in ("in place", "turned by tiles"):
        return Cuts(
            tile, height, UNCUT, most_k > STRETCH, UNCUT, packs_a=False, source=source, ahead=ahead
        )
    row_bytes = tile.width * dtype.itemsize
    depth = _depth(k, most_k, max(panel // row_bytes, STRETCH))
    block = min(machine.l2 // 4, PACKED_BLOCK_BYTES) if packs_a else machine.l2 // 2
    most_rows = block // (depth * dtype.itemsize)
    if extents.most_m <= most_rows and not packs_a:
        rows = UNCUT
    else:
        rows = _part(m, max(most_rows // height, 1) * height, height)
    is_long = min(depth, most_k) > STRETCH
    return Cuts(tile, height, depth, is_long, rows, packs_a, source, ahead)


def tile_rows(machine: Machine) -> int:
    """Rows of the largest tile: with two vectors it fills the registers without spilling."""
    return {128: 4, 256: 6, 512: 12}[machine.vector_bits]


def _source(extents: Extents, height: int, dtype: DType, *, turned: bool) -> Source:
    if turned:
        is_few = extents.m is not None and extents.m <= TURNED_ROWS
        is_spread = extents.pitch is None or extents.pitch * dtype.itemsize % WAY_BYTES
        return "turned by tiles" if is_few and is_spread else "packed"
    if extents.pitch is not None and extents.pitch * dtype.itemsize <= NEAR_BYTES:
        return "near"
    return "in place" if extents.m is not None and extents.m <= height else "packed by tiles"


def _ahead(source: Source, extents: Extents, dtype: DType, tile: Tile, l2: int) -> int:
    """`Cuts.ahead`; `l2` are the bytes of a second-level cache."""
    size = (extents.n or 0) * (extents.k or 0) * dtype.itemsize
    if source == "in place":
        return 4
    if source == "packed by tiles":
        return 32 if size >= FAR_BYTES else 8
    is_short = (extents.pitch or 0) * dtype.itemsize <= SHORT_ROW_BYTES
    return tile.width if source == "turned by tiles" and is_short and size >= l2 else 0


def _vectors(m: int | None, source: Source) -> int:
    """Vectors of a tile: more for few rows, so that enough sums are under way at once."""
    if m is None or source == "turned by tiles" or (source == "packed" and m > TURNED_ROWS):
        return 2
    return {1: 8, 2: 5, 3: 3, 4: 3}.get(m, 2)


def _tile(dtype: DType, lanes: int, vectors: int, n: int | None, *, by_columns: bool) -> Tile:
    """`vectors` side by side; as many as there are columns for where the matrix is narrower."""
    if n is None or n >= lanes * vectors:
        return Tile(dtype, lanes, tuple(range(0, lanes * vectors, lanes)), by_columns)
    while lanes > max(n, 1):
        lanes //= 2
    starts = list(range(0, n - lanes + 1, lanes)) or [0]
    if starts[-1] + lanes < n:
        starts.append(n - lanes)
    return Tile(dtype, lanes, tuple(starts), by_columns)


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
