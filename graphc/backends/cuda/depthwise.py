"""Depthwise convolutions: the code is `text/depthwise.cuh`, here its record of constants."""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text, tiles_text
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.ir.codegen import Role
from graphc.ir.core import Operation
from graphc.ir.types import DType
from graphc.ops.depthwise import DepthwiseShape, depthwise_shape
from graphc.passes.analysis.loopnest import Size


@dataclass(frozen=True, slots=True)
class _Depthwise:
    """What is computed, but for which values: it is the key of the kernel."""

    role: Role
    shape: DepthwiseShape
    dtype: DType


def launch_depthwise(program: Launcher, op: Operation, role: Role) -> None:
    """One launch, a thread for each element of the result."""
    types = [v.tensor for v in op.operands]
    what = _Depthwise(role, depthwise_shape(op.params, types), types[0].dtype)
    program.module.use("depthwise")
    kernel = program.module.kernel(what, "depthwise", lambda name: _kernel(name, what))
    pointers = [program.where[v] for v in (*op.operands, op.result)]
    program.launch(kernel, pointers, writes=(len(pointers) - 1,))


def _kernel(name: str, what: _Depthwise) -> Kernel:
    element, images = C_TYPES[what.dtype], Size.of(what.shape.lead)
    names = {s: f"d{i}" for i, s in enumerate(sorted(set(images.symbols)))}
    tiles = Tiles(((_results(what, images), THREADS),))
    pointers = (f"const {element} *", f"const {element} *", f"{element} *")
    given = [f"p{i}" for i in range(len(pointers))]
    parameters = [f"{type}{p}" for type, p in zip(pointers, given, strict=True)]
    parameters += [f"i64 {n}" for n in names.values()]
    text = (
        f"// {_described(what)}.\n"
        f"{_record(name, what)}"
        f"__device__ void {name}({', '.join(parameters)}, Block block)\n"
        "{\n"
        f"    depthwise::{what.role}<{name}_sizes>({', '.join(given)}, "
        f"(i64)1 * {size_text(images, names)},\n"
        f"        {tiles_text(tiles, names)}, block);\n"
        "}\n"
    )
    return Kernel(name, pointers, tuple(names), tiles, text)


def _results(what: _Depthwise, images: Size) -> Size:
    shape = what.shape
    if what.role == "weight_grad":
        return Size(math.prod(shape.weights))
    walked = shape.extents if what.role == "data_grad" else shape.places
    return images * Size(math.prod(walked) * shape.channels)


def _record(name: str, what: _Depthwise) -> str:
    """The constants of `text/depthwise.cuh`. One axis is a row of an image one row high."""
    shape = what.shape
    of_axes = {
        "IMAGE": (shape.extents, 1),
        "PLACES": (shape.places, 1),
        "SIZE": (shape.sizes, 1),
        "STRIDE": (shape.strides, 1),
        "DILATION": (shape.dilations, 1),
        "LOW": (shape.low, 0),
    }
    lines: list[str] = []
    for word, (numbers, of_one) in of_axes.items():
        first, second = (*(of_one,) * (2 - len(numbers)), *numbers)
        lines.append(f"{word}_0 = {first}, {word}_1 = {second}")
    lines.append(f"CHANNELS = {max(1, shape.channels)}")
    return (
        f"struct {name}_sizes {{\n"
        f"    typedef {C_TYPES[what.dtype]} Real;\n"
        f"    static constexpr int {(',' + chr(10) + ' ' * 8).join(lines)};\n"
        "};\n"
    )


def _described(what: _Depthwise) -> str:
    shape = what.shape
    made = {
        "result": "Products of windows of each channel with its kernel",
        "data_grad": "Products of results of each channel with its kernel, where windows lie",
        "weight_grad": "Sums of products of windows and results of each channel",
    }[what.role]
    extents = " x ".join(map(str, (*shape.extents, shape.channels)))
    return f"{made}: {' x '.join(map(str, shape.sizes))}, over images of {extents}"
