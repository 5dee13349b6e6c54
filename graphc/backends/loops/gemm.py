"""A matrix product of any extents as one function, built from the pieces of `tiles`.

A `Tiling` says how it is cut (`passes/analysis/product_tiles.py` chooses one); `panels` writes the
loops.

A product over a batch is the same function, called once for each matrix, or for those of a chunk.

Every element of C is a sum of stretches of k of one length (`ops.contraction.STRETCH`), each a
chain of additions of its own, added up from the first to the last, whatever tile it is computed
in. So its bits depend neither on the other rows and columns nor on how a range is cut, nor on any
cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from graphc.backends.loops import amx, memory, pairs
from graphc.backends.loops.control import add, loop, loop_if_any, mul, offset, size_value, when
from graphc.backends.loops.narrow import emit_narrow
from graphc.backends.loops.operands import Operands
from graphc.backends.loops.packing import APART
from graphc.backends.loops.panels import (
    Blocking,
    ProductWriter,
    emit_panels,
    pitch_of_a,
    pitch_of_b,
)
from graphc.backends.loops.values import I64, NULL, PTR, Val, element_of, index, number_of
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.core import Operation
from graphc.ir.machine import Machine
from graphc.ir.types import DType
from graphc.ops.contraction import MatmulParams, groups
from graphc.ops.prepacking import PAIRS_APART, PAIRS_SLACK
from graphc.ops.schedules import ProductSchedule, Tiling
from graphc.passes.analysis.loopnest import Size
from graphc.passes.analysis.product_schedules import with_pairs
from graphc.passes.analysis.product_tiles import (
    FEW_ROWS,
    UNBOUNDED,
    ProductForm,
    ProductRange,
    form_of,
    with_tilings,
)
from graphc.support.diagnostics import InternalError


@dataclass(frozen=True, slots=True)
class Product:
    """C[m, n] = op(A) op(B) over k, op transposing where asked.

    batch   how many such products, the matrices of each operand one after the other
    split   the function computes only a range of these: it takes `i64 begin, i64 end` besides
    pitch   elements from row to row of C; 0: n
    part    the length of every range but a last one that may be shorter; 0: any
    most_m, most_k  where only the call knows m and k: they are no larger
    pairs   the factors are multiplied as pairs of bf16
    amx     these in the registers of AMX
    tile, few_rows, last  how it is cut, as in a `ProductSchedule`; None: chosen for the machine
    panel   as of a `ProductForm`
    a_ready, b_ready  A or B is a copy of all of it as pairs (`prepacking.py`)
    """

    m: Size
    n: Size
    k: Size
    dtype: DType
    transpose_a: bool
    transpose_b: bool
    batch: Size = Size()  # noqa: RUF009  # frozen
    split: Literal["", "rows", "cols", "batch"] = ""
    pitch: int = 0
    part: int = 0
    most_m: int = UNBOUNDED
    most_k: int = UNBOUNDED
    tile: Tiling | None = None
    few_rows: Tiling | None = None
    last: Tiling | None = None
    panel: int = 0
    pairs: bool = False
    amx: bool = False
    a_ready: bool = False
    b_ready: bool = False

    @staticmethod
    def of(op: Operation, machine: Machine) -> Product:
        """That of a `gemm` or `gemm.fused`, in chunks and tiles where its schedule says so."""
        schedule = with_pairs(op, machine)
        form = form_of(op, schedule)
        a, b = (v.tensor for v in op.operands[:2])
        roles = groups(op.params_as(MatmulParams), a, b)
        return Product(
            Size.of(roles.rows),
            Size.of(roles.cols),
            Size.of(roles.inner),
            a.dtype,
            form.transpose_a,
            form.transpose_b,
            Size.of(roles.batch),
            schedule.parallel or "",
            form.pitch,
            form.part,
            form.most_m,
            form.most_k,
            schedule.tile,
            schedule.few_rows,
            schedule.last,
            form.panel,
            schedule.pairs,
            schedule.amx,
            schedule.tile is not None and schedule.tile.a == "prepacked",
            schedule.pairs and schedule.tile is not None and schedule.tile.b == "prepacked",
        )

    @property
    def form(self) -> ProductForm:
        m, n, k = (None if s.symbols and s.factor else s.factor for s in (self.m, self.n, self.k))
        return ProductForm(
            self.dtype,
            *(m, n, k, self.transpose_a, self.transpose_b),
            split="" if self.split == "batch" else self.split,
            part=self.part,
            pitch=self.pitch,
            most_m=self.most_m,
            most_k=self.most_k,
            panel=self.panel,
            pairs=self.pairs,
            amx=self.amx,
        )

    @property
    def cut_extent(self) -> Size:
        """Of what `split` names."""
        return {"rows": self.m, "cols": self.n, "batch": self.batch}[self.split]

    def symbols(self) -> tuple[str, ...]:
        sizes = (self.m, self.n, self.k, self.batch)
        return tuple(sorted({name for size in sizes for name in size.symbols}))


def emit_gemm(module: ModuleWriter, machine: Machine, product: Product) -> str:
    """`@name` of `void (a, b, c, sizes of product.symbols()…)`, then `begin, end` with a split."""
    return module.once((machine, product), lambda: _written(module, machine, product))


def _written(module: ModuleWriter, machine: Machine, product: Product) -> str:
    if product.batch != Size() or product.split == "batch":
        if product.split in ("rows", "cols"):
            raise InternalError("a product over a batch is cut by the batch alone")
        return _emit_batch(module, machine, product)
    code, sizes = module.body(), _sizes(product)
    whole = _operands(code, product, sizes)
    if 0 not in (number_of(whole.m), number_of(whole.n)):
        if product.amx:
            amx.begin(code)
        _emit(code, machine, whole, product)
        if product.amx:
            code.amx_release()
    return _finished(module, "gemm", code, sizes, product)


def _operands(code: Writer, product: Product, sizes: Mapping[str, Val]) -> Operands:
    """The whole matrices."""
    m, n, k = (size_value(code, size, sizes) for size in (product.m, product.n, product.k))
    a, b, c = (Val(f"%{name}", PTR) for name in "abc")
    return Operands(
        product.dtype,
        *(a, b, c, m, n, k),
        lda=_pitch_of_a(code, product, m, k),
        ldb=_pitch_of_b(code, product, n, k),
        ldc=index(product.pitch) if product.pitch else n,
        a_transposed=product.transpose_a,
        b_transposed=product.transpose_b,
        most_m=product.most_m,
        most_k=product.most_k,
        panel=product.panel,
        pairs=product.pairs,
        a_ready=product.a_ready,
    )


def _pitch_of_a(code: Writer, product: Product, m: Val, k: Val) -> Val:
    """Elements from row to row of A as it is stored, or pairs."""
    if product.a_ready:
        return pitch_of_a(code, k)
    return m if product.transpose_a else k


def _pitch_of_b(code: Writer, product: Product, n: Val, k: Val) -> Val:
    """Elements from row to row of B; where it lies in panels the steps of one."""
    if product.b_ready:
        return pitch_of_b(code, k)
    if product.panel:
        return pairs.count_of(code, k) if product.pairs else k
    return k if product.transpose_b else n


def _emit(code: Writer, machine: Machine, whole: Operands, product: Product) -> None:
    """The asked range of rows or columns."""
    form = product.form
    ranged, last = form.call_range(), form.last_range()
    given = ProductSchedule(tile=product.tile, few_rows=product.few_rows, last=product.last)
    cut = with_tilings(given, machine, form)
    assert cut.tile is not None
    split: str = product.split
    if ranged.is_exchanged:
        whole = whole.exchanged()
        split = {"rows": "cols", "cols": "rows"}.get(split, "")
    if number_of(whole.m) == 1:
        # One row lies in memory like one column.
        whole = replace(whole, a_transposed=False, lda=whole.k)
    x, begin, end = whole, Val("%begin", I64), Val("%end", I64)
    if split == "rows":
        x = whole.of_rows(code, begin, end)
        x = x if ranged.m is None else replace(x, m=index(ranged.m))
    elif split == "cols":
        x = whole.of_columns(code, begin, end)
    write = _part(code, machine, ranged, cut.tile, cut.few_rows)
    if last is None or ranged.n is None:
        write(x)
        return
    assert cut.last is not None
    write_last = _part(code, machine, last, cut.last, None)
    with when(code, code.compare("sge", x.n, index(ranged.n)), []):
        write(x)
    with when(code, code.compare("slt", x.n, index(ranged.n)), []):
        write_last(x)


def _part(
    code: Writer, machine: Machine, ranged: ProductRange, tile: Tiling, few: Tiling | None
) -> Callable[[Operands], None]:
    """What writes the code of one length of range, whose workspace is reserved here."""
    if few is None:
        whole = _writer(code, machine, tile, ranged)
        return lambda x: _emit_range(whole, _known(x, ranged))
    one_row = _writer(code, machine, few, ranged.one_row)
    several = _writer(code, machine, tile, ranged) if ranged.most_m > FEW_ROWS else None

    def write(x: Operands) -> None:
        x = _known(x, ranged)
        is_few = code.compare("sle", x.m, index(FEW_ROWS))
        with when(code, is_few, []):
            _few_rows(one_row, x)
        if several is not None:
            with when(code, code.compare("sgt", x.m, index(FEW_ROWS)), []):
                emit_panels(several, x)

    return write


def _known(x: Operands, ranged: ProductRange) -> Operands:
    """Columns of a range, where their number is known."""
    return x if ranged.n is None else replace(x, n=index(ranged.n))


def _few_rows(w: ProductWriter, x: Operands) -> None:
    """One after the other; all in each panel, where B lies in panels."""
    code = w.code
    if x.panel:
        emit_panels(w, replace(x, most_m=min(x.most_m, FEW_ROWS)))
        return
    with loop(code, index(0), x.m, 1) as state:
        row = x.of_rows(code, state.index, add(code, state.index, index(1)))
        emit_panels(w, replace(row, m=index(1)))


def _writer(code: Writer, machine: Machine, tiling: Tiling, x: ProductRange) -> ProductWriter:
    """The blocking of this range, with workspace on the stack for what it packs."""
    blocking = Blocking.of(tiling, x)
    panel = block = NULL
    has_panel = (x.n is None and not x.panel) or blocking.read_b in ("packed", "packed by tiles")
    tile = blocking.tile
    if x.pairs:
        steps = (blocking.depth + 1) // 2
        if has_panel:
            slack = amx.SLACK if tile.amx else 0
            panel = _workspace(code, x.dtype, (steps + tile.lanes) * tile.width + slack)
        rows = blocking.rows * (steps + PAIRS_APART) + PAIRS_SLACK
        if blocking.packs_a:
            block = _workspace(code, x.dtype, rows)
        return ProductWriter(code, machine, blocking, panel, block)
    if has_panel:
        panel = _workspace(code, x.dtype, blocking.depth * tile.width)
    if blocking.packs_a:
        block = _workspace(code, x.dtype, blocking.rows * (blocking.depth + APART))
    return ProductWriter(code, machine, blocking, panel, block)


def _emit_range(w: ProductWriter, x: Operands) -> None:
    """A range of any width; if only the call knows it, as wide as a tile or narrower."""
    if number_of(x.n) is not None or x.panel:
        emit_panels(w, x)
        return
    code, width = w.code, w.blocking.tile.width
    padded = _workspace(code, x.dtype, w.blocking.height * width)
    with when(code, code.compare("sge", x.n, index(width)), []):
        emit_panels(w, x)
    with when(code, code.compare("slt", x.n, index(width)), []):
        emit_narrow(w, x, padded)


def _workspace(code: Writer, dtype: DType, elements: int) -> Val:
    return memory.stack_array(code, element_of(dtype), elements, 64)


def _emit_batch(module: ModuleWriter, machine: Machine, product: Product) -> str:
    """The loop over the matrices of a batch, or over those of a chunk."""
    one = replace(product, batch=Size(), split="")
    function = emit_gemm(module, machine, one)
    code, sizes = module.body(), _sizes(product)
    m, n, k, batch = (
        size_value(code, size, sizes) for size in (one.m, one.n, one.k, product.batch)
    )
    lengths = {"%a": mul(code, m, k), "%b": mul(code, k, n), "%c": mul(code, m, n)}
    begin, end = index(0), batch
    if product.split:
        begin, end = Val("%begin", I64), Val("%end", I64)
    with loop_if_any(code, begin, end, 1, []) as state:
        if state:
            places = [
                offset(code, Val(name, PTR), element_of(one.dtype), mul(code, state.index, length))
                for name, length in lengths.items()
            ]
            arguments = [*places, *(sizes[name] for name in one.symbols())]
            code.invoke(function, arguments)
    return _finished(module, "batch", code, sizes, product)


def _sizes(product: Product) -> dict[str, Val]:
    return {name: Val(f"%d{i}", I64) for i, name in enumerate(product.symbols())}


def _finished(
    module: ModuleWriter, hint: str, code: Writer, sizes: Mapping[str, Val], product: Product
) -> str:
    code.leave()
    parameters = [*(Val(f"%{name}", PTR) for name in "abc"), *sizes.values()]
    if product.split:
        parameters += [Val("%begin", I64), Val("%end", I64)]
    return module.add(hint, parameters, code, long_stack=True, only_calls=True)
