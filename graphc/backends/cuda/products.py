"""Matrix products, plain and with a body.

A product is computed tile by tile (`text/product.cuh`); which tiles is its schedule (`GpuTiling`).
Where there are too few of them to keep a GPU busy, each stretch of k is a tile of its own, and a
second kernel adds up the stretches: in the order that everything adds them in, so bits stay.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text, tiles_text
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.steps import Either, Part, Place, Where
from graphc.ir.core import Operation
from graphc.ir.types import DType, bound_elements
from graphc.ops.contraction import STRETCH, MatmulParams
from graphc.ops.epilogue import product_groups
from graphc.ops.schedules import GpuTiling
from graphc.passes.analysis.gpu_products import shared_bytes, tiling_of
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
    is_contracted  a product and its sum are rounded once
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
    is_contracted: bool

    @property
    def sizes(self) -> tuple[Size, Size, Size, Size]:
        return self.batch, self.m, self.n, self.k

    @property
    def symbols(self) -> tuple[str, ...]:
        """The dims of the call that decide extents, sorted."""
        return tuple(sorted({name for size in self.sizes for name in size.symbols}))

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
    if not product.tiling.split:
        program.launch(_plain(program, product), (a, b, c), writes=(2,))
        return
    parts = program.scratch(stretches_bytes(op))
    program.launch(_plain(program, product), (a, b, parts), writes=(2,))
    program.launch(_added(program, product), (parts, c), writes=(1,))


def product_of(program: Launcher, op: Operation) -> Product:
    """The product of a `gemm` or `gemm.fused`."""
    roles, params = product_groups(op), op.params_as(MatmulParams)
    a, b = (program.where[v] for v in op.operands[:2])
    dtype = op.operands[0].tensor.dtype
    groups = (roles.batch, roles.rows, roles.cols, roles.inner)
    batch, m, n, k = (Size.of(dims) for dims in groups)
    c = Place("scratch", 0, 0) if op.regions else program.where[op.result]
    pack = (
        copied(a, m if params.transpose_a else k, dtype),
        copied(b, k if params.transpose_b else n, dtype),
        copied(c, n, dtype),
    )
    return Product(
        dtype,
        *(batch, m, n, k),
        (params.transpose_a, params.transpose_b),
        pack,
        tiling_of(op, program.machine),
        is_long=bound_elements(roles.inner) > STRETCH,
        is_contracted=program.contraction != "off",
    )


def stretches_bytes(op: Operation) -> int:
    """Of the sums of all stretches of a product."""
    roles = product_groups(op)
    elements = bound_elements((*roles.batch, *roles.rows, *roles.cols))
    stretches = -(-bound_elements(roles.inner) // STRETCH)
    return elements * max(stretches, 1) * op.operands[0].tensor.dtype.itemsize


def copied(where: Where, row: Size, dtype: DType) -> int:
    """Elements that are copied at once: their rows, of this length, begin at multiples of them."""
    divisor = math.gcd(_alignment(where), row.factor * dtype.itemsize, COPIED)
    return max(divisor // dtype.itemsize, 1)


def _alignment(where: Where) -> int:
    """What the address is a multiple of, as far as that counts."""
    match where:
        case Place("buffer"):
            return COPIED
        case Place(_, index):
            return math.gcd(index, COPIED)
        case Part(whole, _, size, itemsize):
            return math.gcd(_alignment(whole), size.factor * itemsize)
        case Either(_, some, otherwise):
            return math.gcd(_alignment(some), _alignment(otherwise))


def product_type(program: Launcher, product: Product) -> list[str]:
    """Definitions of `P`, the product in C."""
    program.module.use("product")
    tiling, (ta, tb), (pack_a, pack_b, _) = product.tiling, product.transposes, product.pack
    element, depth = C_TYPES[product.dtype], tiling.depth
    is_long = product.is_long and not tiling.split
    return [
        f"typedef Factor<{element}, {tiling.rows}, {depth}, {_c(not ta)}, {pack_a}> A;",
        f"typedef Factor<{element}, {tiling.cols}, {depth}, {_c(tb)}, {pack_b}> B;",
        f"typedef Product<A, B, Sums<A, B, {_c(product.is_contracted)}>, {tiling.stages}, "
        f"{_c(is_long)}> P;",
        f'static_assert(P::SHARED == {product.shared}, "");',
    ]


def _c(value: bool) -> str:
    return "true" if value else "false"


def _plain(program: Launcher, product: Product) -> Kernel:
    """All tiles into c, or those of every stretch into c of its own."""

    def make(name: str) -> Kernel:
        tiling, element = product.tiling, C_TYPES[product.dtype]
        names = {s: f"d{i}" for i, s in enumerate(product.symbols)}
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
        return with_text(kernel, f"{_described(product)}, tile by tile.", body)

    return program.module.kernel(("product", product), "product", make)


def _added(program: Launcher, product: Product) -> Kernel:
    """Adds up stretches from the first to the last."""
    program.module.use("product")

    def make(name: str) -> Kernel:
        element = C_TYPES[product.dtype]
        names = {s: f"d{i}" for i, s in enumerate(product.symbols)}
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


def with_text(kernel: Kernel, remark: str, body: list[str]) -> Kernel:
    """The kernel with its definition."""
    lines = "".join(f"    {line}\n" for line in body)
    parameters = ", ".join([*kernel.parameters, "Block block"])
    text = f"// {remark}\n__device__ void {kernel.name}({parameters})\n{{\n{lines}}}\n"
    return Kernel(kernel.name, kernel.pointers, kernel.symbols, kernel.tiles, text, kernel.shared)


def _described(product: Product) -> str:
    (ta, tb), tiling = product.transposes, product.tiling
    factors = f"A{'^T' if ta else ''} B{'^T' if tb else ''}"
    return f"{factors} by {tiling.rows} x {tiling.cols}"


def launch_fused(program: Launcher, op: Operation) -> None:
    raise NotImplementedError
