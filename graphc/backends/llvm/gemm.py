"""A matrix product of any extents as one LLVM function, built from the pieces of `tiles`.

C is cut into panels as wide as a tile, vectors along n. What is left over at the right is computed
first, by a tile moved left to end with the matrix: so it needs no masks, and the panels that follow
compute its other columns again, from the start and with the same bits. A matrix narrower than a
tile has a tile of its own, where its width is known; otherwise it goes through a padded block.

B is read in place, or packed in blocks of k: by the tiles of the first rows as they go, or before
them when it is stored transposed or when only the call knows how many rows there are.

A product over a batch is the same function, called once for each matrix.

Every element of C is one chain of additions over k, from the first to the last, whatever tile it is
computed in. So its bits depend neither on the other rows and columns nor on how a range is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from graphc.backends.llvm import memory, packing, tiles
from graphc.backends.llvm.blocking import Extents, blocking
from graphc.backends.llvm.loops import (
    add,
    loop,
    loop_if_any,
    mul,
    number_of,
    offset,
    size_value,
    smaller,
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
    lane_type,
)
from graphc.backends.llvm.tiles import Tile
from graphc.backends.loopnest import Cut, Size
from graphc.ir.types import DType
from graphc.support.diagnostics import InternalError

ATTRIBUTES = 'nounwind "probe-stack"="inline-asm"'
"""Blocks on the stack are longer than the page that guards its end: each page is touched."""
FINISH_BYTES = 8192
"""A part of C is handed on once it is this large: still in a first-level cache."""


@dataclass(frozen=True, slots=True)
class Product:
    """C[m, n] = op(A) op(B) over k, op transposing where asked.

    batch   how many such products, the matrices of each operand one after the other
    split   the function computes only a range of these: it takes `i64 begin, i64 end` besides
    finish  `@name` of `void (ptr context, i64 row begin, i64 row end, i64 column begin, i64 column
            end)`, called once for every rectangle of C as soon as that is final. The rectangles
            cover what is computed exactly once; the function takes `ptr context` besides
    pitch   elements from row to row of C; 0: n
    part    the length of every range, where all are as long; 0 where that is not known
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
    part: int = 0

    def symbols(self) -> tuple[str, ...]:
        sizes = (self.m, self.n, self.k, self.batch)
        return tuple(sorted({name for size in sizes for name in size.symbols}))


def even_part(cut: Cut) -> int:
    """The length of each part of an extent, if all are as long; else 0."""
    extent = cut.extent
    return cut.length if not extent.symbols and extent.factor % cut.length == 0 else 0


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
    return module.add_internal(hint, ", ".join(parameters), code, attributes=ATTRIBUTES)


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
        self.element = element_of(product.dtype)
        self.scalars = LlvmScalars(code, has_fma=target.has_fma)
        self.m, self.n, self.k = (
            size_value(code, size, sizes) for size in (product.m, product.n, product.k)
        )
        self.lda = self.m if product.transpose_a else self.k
        self.ldb = self.k if product.transpose_b else self.n
        self.whole_n = self.n
        self.ldc = index(product.pitch) if product.pitch else self.n
        self.a, self.b, self.c = (Val(f"%{name}", PTR) for name in "abc")
        self.row = self.column = index(0)

    def emit(self) -> None:
        if 0 in (number_of(self.m), number_of(self.n)):
            return
        self._take_range()
        layout = (self.product.transpose_a, self.product.transpose_b)
        extents = Extents(*(number_of(x) for x in (self.m, self.n, self.k, self.whole_n)))
        self.cuts = cuts = blocking(self.target, self.product.dtype, layout, extents)
        self.panel = self._room(cuts.tile.width * cuts.depth)
        self.block = self._room(cuts.rows * (cuts.depth + packing.APART)) if cuts.packs_a else None
        if extents.n is not None:
            self._panels(extents.n)
            return
        padded = self._room(cuts.height * cuts.tile.width)
        width = index(cuts.tile.width)
        with when(self.code, self.scalars.compare("sge", self.n, width), []):
            self._panels(None)
        with when(self.code, self.scalars.compare("slt", self.n, width), []):
            self._narrow(padded)

    def _room(self, elements: int) -> Val:
        return memory.stack_array(self.code, self.element, elements, 64)

    def _at(self, base: Val, place: Val) -> Val:
        return offset(self.code, base, self.element, place)

    def _take_range(self) -> None:
        """Only the asked rows or columns from here on."""
        begin, end = Val("%begin", I64), Val("%end", I64)
        part = self.product.part
        length = index(part)
        if self.product.split and not part:
            length = sub(self.code, end, begin)
        if self.product.split == "rows":
            self.m, self.row = length, begin
            self.a = self._at(self.a, self._a_row(begin))
            self.c = self._at(self.c, mul(self.code, begin, self.ldc))
        elif self.product.split == "cols":
            self.n, self.column = length, begin
            self.b = self._at(self.b, self._b_column(begin))
            self.c = self._at(self.c, begin)

    def _a_row(self, row: Val) -> Val:
        return row if self.product.transpose_a else mul(self.code, row, self.lda)

    def _a_step(self, k: Val) -> Val:
        return mul(self.code, k, self.lda) if self.product.transpose_a else k

    def _b_column(self, column: Val) -> Val:
        return mul(self.code, column, self.ldb) if self.product.transpose_b else column

    def _b_step(self, k: Val) -> Val:
        return k if self.product.transpose_b else mul(self.code, k, self.ldb)

    # --- panels

    def _panels(self, n: int | None) -> None:
        """What is left over first, then whole panels."""
        width = self.cuts.tile.width
        if n is not None and n <= width:
            self._blocks(self.cuts.tile, index(0), self.n)
            return
        if n is None:
            rest = self.code.value(I64, f"urem i64 {self.n.ref}, {width}")
            whole = sub(self.code, self.n, rest)
            with when(self.code, self.scalars.compare("sgt", rest, index(0)), []):
                self._left_over(self.cuts.tile, whole)
        else:
            whole = index(n // width * width)
            if self.cuts.rest:
                self._left_over(self.cuts.rest, whole)
        self._blocks(self.cuts.tile, index(0), whole)

    def _left_over(self, tile: Tile, whole: Val) -> None:
        start = sub(self.code, self.n, index(tile.width))
        self._blocks(tile, start, self.n, final=whole)

    def _blocks(self, tile: Tile, begin: Val, end: Val, final: Val | None = None) -> None:
        """The columns from `begin` to `end`, whole tiles; those from `final` on are finished."""

        def in_depth(k_begin: Val, depth: Val) -> None:
            adds = self._order("sgt", k_begin, index(0))
            is_last = self._order("sge", add(self.code, k_begin, depth), self.k)

            def in_rows(row: Val, rows: Val) -> None:
                part = _Part(tile, k_begin, depth, row, rows, adds, is_last)
                self._columns(part, begin, end, final)

            self._cut(self.m, self.cuts.rows, in_rows)

        self._cut(self.k, self.cuts.depth, in_depth, even_if_empty=True)

    def _cut(
        self,
        length: Val,
        step: int,
        write: Callable[[Val, Val], None],
        *,
        even_if_empty: bool = False,
    ) -> None:
        """`write(start, length)` for each part; one, empty, for an empty whole if asked."""
        known = number_of(length)
        if known is not None and known <= step:
            if known or even_if_empty:
                write(index(0), length)
            return
        end = length
        if known is None and even_if_empty:
            end = self.scalars.select(self._order("slt", length, index(1)), index(1), length)
        with loop(self.code, index(0), end, step) as state:
            left = sub(self.code, length, state.index)
            write(state.index, smaller(self.code, index(step), left))

    def _order(self, order: str, a: Val, b: Val) -> Val:
        x, y = number_of(a), number_of(b)
        if x is not None and y is not None:
            return constant(x > y if order == "sgt" else x >= y, I1)
        return self.scalars.compare(order, a, b)

    def _columns(self, part: _Part, begin: Val, end: Val, final: Val | None) -> None:
        """All panels of one part; what is final is handed on in pieces."""
        a = self._at(self.a, add(self.code, self._a_row(part.row), self._a_step(part.start)))
        lda = self.lda
        if self.block:
            height = self.cuts.height
            pack = packing.emit_pack_rows(self.code.module, self.target, part.tile, height)
            self._call(pack, a, lda, part.depth, part.rows, self.block)
        first = final or begin
        with loop(self.code, begin, end, part.tile.width, [first]) as state:
            self._panel(part, a, state.index)
            if self.product.finish:
                following = add(self.code, state.index, index(part.tile.width))
                state.carried[0] = self._finish_some(part, state.carried[0], following, end)

    def _finish_some(self, part: _Part, first: Val, following: Val, end: Val) -> Val:
        """Hands the columns from `first` to `following` on, if they are final and enough."""
        code, s = self.code, self.scalars
        elements = mul(code, sub(code, following, first), part.rows)
        enough = FINISH_BYTES // self.product.dtype.itemsize
        ready = s.logical_or(
            s.compare("sge", elements, index(enough)), s.compare("sge", following, end)
        )
        ready = s.logical_and(ready, part.is_last)
        with when(code, ready, carried := [first]) as values:
            top = add(code, self.row, part.row)
            rows = (top, add(code, top, part.rows))
            columns = (add(code, self.column, x) for x in (first, following))
            self._call(self.product.finish, Val("%context", PTR), *rows, *columns)
            values[0] = following
        return carried[0]

    # --- one panel

    def _panel(self, part: _Part, a: Val, start: Val) -> None:
        """All rows of one part of one panel."""
        code, tile = self.code, part.tile
        goal = self._at(self.c, add(code, mul(code, part.row, self.ldc), start))
        place = add(code, self._b_column(start), self._b_step(part.start))
        source, width = self._at(self.b, place), index(tile.width)
        if self.cuts.in_place:
            self._rows(part, a, (source, self.ldb), goal)
        elif self.product.transpose_b:
            pack = packing.emit_pack_transposed(code.module, self.target, tile)
            self._call(pack, source, self.ldb, part.depth, self.panel)
            self._rows(part, a, (self.panel, width), goal)
        else:
            self._rows(part, a, (source, self.ldb), goal, packs=True)

    def _rows(
        self, part: _Part, a: Val, b: tuple[Val, Val], goal: Val, *, packs: bool = False
    ) -> None:
        """Full tiles, then lower ones. With `packs` the first leaves B in the panel."""
        code, height = self.code, self.cuts.height

        def tile(row: Val, rows: int, b: tuple[Val, Val], *more: Val) -> None:
            function = tiles.emit_tile(code.module, self.target, part.tile, rows, packs=bool(more))
            c = self._at(goal, mul(code, row, self.ldc))
            if self.block:
                a_row, lda = self._packed_row(part, row, rows), index(height)
            else:
                a_row, lda = self._at(a, self._a_row(row)), self.lda
            self._call(function, a_row, lda, *b, c, self.ldc, part.depth, part.adds, *more)

        packed = (self.panel, index(part.tile.width))
        rows = number_of(part.rows)
        if rows is not None:
            row = 0
            for count, high in _heights(rows, height, balanced=self.block is None):
                if packs and count and row == 0:
                    tile(index(0), high, b, self.panel)
                    row, count, b = high, count - 1, packed
                if count:
                    with loop(code, index(row), index(row + count * high), high) as state:
                        tile(state.index, high, b)
                row += count * high
            return
        rest = code.value(I64, f"urem i64 {part.rows.ref}, {height}")
        end = sub(code, part.rows, rest)
        if packs:
            is_any = self.scalars.compare("sgt", end, index(0))
            with when(code, is_any, carried := [index(0), *b]) as values:
                tile(index(0), height, b, self.panel)
                values[:] = [index(height), *packed]
            first, b = carried[0], (carried[1], carried[2])
        else:
            first = index(0)
        with loop_if_any(code, first, end, height, []) as state:
            if state:
                tile(state.index, height, b)
        row, high = end, _power_below(height)
        while high:
            following = add(code, row, index(high))
            fits = self.scalars.compare("sle", following, part.rows)
            with when(code, fits, carried := [row]) as values:
                tile(row, high, b)
                values[0] = following
            row = carried[0]
            high //= 2

    def _packed_row(self, part: _Part, row: Val, rows: int) -> Val:
        """Where the packed block of A has this row, of a tile with so many `rows`."""
        code, height = self.code, self.cuts.height
        assert self.block is not None
        panel, pitch = row, add(code, part.depth, index(packing.APART))
        if rows < height:
            # Lower tiles are in the last panel, which ends with the rows.
            known = number_of(part.rows)
            if known is not None:
                panel = index(known // height * height)
            else:
                panel = sub(code, part.rows, code.value(I64, f"urem i64 {part.rows.ref}, {height}"))
            row = add(code, row, sub(code, index(height), sub(code, part.rows, panel)))
        place = add(code, mul(code, panel, pitch), sub(code, row, panel))
        return self._at(self.block, place)

    # --- C narrower than a tile, by how much only the call knows

    def _narrow(self, padded: Val) -> None:
        """Through a padded panel and a block for the tile's result."""
        copy = packing.emit_copy_block(self.code.module, self.target, self.cuts.tile)
        self._clear()

        def part(begin: Val, depth: Val) -> None:
            self._pack_narrow(copy, begin, depth)
            adds = self._order("sgt", begin, index(0))
            self._narrow_rows(begin, depth, adds, padded, copy)

        self._cut(self.k, self.cuts.depth, part, even_if_empty=True)
        if self.product.finish:
            is_any = self.scalars.logical_and(
                self.scalars.compare("sgt", self.m, index(0)),
                self.scalars.compare("sgt", self.n, index(0)),
            )
            with when(self.code, is_any, []):
                rows = (self.row, add(self.code, self.row, self.m))
                columns = (self.column, add(self.code, self.column, self.n))
                self._call(self.product.finish, Val("%context", PTR), *rows, *columns)

    def _narrow_rows(self, begin: Val, depth: Val, adds: Val, padded: Val, copy: str) -> None:
        """All rows of C from one padded panel."""
        code, tile, width = self.code, self.cuts.tile, index(self.cuts.tile.width)

        def rows_at(row: Val, height: int) -> None:
            name = tiles.emit_tile(code.module, self.target, tile, height)
            goal = self._at(self.c, mul(code, row, self.ldc))
            a = self._at(self.a, add(code, self._a_row(row), self._a_step(begin)))
            if adds.ref.startswith("%"):
                self._call(copy, goal, self.ldc, padded, width, index(height), self.n)
            self._call(name, a, self.lda, self.panel, width, padded, width, depth, adds)
            self._call(copy, padded, width, goal, self.ldc, index(height), self.n)

        _each_height(code, self.m, self.cuts.height, rows_at)

    def _clear(self) -> None:
        """Zeros in the used part of the panel: the columns beside the matrix stay so."""
        tile = self.cuts.tile
        zero = constant(0.0, lane_type(tile.element, tile.lanes))
        used = smaller(self.code, index(self.cuts.depth), self.k)
        end = mul(self.code, used, index(tile.width))
        with loop_if_any(self.code, index(0), end, tile.lanes, []) as state:
            if state:
                memory.store(self.scalars, zero, self.panel, state.index)

    def _pack_narrow(self, copy: str, begin: Val, depth: Val) -> None:
        width = index(self.cuts.tile.width)
        source = self._at(self.b, self._b_step(begin))
        if not self.product.transpose_b:
            self._call(copy, source, self.ldb, self.panel, width, depth, self.n)
            return
        with loop(self.code, index(0), self.n, 1) as column:
            line = self._at(source, mul(self.code, column.index, self.ldb))
            goal = self._at(self.panel, column.index)
            with loop_if_any(self.code, index(0), depth, 1, []) as state:
                if state:
                    value = memory.load(self.scalars, line, state.index, self.product.dtype, 1)
                    memory.store(self.scalars, value, goal, mul(self.code, state.index, width))

    def _call(self, function: str, *arguments: Val) -> None:
        self.code.do(f"call void {function}({', '.join(map(str, arguments))})")


@dataclass(frozen=True, slots=True)
class _Part:
    """`depth` steps of k from `start` on, for the rows from `row` on, in columns of one tile.

    adds      whether C holds the sums of the steps before
    is_last   whether the sums are final then
    """

    tile: Tile
    start: Val
    depth: Val
    row: Val
    rows: Val
    adds: Val
    is_last: Val


def _each_height(code: Code, m: Val, height: int, tile: Callable[[Val, int], None]) -> None:
    """`tile(first row, height)` for all of `m` rows: whole ones, then ever lower ones."""
    rest = code.value(I64, f"urem i64 {m.ref}, {height}")
    row = sub(code, m, rest)
    with loop(code, index(0), row, height) as state:
        tile(state.index, height)
    lower = _power_below(height)
    while lower:
        following = add(code, row, index(lower))
        fits = code.value(I1, f"icmp sle i64 {following.ref}, {m.ref}")
        with when(code, fits, carried := [row]) as values:
            tile(row, lower)
            values[0] = following
        row = carried[0]
        lower //= 2


def _heights(rows: int, height: int, *, balanced: bool) -> list[tuple[int, int]]:
    """How many tiles of which heights: two neighbouring ones, or whole ones and a rest."""
    if not balanced:
        whole, rest = divmod(rows, height)
        return [x for x in ((whole, height), (min(rest, 1), rest)) if x[0]]
    count = -(-rows // height)
    low = rows // count if count else 0
    more = rows - low * count
    return [x for x in ((more, low + 1), (count - more, low)) if x[0]]


def _power_below(number: int) -> int:
    """The largest power of two below `number`."""
    return 1 << (number - 1).bit_length() - 1
