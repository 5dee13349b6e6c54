"""Fuses a kernel into the matrix product that it reads, as an epilogue on parts of the result.

    %0 = gemm %x, %w : tensor<Nx32xf32>
    %1 = kernel %0, %b : tensor<Nx32xf32> {
    ^(%2: tensor<Nx32xf32>, %3: tensor<1x32xf32>):
      …
    }
 =>
    %1 = gemm.fused %x, %w, %b : tensor<Nx32xf32> {
    ^(%2: tensor<Nx32xf32>, %3: tensor<1x32xf32>):
      …
    }

The product is then not written to memory and read again. A bias and an activation, the derivative
of an activation, a learner's update and the sum over the samples for a bias's gradient are computed
while a part of the product is in a near cache.

A kernel is fused into a product that has no other reader, if its body is aligned with the product
(`ops/epilogue.py`, `body_misfit`): every value varies along all rows of the product or none, and
along all of its columns or none. Of several such products the largest is chosen. Not fused are
batched products and those of one row or column, which are no more work than the kernel; products
whose parts would be too large; and products so small that they stay in the caches, where parts cost
more than they save (docs/performance.md), unless their sums are short, as those of gradients over
few samples: they take hardly longer than their memory. The product moves to where the kernel is.
Leaves alone: functions with a memory plan. O(operations + operands).

A part is a strip of columns, as in the product's own loops, or of rows if the second factor fits in
a near cache: the body then reads and writes contiguous memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Block, Function, Module, Operation, Region, Value
from graphc.ir.traversal import straight_blocks
from graphc.ir.types import DType, bound_elements
from graphc.ops.contraction import Groups, MatmulParams
from graphc.ops.epilogue import GEMM_FUSED, body_misfit, has_sums, product_groups
from graphc.ops.kernel import GEMM, KERNEL
from graphc.ops.schedules import ProductSchedule
from graphc.passes.analysis.costs import multiply_adds
from graphc.passes.analysis.work import COLUMNS, EVEN_ROWS, ROWS, even_length
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.source import merge_locations

LEAST_BYTES = 2 * 1024 * 1024
"""Smaller products stay alone: with their kernel they are in a second or third-level cache."""

PART_BYTES = 128 * 1024
"""A part of a product: a fraction of a second-level cache."""

BF16_PART_BYTES = 512 * 1024
"""The same where factors are numbers of bf16: a machine may copy the first one for each part."""

SHORT_SUMS = 64
"""Products of such sums take hardly longer than to write and read their result."""

SHORT_BYTES = 256 * 1024
"""Smaller ones of these stay alone."""

SHORT_PART_BYTES = 32 * 1024
"""A part of one of them, so that threads share the smaller ones too."""

NEAR_BYTES = 256 * 1024
"""A second factor up to this size is read again for every part of rows."""

MOST_ACROSS = 4096
"""Elements of one row or column of a part, at the bounds: parts wait on the stack."""


def fuse_epilogues(
    function: Function, least_bytes: int = LEAST_BYTES, *, in_parts: bool = True
) -> int:
    """Rewrite `function`; the number of products, of at least that many bytes, that got a body."""
    kernels = [op for block in straight_blocks(function) for op in block if op.opdef is KERNEL]
    limits = _Limits(least_bytes, in_parts=in_parts, is_rounded=function.contraction == "bf16")
    return sum(_fuse(kernel, limits) for kernel in kernels)


@dataclass(frozen=True)
class _Limits:
    """From how many bytes on products get a body, and how many each part has.

    is_rounded  factors are numbers of bf16: a machine may copy the first one for each part
    """

    least_bytes: int
    in_parts: bool
    is_rounded: bool

    def suit(self, product: Value) -> bool:
        return self._is_large(product) or self._is_short(product)

    def part_bytes(self, product: Value) -> int:
        """0 for no parts."""
        if not self.in_parts:
            return 0
        if self.is_rounded:
            return BF16_PART_BYTES
        return PART_BYTES if self._is_large(product) else SHORT_PART_BYTES

    def _is_large(self, product: Value) -> bool:
        return product.tensor.bound_bytes >= self.least_bytes

    def _is_short(self, product: Value) -> bool:
        """Whether writing it and reading it again takes about as long as its sums."""
        if self.is_rounded or product.tensor.bound_bytes < SHORT_BYTES:
            return False
        return bound_elements(product_groups(product.definition).inner) <= SHORT_SUMS


def _fuse(kernel: Operation, limits: _Limits) -> bool:
    products = [v for v in kernel.operands if _can_take(v, kernel, limits)]
    if not products:
        return False
    product = max(products, key=_work)
    gemm = product.definition
    assert kernel.block is not None
    fused = _fused(gemm, kernel, product, limits.part_bytes(product))
    kernel.block.insert_before(kernel, fused)
    for old, new in zip(kernel.results, fused.results, strict=True):
        old.replace_all_uses(new)
    kernel.erase()
    gemm.erase()
    return True


def _can_take(product: Value, kernel: Operation, limits: _Limits) -> bool:
    """Whether `kernel` is to run on parts of this operand, or on its elements."""
    op = product.op
    if op is None or op.opdef is not GEMM or op.block is not kernel.block:
        return False
    if product.users() != (kernel,):
        return False
    if op.params_as(MatmulParams).batch or not limits.suit(product):
        return False
    roles, body = product_groups(op), kernel.regions[0].block
    if body_misfit(body, roles):
        return False
    part_bytes = limits.part_bytes(product)
    if not part_bytes:
        return True
    if any(all(dim == 1 for dim in group) for group in (roles.rows, roles.cols)):
        return False
    return _chunks(body, roles, product.tensor.dtype, part_bytes) is not None


def _chunks(body: Block, roles: Groups, dtype: DType, part_bytes: int) -> ProductSchedule | None:
    """What the product is made in; None if it would be too large in any case."""
    rows, cols, inner = (bound_elements(dims) for dims in (roles.rows, roles.cols, roles.inner))
    is_near = inner * cols * dtype.itemsize <= NEAR_BYTES
    if (is_near or rows > MOST_ACROSS) and cols <= MOST_ACROSS and not has_sums(body):
        length = _length(rows, cols * dtype.itemsize, ROWS, part_bytes)
        return ProductSchedule("rows", even_length(rows, length, EVEN_ROWS))
    if rows > MOST_ACROSS:
        return None
    length = _length(cols, rows * dtype.itemsize, COLUMNS, part_bytes)
    return ProductSchedule("cols", even_length(cols, length, COLUMNS))


def _length(extent: int, bytes_each: int, multiple: int, part_bytes: int) -> int:
    """Of parts of about the same length, a multiple of `multiple`."""
    most = max(part_bytes // max(bytes_each, 1) // multiple, 1) * multiple
    count = max(-(-extent // most), 1)
    return max(-(-extent // count // multiple), 1) * multiple


def _work(product: Value) -> int:
    """Elements of the product times what each is a sum of, at the bounds."""
    return multiply_adds(product_groups(product.definition))


def _fused(gemm: Operation, kernel: Operation, product: Value, part_bytes: int) -> Operation:
    """The product with the kernel's body, in parts of so many bytes, or whole; in no block."""
    old = kernel.regions[0].block
    pairs = list(zip(kernel.operands, old.arguments, strict=True))
    others = [(v, a) for v, a in pairs if v is not product]
    body = Block()
    whole = body.add_argument(product.type)
    whole.label = product.called
    inside: dict[Value, Value] = {a: whole for v, a in pairs if v is product}
    for outer, argument in others:
        inside[argument] = body.add_argument(argument.type)
        inside[argument].label = outer.called
    for op in old:
        operands = [inside[v] for v in op.operands]
        types = [v.type for v in op.results]
        copy = body.append(Operation(op.opdef, operands, types, op.params, location=op.location))
        for value, made in zip(op.results, copy.results, strict=True):
            made.call_like(value)
            inside[value] = made
    schedule = gemm.schedule_as(ProductSchedule)
    if part_bytes:
        chunks = _chunks(body, product_groups(gemm), product.tensor.dtype, part_bytes)
        assert chunks is not None
        schedule = chunks
    fused = Operation(
        GEMM_FUSED,
        [*gemm.operands, *(v for v, _ in others)],
        [v.type for v in kernel.results],
        gemm.params,
        regions=[Region([body])],
        schedule=schedule,
        location=merge_locations([gemm.location, kernel.location]),
    )
    for value, made in zip(kernel.results, fused.results, strict=True):
        made.call_like(value)
    return fused


@dataclass(frozen=True)
class FuseEpilogues(Pass):
    """least_bytes  of a product that gets a body, with every dim at its bound
    in_parts     products are made in chunks, which wait for their body on a stack; else the body
                 runs on each element while it is in a register: any product can have one then
    """

    name: ClassVar[str] = "fuse-epilogues"
    summary: ClassVar[str] = "run kernels on the parts of the products that they follow"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.FUSED})
    least_bytes: int = LEAST_BYTES
    in_parts: bool = True

    def run(self, module: Module, context: Context) -> PassOutcome:
        todo = [f for f in module.functions if f.arena is None]
        count = sum(fuse_epilogues(f, self.least_bytes, in_parts=self.in_parts) for f in todo)
        return PassOutcome(changed=count > 0, counters={"products": count})
