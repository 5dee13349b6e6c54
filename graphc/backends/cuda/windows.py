"""Convolutions and their gradients: products whose left factor is read out of images.

The code is `text/windows.cuh`. Here the record of constants is written that it is compiled for:
extents, the tile, and how many neighbours are loaded together.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text, tiles_text
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.products import sums_type
from graphc.ir.codegen import Role
from graphc.ir.core import Operation
from graphc.ir.types import DType
from graphc.ops.schedules import WindowTile
from graphc.passes.analysis.loopnest import Size
from graphc.passes.analysis.window_products import Convolution, by_windows
from graphc.passes.analysis.window_tiles import (
    PACK_BYTES,
    as_tiling,
    complete_window_schedule,
    has_parts,
    is_long,
    left_pack,
    matrix_of,
    shared_of,
    spots_of,
)
from graphc.support.diagnostics import fail

ADDED = 32
"""Elements of a tile of a sum over parts."""

SAFE_INDEX = 1 << 30
"""Arrays of fewer elements are indexed by 32 bits."""

_PRODUCTS: Mapping[Role, str] = {
    "result": "Convolution",
    "data_grad": "DataGradient",
    "weight_grad": "WeightGradient",
}


def launch_convolution(program: Launcher, op: Operation) -> None:
    """One launch; another where the sums go in parts."""
    what = by_windows(op)
    tile = complete_window_schedule(op, program.machine).grid
    assert tile is not None
    _check_shared(op, what, tile, program.machine.shared)
    program.module.use("product", "windows")
    sums = sums_type(program.contraction, what.dtype, as_tiling(tile))
    kernel = program.module.kernel(
        ("windows", what, tile, sums),
        "windows",
        lambda name: _product_kernel(name, what, tile, sums),
    )
    a, b = (program.where[v] for v in op.operands)
    result = program.where[op.result]
    if not has_parts(what, tile):
        program.launch(kernel, (a, b, result), writes=(2,))
        return
    type = op.result.tensor
    partial = program.scratch(_part_bound(what, tile) * type.bound_bytes)
    program.launch(kernel, (a, b, partial), writes=(2,))
    size, parts = Size.of(type.dims), _parts(what, tile)
    adder = program.module.kernel(
        ("sum of parts", size, parts, what.dtype),
        "add_parts",
        lambda name: _sum_kernel(name, size, parts, what.dtype),
    )
    program.launch(adder, (partial, result), writes=(1,))


def _check_shared(op: Operation, what: Convolution, tile: WindowTile, most: int) -> None:
    if (needed := shared_of(what, tile)) > most:
        message = (
            f"the schedule of `{op.opdef.name}` requires {needed} bytes of shared memory, a block "
            f"has {most}"
        )
        raise fail("bad-schedule", message, op.location)


# --- the product ----------------------------------------------------------------------------------


def _product_kernel(name: str, what: Convolution, tile: WindowTile, sums: str) -> Kernel:
    element, symbols = C_TYPES[what.dtype], what.symbols()
    names = {symbol: f"d{i}" for i, symbol in enumerate(symbols)}
    tiles = _tiles(what, tile)
    parameters = [f"const {element} *p0", f"const {element} *p1", f"{element} *p2"]
    parameters += [f"i64 {names[s]}" for s in symbols]
    text = (
        f"// {_described(what)}.\n"
        f"{_record(name, what, tile, sums)}"
        f"__device__ void {name}({', '.join(parameters)}, Block block)\n"
        "{\n"
        f"    typedef windows::{_PRODUCTS[what.role]}<{name}_sizes> Product;\n"
        f"    windows::multiply_tiles<{name}_sizes, Product>(\n"
        f"        p0, p1, p2, {_long(what.images, names)}, {tiles_text(tiles, names)}, block);\n"
        "}\n"
    )
    pointers = (f"const {element} *", f"const {element} *", f"{element} *")
    return Kernel(name, pointers, symbols, tiles, text, shared_of(what, tile))


def _tiles(what: Convolution, tile: WindowTile) -> Tiles:
    product = matrix_of(what)
    spots = what.images * Size(math.prod(spots_of(what)))
    rows = Size(product.rows) if what.role == "weight_grad" else spots
    factors = [(rows, tile.rows), (Size(product.columns), tile.columns), (Size(product.rests), 1)]
    if has_parts(what, tile):
        factors.append(_parts(what, tile))
    return Tiles(tuple(factors))


def _parts(what: Convolution, tile: WindowTile) -> tuple[Size, int]:
    """The extent of the sums and the length of a part."""
    if what.role == "weight_grad":
        return what.images * Size(math.prod(what.output_positions)), tile.part
    return Size(matrix_of(what).steps), tile.part


def _part_bound(what: Convolution, tile: WindowTile) -> int:
    return -(-matrix_of(what).steps // tile.part)


def _record(name: str, what: Convolution, tile: WindowTile, sums: str) -> str:
    numbers = _numbers(what, tile)
    listed = ", ".join(f"{word} = {number}" for word, number in numbers.items())
    flags = {
        "IS_LONG": is_long(what, tile),
        "IS_EMPTY": 0 in (what.channels, what.outputs),
    }
    said = ", ".join(f"{word} = {str(flag).lower()}" for word, flag in flags.items())
    return (
        f"struct {name}_sizes {{\n"
        f"    typedef {C_TYPES[what.dtype]} Real;\n"
        f"    typedef {'int' if _is_small(what) else 'i64'} Index;\n"
        f"    template <class A, class B> using SumsOf = {sums};\n"
        f"    static constexpr int {_wrapped(listed)};\n"
        f"    static constexpr bool {said};\n"
        "};\n"
    )


def _numbers(what: Convolution, tile: WindowTile) -> dict[str, int]:
    """The constants of `text/windows.cuh`, by name."""
    product, lanes = matrix_of(what), PACK_BYTES // what.dtype.itemsize
    is_data_grad = what.role == "data_grad"
    image = what.output_positions if is_data_grad else what.inner
    channels = what.outputs if is_data_grad else what.channels
    of_axes = {
        "SPOTS": spots_of(what),
        "IMAGE": image,
        "TAPS": what.sizes,
        "STRIDE": what.strides,
        "LOW": what.low,
        **({"RESULT": what.inner} if is_data_grad else {}),
    }
    # Nothing is divided by 0 where there is nothing to compute.
    numbers = {
        f"{word}_{axis}": pair[axis] if word == "LOW" else max(1, pair[axis])
        for word, pair in of_axes.items()
        for axis in (0, 1)
    }
    return {
        **numbers,
        "CHANNELS": max(1, channels),
        "WIDTH": product.columns,
        "BLOCK": what.block,
        "RESTS": product.rests,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
        "DEPTH": tile.depth,
        "STAGES": tile.stages,
        "SHARED": shared_of(what, tile),
        "PART": tile.part if has_parts(what, tile) else 0,
        "COLUMN_TILES": max(1, -(-product.columns // tile.columns)),
        "LEFT_PACK": left_pack(what),
        "RIGHT_PACK": math.gcd(lanes, product.columns, what.block),
        "RESULT_PACK": math.gcd(lanes, product.columns),
    }


def _is_small(what: Convolution) -> bool:
    places = math.prod(what.output_positions) * what.outputs
    largest = what.most_images * max(what.image, places)
    return max(largest, what.weights, matrix_of(what).rows) < SAFE_INDEX


def _described(what: Convolution) -> str:
    role = {
        "result": "Convolution",
        "data_grad": "Gradient of a convolution to its images",
        "weight_grad": "Gradient of a convolution to its weights",
    }[what.role]
    (e, f), (s, t), (u, v) = what.inner, what.sizes, what.strides
    zeros = f", zeros {what.low} before and {what.high} after" if what.is_padded else ""
    return (
        f"{role}: {what.outputs} features of windows of {s} x {t}, {u} x {v} apart, over images of "
        f"{e} x {f} x {what.channels}{zeros}"
    )


# --- the sum over parts ---------------------------------------------------------------------------


def _sum_kernel(name: str, size: Size, parts: tuple[Size, int], dtype: DType) -> Kernel:
    element = C_TYPES[dtype]
    symbols = tuple(sorted({*size.symbols, *parts[0].symbols}))
    names = {symbol: f"d{i}" for i, symbol in enumerate(symbols)}
    tiles = Tiles(((size, ADDED),))
    parameters = [f"const {element} *p0", f"{element} *p1", *(f"i64 {names[s]}" for s in symbols)]
    text = (
        f"// {ADDED} elements a tile, each the sum of what the parts of its sum made.\n"
        f"__device__ void {name}({', '.join(parameters)}, Block block)\n"
        "{\n"
        f"    const i64 parts = {tiles_text(Tiles((parts,)), names)};\n"
        f"    windows::add_parts(p0, p1, {_long(size, names)}, parts, {tiles_text(tiles, names)},\n"
        "        block);\n"
        "}\n"
    )
    pointers = (f"const {element} *", f"{element} *")
    return Kernel(name, pointers, symbols, tiles, text, THREADS * dtype.itemsize)


# --- text -----------------------------------------------------------------------------------------


def _long(size: Size, names: Mapping[str, str]) -> str:
    """An expression of type i64."""
    return f"(i64)1 * {size_text(size, names)}"


def _wrapped(listed: str, width: int = 80) -> str:
    """The list in lines."""
    lines, line = list[str](), ""
    for item in listed.split(", "):
        if line and len(line) + len(item) + 2 > width:
            lines.append(line)
            line = ""
        line = f"{line}, {item}" if line else item
    return ",\n        ".join([*lines, line])
