"""Which file writes the kernels of which category of operations."""

from __future__ import annotations

from graphc.backends.cuda.depthwise import launch_depthwise
from graphc.backends.cuda.fused import launch_fused
from graphc.backends.cuda.indexed import launch_indexed, launch_selection
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.moves import launch_copy, launch_move
from graphc.backends.cuda.nests import launch_kernel
from graphc.backends.cuda.pooling import launch_pooling
from graphc.backends.cuda.products import launch_product
from graphc.backends.cuda.update_rows import launch_update_rows
from graphc.backends.cuda.windows import launch_convolution
from graphc.ir import codegen
from graphc.ir.core import Operation
from graphc.support.diagnostics import InternalError


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
        case codegen.ChannelProduct(role):
            launch_depthwise(program, op, role)
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
            launch_copy(program, op.result.tensor, source, target)
        case _:
            raise InternalError(f"`{op.opdef.name}` is not of the kernel level")
