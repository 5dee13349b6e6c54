"""Sums of lookups, and the largest elements of rows: calls of functions of `text/indexed.cuh`."""

from __future__ import annotations

from graphc.backends.cuda.calls import Call, launch_call
from graphc.backends.cuda.kernel import THREADS, Tiles
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.row_sums import Entries, RowRule, launch_row_sums
from graphc.backends.cuda.steps import alignment_of
from graphc.backends.loops.indexed import LookedUp
from graphc.ir.core import Operation
from graphc.passes.analysis.loopnest import Size

WARPS = THREADS // 32

WIDEST = 16
"""Bytes that one access reads at most."""

PUT_PART = 1024
"""Elements of a row that a warp adds to."""

LONG_ROW = 1024
"""The largest elements of a longer row are found by a whole block."""


def launch_indexed(program: Launcher, op: Operation, texts: tuple[str, ...]) -> None:
    types = [v.tensor for v in (*op.operands, op.result)]
    sums = LookedUp(texts, (*types[:-2], types[-1]), types[-2])
    if op.result.tensor.bound_elements == 0:
        return
    if texts[:2] == ("nk", "nd"):
        _outer_products(program, op, sums)
        return
    call = _call(program, op, sums)
    program.module.use("words", "indexed")
    pointers = [program.where[v] for v in (*op.operands, op.result)]
    launch_call(program, call, pointers, writes=(len(op.operands),))


def _call(program: Launcher, op: Operation, sums: LookedUp) -> Call:
    extents, dtype = sums.extents(), op.result.tensor.dtype
    real, columns = C_TYPES[dtype], "di" in sums.texts
    bounds = [v.tensor.bound_elements for v in (*op.operands, op.result)]
    place = "u64" if max(bounds) >= 2**31 else "u32"
    fused, n, k = _truth(program.contraction != "off"), extents["n"], extents["k"]
    pointers = (*[f"const {real} *"] * (len(op.operands) - 1), "const int *", f"{real} *")
    sizes = [(extents[letter],) for letter in "nkid" if letter in extents]

    def call(function: str, tiles: Tiles, shared: int = 0) -> Call:
        return Call(function, pointers, tuple(sizes), tiles, shared)

    match sums.texts:
        case ("ni", "nk"):
            return call(f"take<{real}, {place}>", Tiles(((n * k, THREADS),)))
        case ("nk", "ni"):
            return call(f"put<{PUT_PART}>", Tiles(((n, WARPS), (extents["i"], PUT_PART))))
        case ("nk", _, "nd"):
            lanes = 1 if columns else _lanes(program, op, extents["d"])
            groups = n * Size(extents["d"].factor // lanes, extents["d"].symbols)
            settings = f"{real}, {place}, {_truth(columns)}, {fused}, {lanes}"
            return call(f"sum_rows<{settings}>", Tiles(((groups, THREADS),)))
        case _ if columns:
            shared = THREADS * dtype.itemsize
            return call(
                f"multiply_columns<{real}, {place}, {fused}>", Tiles(((n * k, 32),)), shared
            )
        case _:
            lanes = _lanes(program, op, extents["d"])
            settings = f"{real}, {place}, {fused}, {lanes}"
            return call(f"multiply_rows<{settings}>", Tiles(((n * k, WARPS),)))


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _lanes(program: Launcher, op: Operation, width: Size) -> int:
    """Elements that one access reads: rows of so many are made of whole accesses."""
    aligned = min(alignment_of(program.where[v]) for v in (*op.operands, op.result))
    lanes = max(min(aligned, WIDEST) // op.result.tensor.dtype.itemsize, 1)
    while width.factor % lanes:
        lanes //= 2
    return lanes


def _outer_products(program: Launcher, op: Operation, sums: LookedUp) -> None:
    """Rows that no index points at are zero."""
    x, y, index = op.operands
    result, columns = op.result.tensor, "di" in sums.texts
    table = result.dims[1 if columns else 0]
    real, where = C_TYPES[result.dtype], program.where[op.result]
    size = Size.of(result.dims)
    program.module.use("words", "indexed")
    clear = Call(f"clear<{real}>", (f"{real} *",), ((size,),), Tiles(((size, THREADS),)))
    launch_call(program, clear, (where,), writes=(0,))
    rule = RowRule((f"{real} *",), (), ("t0[at] = g;",), columns)
    launch_row_sums(
        program, [Entries(x, y, index)], table, y.tensor.dims[1], rule, [where], writes=(0,)
    )


def launch_selection(program: Launcher, op: Operation) -> None:
    x, y = op.operands[0].tensor, op.result.tensor
    columns, count = x.dims[1], y.dims[1]
    assert isinstance(columns, int) and isinstance(count, int)
    rows, real = Size.of((x.dims[0],)), C_TYPES[x.dtype]
    warps = WARPS if columns > LONG_ROW else 1
    shared = WARPS * 2 * x.dtype.itemsize if warps > 1 else 0
    program.module.use("words", "indexed")
    sizes = ((rows,), (Size(columns),), (Size(count),))
    tiles = Tiles(((rows, WARPS // warps),))
    call = Call(f"select_largest<{warps}>", (f"const {real} *", "int *"), sizes, tiles, shared)
    pointers = [program.where[v] for v in (op.operands[0], op.result)]
    launch_call(program, call, pointers, writes=(1,))
