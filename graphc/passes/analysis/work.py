"""How long kernel-level operations take on one core, roughly: what decides about cutting them.

What they compute and move is counted in `costs.py`. The constants were measured on one core of a
machine with 256-bit vectors, in f32; f64 takes twice as long. They are right within a factor of two
or three, which is all that a grain needs. Extents are at their bounds, so that the answer does not
depend on a call. How long chunks of products may be is here too, for the passes that choose them.
"""

from __future__ import annotations

from graphc.ir.codegen import (
    ChannelProduct,
    Contraction,
    Elementwise,
    FusedProduct,
    IndexedSum,
    Kernel,
    Reduction,
    WindowProduct,
    WindowReduction,
)
from graphc.ir.core import Operation
from graphc.ir.types import bound_elements, bound_of
from graphc.ops.contraction import Groups, MatmulParams, groups
from graphc.ops.parts import part_taken, walked_values
from graphc.ops.update_rows import RowWorkspace, row_update, row_width
from graphc.passes.analysis.costs import (
    channel_multiply_adds,
    formula_cost,
    lookup_steps,
    multiply_adds,
    value_bytes,
    window_multiply_adds,
)
from graphc.passes.analysis.iteration import iteration_dims

FLOPS_PER_NS = 60.0
"""Of matrix products: additions and multiplications."""

NS_PER_WEIGHT = 0.03
"""For one element and a formula of weight 1."""

NS_PER_BYTE = 0.011
"""For what a kernel reads and writes, in near caches."""

COLUMNS, ROWS = 32, 12
"""Chunks of a product are multiples of these: a tile is as large, or a part of it."""

EVEN_ROWS = 4
"""Or of this, if all chunks are then as long: their code is made for one length. Lower tiles are
nearly as fast, narrower ones are not."""

NS_PER_LOOKUP = 0.1
"""For one number of a looked up row: rows are far apart."""

_WORD = 4  # bytes of the element type that the constants were measured with


def kernel_ns(kernel: Operation) -> float:
    """Of a `kernel`."""
    block = kernel.regions[0].block
    total = sum(_body_ns(op) for op in block)
    walked = set(walked_values(block))
    parts = [op.result for op in block if part_taken(op)]
    read = [*(v for v in block.arguments if v in walked), *parts]
    return total + NS_PER_BYTE * sum(map(value_bytes, (*read, *kernel.results)))


def _body_ns(op: Operation) -> float:
    if isinstance(op.opdef.codegen, Elementwise):
        weight = formula_cost(op.opdef.codegen.rule, op.params, len(op.operands))
    elif isinstance(op.opdef.codegen, Reduction):
        weight = 1
    else:
        return 0.0
    elements = bound_elements(iteration_dims(op))
    return NS_PER_WEIGHT * weight * elements * op.result.tensor.dtype.itemsize / _WORD


def product_ns(roles: Groups, itemsize: int) -> float:
    """Of a matrix product of these dims: one of a single row takes as long as reading B."""
    read = bound_elements((*roles.batch, *roles.inner, *roles.cols)) * itemsize
    return max(_flops_ns(2 * multiply_adds(roles), itemsize), NS_PER_BYTE * read)


def operation_ns(op: Operation) -> float:
    """Of an operation in the body of a loop; 0 of what only moves numbers."""
    match op.opdef.codegen:
        case Kernel():
            return kernel_ns(op)
        case Contraction() | FusedProduct():
            a, b = (v.tensor for v in op.operands[:2])
            return product_ns(groups(op.params_as(MatmulParams), a, b), a.dtype.itemsize)
        case WindowProduct() | ChannelProduct() | WindowReduction():
            return images_ns(op)
        case IndexedSum():
            return lookups_ns(op)
        case _:
            return 0.0


def images_ns(op: Operation) -> float:
    """Of a convolution or one of its gradients, or of a pooling."""
    first = op.operands[0]
    moved = NS_PER_BYTE * sum(map(value_bytes, (*op.operands, op.result)))
    if isinstance(op.opdef.codegen, ChannelProduct):
        return moved + _flops_ns(2 * channel_multiply_adds(op), first.tensor.dtype.itemsize)
    if not isinstance(op.opdef.codegen, WindowProduct):
        return moved + NS_PER_BYTE * value_bytes(first)
    return moved + _flops_ns(2 * window_multiply_adds(op), first.tensor.dtype.itemsize)


def lookups_ns(op: Operation) -> float:
    """Of a sum of looked up products, and of writing the result."""
    work = NS_PER_LOOKUP * lookup_steps(op) * op.result.tensor.dtype.itemsize / _WORD
    return work + NS_PER_BYTE * value_bytes(op.result)


def row_update_ns(op: Operation) -> float:
    """Of a learner's update of rows: adding the gradients up, and the tables' rows once."""
    update = row_update(op)
    width = bound_of(row_width(update))
    entries = sum(bound_elements(one.index.tensor.dims) for one in update.lookups)
    itemsize = update.tables[0].tensor.dtype.itemsize
    rows, _places, _count, _sums = RowWorkspace.of(update).arrays()[-4:]
    moved = 2 * len(update.tables) * bound_elements(rows.dims) * width * itemsize
    return NS_PER_LOOKUP * entries * width * itemsize / _WORD + NS_PER_BYTE * moved


def _flops_ns(flops: int, itemsize: int) -> float:
    return flops * itemsize / _WORD / FLOPS_PER_NS


def even_length(extent: int, length: int, multiple: int) -> int:
    """The longest length of equal chunks, from `length` down to half of it; `length` if none is."""
    lengths = range(length // multiple * multiple, (length - 1) // 2, -multiple)
    return next((i for i in lengths if i and extent % i == 0), length)
