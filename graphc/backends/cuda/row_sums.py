"""Sums for each row of a table that is looked up, and what is done with them.

A row belongs to its first entry, whose warp adds up all entries of the row in their order. Few
entries are simply compared with each other; more are sorted first, by kernels that keep the order
of equals. Which of both is launched is decided by the sizes of a call, where they can go both ways.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from graphc.backends.cuda.calls import Call, launch_call
from graphc.backends.cuda.kernel import THREADS, Kernel, Limit, Tiles, size_text, symbols_of
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.steps import Where
from graphc.ir.core import Value
from graphc.ir.types import Dim, bound_of
from graphc.passes.analysis.loopnest import Size
from graphc.support.diagnostics import fail

FEW = 4096
"""Entries that are compared with each other."""

ROW_PART, SORT_TILE, DIGIT = 128, 2048, 8
"""As in `indexed.cuh`: numbers of a row that a warp adds up, entries that a block sorts, bits of a
row's number that one turn sorts by."""

DIGITS = 1 << DIGIT

WARPS = THREADS // 32


@dataclass(frozen=True, slots=True)
class Entries:
    """A lookup: x[n, k] y[n, :] for row index[n, k]."""

    x: Value
    y: Value
    index: Value


@dataclass(frozen=True, slots=True)
class RowRule:
    """What is done with the sum `g` of a number of a row.

    tables   the types of pointers t0, t1, …, in which the number is at `at`
    numbers  the types of n0, n1, …, single numbers
    lines    statements of C
    columns  a row of the tables is a column where they are stored
    """

    tables: tuple[str, ...]
    numbers: tuple[str, ...]
    lines: tuple[str, ...]
    columns: bool


@dataclass(frozen=True, slots=True)
class _Lookups:
    """Lookups into a table of `size` rows, at most `most_rows`, of `width` numbers.

    extents  of each index
    """

    real: str
    extents: tuple[tuple[Size, Size], ...]
    size: Size
    width: Size
    most_rows: int

    @staticmethod
    def of(entries: Sequence[Entries], size: Dim, width: Dim) -> _Lookups:
        indices = [one.index.tensor.dims for one in entries]
        extents = tuple((Size.of((n,)), Size.of((k,))) for n, k in indices)
        real = C_TYPES[entries[0].x.tensor.dtype]
        return _Lookups(real, extents, Size.of((size,)), Size.of((width,)), bound_of(size))

    @property
    def counts(self) -> tuple[Size, ...]:
        """Entries of each."""
        return tuple(n * k for n, k in self.extents)

    def symbols(self, tiles: Tiles) -> tuple[str, ...]:
        """The dims of the call that kernels with so many tiles ask for."""
        sizes = (self.size, self.width, *(size for extents in self.extents for size in extents))
        return tuple(sorted(symbols_of(tiles).union(s for size in sizes for s in size.symbols)))


@dataclass(frozen=True, slots=True)
class _Sums:
    """A kernel that calls the rule with the sums."""

    lookups: _Lookups
    rule: RowRule
    is_fused: bool
    is_sorted: bool
    limit: Limit | None


def launch_row_sums(
    program: Launcher,
    entries: Sequence[Entries],
    size: Dim,
    width: Dim,
    rule: RowRule,
    pointers: Sequence[Where],
    writes: Sequence[int],
) -> None:
    """The rule for each row that is looked up of a table of `size` rows of `width` numbers;
    `pointers` are those of the rule's tables and numbers."""
    most = sum(one.index.tensor.bound_elements for one in entries)
    if most >= 2**31:
        message = f"a GPU adds at most {2**31 - 1} entries of lookups by row, got {most}"
        raise fail("limit", f"{message}: compile for a smaller bound")
    if most == 0:
        return
    program.module.use("words", "indexed")
    lookups = _Lookups.of(entries, size, width)
    arrays = [program.where[v] for one in entries for v in (one.x, one.y, one.index)]
    is_fused = program.contraction != "off"
    # Whether there are few is known by the call alone.
    is_open = any(count.symbols for count in lookups.counts)

    def launch(listed: Sequence[Where], limit: Limit | None) -> None:
        what = _Sums(lookups, rule, is_fused, bool(listed), limit)
        kernel = program.module.kernel(what, "rows", lambda name: _summing_kernel(name, what))
        program.launch(kernel, (*pointers, *arrays, *listed), writes)

    if most <= FEW or is_open:
        launch((), Limit(lookups.counts, FEW, is_over=False) if most > FEW else None)
    if most > FEW:
        limit = Limit(lookups.counts, FEW, is_over=True) if is_open else None
        indices = [program.where[one.index] for one in entries]
        launch(_sort(program, lookups, indices, most, limit), limit)


def _tiles(
    counts: Sequence[Size], length: int, limit: Limit | None, *others: tuple[Size, int]
) -> Tiles:
    """At least as many as parts of that length hold all entries; kernels count them themselves."""
    first, *rest = (Tiles(((count, length), *others), limit=limit) for count in counts)
    return replace(first, others=tuple(rest))


# --- order ---------------------------------------------------------------------------------------


def _sort(
    program: Launcher,
    lookups: _Lookups,
    indices: Sequence[Where],
    most: int,
    limit: Limit | None,
) -> tuple[Where, Where]:
    """The rows of all entries in order, and the entries that they are of."""
    lists = [program.scratch(4 * most) for _ in range(4)]
    counts = program.scratch(4 * DIGITS * -(-most // SORT_TILE))
    listing = _Listing(lookups, limit)
    kernel = program.module.kernel(
        listing, "list_rows", lambda name: _listing_kernel(name, listing)
    )
    program.launch(kernel, (*indices, *lists[:2]), (len(indices), len(indices) + 1))
    entries = (lookups.counts,)
    tiles, shared = _tiles(lookups.counts, SORT_TILE, limit), 4 * WARPS * DIGITS
    one = Tiles(limit=limit)
    for shift in range(0, lookups.most_rows.bit_length(), DIGIT):
        rows, order, *to = lists
        numbers = (*entries, (Size(shift),))
        count = Call("sort_count", ("const int *", "int *"), numbers, tiles, shared)
        launch_call(program, count, (rows, counts), writes=(1,))
        launch_call(program, Call("sort_places", ("int *",), entries, one, shared), (counts,), (0,))
        types = (*["const int *"] * 3, *["int *"] * 2)
        move = Call("sort_move", types, numbers, tiles, shared)
        launch_call(program, move, (rows, order, counts, *to), writes=(3, 4))
        lists = [*to, rows, order]
    return lists[0], lists[1]


@dataclass(frozen=True, slots=True)
class _Listing:
    """The kernel that lists the rows of all entries."""

    lookups: _Lookups
    limit: Limit | None


def _listing_kernel(name: str, what: _Listing) -> Kernel:
    lookups = what.lookups
    count = len(lookups.extents)
    pointers = (*["const int *"] * count, "int *", "int *")
    given = [("nullptr", "nullptr", f"p{i}") for i in range(count)]
    tiles = _tiles(lookups.counts, THREADS, what.limit)
    kernel = Kernel(name, pointers, lookups.symbols(tiles), tiles, "")
    step = f"list_rows(lookups, p{count}, p{count + 1}, block);"
    return _with_lookups(kernel, lookups, given, [step], what.limit)


# --- sums ----------------------------------------------------------------------------------------


def _summing_kernel(name: str, what: _Sums) -> Kernel:
    lookups, rule = what.lookups, what.rule
    real = lookups.real
    fields = [*rule.tables, *(f"const {type} *" for type in rule.numbers)]
    first = len(fields)
    arrays = [f"const {real} *", f"const {real} *", "const int *"] * len(lookups.extents)
    lists = ["const int *"] * (2 if what.is_sorted else 0)
    tiles = _tiles(lookups.counts, WARPS, what.limit, (lookups.width, ROW_PART))
    pointers = (*fields, *arrays, *lists)
    kernel = Kernel(name, pointers, lookups.symbols(tiles), tiles, "")
    names = [f"p{i}" for i in range(len(pointers))]
    given = [tuple(names[i : i + 3]) for i in range(first, first + len(arrays), 3)]
    listed = ", ".join(names[first + len(arrays) :] or ["nullptr", "nullptr"])
    numbers = [f"*{p}" for p in names[len(rule.tables) : first]]
    held = ", ".join([*names[: len(rule.tables)], *numbers, "lookups.size", "lookups.width"])
    settings = f"{_truth(what.is_fused)}, {_truth(what.is_sorted)}"
    steps = [
        f"const {name}_rule rule = {{{held}}};",
        f"sum_by_row<{settings}>(lookups, {listed}, rule, block);",
    ]
    made = _with_lookups(kernel, lookups, given, steps, what.limit)
    return replace(made, text=f"{_rule_text(name, rule, real)}\n{made.text}")


def _rule_text(name: str, rule: RowRule, real: str) -> str:
    members = [f"{type}t{i};" for i, type in enumerate(rule.tables)]
    members += [f"{type} n{i};" for i, type in enumerate(rule.numbers)]
    place = "d * size + row" if rule.columns else "row * width + d"
    lines = [
        "// What is done with the sum g of number d of a row.",
        f"struct {name}_rule {{",
        *(f"    {member}" for member in members),
        "    i64 size, width;",
        "",
        f"    __device__ void operator()(i64 row, i64 d, {real} g) const",
        "    {",
        f"        const i64 at = {place};",
        *(f"        {line}" for line in rule.lines),
        "    }",
        "};",
        "",
    ]
    return "\n".join(lines)


def _with_lookups(
    kernel: Kernel,
    lookups: _Lookups,
    arrays: Sequence[tuple[str, ...]],
    steps: Sequence[str],
    limit: Limit | None,
) -> Kernel:
    """The kernel with steps that know the lookups, whose x, y and index are these."""
    names = {symbol: f"d{i}" for i, symbol in enumerate(kernel.symbols)}
    size, width = size_text(lookups.size, names), size_text(lookups.width, names)
    parts: list[str] = []
    for given, (n, k) in zip(arrays, lookups.extents, strict=True):
        of_each = size_text(k, names)
        count = size_text(n * k, names)
        parts.append(f"{{{', '.join(given)}, (int)({of_each}), (int)({count})}}")
    lines = [
        f"__device__ void {kernel.name}({', '.join([*kernel.parameters, 'Block block'])})",
        "{",
        f"    const Lookups<{lookups.real}, {len(parts)}> lookups = {{",
        f"        {{{', '.join(parts)}}}, {size}, {width}}};",
        *([f"    if (!({limit.text(names)}))", "        return;"] if limit is not None else []),
        *(f"    {step}" for step in steps),
        "}",
        "",
    ]
    return replace(kernel, text="\n".join(lines))


def _truth(value: bool) -> str:
    return "true" if value else "false"
