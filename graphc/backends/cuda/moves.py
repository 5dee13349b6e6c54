"""Rearrangements as kernels: every element of the result is fetched from where it comes.

Several copies and what they leave out are one launch. Elements that meet are added by the thread of
the result's element, in the order of the box, so that sums have the same bits always. Where both
sides allow it 16 bytes are moved at once. A transposition whose operand is contiguous along another
axis than its result goes through squares in shared memory, so that both are walked along.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from graphc.backends.cuda.fetches import Fetch, Fetches, Reach
from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text, tiles_text
from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.steps import Where, alignment_of
from graphc.backends.loops.affine import CopyNest, Distance, Walk, copy_nest, fill_of
from graphc.ir.codegen import StridedCopy
from graphc.ir.core import Operation
from graphc.ir.elements import element_bytes
from graphc.ir.types import DType, TensorType
from graphc.passes.analysis.loopnest import Size

TURNS = 4
"""Elements that a thread fetches before it writes the first of them."""

SQUARE = 32
"""The side of what is transposed in shared memory."""

LEAST_SIDE = 16
"""Shorter sides leave most of a square empty: such a transposition is fetched."""

_BITS = {1: "unsigned char", 2: "unsigned short", 4: "u32", 8: "u64", 16: "ulonglong2"}
"""What so many bytes are moved as, so that no bit changes."""

_SUMMANDS = {
    DType.F32: "float",
    DType.F64: "double",
    DType.I32: "u32",
    DType.I64: "u64",
    DType.I1: "unsigned char",
}
"""What elements are added as: unsigned numbers wrap around, truth values are bytes of 0 and 1."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """A kernel that fetches.

    operands  how many there are
    element   the type in C of what is moved
    fill      what no copy reaches has, as an expression; sums start from it
    sum       how elements that meet are added; "" where none do
    is_wide   places take 64 bits
    """

    fetches: Fetches
    operands: int
    element: str
    fill: str
    sum: str
    is_wide: bool


@dataclass(frozen=True, slots=True)
class Transposing:
    """A kernel for a copy whose operand is contiguous along the loop `across`, its result along the
    last one."""

    nest: CopyNest
    across: Walk
    itemsize: int
    is_wide: bool


def launch_move(program: Launcher, op: Operation, how: StridedCopy) -> None:
    types, result = [v.tensor for v in op.operands], op.result.tensor
    if result.bound_elements == 0:
        return
    copies = how.copies(op.params, types, result)
    fill = fill_of(how, op.params, result.dtype)
    pointers = [program.where[v] for v in (*op.operands, op.result)]
    itemsize = result.dtype.itemsize
    is_wide = max(t.bound_elements for t in (*types, result)) >= 2**31
    if len(copies) == 1 and fill is None:
        nest = copy_nest(copies[0], types[0], result, in_order=False)
        across = _across(nest)
        if across is not None:
            squares = Transposing(nest, across, itemsize, is_wide)
            kernel = program.module.kernel(squares, "transpose", lambda n: _transposing(n, squares))
            program.launch(kernel, pointers, writes=(1,))
            return
    fetches, width = Fetches.of(copies, types, result), 1
    if how.adds:
        element = _SUMMANDS[result.dtype]
    else:
        width = _width(fetches, itemsize, min(alignment_of(where) for where in pointers))
        fetches, element = fetches.at_once(width), _BITS[itemsize * width]
    content = element_bytes([0 if fill is None else fill], result.dtype)
    start = "0" if how.adds else _bits(content * width)
    total = ("|=" if result.dtype is DType.I1 else "+=") if how.adds else ""
    gathering = Gathering(fetches, len(types), element, start, total, is_wide)
    kernel = program.module.kernel(gathering, "move", lambda n: _gathering(n, gathering))
    program.launch(kernel, pointers, writes=(len(types),))


def launch_copy(program: Launcher, type: TensorType, source: Where, target: Where) -> None:
    """Elements one after the other, in memory order."""
    if type.bound_elements == 0:
        return
    fetches, itemsize = Fetches.whole(type), type.dtype.itemsize
    width = _width(fetches, itemsize, min(alignment_of(source), alignment_of(target)))
    is_wide = type.bound_elements >= 2**31
    fetches, element = fetches.at_once(width), _BITS[itemsize * width]
    copying = Gathering(fetches, 1, element, _bits(bytes(itemsize * width)), "", is_wide)
    kernel = program.module.kernel(copying, "copy", lambda n: _gathering(n, copying))
    program.launch(kernel, (source, target), writes=(1,))


def _width(fetches: Fetches, itemsize: int, alignment: int) -> int:
    """Elements that are moved at once, so that `_BITS` has their number of bytes."""
    width = fetches.most_at_once(alignment // itemsize)
    return width if width * itemsize in _BITS else 1


def _bits(content: bytes) -> str:
    """Bytes as an expression of C of that size."""
    words = [hex(int.from_bytes(content[i : i + 8], "little")) for i in range(0, len(content), 8)]
    return f"ulonglong2{{{words[0]}, {words[1]}}}" if len(words) == 2 else words[0]


def _place(is_wide: bool) -> str:
    """What places are counted with. Unsigned, an index before a start is beyond every extent, and
    distances backwards wrap around."""
    return "u64" if is_wide else "u32"


def _narrowed(symbols: Sequence[str], place: str) -> list[str]:
    """The sizes of the call as places are counted."""
    return [f"    const {place} s{i} = ({place})d{i};" for i in range(len(symbols))]


def _named(symbols: Sequence[str], letter: str) -> dict[str, str]:
    return {symbol: f"{letter}{i}" for i, symbol in enumerate(symbols)}


# --- fetching ------------------------------------------------------------------------------------


def _gathering(name: str, what: Gathering) -> Kernel:
    element, place, symbols = what.element, _place(what.is_wide), what.fetches.symbols()
    names, sizes = _named(symbols, "s"), _named(symbols, "d")
    sources, goal = [f"p{i}" for i in range(what.operands)], f"p{what.operands}"
    elements, tile = what.fetches.elements, THREADS * TURNS
    tiles = Tiles(((elements, tile),))
    read = [f"const {element} *{p}" for p in sources]
    taken = [*read, f"{place} at", *(f"{place} {s}" for s in names.values())]
    given = [*sources, f"({place})at", *names.values()]
    parameters = [*read, f"{element} *{goal}", *(f"i64 {d}" for d in sizes.values())]
    lines = [
        "// What belongs at a place of the result.",
        f"__device__ inline {element} {name}_at({', '.join(taken)})",
        "{",
        *_indices(what.fetches, names, place),
        f"    {element} value = {what.fill};",
        *(line for copy in what.fetches.copies for line in _fetching(what, copy, names)),
        "    return value;",
        "}",
        "",
        f"// {tile} elements a tile.",
        f"__device__ void {name}({', '.join(parameters)}, Block block)",
        "{",
        *_narrowed(symbols, place),
        f"    const i64 count = {tiles_text(Tiles(((elements, 1),)), sizes)};",
        f"    for (i64 tile = block.index; tile < {tiles_text(tiles, sizes)}; "
        "tile += block.count) {",
        f"        const i64 first = tile * {tile} + thread_index();",
        f"        {element} fetched[{TURNS}];",
        f"        for (int turn = 0; turn < {TURNS}; ++turn) {{",
        f"            const i64 at = first + turn * {THREADS};",
        "            if (at < count)",
        f"                fetched[turn] = {name}_at({', '.join(given)});",
        "        }",
        f"        for (int turn = 0; turn < {TURNS}; ++turn)",
        f"            if (first + turn * {THREADS} < count)",
        f"                {goal}[first + turn * {THREADS}] = fetched[turn];",
        "    }",
        "}",
        "",
    ]
    pointers = (*(f"const {element} *" for _ in sources), f"{element} *")
    return Kernel(name, pointers, symbols, tiles, "\n".join(lines))


def _indices(fetches: Fetches, names: Mapping[str, str], place: str) -> list[str]:
    """The indices r0, r1, … of the place `at`."""
    lines: list[str] = []
    rest = "at"
    for axis in reversed(range(1, len(fetches.extents))):
        extent = size_text(fetches.extents[axis], names)
        lines.append(f"    const {place} r{axis} = {rest} % ({extent});")
        lines.append(f"    const {place} q{axis} = {rest} / ({extent});")
        rest = f"q{axis}"
    return [*lines, f"    const {place} r0 = {rest};"] if fetches.extents else []


@dataclass(frozen=True, slots=True)
class _Found:
    """The text that finds the indices of the box for one axis.

    lines   in front
    enters  the conditions and loops under which there are some
    terms   their distances in the operand
    """

    lines: tuple[str, ...] = ()
    enters: tuple[str, ...] = ()
    terms: tuple[str, ...] = ()


def _fetching(what: Gathering, copy: Fetch, names: Mapping[str, str]) -> list[str]:
    """What one copy brings, if it reaches the indices."""
    place = _place(what.is_wide)
    axes = zip(copy.reaches, what.fetches.extents, strict=True)
    found = [_found(a, reach, extent, names, place) for a, (reach, extent) in enumerate(axes)]
    terms = [_distance(copy.start, names), *(term for one in found for term in one.terms)]
    total = " + ".join(term for term in terms if term) or "0"
    enters = [enter for one in found for enter in one.enters]
    step = f"value {what.sum or '='} p{copy.operand}[({place})({total})];"
    nested = [f"{' ' * (8 + 4 * i)}{line}" for i, line in enumerate([*enters, step])]
    lines = [f"        {line}" for one in found for line in one.lines]
    return ["    {", *lines, *nested, "    }"]


def _found(axis: int, reach: Reach, extent: Size, names: Mapping[str, str], place: str) -> _Found:
    r, e, i = f"r{axis}", f"e{axis}", f"i{axis}"
    if reach.is_whole(extent):
        return _Found(terms=(_times(r, reach.source, names),))
    count, width = size_text(reach.count, names), size_text(reach.width, names)
    behind = f"{r} - {size_text(reach.start, names)}"
    terms = (
        _times(i, reach.source, names),
        _times(f"({e} - {i} * {reach.step})", reach.within, names),
    )
    if reach.is_window:
        first = f"{e} < {width} ? 0 : ({e} - {width}) / {reach.step} + 1"
        goes_on = f"{i} < {count} && {i} * {reach.step} <= {e}"
        loop = f"for ({place} {i} = {first}; {goes_on}; ++{i})"
        return _Found((f"const {place} {e} = {behind};",), (loop,), terms)
    if reach.step == 1:
        return _Found((f"const {place} {i} = {behind};",), (f"if ({i} < {count})",), terms)
    lines = (f"const {place} {e} = {behind};", f"const {place} {i} = {e} / {reach.step};")
    return _Found(lines, (f"if ({e} % {reach.step} == 0 && {i} < {count})",), terms)


def _distance(distance: Distance, names: Mapping[str, str]) -> str:
    """The number as an expression of C, nothing for 0."""
    return " + ".join(size_text(size, names) for size in distance.sizes)


def _times(index: str, distance: Distance, names: Mapping[str, str]) -> str:
    """So many steps of a distance, nothing for a distance of 0."""
    if not distance.sizes:
        return ""
    return index if distance.number == 1 else f"{index} * ({_distance(distance, names)})"


# --- transposing ---------------------------------------------------------------------------------


def _across(nest: CopyNest) -> Walk | None:
    """The loop along which the operand's neighbours lie, if squares are worth it."""
    if not nest.walks or nest.walks[-1].target.number != 1:
        return None
    if nest.walks[-1].source.number in (1, -1):
        return None
    across = next((walk for walk in nest.walks[:-1] if walk.source.number == 1), None)
    if across is None or min(across.bound, nest.walks[-1].bound) < LEAST_SIDE:
        return None
    return across


def _transposing(name: str, what: Transposing) -> Kernel:
    nest, across, along = what.nest, what.across, what.nest.walks[-1]
    element, place = _BITS[what.itemsize], _place(what.is_wide)
    symbols = tuple(sorted(nest.symbols()))
    names, sizes = _named(symbols, "s"), _named(symbols, "d")
    others = [walk for walk in nest.walks[:-1] if walk is not across]
    sides = (across.extent, along.extent)
    tiles = Tiles((*((w.extent, 1) for w in others), *((side, SQUARE) for side in sides)))
    rows, columns = (size_text(side, names) for side in sides)
    outer: list[str] = []
    sources = [_distance(nest.source, names), _times("(column + i)", along.source, names)]
    targets = [_distance(nest.target, names), _times("(row + i)", across.target, names)]
    for i, walk in enumerate(others):
        extent = size_text(walk.extent, names)
        outer += [f"        const {place} w{i} = rest % ({extent});", f"        rest /= {extent};"]
        sources.append(_times(f"w{i}", walk.source, names))
        targets.append(_times(f"w{i}", walk.target, names))
    source, target = (" + ".join(t for t in terms if t) for terms in (sources, targets))
    rounds = SQUARE * SQUARE // THREADS
    rows_of_threads = (
        f"        for (int turn = 0; turn < {rounds}; ++turn) {{",
        f"            const int i = y + turn * {THREADS // SQUARE};",
    )
    parameters = [f"const {element} *p0", f"{element} *p1", *(f"i64 {d}" for d in sizes.values())]
    lines = [
        f"// A square of {SQUARE} x {SQUARE} elements a tile.",
        f"__device__ void {name}({', '.join(parameters)}, Block block)",
        "{",
        f"    {element} (*square)[{SQUARE + 1}] = ({element} (*)[{SQUARE + 1}])block.shared;",
        f"    const int x = thread_index() % {SQUARE}, y = thread_index() / {SQUARE};",
        *_narrowed(symbols, place),
        f"    const {place} rows = {rows}, columns = {columns};",
        f"    const {place} down = (rows + {SQUARE - 1}) / {SQUARE};",
        f"    const {place} aside = (columns + {SQUARE - 1}) / {SQUARE};",
        f"    for (i64 tile = block.index; tile < {tiles_text(tiles, sizes)}; "
        "tile += block.count) {",
        f"        {place} rest = ({place})tile;",
        f"        const {place} column = rest % aside * {SQUARE};",
        "        rest /= aside;",
        f"        const {place} row = rest % down * {SQUARE};",
        "        rest /= down;",
        *outer,
        f"        {element} fetched[{rounds}] = {{}};",
        *rows_of_threads,
        "            if (row + x < rows && column + i < columns)",
        f"                fetched[turn] = p0[({place})(row + x + {source})];",
        "        }",
        "        meet();",
        f"        for (int turn = 0; turn < {rounds}; ++turn)",
        f"            square[y + turn * {THREADS // SQUARE}][x] = fetched[turn];",
        "        meet();",
        *rows_of_threads,
        "            if (row + i < rows && column + x < columns)",
        f"                p1[({place})(column + x + {target})] = square[x][i];",
        "        }",
        "    }",
        "}",
        "",
    ]
    shared = SQUARE * (SQUARE + 1) * what.itemsize
    return Kernel(
        name, (f"const {element} *", f"{element} *"), symbols, tiles, "\n".join(lines), shared
    )
