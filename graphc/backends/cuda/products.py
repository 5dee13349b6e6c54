"""Matrix products; `fused.py` writes those with a body.

A product is computed tile by tile (`text/product.cuh`); which tiles is its schedule (`GpuTiling`).
Where there are too few of them to keep a GPU busy, each stretch of k is a tile of its own, and a
second kernel adds up the stretches: in the order that everything adds them in, so bits stay.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text, tiles_text
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.steps import Place, Where, alignment_of
from graphc.ir.core import Operation
from graphc.ir.types import DType, bound_elements
from graphc.ops.contraction import STRETCH
from graphc.ops.epilogue import product_groups
from graphc.ops.schedules import GpuTiling
from graphc.passes.analysis.gpu_products import shared_bytes, tiling_of, transposes
from graphc.passes.analysis.loopnest import Size

COPIED = 16
"""Bytes that a thread copies at once, where arrays lie so."""

ADDED = THREADS * 4
"""Elements of a tile of sums of stretches."""


@dataclass(frozen=True, slots=True)
class Product:
    """A product as its kernels see it.

    transposes     a is stored [k, m], b is stored [n, k]
    pack           elements of a, of b and of c that are copied at once
    is_long        k may be longer than a stretch
    sums           the type of its sums in C
    """

    dtype: DType
    batch: Size
    m: Size
    n: Size
    k: Size
    transposes: tuple[bool, bool]
    pack: tuple[int, int, int]
    tiling: GpuTiling
    is_long: bool
    sums: str

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        return self.batch, self.m, self.n, self.k

    @property
    def symbols(self) -> tuple[str, ...]:
        """The dims of the call that decide extents, sorted."""
        return tuple(sorted({name for size in self.sizes for name in size.symbols}))

    @property
    def described(self) -> str:
        """For people."""
        ta, tb = self.transposes
        factors = f"A{'^T' if ta else ''} B{'^T' if tb else ''}"
        return f"{factors} by tiles of {self.tiling.rows} x {self.tiling.cols}"

    @property
    def shared(self) -> int:
        """Bytes of shared memory."""
        return shared_bytes(
            self.tiling,
            self.dtype.itemsize,
            self.transposes,
            is_long=self.is_long and not self.tiling.split,
        )


def launch_product(program: Launcher, op: Operation) -> None:
    """`gemm`."""
    a, b = (program.where[v] for v in op.operands)
    c = program.where[op.result]
    product = product_of(program, op)
    if product.tiling.split:
        parts = launch_stretches(program, op, product, a, b)
        program.launch(_added(program, product), (parts, c), writes=(1,))
    else:
        program.launch(_plain(program, product), (a, b, c), writes=(2,))


def sums_type(contraction: str, dtype: DType, tiling: GpuTiling) -> str:
    """Tensor cores take what is at least one of their pieces; the rest has more bits at no cost."""
    if (
        contraction in ("tf32", "bf16")
        and dtype == DType.F32
        and min(tiling.rows, tiling.cols) >= 32
    ):
        return "TensorSums<A, B>"
    return f"Sums<A, B, {_c(contraction != 'off')}>"


def launch_stretches(
    program: Launcher, op: Operation, product: Product, a: Where, b: Where
) -> Where:
    """The sums of every stretch of k by themselves, [stretch, batch, m, n], in scratch memory."""
    roles = product_groups(op)
    elements = bound_elements((*roles.batch, *roles.rows, *roles.cols))
    stretches = max(-(-bound_elements(roles.inner) // STRETCH), 1)
    parts = program.scratch(elements * stretches * product.dtype.itemsize)
    program.launch(_plain(program, product), (a, b, parts), writes=(2,))
    return parts


def product_of(program: Launcher, op: Operation) -> Product:
    """The product of a `gemm` or `gemm.fused`."""
    roles, (ta, tb) = product_groups(op), transposes(op)
    a, b = (program.where[v] for v in op.operands[:2])
    dtype, tiling = op.operands[0].tensor.dtype, tiling_of(op, program.machine)
    groups = (roles.batch, roles.rows, roles.cols, roles.inner)
    batch, m, n, k = (Size.of(dims) for dims in groups)
    c = Place("scratch", 0, 0) if op.regions else program.where[op.result]
    pack = (
        copied(a, m if ta else k, dtype),
        copied(b, k if tb else n, dtype),
        copied(c, n, dtype),
    )
    return Product(
        dtype,
        *(batch, m, n, k),
        (ta, tb),
        pack,
        tiling,
        is_long=bound_elements(roles.inner) > STRETCH,
        sums=sums_type(program.contraction, dtype, tiling),
    )


def copied(where: Where, row: Size, dtype: DType) -> int:
    """Elements that are copied at once: their rows, of this length, begin at multiples of them."""
    divisor = math.gcd(alignment_of(where), row.factor * dtype.itemsize, COPIED)
    return max(divisor // dtype.itemsize, 1)


def product_type(program: Launcher, product: Product) -> list[str]:
    """Definitions of `P`, the product in C."""
    program.module.use("product")
    tiling, (ta, tb), (pack_a, pack_b, _) = product.tiling, product.transposes, product.pack
    element, depth = C_TYPES[product.dtype], tiling.depth
    is_long = product.is_long and not tiling.split
    return [
        f"typedef Factor<{element}, {tiling.rows}, {depth}, {_c(not ta)}, {pack_a}> A;",
        f"typedef Factor<{element}, {tiling.cols}, {depth}, {_c(tb)}, {pack_b}> B;",
        f"typedef Product<A, B, {product.sums}, {tiling.stages}, {_c(is_long)}> P;",
        f'static_assert(P::SHARED == {product.shared}, "");',
    ]


def _c(value: bool) -> str:
    return "true" if value else "false"


def _plain(program: Launcher, product: Product) -> Kernel:
    """All tiles into c, or those of every stretch into c of its own."""

    def make(name: str) -> Kernel:
        tiling, element = product.tiling, C_TYPES[product.dtype]
        names = size_names(product.symbols)
        batch, m, n, k = (size_text(size, names) for size in product.sizes)
        parts = ((product.k, STRETCH),) if tiling.split else ()
        tiles = Tiles(
            ((product.batch, 1), *parts, (product.m, tiling.rows), (product.n, tiling.cols))
        )
        pointers = (f"const {element} *", f"const {element} *", f"{element} *")
        kernel = Kernel(name, pointers, product.symbols, tiles, "", product.shared)
        body = [
            *product_type(program, product),
            f"multiply_all<P, {product.pack[2]}>(p0, p1, p2, {batch}, {m}, {n}, {k}, "
            f"{STRETCH if tiling.split else k}, block);",
        ]
        return with_text(kernel, f"{product.described}.", body)

    return program.module.kernel(("product", product), "product", make)


def _added(program: Launcher, product: Product) -> Kernel:
    """Adds up stretches from the first to the last."""
    program.module.use("product")

    def make(name: str) -> Kernel:
        element = C_TYPES[product.dtype]
        names = size_names(product.symbols)
        size = product.batch * product.m * product.n
        pointers = (f"const {element} *", f"{element} *")
        kernel = Kernel(name, pointers, product.symbols, Tiles(((size, ADDED),)), "")
        body = [
            f"const i64 size = {size_text(size, names)};",
            f"const i64 parts = ({size_text(product.k, names)} + {STRETCH - 1}) / {STRETCH};",
            f"for (i64 tile = block.index; tile < {tiles_text(kernel.tiles, names)}; "
            "tile += block.count)",
            f"    for (int i = thread_index(); i < {ADDED}; i += {THREADS}) {{",
            f"        const i64 at = tile * {ADDED} + i;",
            "        if (at < size)",
            "            p1[at] = add_stretches(p0 + at, size, parts);",
            "    }",
        ]
        return with_text(kernel, "Sums of stretches, added up in order.", body)

    key = ("stretches", product.dtype, product.batch, product.m, product.n, product.k)
    return program.module.kernel(key, "stretches", make)


def size_names(symbols: Sequence[str]) -> dict[str, str]:
    """What a kernel calls the sizes of these dims."""
    return {symbol: f"d{i}" for i, symbol in enumerate(symbols)}


def with_text(kernel: Kernel, remark: str, body: list[str]) -> Kernel:
    """The kernel with its definition."""
    lines = "".join(f"    {line}\n" for line in body)
    parameters = ", ".join([*kernel.parameters, "Block block"])
    text = f"// {remark}\n__device__ void {kernel.name}({parameters})\n{{\n{lines}}}\n"
    return Kernel(kernel.name, kernel.pointers, kernel.symbols, kernel.tiles, text, kernel.shared)
