"""A whole function as one kernel: its phases one after another, its loops over time inside.

    __device__ void whole7(char *p0, char *p1, char *p2, …, i64 d0, …, Block block)
    {
        gemm0((const float *)p2, (const float *)p3, (float *)(p0 + 64LL), d0, block);
        meet_all(block, &whole7_arrived);
        for (i64 t0 = 0; t0 < d1; t0++) {
            …
            meet_all(block, &whole7_arrived);
        }
    }

p0 is the arena, p1 the scratch memory, the others are the caller's buffers. As a grid, blocks wait
for each other behind each phase; as one block, its threads do. In a loop they wait behind the last
phase of a turn too, because the next turn begins with what this one made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Literal

from graphc.backends.cuda.beside import all_symbols, blocks_of, call_texts
from graphc.backends.cuda.kernel import THREADS, Kernel, Tiles, size_text
from graphc.backends.cuda.module import CudaModule, comment
from graphc.backends.cuda.phases import Phase, Phased, PhasedTurns, walk_phases
from graphc.backends.cuda.steps import Either, Launch, Number, Part, Place, Where
from graphc.passes.analysis.loopnest import Size

MOST_PARAMETERS = 500
"""Buffers and sizes that a kernel is given: all have 4096 bytes, 8 each."""

Gathered = Literal["grid", "block"]


def whole_launch(
    module: CudaModule,
    phases: Sequence[Phased],
    way: Gathered,
    bounds: Mapping[str, int],
    remark: str,
) -> Launch:
    """A function that `can_be_whole` as one launch."""
    launches = _launches(phases)
    kernels = [module.kernels[launch.kernel] for launch in launches]
    touched = _touched(launches)
    buffers, symbols = _given(module, phases)

    def make(name: str) -> Kernel:
        tiles = Tiles()
        shared = max((k.shared for k in kernels), default=0)
        if way == "grid":
            most = max(_tiles(module, phase, bounds) for phase in walk_phases(phases))
            blocks = max(min(most, module.machine.resident_blocks(shared, THREADS)), 1)
            tiles = Tiles(((Size(blocks), 1),))
        types = ("char *",) * (2 + len(buffers))
        together = way == "grid"
        blocks = blocks_of(kernels) if together else 1
        made = Kernel(name, types, symbols, tiles, "", shared, together=together, blocks=blocks)
        return replace(made, text=_Writer(module, made, buffers).text(phases, remark))

    module.keep_apart(kernels)
    kernel = module.kernel(("whole", way, tuple(phases)), "whole", make)
    pointers = [_all_of("arena", touched), _all_of("scratch", touched)]
    pointers += [next(p for p in touched if (p.base, p.index) == ("buffer", i)) for i in buffers]
    return Launch(kernel.name, tuple(pointers), remark, frozenset(range(len(pointers))))


def can_be_whole(module: CudaModule, phases: Sequence[Phased]) -> bool:
    """Whether a kernel can be given all of the function's buffers and sizes."""
    buffers, symbols = _given(module, phases)
    return 2 + len(buffers) + len(symbols) <= MOST_PARAMETERS


def _given(module: CudaModule, phases: Sequence[Phased]) -> tuple[list[int], tuple[str, ...]]:
    """The numbers of the buffers, and the dims, that the phases ask for."""
    launches = _launches(phases)
    kernels = [module.kernels[launch.kernel] for launch in launches]
    buffers = sorted({p.index for p in _touched(launches) if p.base == "buffer"})
    return buffers, tuple(sorted({*all_symbols(kernels), *_symbols(phases)}))


def _launches(phases: Sequence[Phased]) -> list[Launch]:
    return [launch for phase in walk_phases(phases) for launch in phase.launches]


def _touched(launches: Sequence[Launch]) -> set[Place]:
    return {place for launch in launches for w in launch.pointers for place in places_in(w)}


def places_in(where: Where) -> Iterator[Place]:
    """The arrays that an address leads into."""
    match where:
        case Place():
            yield where
        case Part(whole):
            yield from places_in(whole)
        case Either(_, some, otherwise):
            yield from places_in(some)
            yield from places_in(otherwise)


def _all_of(base: Literal["arena", "scratch"], touched: set[Place]) -> Place:
    ends = (place.index + place.size for place in touched if place.base == base)
    return Place(base, 0, max(ends, default=0))


def _tiles(module: CudaModule, phase: Phase, bounds: Mapping[str, int]) -> int:
    return sum(module.kernels[launch.kernel].tiles.count(bounds) for launch in phase.launches)


def _symbols(phases: Sequence[Phased]) -> Iterator[str]:
    """The dims that turns and addresses depend on."""
    for phased in phases:
        if isinstance(phased, PhasedTurns):
            yield from phased.count.size.symbols
            yield from _symbols(phased.phases)
        else:
            for launch in phased.launches:
                for where in launch.pointers:
                    yield from _symbols_in(where)


def _symbols_in(where: Where) -> Iterator[str]:
    match where:
        case Place():
            pass
        case Part(whole, number, size):
            yield from (*number.size.symbols, *size.symbols)
            yield from _symbols_in(whole)
        case Either(turn, some, otherwise):
            yield from turn.size.symbols
            yield from _symbols_in(some)
            yield from _symbols_in(otherwise)


class _Writer:
    """Writes the device function of `kernel`, whose text is still missing."""

    def __init__(self, module: CudaModule, kernel: Kernel, buffers: Sequence[int]) -> None:
        self._module = module
        self._kernel = kernel
        self._names = {symbol: f"d{i}" for i, symbol in enumerate(kernel.symbols)}
        self._buffers = {index: f"p{2 + i}" for i, index in enumerate(buffers)}
        word = f"{kernel.name}_arrived"
        self._meeting = f"meet_all(block, &{word});" if kernel.together else "meet();"
        self._before = f"__device__ u32 {word};\n\n" if kernel.together else ""

    def text(self, phases: Sequence[Phased], remark: str) -> str:
        lines = self._statements(phases)
        if lines and isinstance(phases[-1], Phase):
            lines.pop()  # nothing comes that would have to wait
        body = "".join(f"    {line}\n" for line in lines)
        parameters = ", ".join([*self._kernel.parameters, "Block block"])
        head = self._before + comment([remark])
        return f"{head}__device__ void {self._kernel.name}({parameters})\n{{\n{body}}}\n"

    def _statements(self, phases: Sequence[Phased]) -> list[str]:
        lines: list[str] = []
        for phased in phases:
            if isinstance(phased, Phase):
                lines += [*self._phase(phased), self._meeting]
            else:
                turn = f"t{phased.loop}"
                count = self._number(phased.count)
                lines.append(f"for (i64 {turn} = 0; {turn} < {count}; {turn}++) {{")
                lines += [f"    {line}" for line in self._statements(phased.phases)]
                lines.append("}")
        return lines

    def _phase(self, phase: Phase) -> Iterator[str]:
        kernels = [self._module.kernels[launch.kernel] for launch in phase.launches]
        pointers = [
            [
                f"({type}){self._address(where)}"
                for type, where in zip(kernel.pointers, launch.pointers, strict=True)
            ]
            for kernel, launch in zip(kernels, phase.launches, strict=True)
        ]
        calls = call_texts(kernels, pointers, self._names)
        remarks = comment(launch.remark for launch in phase.launches).splitlines()
        if len(kernels) == 1:
            yield from (*remarks, *calls)
        else:
            yield from (*remarks, "{", *(f"    {call}" for call in calls), "}")

    def _address(self, where: Where) -> str:
        """As an expression in parentheses, or a name."""
        match where:
            case Place("buffer", index):
                return self._buffers[index]
            case Place(base, index):
                start = "p0" if base == "arena" else "p1"
                return f"({start} + {index}LL)" if index else start
            case Part(whole, number, size, itemsize):
                step = size_text(size * Size(itemsize), self._names)
                return f"({self._address(whole)} + {self._number(number)} * ({step}))"
            case Either(turn, some, otherwise):
                chosen = f"{self._address(some)} : {self._address(otherwise)}"
                return f"({self._number(turn)} > 0 ? {chosen})"

    def _number(self, number: Number) -> str:
        """As an expression of type i64, in parentheses if it is a sum."""
        terms: list[str] = []
        if number.size.factor:
            known = size_text(number.size, self._names)
            terms.append(known if number.size.symbols else f"{number.size.factor}LL")
        if number.sign:
            terms.append(f"{'+' if number.sign > 0 else '-'} t{number.loop}")
        if number.plus:
            terms.append(f"{'+' if number.plus > 0 else '-'} {abs(number.plus)}LL")
        text = " ".join(terms).removeprefix("+ ") or "0LL"
        return f"({text})" if " " in text else text
