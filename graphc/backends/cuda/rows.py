"""Nests that fold, as kernels: rows spread over threads, their lanes folded; sums over rows.

A row is computed by neighbouring threads, as many as `NestSpread.threads`; its lanes go round among
them. What one sweep computes and a later one needs stays in registers where rows are short; of
longer rows it is read or computed again, or waits in the row of a result that is not written yet.

A sum over rows is a sum in each thread of the rows that it sees; these are added up over the
threads of a block, and over parts of the rows by another kernel (`sums.py`). No thread adds more
than 128 numbers one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from graphc.backends.cuda.body import Element
from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.stages import Frame, StageWriter
from graphc.backends.cuda.sums import FUNCTORS, PartialSum, part_length
from graphc.backends.cuda.text import indented, literal
from graphc.backends.loops.chains import chain_ends, is_rounded
from graphc.backends.loops.values import Val, element_of, lane_type
from graphc.ops.schedules import NestSpread
from graphc.passes.analysis.gpu_nests import needed_by
from graphc.passes.analysis.gpu_rows import RowSweep, plan_row, with_lanes
from graphc.passes.analysis.loopnest import (
    ArrayAccess,
    Index,
    Load,
    Reduce,
    Size,
    product_of,
)


def write_rows(
    writer: StageWriter, spread: NestSpread, sums: Mapping[int, PartialSum], name: str
) -> Kernel:
    """The kernel of a stage that folds; `sums`: the stores that write partial sums."""
    return _Rows(writer, spread, sums).kernel(name)


class _Rows:
    """State while the kernel of rows is written.

    threads     that share a row, `groups` of such in a block
    turns       vectors of a row that a thread has, each with a place of its own in registers; 0: a
                loop goes over them
    is_chunked  a block has `threads` vectors of each of its rows only: nothing is folded over lanes
    length      rows that a block adds up; 0: there are no sums over rows
    places      results whose rows keep values for later sweeps
    """

    def __init__(
        self, writer: StageWriter, spread: NestSpread, sums: Mapping[int, PartialSum]
    ) -> None:
        nest, stage = writer.nest, writer.stage
        self.writer = writer
        self.nest = nest
        self.partial = sums
        self.threads = spread.threads
        self.groups = THREADS // spread.threads
        self.width = self.threads * writer.lanes
        self.summed = stage.summed
        self.sums = [n for n, s in enumerate(nest.stores) if s.combine is not None]
        self.length = part_length(spread) if self.sums else 0
        self.is_chunked = not stage.folds_lanes
        self.parts = stage.parts
        plan = plan_row(stage, spread.threads, writer.lanes)
        self.with_lanes = with_lanes(stage)
        self.sweeps, self.turns, self.places = plan.sweeps, plan.turns, plan.places
        self.kept = {n for sweep in self.sweeps for n in sweep.found}
        self.indices = [*(f"i{d}" for d in range(nest.lane)), "part" if self.parts else "lane"]
        self.end = "end" if self.parts else writer.extent(nest.lane)
        rows = product_of(nest.dims[:-1])
        is_exact = not (self.sums or rows.symbols or rows.factor % self.groups)
        self.is_row = "" if self.groups == 1 or is_exact else "is_row"
        self._declared = set[int]()
        self.shared = 8 * (THREADS // 32) if self.threads > 32 else 0

    def kernel(self, name: str) -> Kernel:
        row = self._row()
        if self.sums:
            lines = [*self._tile_of_sums(), *self._begin_sums(), *self._over_rows(row)]
            lines += self._end_sums()
        else:
            lines = [*self._tile_of_rows(), *row]
        frame = Frame(self._about(), Tiles(tuple(self._tiles())), self._begin(), self.shared)
        return self.writer.kernel(name, frame, lines)

    # --- the tile

    def _about(self) -> list[str]:
        by = {1: "a thread", 32: "a warp", 256: "a block"}
        who = by.get(self.threads, f"{self.threads} threads")
        lanes = f", {self.writer.lanes} lanes at once" if self.writer.lanes > 1 else ""
        what = f"Sums over {self.length} rows, each row" if self.sums else "Rows, each"
        return [f"{what} by {who}{lanes}."]

    def _begin(self) -> list[str]:
        """What holds for all tiles."""
        w = self.writer
        lines: list[str] = []
        if self.threads > 1:
            me = "thread_index()" + (f" % {self.threads}" if self.groups > 1 else "")
            lines.append(f"const int me = {me};")
        if self.groups > 1:
            group = "thread_index()" + (f" / {self.threads}" if self.threads > 1 else "")
            lines.append(f"const int group = {group};")
        if not self.sums and not self.is_row:
            return lines
        dims = self.summed if self.sums else range(self.nest.lane)
        return [*lines, w.define("rows", w.size(product_of(self.nest.dims[d] for d in dims)))]

    def _tiles(self) -> Iterable[tuple[Size, int]]:
        dims = self.nest.dims
        if not self.sums:
            yield product_of(dims[:-1]), 1 if self.parts else self.groups
            if self.parts:
                yield Size(self.parts), 1
            return
        if self.partial:
            yield product_of(dims[d] for d in self.summed), self.length
        if self.is_chunked:
            yield dims[-1], self.width
        yield from ((dims[d], 1) for d in self._unsummed())

    def _unsummed(self) -> list[int]:
        return [d for d in range(self.nest.lane) if d not in self.summed]

    def _used(self) -> frozenset[int]:
        """The outer dims whose indices are asked for."""
        used = {d for s in self.nest.stores for d in s.access.dims}
        for number in needed_by(self.nest, (s.value for s in self.nest.stores)):
            work = self.nest.statements[number].work
            if isinstance(work, Load):
                used |= work.access.dims
            elif isinstance(work, Index):
                used.add(work.dim)
        return frozenset(used)

    def _tile_of_rows(self) -> list[str]:
        w = self.writer
        tile = f"({w.integer})tile"
        if self.parts:
            lanes = self._part_lanes()
            lines = [
                *([w.define("row", f"{tile} / {self.parts}")] if self.nest.lane else []),
                w.define("part", f"{tile} % {self.parts}"),
                w.define("begin", f"part * {lanes}"),
                w.define("most", f"begin + {lanes}"),
                w.define("end", f"most < {self._lanes()} ? most : {self._lanes()}"),
            ]
        elif self.groups > 1 and not self.is_row:
            lines = [w.define("row", f"{tile} * {self.groups} + group")]
        elif self.groups > 1:
            number = f"{tile} * {self.groups} + group"
            lines = [
                f"const bool is_row = {number} < rows;",
                w.define("row", f"is_row ? {number} : rows - 1"),
            ]
        else:
            lines = [w.define("row", tile)] if self.nest.lane else []
        return [*lines, *w.part_of("row", range(self.nest.lane), self._used())]

    def _lanes(self) -> str:
        return self.writer.extent(self.nest.lane)

    def _part_lanes(self) -> int:
        """Lanes of a part of a row."""
        return -(-self.nest.bound // (self.parts * self.width)) * self.width

    def _tile_of_sums(self) -> list[str]:
        """Which part of the rows, which lanes, which of the dims that are not summed."""
        w = self.writer
        named: list[tuple[str, str]] = []
        if self.partial:
            named.append(("part", f"((rows + {self.length - 1}) / {self.length})"))
        if self.is_chunked:
            named.append(("chunk", f"(({self._lanes()} + {self.width - 1}) / {self.width})"))
        named += [(f"i{d}", w.extent(d)) for d in reversed(self._unsummed())]
        lines = [f"{w.integer} rest = ({w.integer})tile;"] if named else []
        for name, count in named[:-1]:
            lines += [w.define(name, f"rest % {count}"), f"rest /= {count};"]
        lines += [w.define(name, "rest") for name, _ in named[-1:]]
        if self.is_chunked:
            lines.append(w.define("lane", f"chunk * {self.width}{self._own(' + ')}"))
        return lines

    def _own(self, before: str) -> str:
        """The first lane of a thread, behind others."""
        if self.threads == 1:
            return ""
        return f"{before}me" + (f" * {self.writer.lanes}" if self.writer.lanes > 1 else "")

    def _over_rows(self, row: Sequence[str]) -> list[str]:
        """The rows of the block, `groups` a turn."""
        w = self.writer
        begin, end = "0", "rows"
        lines: list[str] = []
        if self.partial:
            begin, end = f"part * {self.length}", "last"
            most = f"part * {self.length} + {self.length}"
            lines.append(w.define("last", f"{most} < rows ? {most} : rows"))
        step = f"first += {self.groups}" if self.groups > 1 else "first++"
        lines.append(f"for ({w.integer} first = {begin}; first < {end}; {step}) {{")
        if self.groups > 1:
            here = f"const bool is_row = first + group < {end};"
            inside = [here, w.define("row", f"is_row ? first + group : {end} - 1")]
        else:
            inside = [w.define("row", "first")]
        inside += w.part_of("row", self.summed, self._used())
        return [*lines, *indented([*inside, *row]), "}"]

    # --- sums over rows

    def _begin_sums(self) -> list[str]:
        w = self.writer
        lines: list[str] = []
        for n in self.sums:
            store = self.nest.stores[n]
            assert store.combine is not None
            dtype = store.access.dtype
            identity = literal(store.combine.identity, dtype)
            if n not in self.with_lanes:
                lines.append(f"{C_TYPES[dtype]} sum{n} = {identity};")
            elif self.turns:
                lines.append(f"{w.vector(dtype)} sum{n}[{self.turns}];")
                lines.append(f"fill(sum{n}, {identity});")
            else:
                array, place = self._goal(n)
                filled = [f"{w.vector(dtype)} r{n};"]
                filled += w.each_lane([f"{w.of_lane(f'r{n}')} = {identity};"])
                filled.append(w.store(array, place, f"r{n}"))
                lines += self._each_lane_once(filled)
        return lines

    def _goal(self, number: int) -> tuple[str, str]:
        """Where a sum goes: the array and the place in it."""
        w, access = self.writer, self.nest.stores[number].access
        place = w.element(self.indices).place(access)
        if number not in self.partial:
            return w.array((access.kind, access.index)), place
        count = w.size(self.partial[number].count)
        return w.array(("partial", number)), f"part * {count} + {place}"

    def _end_sums(self) -> list[str]:
        lines: list[str] = []
        for n in self.sums:
            store = self.nest.stores[n]
            assert store.combine is not None
            if n in self.with_lanes and not self.turns:
                continue
            functor = FUNCTORS[store.combine.scalar_op]
            array, place = self._goal(n)
            dtype = store.access.dtype
            call = f"fold_groups<{self.threads}>({{}}, {functor}(), block.shared);"
            if n not in self.with_lanes:
                size = dtype.itemsize
                lines.append(f"sum{n} = {call.format(f'sum{n}')}")
                lines += ["if (thread_index() == 0)", f"    {array}[{place}] = sum{n};"]
            else:
                size = self.writer.lanes * dtype.itemsize
                lines += self._store_sums(n, call, array, place)
            if self.groups > 1:
                self.shared = max(self.shared, THREADS * size)
        return lines

    def _store_sums(self, number: int, call: str, array: str, place: str) -> list[str]:
        """The sums of each lane, by the threads of the first group."""
        w = self.writer
        vector = w.vector(self.nest.stores[number].access.dtype)
        folded = [f"const {vector} all = {call.format(f'sum{number}[{self._turn}]')}"]
        is_first = "group == 0" if self.groups > 1 else ""
        stored = when(is_first, [w.store(array, place, "all")])
        if self.is_chunked:
            return ["{", *indented([*folded, *self._if_lane(stored)]), "}"]
        return self._each_turn(stored, always=folded)

    # --- lanes

    @property
    def _turn(self) -> str:
        return "0" if self.is_chunked else "j"

    def _if_lane(self, lines: Sequence[str]) -> list[str]:
        """Where the thread's vector is one of the row."""
        size = self.nest.dims[-1]
        reach = self.width if self.is_chunked else self.width * self.turns
        is_exact = not size.symbols and size.factor % reach == 0 and size.factor > 0
        return when("" if is_exact else f"lane < {self._lanes()}", lines)

    def _each_turn(self, lines: Sequence[str], always: Sequence[str] = ()) -> list[str]:
        """Lines for every vector of a thread; `always` are run where it has none too."""
        w = self.writer
        own = f"(j * {self.threads}{' + me' if self.threads > 1 else ''})" + (
            f" * {w.lanes}" if w.lanes > 1 else ""
        )
        inside = [*always, w.define("lane", own.strip("()") if w.lanes == 1 else own)]
        inside += self._if_lane(lines)
        head = f"for (int j = 0; j < {self.turns}; j++) {{"
        return ["#pragma unroll", head, *indented(inside), "}"]

    def _each_lane_once(self, lines: Sequence[str], begin: str = "", end: str = "") -> list[str]:
        """Lines for every vector of a thread, in a loop."""
        start = f"{begin}{self._own(' + ')}" if begin else self._own("") or "0"
        head = f"for ({self.writer.integer} lane = {start}; "
        head += f"lane < {end or self._lanes()}; lane += {self.width}) {{"
        return [head, *indented(lines), "}"]

    def _over_lanes(
        self,
        sweep: RowSweep,
        totals: Mapping[int, str],
        body: Callable[[Mapping[int, str]], list[str]],
    ) -> list[str]:
        """A sweep; `body` writes what is done with a vector, and folds into what it is given."""
        if self.is_chunked:
            return self._if_lane(body(totals))
        if self.turns:
            return self._each_turn(body(totals))
        statements = self.nest.statements
        works = [(statements[n].work, statements[n].dtype) for n in sweep.fold]
        steps: list[int] = []
        if any(isinstance(w, Reduce) and is_rounded(w, t.is_float) for w, t in works):
            turns = -(-self.nest.bound // self.width)
            ends, _ = chain_ends(turns, self.writer.lanes)
            steps = [end * self.width for end in reversed(ends)]
        begin = "begin" if self.parts else "0"
        return self._chains(sweep, steps, begin, self.end, totals, body)

    def _chains(
        self,
        sweep: RowSweep,
        steps: Sequence[int],
        begin: str,
        end: str,
        totals: Mapping[int, str],
        body: Callable[[Mapping[int, str]], list[str]],
    ) -> list[str]:
        """Loops of these steps, one in the other; each turn of an outer one folds a chain."""
        if not steps:
            return self._each_lane_once(body(totals), "" if begin == "0" else begin, end)
        w, depth = self.writer, len(steps)
        inner = {n: f"chain{depth}_{n}" for n in sweep.fold}
        first, stop = f"begin{depth}", f"end{depth}"
        inside = [w.define(stop, f"{first} + {steps[0]} < {end} ? {first} + {steps[0]} : {end}")]
        inside += self._totals(sweep, inner)
        inside += self._chains(sweep, steps[1:], first, stop, inner, body)
        inside += [self._folded(n, totals[n], inner[n]) for n in sweep.fold]
        head = f"for ({w.integer} {first} = {begin}; {first} < {end}; {first} += {steps[0]}) {{"
        return [head, *indented(inside), "}"]

    def _reduce(self, number: int) -> Reduce:
        work = self.nest.statements[number].work
        assert isinstance(work, Reduce)
        return work

    def _totals(self, sweep: RowSweep, names: Mapping[int, str]) -> list[str]:
        """The variables that a sweep folds into."""
        lines: list[str] = []
        for n in sweep.fold:
            dtype = self.nest.statements[n].dtype
            lines.append(
                f"{C_TYPES[dtype]} {names[n]} = {literal(self._reduce(n).identity, dtype)};"
            )
        return lines

    def _folded(self, number: int, total: str, value: str) -> str:
        return f"{total} = {fold_text(self._reduce(number), total, value)};"

    # --- the row

    def _row(self) -> list[str]:
        """Sweeps, and what happens once a row between them."""
        row = self.writer.element(self.indices)
        lines: list[str] = []
        for level, sweep in enumerate(self.sweeps):
            lines += self._row_values(row, level)
            lines += self._sweep(row, sweep)
        lines += self._row_values(row, len(self.sweeps))
        for n, store in enumerate(self.nest.stores):
            if n in self.with_lanes:
                continue
            text = row.text(store.value)
            lines += row.scalars.thread.taken()
            if store.combine is not None:
                fold = fold_text(store.combine, f"sum{n}", text)
                lines += when(self.is_row, [f"sum{n} = {fold};"])
            else:
                is_mine = ["me == 0"] if self.threads > 1 else []
                is_mine += [self.is_row] if self.is_row else []
                lines += when(" && ".join(is_mine), [f"{row.there(store.access)} = {text};"])
        return lines

    def _row_values(self, row: Element, level: int) -> list[str]:
        """What has no lanes, as far as it can be computed before sweep `level`."""
        statements = self.nest.statements
        row.require(
            n
            for n in needed_by(self.nest, (s.value for s in self.nest.stores))
            if statements[n].level <= level
            and not self.nest.has_lanes(n)
            and not isinstance(statements[n].work, Reduce)
        )
        return self.writer.code.taken()

    def _sweep(self, row: Element, sweep: RowSweep) -> list[str]:
        w, statements = self.writer, self.nest.statements
        names = {n: f"total{n}" for n in sweep.fold}
        lines = self._totals(sweep, names)
        new = sorted(self.kept.intersection(sweep.compute) - self._declared)
        self._declared.update(new)
        if self.turns:
            lines += [f"{w.vector(statements[n].dtype)} keep{n}[{self.turns}];" for n in new]
        lines += self._over_lanes(
            sweep, names, lambda totals: self._vector(row, sweep, new, totals)
        )
        for n in sweep.fold:
            if self.threads > 1:
                functor = FUNCTORS[self._reduce(n).scalar_op]
                call = f"fold_threads<{self.threads}>({names[n]}, {functor}(), block.shared)"
                lines.append(f"{names[n]} = {call};")
            row.values[n] = Val(names[n], lane_type(element_of(statements[n].dtype)))
        return lines

    # --- a vector

    def _vector(
        self, row: Element, sweep: RowSweep, new: Sequence[int], totals: Mapping[int, str]
    ) -> list[str]:
        """What a sweep does with the vector at `lane`: reads, elements, writes."""
        w = self.writer
        reads, inside = self._reads(row, sweep)
        lanes: list[str] = []
        if w.lanes > 1 and self._counts_lanes(sweep):
            lanes.append(w.define("here", "lane + k"))
        inside.require(sweep.compute)
        lanes += w.code.taken()
        for n in new:
            name = f"keep{n}[{self._turn}]" if self.turns else f"kept{n}"
            lanes.append(f"{w.of_lane(name)} = {inside.text(n)};")
        is_there = "lane + k < " + self.end if self._left() and w.lanes > 1 else ""
        for n in sweep.fold:
            value = inside.text(self.nest.statements[n].args[0])
            lanes += when(is_there, [self._folded(n, totals[n], value)])
        writes: list[str] = []
        for n in sweep.store:
            self._write(n, inside, lanes, reads, writes)
        for n in new if not self.turns else ():
            access = self.places[n]
            reads.append(f"{w.vector(access.dtype)} kept{n};")
            array = w.array((access.kind, access.index))
            stored = w.store(array, self._place(access), f"kept{n}", self._left())
            writes += when(self.is_row, [stored])
        return [*reads, *w.each_lane(lanes), *writes]

    def _reads(self, row: Element, sweep: RowSweep) -> tuple[list[str], Element]:
        """The vectors that a sweep reads, and an element of them."""
        w, statements = self.writer, self.nest.statements
        lane = "here" if w.lanes > 1 else "lane"
        inside = w.element([*self.indices[:-1], lane], row.values)
        reads: list[str] = []
        sources = {n: self.places[n] for n in sweep.found if not self.turns}
        for n in sweep.compute:
            work = statements[n].work
            if isinstance(work, Load):
                sources[n] = work.access
        for n, access in sources.items():
            vector = w.load(access, self._place(access), self._left())
            reads.append(f"const {w.vector(access.dtype)} v{n} = {vector};")
        for n in (*sources, *sweep.found):
            name = f"v{n}" if n in sources else f"keep{n}[{self._turn}]"
            type_ = lane_type(element_of(statements[n].dtype))
            inside.values[n] = Val(w.of_lane(name), type_)
        return reads, inside

    def _place(self, access: ArrayAccess) -> str:
        """Where the vector at `lane` is in an array."""
        indices = [*self.indices[:-1], "lane"]
        return self.writer.element(indices).place(access)

    def _left(self) -> str:
        """How many elements there are from `lane` on, where they may be fewer than a vector."""
        lanes = self.writer.lanes
        return f"{self.end} - lane" if self.nest.dims[-1].factor % lanes else ""

    def _counts_lanes(self, sweep: RowSweep) -> bool:
        works = (self.nest.statements[n].work for n in sweep.compute)
        return any(isinstance(w, Index) and w.dim == self.nest.lane for w in works)

    def _write(
        self, number: int, inside: Element, lanes: list[str], reads: list[str], writes: list[str]
    ) -> None:
        """A store with lanes: of a result, or into a sum."""
        w, store = self.writer, self.nest.stores[number]
        access, value = store.access, inside.text(store.value)
        if store.combine is None:
            reads.append(f"{w.vector(access.dtype)} r{number};")
            lanes.append(f"{w.of_lane(f'r{number}')} = {value};")
            array = w.array((access.kind, access.index))
            place = self._place(access)
            writes += when(self.is_row, [w.store(array, place, f"r{number}", self._left())])
        elif self.turns:
            total = w.of_lane(f"sum{number}[{self._turn}]")
            lanes += when(self.is_row, [f"{total} = {fold_text(store.combine, total, value)};"])
        else:
            array, place = self._goal(number)
            total = w.of_lane(f"s{number}")
            reads.append(f"{w.vector(access.dtype)} s{number} = {w.load_from(array, place)};")
            lanes.append(f"{total} = {fold_text(store.combine, total, value)};")
            writes.append(w.store(array, place, f"s{number}"))


def fold_text(fold: Reduce, a: str, b: str) -> str:
    """Two values folded."""
    if fold.scalar_op == "add":
        return f"{a} + {b}"
    return f"{'largest' if fold.scalar_op == 'maximum' else 'smallest'}({a}, {b})"


def when(condition: str, lines: Sequence[str]) -> list[str]:
    """Lines under a condition; "" holds always."""
    if not condition or not lines:
        return list(lines)
    if len(lines) == 1:
        return [f"if ({condition})", *indented(lines)]
    return [f"if ({condition}) {{", *indented(lines), "}"]
