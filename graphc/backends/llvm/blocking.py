"""How a matrix product is cut: the shape of its tiles, and blocks that stay in a cache.

C is computed tile by tile. A panel of B, as wide as a tile and `depth` long, stays in the first
level cache while all rows of a block of A, `rows` x `depth` in the second level cache, pass by.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.backends.llvm.target import Target
from graphc.backends.llvm.tiles import Tile
from graphc.ir.types import DType

PANEL_BYTES = 16384
"""A panel of B: half of a first-level cache, and small enough for the stack."""
BLOCK_BYTES = 262144
"""A block of A where it lies: half of a second-level cache."""
PACKED_BLOCK_BYTES = 131072
"""A packed block of A, which is on the stack."""
NEAR_BYTES = 512
"""Rows of B up to this length are read where they are: copying them would not pay."""


@dataclass(frozen=True, slots=True)
class Extents:
    """What is known of a product's extents; None for what only the call knows.

    `pitch` is the length of a row of the whole C, of which only a part may be computed.
    """

    m: int | None
    n: int | None
    k: int | None
    pitch: int | None


@dataclass(frozen=True, slots=True)
class Blocking:
    """The cuts of one product.

    tile       the tile of the panels; `rest` that of the columns that are left over, if known
    height     rows of a tile
    depth      steps of k in a panel
    rows       rows of C in a block
    packs_a    blocks of A are copied into panels
    in_place   B is read where it lies
    """

    tile: Tile
    rest: Tile | None
    height: int
    depth: int
    rows: int
    packs_a: bool
    in_place: bool


def blocking(target: Target, dtype: DType, layout: tuple[bool, bool], extents: Extents) -> Blocking:
    """The cuts for a product with these extents, A and B transposed as `layout` says."""
    lanes = target.lanes(dtype)
    by_columns, b_by_columns = layout
    height = tile_rows(target)
    vectors = _vectors(target, extents.m)
    n, m, k = extents.n, extents.m, extents.k
    tile = _tile(dtype, lanes, vectors, n, by_columns)
    rest = None
    if n is not None and n > tile.width and n % tile.width:
        rest = Tile(dtype, lanes, _side_by_side(lanes, -(-(n % tile.width) // lanes)), by_columns)
    item = dtype.itemsize
    depth = _part(k, PANEL_BYTES // (tile.width * item) // 16 * 16, 16)
    packs_a = by_columns and (m is None or m > 4 * height) and (n is None or n >= 4 * tile.width)
    bytes_ = PACKED_BLOCK_BYTES if packs_a else BLOCK_BYTES
    rows = _part(m, bytes_ // (depth * item) // height * height, height)
    near = extents.pitch is not None and extents.pitch * item <= NEAR_BYTES
    single = m is not None and m <= height
    return Blocking(tile, rest, height, depth, rows, packs_a, (near or single) and not b_by_columns)


def tile_rows(target: Target) -> int:
    """Rows of the largest tile: with two vectors it fills the registers without spilling."""
    return {128: 4, 256: 6, 512: 12}[target.vector_bits]


def _vectors(target: Target, m: int | None) -> int:
    """Vectors of a tile: more for few rows, so that enough sums are under way at once."""
    if m is None or m > 4:
        return 2
    return {1: 8, 2: 4, 3: 3, 4: 3}[max(m, 1)]


def _tile(dtype: DType, lanes: int, vectors: int, n: int | None, by_columns: bool) -> Tile:
    """`vectors` side by side; as many as there are columns for where the matrix is narrower."""
    if n is None or n >= lanes * vectors:
        return Tile(dtype, lanes, _side_by_side(lanes, vectors), by_columns)
    while lanes > max(n, 1):
        lanes //= 2
    starts = list(range(0, n - lanes + 1, lanes)) or [0]
    if starts[-1] + lanes < n:
        starts.append(n - lanes)
    return Tile(dtype, lanes, tuple(starts), by_columns)


def _side_by_side(lanes: int, vectors: int) -> tuple[int, ...]:
    return tuple(range(0, lanes * vectors, lanes))


def _part(length: int | None, most: int, step: int) -> int:
    """The length of equal parts of at most `most`, a multiple of `step`."""
    if length is None:
        return most
    parts = max(-(-length // most), 1)
    part = -(-length // parts)
    return max(-(-part // step) * step, step)
