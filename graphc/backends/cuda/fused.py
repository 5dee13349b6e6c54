"""Matrix products with a body: each element of a tile goes through it before it is stored.

    __device__ void fused3(const float *p0, …, Block block)
    {
        for (i64 tile = block.index; tile < high * wide; tile += block.count) {
            multiply_tile<P>(p0, p1, m, n, k, top, left, block.shared);
            …                                     a thread goes down a column of the tile
                const float product = sums[i * P::PITCH + column];
                …                                 the body
        }
    }

Sums over the rows are made of those of each tile, which a second kernel adds up in order. Where
the product is split, the body belongs to whoever adds up the stretches, by the same tiles.
"""

from __future__ import annotations

from dataclasses import dataclass

from graphc.backends.cuda.body import BodyText, Names, body_text, integer_type, pointer_type
from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.products import (
    Product,
    launch_stretches,
    product_of,
    product_type,
    size_names,
    with_text,
)
from graphc.backends.cuda.steps import Where
from graphc.backends.cuda.text import indented, literal
from graphc.backends.loops.values import I32
from graphc.ir.core import Operation
from graphc.ir.types import bound_elements
from graphc.ops.contraction import STRETCH
from graphc.ops.epilogue import product_groups
from graphc.passes.analysis.loopnest import ArrayAccess, Nest, Reduce, ScalarOp, Size, Store
from graphc.passes.analysis.nestplan import epilogue_nest

_FOLDS: dict[ScalarOp, str] = {
    "add": "Add()",
    "maximum": "Largest()",
    "minimum": "Smallest()",
}

COLUMNS = 32
"""That a tile of the second kernel of sums has."""

SUMMED = THREADS * 8
"""Bytes of shared memory that threads fold their sums in: one of any type for each."""


def launch_fused(program: Launcher, op: Operation) -> None:
    """`gemm.fused`."""
    product, nest = product_of(program, op), epilogue_nest(op)
    factors = [program.where[v] for v in op.operands[:2]]
    if product.tiling.split:
        factors = [launch_stretches(program, op, product, *factors)]
    sums = [store for store in nest.stores if store.combine is not None]
    rows = -(-bound_elements(product_groups(op).rows) // product.tiling.rows)
    partials = [program.scratch(max(rows, 1) * _width_bound(op, s)) for s in sums]
    accesses = _accesses(nest)
    fused = FusedProduct(product, nest, accesses, program.constants(op))
    where = [*factors, *(_where(program, op, access) for access in accesses), *partials]
    first = len(factors)
    writes = [first + i for i, access in enumerate(accesses) if access.kind == "result"]
    writes += range(first + len(accesses), len(where))
    kernel = _kernel(program, fused)
    program.launch(kernel, where, writes)
    for store, partial in zip(sums, partials, strict=True):
        result = program.where[op.results[store.access.index]]
        program.launch(_folded(program, product, store), (partial, result), writes=(1,))


@dataclass(frozen=True)
class FusedProduct:
    """What decides a kernel.

    accesses   the arrays of the body, in the order of the kernel's pointers
    constants  expressions for those that are constants, by number
    """

    product: Product
    nest: Nest
    accesses: tuple[ArrayAccess, ...]
    constants: dict[int, str]

    @property
    def sums(self) -> list[Store]:
        return [store for store in self.nest.stores if store.combine is not None]

    @property
    def symbols(self) -> tuple[str, ...]:
        return tuple(sorted({*self.product.symbols, *self.nest.symbols()}))


def _accesses(nest: Nest) -> tuple[ArrayAccess, ...]:
    """The arrays that the body reads and writes element by element, each once."""
    sums = {store.access for store in nest.stores if store.combine is not None}
    found: dict[tuple[str, int], ArrayAccess] = {}
    for access in nest.accesses():
        is_product = (access.kind, access.index) == ("operand", 0)
        if not (is_product or access.kind == "constant" or access in sums):
            found.setdefault((access.kind, access.index), access)
    return tuple(found.values())


def _where(program: Launcher, op: Operation, access: ArrayAccess) -> Where:
    """Operand 0 of the body is the product, the others are those behind the factors."""
    if access.kind == "result":
        return program.where[op.results[access.index]]
    return program.where[op.operands[access.index + 1]]


def _width_bound(op: Operation, store: Store) -> int:
    """Bytes of the sums of one tile's rows over all columns, at most."""
    return max(op.results[store.access.index].tensor.bound_bytes, store.access.dtype.itemsize)


def _width(product: Product, store: Store) -> Size:
    """Of how many columns there are sums: of all, or one for what no column changes."""
    return product.n if store.access.strides[1] is not None else Size()


def _kernel(program: Launcher, fused: FusedProduct) -> Kernel:
    """The product with its body, or the body over sums of stretches."""

    def make(name: str) -> Kernel:
        program.module.use("product", "fold")
        product = fused.product
        element = C_TYPES[product.dtype]
        factors = [f"const {element} *"] * (1 if product.tiling.split else 2)
        arrays = [
            pointer_type(access.dtype, is_written=access.kind == "result")
            for access in fused.accesses
        ]
        partials = [pointer_type(s.access.dtype, is_written=True) for s in fused.sums]
        tiling = product.tiling
        tiles = Tiles(((product.m, tiling.rows), (product.n, tiling.cols)))
        shared = product.shared if not tiling.split else SUMMED
        kernel = Kernel(
            name, (*factors, *arrays, *partials), fused.symbols, tiles, "", shared=shared
        )
        return with_text(
            kernel, f"{product.described}, with a body.", _body(program, fused, len(factors))
        )

    key = ("fused", fused.product, repr(fused.nest), tuple(fused.constants.items()))
    return program.module.kernel(key, "fused", make)


def _body(program: Launcher, fused: FusedProduct, first: int) -> list[str]:
    """The statements of the kernel; pointers of the body begin with number `first`."""
    product, tiling = fused.product, fused.product.tiling
    names = size_names(fused.symbols)
    m, n, k = (size_text(size, names) for size in (product.m, product.n, product.k))
    element, rows, cols = C_TYPES[product.dtype], tiling.rows, tiling.cols
    if tiling.split:
        head, multiply = [f"const i64 parts = (k + {STRETCH - 1}) / {STRETCH};"], []
        value = "add_stretches(p0 + (i64)row * n + col, m * n, parts)"
    else:
        head = product_type(program, product)
        multiply = [
            "multiply_tile<P>(p0, p1, m, n, k, top, left, block.shared);",
            f"const {element} *const sums = P::tile(block.shared);",
        ]
        value = "sums[i * P::PITCH + column]"
    body, integer = _text_of_body(program, fused, first)
    return [
        f"const i64 m = {m}, n = {n}, k = {k}, wide = (n + {cols - 1}) / {cols};",
        *head,
        f"const int column = thread_index() % {cols};",
        *body.whole,
        f"for (i64 tile = block.index; tile < (m + {rows - 1}) / {rows} * wide; "
        "tile += block.count) {",
        *indented(
            [
                f"const i64 top = tile / wide * {rows}, left = tile % wide * {cols};",
                *multiply,
                *_begin_sums(fused),
                "if (left + column < n) {",
                *indented(
                    [
                        f"const {integer} col = ({integer})left + column;",
                        *body.column,
                        f"for (int i = thread_index() / {cols}; i < {rows} && top + i < m; "
                        f"i += {THREADS // cols}) {{",
                        *indented(
                            [
                                f"const {integer} row = ({integer})top + i;",
                                f"const {element} product = {value};",
                                *body.row,
                                *body.element,
                                *_add_sums(fused, body),
                            ]
                        ),
                        "}",
                    ]
                ),
                "}",
                *_put_sums(fused, first + len(fused.accesses)),
            ]
        ),
        "}",
    ]


def _text_of_body(program: Launcher, fused: FusedProduct, first: int) -> tuple[BodyText, str]:
    """The body, and the type of its indices."""
    integer = integer_type(fused.nest.bounds[0] * fused.nest.bounds[1])
    arrays = {
        (access.kind, access.index): f"p{first + i}" for i, access in enumerate(fused.accesses)
    }
    arrays |= {("constant", i): text for i, text in fused.constants.items()}
    names = Names(arrays, size_names(fused.symbols), ("row", "col"), integer)
    body = body_text(program.module, fused.nest, names, "product", program.contraction)
    return body, "int" if integer == I32 else "i64"


# --- sums over the rows ---------------------------------------------------------------------------


def _begin_sums(fused: FusedProduct) -> list[str]:
    return [f"{C_TYPES[s.access.dtype]} sum{i} = {_identity(s)};" for i, s in enumerate(fused.sums)]


def _add_sums(fused: FusedProduct, body: BodyText) -> list[str]:
    return [
        f"sum{i} = {_fold(store)}(sum{i}, {text});"
        for i, (store, (_, text)) in enumerate(zip(fused.sums, body.sums, strict=True))
    ]


def _put_sums(fused: FusedProduct, first: int) -> list[str]:
    """The sums of the tile's columns to the row of partial sums that belongs to the tile's rows."""
    cols, lines = fused.product.tiling.cols, list[str]()
    for i, store in enumerate(fused.sums):
        width = "n" if store.access.strides[1] is not None else "1"
        lines += [
            f"sum{i} = fold_groups<{cols}>(sum{i}, {_fold(store)}, block.shared);",
            f"if (thread_index() < {cols} && left + column < {width})",
            f"    p{first + i}[tile / wide * {width} + left + column] = sum{i};",
        ]
    return lines


def _folded(program: Launcher, product: Product, store: Store) -> Kernel:
    """Folds the partial sums of the tiles' rows, in order."""
    width, rows, dtype = _width(product, store), product.tiling.rows, store.access.dtype

    def make(name: str) -> Kernel:
        program.module.use("fold")
        symbols = tuple(sorted({*product.m.symbols, *width.symbols}))
        names = size_names(symbols)
        pointers = (pointer_type(dtype, is_written=False), pointer_type(dtype, is_written=True))
        tiles = Tiles(((width, COLUMNS),))
        kernel = Kernel(name, pointers, symbols, tiles, "", shared=THREADS * dtype.itemsize)
        parts = f"({size_text(product.m, names)} + {rows - 1}) / {rows}"
        return with_text(
            kernel,
            "Sums of tiles, folded in order.",
            [
                f"fold_parts<{COLUMNS}>(p0, {parts}, p1, {size_text(width, names)}, "
                f"{_identity(store)}, {_fold(store)}, block);"
            ],
        )

    key = ("fold", product.m, width, rows, dtype, store.combine)
    return program.module.kernel(key, "fold", make)


def _combine(store: Store) -> Reduce:
    assert store.combine is not None
    return store.combine


def _fold(store: Store) -> str:
    return _FOLDS[_combine(store).scalar_op]


def _identity(store: Store) -> str:
    return literal(_combine(store).identity, store.access.dtype)
