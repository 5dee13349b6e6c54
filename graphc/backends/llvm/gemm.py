"""A matrix product of any extents as one LLVM function, built from the pieces of `tiles`.

C is cut into panels as wide as a tile, vectors along n. The last panel is moved left to end with
the matrix, so whole panels need no masks: its columns are computed again, with the same bits.
A matrix narrower than a tile goes through a padded block. B is read in place, or packed in blocks
of k when it is stored transposed or its rows are long and there are enough rows of C to pay for it.

A product over a batch is the same function, called once for each matrix.

Every element of C is one chain of additions over k, from the first to the last, whatever tile it is
computed in. So its bits depend neither on the other rows and columns nor on how a range is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from graphc.backends.llvm import memory, tiles
from graphc.backends.llvm.loops import (
    add,
    loop,
    loop_if_any,
    mul,
    number_of,
    offset,
    size_value,
    sub,
    when,
)
from graphc.backends.llvm.scalars import LlvmScalars
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import (
    I1,
    I64,
    PTR,
    Code,
    Module,
    Val,
    constant,
    element_of,
    index,
)
from graphc.backends.llvm.tiles import Tile
from graphc.backends.loopnest import Size
from graphc.ir.types import DType
from graphc.support.diagnostics import InternalError

NEAR_BYTES = 512
"""Rows of B up to this length are read where they are: packing them would not pay."""


@dataclass(frozen=True, slots=True)
class Product:
    """C[m, n] = op(A) op(B) over k, op transposing where asked.

    batch   how many such products, the matrices of each operand one after the other
    split   the function computes only a range of these: it takes `i64 begin, i64 end` besides
    finish  `@name` of `void (ptr context, i64 row begin, i64 row end, i64 column begin, i64 column
            end)`, called once for every rectangle of C as soon as that is final. The rectangles
            cover what is computed exactly once; the function takes `ptr context` besides
    pitch   elements from row to row of C; 0: n
    """

    m: Size
    n: Size
    k: Size
    dtype: DType
    transpose_a: bool
    transpose_b: bool
    batch: Size = Size()  # noqa: RUF009  # frozen
    split: Literal["", "rows", "cols"] = ""
    finish: str = ""
    pitch: int = 0

    def symbols(self) -> tuple[str, ...]:
        sizes = (self.m, self.n, self.k, self.batch)
        return tuple(sorted({name for size in sizes for name in size.symbols}))


def emit_gemm(module: Module, target: Target, product: Product) -> str:
    """`@name` of `void (a, b, c, sizes of product.symbols()…, begin, end, context)`.

    The last three are there where `split` and `finish` ask for them.
    """
    if product.batch != Size():
        if product.split or product.finish:
            raise InternalError("a product over a batch is neither cut nor finished in parts")
        return _emit_batch(module, target, product)
    code, sizes = Code(module), _sizes(product)
    _GemmEmitter(code, target, product, sizes).emit()
    return _finished(module, "gemm", code, sizes, product)


def _emit_batch(module: Module, target: Target, product: Product) -> str:
    """The loop over the matrices of a batch."""
    one = replace(product, batch=Size())
    function = emit_gemm(module, target, one)
    code, sizes = Code(module), _sizes(product)
    m, n, k, batch = (
        size_value(code, size, sizes) for size in (one.m, one.n, one.k, product.batch)
    )
    lengths = {"%a": mul(code, m, k), "%b": mul(code, k, n), "%c": mul(code, m, n)}
    with loop_if_any(code, index(0), batch, 1, []) as state:
        if state:
            places = [
                offset(code, Val(name, PTR), element_of(one.dtype), mul(code, state.index, length))
                for name, length in lengths.items()
            ]
            arguments = [*places, *(sizes[name] for name in one.symbols())]
            code.do(f"call void {function}({', '.join(map(str, arguments))})")
    return _finished(module, "batch", code, sizes, product)


def _sizes(product: Product) -> dict[str, Val]:
    return {name: Val(f"%d{i}", I64) for i, name in enumerate(product.symbols())}


def _finished(
    module: Module, hint: str, code: Code, sizes: Mapping[str, Val], product: Product
) -> str:
    code.do("ret void")
    parameters = ["ptr %a", "ptr %b", "ptr %c", *(f"i64 {v.ref}" for v in sizes.values())]
    if product.split:
        parameters += ["i64 %begin", "i64 %end"]
    if product.finish:
        parameters.append("ptr %context")
    return module.add_internal(hint, ", ".join(parameters), code)


class _GemmEmitter:
    """State while one product is written.

    `m` and `n` are the rows and columns that are computed, `row` and `column` the first of them,
    and `a`, `b` and `c` point there. `lda`, `ldb` and `ldc` belong to the whole matrices.
    """

    def __init__(
        self, code: Code, target: Target, product: Product, sizes: Mapping[str, Val]
    ) -> None:
        self.code = code
        self.target = target
        self.product = product
        self.scalars = LlvmScalars(code, has_fma=target.has_fma)
        self.m, self.n, self.k = (
            size_value(code, size, sizes) for size in (product.m, product.n, product.k)
        )
        self.lda = self.m if product.transpose_a else self.k
        self.ldb = self.k if product.transpose_b else self.n
        self.ldc = index(product.pitch) if product.pitch else self.n
        self.a, self.b, self.c = (Val(f"%{name}", PTR) for name in "abc")
        self.tile = _tile(target, product, number_of(self.n))
        self.height = tiles.tile_rows(target)
        self.row = self.column = index(0)

    def emit(self) -> None:
        if 0 in (number_of(self.m), number_of(self.n)):
            return
        self._take_range()
        panel = tiles.panel_on_stack(self.code, self.tile)
        block = memory.stack_array(self.code, self.tile.element, self.height * self.tile.width, 64)
        with _if(self.code, self.scalars, "sge", self.n, index(self.tile.width)) as possible:
            if possible:
                self._whole_panels(panel)
        with _if(self.code, self.scalars, "slt", self.n, index(self.tile.width)) as possible:
            if possible:
                self._narrow(panel, block)

    def _take_range(self) -> None:
        """Only the asked rows or columns from here on."""
        begin, end = Val("%begin", I64), Val("%end", I64)
        if self.product.split == "rows":
            self.m, self.row = sub(self.code, end, begin), begin
            self.a = self._a_row(self.a, begin)
            step = mul(self.code, begin, self.ldc)
            self.c = offset(self.code, self.c, self.tile.element, step)
        elif self.product.split == "cols":
            self.n, self.column = sub(self.code, end, begin), begin
            self.b = offset(self.code, self.b, self.tile.element, self._b_column(begin))
            self.c = offset(self.code, self.c, self.tile.element, begin)

    def _b_column(self, column: Val) -> Val:
        return mul(self.code, column, self.ldb) if self.product.transpose_b else column

    def _finish_columns(self, begin: Val, end: Val) -> None:
        """All computed rows of these columns are final, if there are any."""
        if not self.product.finish:
            return
        with _if(self.code, self.scalars, "sge", self.m, index(1)) as possible:
            if not possible:
                return
            rows = (self.row, add(self.code, self.row, self.m))
            columns = (add(self.code, self.column, x) for x in (begin, end))
            self._call(self.product.finish, Val("%context", PTR), *rows, *columns)

    # --- C at least as wide as a tile

    def _whole_panels(self, panel: Val) -> None:
        """Each panel finishes the one before: the last may compute columns of that again."""
        last = sub(self.code, self.n, index(self.tile.width))
        with loop(self.code, index(0), self.n, self.tile.width, [index(0)]) as state:
            start = smaller(self.code, state.index, last)
            self._panel(start, panel)
            if self.product.finish:
                with when(self.code, self.scalars.compare("sgt", start, index(0)), []):
                    self._finish_columns(state.carried[0], start)
            state.carried[0] = start
        self._finish_columns(last, self.n)

    def _panel(self, start: Val, panel: Val) -> None:
        goal = offset(self.code, self.c, self.tile.element, start)
        place = self._b_column(start)
        if self.product.transpose_b:
            self._packed_blocks(place, panel, goal)
            return
        enough = self._rows_worth_packing()
        if enough is None:
            self._direct_panel(place, goal)
            return
        with _if(self.code, self.scalars, "slt", self.m, enough) as possible:
            if possible:
                self._direct_panel(place, goal)
        with _if(self.code, self.scalars, "sge", self.m, enough) as possible:
            if possible:
                self._packed_blocks(place, panel, goal)

    def _rows_worth_packing(self) -> Val | None:
        """How many rows of C pay for packing a B that lies in rows already; None if none do."""
        n = number_of(self.ldb)
        is_near = n is not None and n * self.product.dtype.itemsize <= NEAR_BYTES
        return None if is_near else index(2 * self.height)

    def _direct_panel(self, start: Val, goal: Val) -> None:
        """One panel of C with B read where it lies."""
        source = offset(self.code, self.b, self.tile.element, start)
        self._rows(self.a, source, self.ldb, goal, self.k, constant(0, I1))

    def _packed_blocks(self, start: Val, panel: Val, goal: Val) -> None:
        """One panel of C from blocks of k; the first sets C, the others add to it.

        `start` is the place in B of the panel's first element.
        """
        is_transposed = self.product.transpose_b
        emit = tiles.emit_pack_transposed if is_transposed else tiles.emit_pack
        pack = emit(self.code.module, self.target, self.tile)

        def block(begin: Val, count: Val, accumulates: Val) -> None:
            step = begin if is_transposed else mul(self.code, begin, self.ldb)
            place = add(self.code, start, step)
            source = offset(self.code, self.b, self.tile.element, place)
            self._call(pack, source, self.ldb, count, panel)
            a, width = self._a_at(begin), index(self.tile.width)
            self._rows(a, panel, width, goal, count, accumulates)

        self._each_k_block(block)

    def _each_k_block(self, block: Callable[[Val, Val, Val], None]) -> None:
        """`block(start, length, whether it adds)` for each block of k; one, empty, for k = 0."""
        step, k = self.tile.panel_rows, number_of(self.k)
        if k is not None and k <= step:
            block(index(0), self.k, constant(0, I1))
            return
        end = self.k if k is not None else self._at_least_one(self.k)
        with loop(self.code, index(0), end, step) as state:
            count = smaller(self.code, index(step), sub(self.code, self.k, state.index))
            adds = self.scalars.compare("sgt", state.index, index(0))
            block(state.index, count, adds)

    def _at_least_one(self, value: Val) -> Val:
        is_zero = self.scalars.compare("slt", value, index(1))
        return self.scalars.select(is_zero, index(1), value)

    def _a_at(self, k: Val) -> Val:
        step = mul(self.code, k, self.lda) if self.product.transpose_a else k
        return offset(self.code, self.a, self.tile.element, step)

    def _rows(self, a: Val, b: Val, ldb: Val, c: Val, k: Val, accumulates: Val) -> None:
        """All rows of one panel: full tiles, then ever lower ones."""

        def tile(row: Val, height: int) -> None:
            name = tiles.emit_tile(self.code.module, self.target, self.tile, height)
            goal = offset(self.code, c, self.tile.element, mul(self.code, row, self.ldc))
            a_row = self._a_row(a, row)
            self._call(name, a_row, self.lda, b, ldb, goal, self.ldc, k, accumulates)

        self._tiled_rows(tile)

    def _a_row(self, a: Val, row: Val) -> Val:
        step = row if self.product.transpose_a else mul(self.code, row, self.lda)
        return offset(self.code, a, self.tile.element, step)

    def _tiled_rows(self, tile: Callable[[Val, int], None]) -> None:
        """Calls `tile(first row, height)` so that every row of C is covered once."""
        step, rows = self.height, number_of(self.m)
        whole = index(rows // step * step) if rows is not None else self._whole_rows()
        with loop_if_any(self.code, index(0), whole, step, []) as state:
            if state:
                tile(state.index, step)
        if rows is not None:
            if rows % step:
                tile(whole, rows % step)
            return
        row, height = whole, _power_below(step)
        while height:
            following = add(self.code, row, index(height))
            fits = self.scalars.compare("sle", following, self.m)
            with when(self.code, fits, carried := [row]) as values:
                tile(row, height)
                values[0] = following
            row = carried[0]
            height //= 2

    def _whole_rows(self) -> Val:
        rest = self.code.value(I64, f"urem i64 {self.m.ref}, {self.height}")
        return sub(self.code, self.m, rest)

    # --- C narrower than a tile

    def _narrow(self, panel: Val, block: Val) -> None:
        """Through a padded panel and a block for the tile's result."""
        copy = tiles.emit_copy_block(self.code.module, self.target, self.tile)
        self._clear(panel)

        def k_block(begin: Val, count: Val, accumulates: Val) -> None:
            self._pack_narrow(panel, copy, begin, count)
            self._narrow_rows(self._a_at(begin), panel, block, copy, count, accumulates)

        self._each_k_block(k_block)
        with _if(self.code, self.scalars, "sge", self.n, index(1)) as possible:
            if possible:
                self._finish_columns(index(0), self.n)

    def _narrow_rows(
        self, a: Val, panel: Val, block: Val, copy: str, k: Val, accumulates: Val
    ) -> None:
        """All rows of C from one padded panel."""
        width = index(self.tile.width)

        def tile(row: Val, height: int) -> None:
            name = tiles.emit_tile(self.code.module, self.target, self.tile, height)
            goal = offset(self.code, self.c, self.tile.element, mul(self.code, row, self.ldc))
            rows = index(height)
            if accumulates.ref.startswith("%"):
                self._call(copy, goal, self.ldc, block, width, rows, self.n)
            a_row = self._a_row(a, row)
            self._call(name, a_row, self.lda, panel, width, block, width, k, accumulates)
            self._call(copy, block, width, goal, self.ldc, rows, self.n)

        self._tiled_rows(tile)

    def _clear(self, panel: Val) -> None:
        """Zeros in the used part of the panel: the columns beside the matrix stay so."""
        zero = constant(0.0, memory.lane_type(self.tile.element, self.tile.lanes))
        used = smaller(self.code, index(self.tile.panel_rows), self.k)
        end = mul(self.code, used, index(self.tile.width))
        with loop_if_any(self.code, index(0), end, self.tile.lanes, []) as state:
            if state:
                memory.store(self.scalars, zero, panel, state.index)

    def _pack_narrow(self, panel: Val, copy: str, begin: Val, count: Val) -> None:
        width = index(self.tile.width)
        if not self.product.transpose_b:
            row = mul(self.code, begin, self.ldb)
            source = offset(self.code, self.b, self.tile.element, row)
            self._call(copy, source, self.ldb, panel, width, count, self.n)
            return
        with loop_if_any(self.code, index(0), self.n, 1, []) as column:
            assert column is not None
            row = mul(self.code, column.index, self.ldb)
            source = offset(self.code, self.b, self.tile.element, add(self.code, row, begin))
            goal = offset(self.code, panel, self.tile.element, column.index)
            with loop_if_any(self.code, index(0), count, 1, []) as state:
                if state:
                    value = memory.load(self.scalars, source, state.index, self.tile.dtype, 1)
                    memory.store(self.scalars, value, goal, mul(self.code, state.index, width))

    def _call(self, function: str, *arguments: Val) -> None:
        self.code.do(f"call void {function}({', '.join(map(str, arguments))})")


def _tile(target: Target, product: Product, n: int | None) -> Tile:
    """Two vectors wide; one, or a part of one, where the matrix is narrower."""
    lanes = target.lanes(product.dtype)
    vectors = 1 if n is not None and n <= lanes else 2
    while n is not None and vectors == 1 and lanes > 1 and lanes // 2 >= n:
        lanes //= 2
    return Tile(product.dtype, lanes, vectors, product.transpose_a)


@contextmanager
def _if(code: Code, s: LlvmScalars, order: str, a: Val, b: Val) -> Generator[bool]:
    """A branch that is decided here when both numbers are known; gives whether it can be taken."""
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        yield x >= y if order == "sge" else x < y
        return
    with when(code, s.compare(order, a, b), []):
        yield True


def smaller(code: Code, a: Val, b: Val) -> Val:
    x, y = number_of(a), number_of(b)
    if x is not None and y is not None:
        return index(min(x, y))
    is_less = code.value(I1, f"icmp slt i64 {a.ref}, {b.ref}")
    return code.value(I64, f"select {is_less}, {a}, {b}")


def _power_below(number: int) -> int:
    """The largest power of two below `number`."""
    return 1 << (number - 1).bit_length() - 1
