"""Which file writes the kernels of which category of operations."""

from __future__ import annotations

from graphc.backends.cuda.indexed import launch_indexed, launch_selection
from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, tiles_text
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.moves import launch_move
from graphc.backends.cuda.nests import launch_kernel
from graphc.backends.cuda.pooling import launch_pooling
from graphc.backends.cuda.products import launch_fused, launch_product
from graphc.backends.cuda.steps import Where
from graphc.backends.cuda.update_rows import launch_update_rows
from graphc.backends.cuda.windows import launch_convolution
from graphc.ir import codegen
from graphc.ir.core import Operation
from graphc.ir.types import TensorType
from graphc.passes.analysis.loopnest import Size
from graphc.support.diagnostics import InternalError

COPIED = THREADS * 4
"""Elements of a tile of a copy."""

_COPIED_AS = {1: "unsigned char", 4: "u32", 8: "u64"}
"""What elements of so many bytes are copied as, so that no bit changes."""


def write_operation(program: Launcher, op: Operation) -> None:
    """The launches of an operation; loops and views are not among them."""
    match op.opdef.codegen:
        case codegen.Kernel():
            launch_kernel(program, op)
        case codegen.FusedProduct():
            launch_fused(program, op)
        case codegen.Contraction():
            launch_product(program, op)
        case codegen.WindowProduct():
            launch_convolution(program, op)
        case codegen.WindowReduction(folding):
            launch_pooling(program, op, folding)
        case codegen.IndexedSum(subscripts):
            launch_indexed(program, op, subscripts(op.params))
        case codegen.Selection():
            launch_selection(program, op)
        case codegen.StridedCopy() as how:
            launch_move(program, op, how)
        case codegen.RowUpdate():
            launch_update_rows(program, op)
        case codegen.Copy():
            source, target = (program.where[v] for v in (op.operands[0], op.result))
            write_copy(program, op.result.tensor, source, target)
        case _:
            raise InternalError(f"`{op.opdef.name}` is not of the kernel level")


def write_copy(program: Launcher, type: TensorType, source: Where, target: Where) -> None:
    """Elements one after the other, in memory order."""
    size = Size.of(type.dims)
    element = _COPIED_AS[type.dtype.itemsize]

    def make(name: str) -> Kernel:
        tiles = Tiles(((size, COPIED),))
        names = {s: f"d{i}" for i, s in enumerate(sorted(set(size.symbols)))}
        count = " * ".join([*(names[s] for s in size.symbols), f"(i64){size.factor}"])
        parameters = [f"const {element} *p0", f"{element} *p1"]
        parameters += [f"i64 {n}" for n in names.values()]
        text = (
            f"// {COPIED} elements a tile, copied.\n"
            f"__device__ void {name}({', '.join(parameters)}, Block block)\n"
            "{\n"
            f"    const i64 count = {count};\n"
            f"    for (i64 tile = block.index; tile < {tiles_text(tiles, names)}; "
            "tile += block.count)\n"
            f"        for (int i = thread_index(); i < {COPIED}; i += {THREADS}) {{\n"
            f"            const i64 at = tile * {COPIED} + i;\n"
            "            if (at < count)\n"
            "                p1[at] = p0[at];\n"
            "        }\n"
            "}\n"
        )
        return Kernel(name, (f"const {element} *", f"{element} *"), tuple(names), tiles, text)

    kernel = program.module.kernel(("copy", size, element), "copy", make)
    program.launch(kernel, (source, target), writes=(1,))
