"""Every concrete operation, one file per family; `nodes/` holds the node level."""

from __future__ import annotations

from graphc.ir.context import Context
from graphc.ops import (
    bits,
    communication,
    constant,
    contraction,
    control,
    convolution,
    depthwise,
    elementwise,
    epilogue,
    functions,
    indexed,
    kernel,
    loop,
    movement,
    nodes,
    patches,
    pooling,
    random,
    reduction,
    selection,
    training_forms,
    update_rows,
)
from graphc.ops.nodes.plugged import OpTable

ALL_OPS = (
    *nodes.OPS,
    *constant.OPS,
    *elementwise.OPS,
    *functions.OPS,
    *bits.OPS,
    *reduction.OPS,
    *movement.OPS,
    *patches.OPS,
    *depthwise.OPS,
    *indexed.OPS,
    *selection.OPS,
    *contraction.OPS,
    *random.OPS,
    *training_forms.OPS,
    *control.OPS,
    *kernel.OPS,
    *epilogue.OPS,
    *convolution.OPS,
    *pooling.OPS,
    *loop.OPS,
    *update_rows.OPS,
    *communication.OPS,
)


def default_context() -> Context:
    """A context with every operation of this version, the nodes of plug-ins, and an empty sink."""
    return Context(op_table())


def op_table() -> OpTable:
    """Every operation of this version, and the nodes of plug-ins."""
    return OpTable(Context.of(ALL_OPS).ops)
