"""Poolings and their gradients: the code is `text/pooling.cuh`, here its record of constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text, tiles_text
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.ir.codegen import Folding
from graphc.ir.core import Operation
from graphc.ir.types import DType, bound_elements
from graphc.ops.pooling import SCALAR_OPS, PoolParams, PoolShape, pool_shape
from graphc.passes.analysis.loopnest import Size

PACK_BYTES = 16
"""That a thread loads at once, at most."""

SAFE_INDEX = 1 << 30
"""Arrays of fewer elements are indexed by 32 bits."""


@dataclass(frozen=True, slots=True)
class _Pooling:
    """What is computed, but for which values: it is the key of the kernel."""

    folding: Folding
    scalar_op: str
    shape: PoolShape
    dtype: DType


def launch_pooling(program: Launcher, op: Operation, folding: Folding) -> None:
    """One launch, a thread for each pack of neighbouring elements of the result."""
    types = [v.tensor for v in op.operands]
    scalar_op = op.params.scalar_op if isinstance(op.params, PoolParams) else "add"
    what = _Pooling(folding, scalar_op, pool_shape(op.params, types), types[0].dtype)
    program.module.use("pooling")
    kernel = program.module.kernel(what, "pool", lambda name: _kernel(name, what))
    pointers = [program.where[v] for v in (*op.operands, op.result)]
    program.launch(kernel, pointers, writes=(len(pointers) - 1,))


def _kernel(name: str, what: _Pooling) -> Kernel:
    element, images = C_TYPES[what.dtype], Size.of(what.shape.lead)
    names = {s: f"d{i}" for i, s in enumerate(sorted(set(images.symbols)))}
    constants = _constants(what)
    tiles = Tiles(((images * _results(what, constants["PACK"]), THREADS),))
    operands = 3 if what.folding == "max_grad" else 1
    pointers = (*(f"const {element} *" for _ in range(operands)), f"{element} *")
    given = [f"p{i}" for i in range(len(pointers))]
    called = {
        "fold": f"fold<{name}_sizes>(p0, p1",
        "max_grad": f"gradient<{name}_sizes, true>(p0, p1, p2, p3",
        "sum_grad": f"gradient<{name}_sizes, false>(nullptr, nullptr, p0, p1",
    }[what.folding]
    parameters = [f"{type}{p}" for type, p in zip(pointers, given, strict=True)]
    parameters += [f"i64 {n}" for n in names.values()]
    text = (
        f"// {_described(what)}.\n"
        f"{_record(name, what, constants)}"
        f"__device__ void {name}({', '.join(parameters)}, Block block)\n"
        "{\n"
        f"    pooling::{called}, (i64)1 * {size_text(images, names)},\n"
        f"        {tiles_text(tiles, names)}, block);\n"
        "}\n"
    )
    return Kernel(name, pointers, tuple(names), tiles, text)


def _results(what: _Pooling, pack: int) -> Size:
    """Packs of one image's results."""
    shape = what.shape
    places = shape.output_positions if what.folding == "fold" else shape.extents
    return Size(math.prod(places) * math.prod(shape.channels) // pack)


def _constants(what: _Pooling) -> dict[str, int]:
    """The constants of `text/pooling.cuh`, by name. One axis is a column of an image that is one
    pixel wide."""
    shape, channels = what.shape, math.prod(what.shape.channels)
    of_axes = {
        "IMAGE": shape.extents,
        "PLACES": shape.output_positions,
        "SIZE": shape.sizes,
        "STRIDE": shape.strides,
    }
    numbers: dict[str, int] = {}
    for word, extents in of_axes.items():
        first, second = (*(1,) * (2 - len(extents)), *extents)
        numbers |= {f"{word}_0": first, f"{word}_1": second}
    return {
        **numbers,
        "CHANNELS": max(1, channels),
        "PACK": math.gcd(PACK_BYTES // what.dtype.itemsize, channels),
        "FOLD": SCALAR_OPS.index(what.scalar_op),
    }


def _record(name: str, what: _Pooling, constants: dict[str, int]) -> str:
    is_small = bound_elements(what.shape.wide) < SAFE_INDEX
    listed = [f"{word} = {number}" for word, number in constants.items()]
    lines = [", ".join(listed[i : i + 4]) for i in range(0, len(listed), 4)]
    return (
        f"struct {name}_sizes {{\n"
        f"    typedef {C_TYPES[what.dtype]} Real;\n"
        f"    typedef {'int' if is_small else 'i64'} Index;\n"
        f"    static constexpr int {(',' + chr(10) + ' ' * 8).join(lines)};\n"
        "};\n"
    )


def _described(what: _Pooling) -> str:
    shape = what.shape
    action = {
        "fold": {"add": "Sums", "maximum": "Maxima", "minimum": "Minima"}[what.scalar_op],
        "max_grad": "Slopes of extremes",
        "sum_grad": "Slopes of sums",
    }[what.folding]
    extents = " x ".join(map(str, (*shape.extents, *shape.channels)))
    return (
        f"{action} of windows of {' x '.join(map(str, shape.sizes))}, "
        f"{' x '.join(map(str, shape.strides))} apart, over images of {extents}"
    )
