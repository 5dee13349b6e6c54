"""Sums over rows in parts: how long they are, and the kernel that adds the parts up."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.text import literal
from graphc.ir.types import DType
from graphc.ops.schedules import MOST_ROWS, NestSpread
from graphc.passes.analysis.gpu_nests import WARP, Stage
from graphc.passes.analysis.loopnest import Reduce, Size, product_of

FUNCTORS = {"add": "Add", "maximum": "Largest", "minimum": "Smallest"}
"""The structures of `fold.cuh`."""


@dataclass(frozen=True, slots=True)
class PartialSum:
    """The sums of parts of `length` rows each, out of `rows`: an array of `count` elements for each
    part, which become `result`.

    most  elements of such an array
    size  bytes of all
    """

    result: tuple[str, int]
    dtype: DType
    fold: Reduce
    count: Size
    rows: Size
    length: int
    most: int
    size: int


def part_length(spread: NestSpread) -> int:
    """Rows of a part of sums over rows."""
    return (spread.rows or MOST_ROWS) * (THREADS // spread.threads)


def partial_sums(stage: Stage, spread: NestSpread) -> dict[int, PartialSum]:
    """By the numbers of the stores, where there is more than one part."""
    nest, length = stage.nest, part_length(spread)
    rows = math.prod(nest.bounds[d] for d in stage.summed)
    if rows <= length:
        return {}
    over = product_of(nest.dims[d] for d in stage.summed)
    sums: dict[int, PartialSum] = {}
    for number, store in enumerate(nest.stores):
        if store.combine is not None:
            dtype, dims = store.access.dtype, sorted(store.access.dims)
            most = math.prod(nest.bounds[d] for d in dims)
            size = -(-rows // length) * most * dtype.itemsize
            count = product_of(nest.dims[d] for d in dims)
            key = store.access.kind, store.access.index
            sums[number] = PartialSum(key, dtype, store.combine, count, over, length, most, size)
    return sums


def sum_of_parts(name: str, sums: PartialSum) -> Kernel:
    """Adds the parts of one result, in their order."""
    width = 1 << min(max(sums.most - 1, 0).bit_length(), WARP.bit_length() - 1)
    symbols = tuple(sorted({*sums.count.symbols, *sums.rows.symbols}))
    names = {symbol: f"d{i}" for i, symbol in enumerate(symbols)}
    count, rows = size_text(sums.count, names), size_text(sums.rows, names)
    parts = f"((i64){rows} + {sums.length - 1}) / {sums.length}"
    identity, functor = literal(sums.fold.identity, sums.dtype), FUNCTORS[sums.fold.scalar_op]
    ctype = C_TYPES[sums.dtype]
    sizes = "".join(f", i64 {n}" for n in names.values())
    text = (
        f"// Adds up the sums of parts of {sums.length} rows.\n"
        f"__device__ void {name}(const {ctype} *p0, {ctype} *p1{sizes}, Block block)\n"
        "{\n"
        f"    fold_parts<{width}>(p0, {parts}, p1, {count}, {identity}, {functor}(), block);\n"
        "}\n"
    )
    tiles = Tiles(((sums.count, width),))
    pointers = (f"const {ctype} *", f"{ctype} *")
    return Kernel(name, pointers, symbols, tiles, text, shared=THREADS * sums.dtype.itemsize)
