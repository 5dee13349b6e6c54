"""What kernels of the stages of nests have in common: pointers, sizes, the frame of their text."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from graphc.backends.cuda.body import ArrayKey, Element, Names, integer_type, pointer_type
from graphc.backends.cuda.kernel import Kernel, Tiles, size_text, tiles_text
from graphc.backends.cuda.module import C_TYPES, CudaModule, comment
from graphc.backends.cuda.scalars import DeviceScalars
from graphc.backends.cuda.text import INDENT, CudaCode, indented
from graphc.backends.loops.values import I32, Val
from graphc.ir.types import DType
from graphc.passes.analysis.gpu_nests import Stage, loaded
from graphc.passes.analysis.loopnest import ArrayAccess, Size

BEYOND = 1 << 22
"""How far behind the last element indices go, at most: blocks and parts are of whole numbers."""


@dataclass(frozen=True, slots=True)
class Port:
    """A pointer of a kernel; `has_lanes`: several of its elements are moved at once."""

    key: ArrayKey
    dtype: DType
    is_written: bool
    has_lanes: bool


def ports_of(stage: Stage, sums: Container[int] = ()) -> list[Port]:
    """The arrays that a stage reads and writes, constants not among them.

    sums  the numbers of stores that write partial sums, ("partial", number), in place of results
    """
    lane = stage.nest.lane
    found: dict[ArrayKey, Port] = {}
    written: dict[ArrayKey, ArrayAccess] = {}
    for number, store in enumerate(stage.nest.stores):
        access = store.access
        key = ("partial", number) if number in sums else (access.kind, access.index)
        written[key] = access
    loads = [((access.kind, access.index), access) for access in loaded(stage.nest)]
    for key, access in (*loads, *written.items()):
        has_lanes = lane in access.dims or (key in found and found[key].has_lanes)
        if access.kind != "constant":
            found[key] = Port(key, access.dtype, key in written, has_lanes)
    return list(found.values())


@dataclass(frozen=True)
class Frame:
    """What a kernel is besides its lines.

    tiles  what its blocks share; `begin`: lines before the loop over them
    """

    about: Sequence[str]
    tiles: Tiles
    begin: Sequence[str] = ()
    shared: int = 0


class StageWriter:
    """What is known while the kernel of a stage is written.

    lanes    elements that a thread moves at once
    integer  the C type of indices
    """

    def __init__(
        self,
        module: CudaModule,
        stage: Stage,
        ports: Sequence[Port],
        constants: Mapping[int, str],
        lanes: int,
        contraction: str,
    ) -> None:
        nest = stage.nest
        self.stage = stage
        self.nest = nest
        self.lanes = lanes
        self.code = CudaCode(module)
        self.scalars = DeviceScalars(self.code, contraction=contraction)
        self.ports = ports
        self._arrays = {port.key: f"p{i}" for i, port in enumerate(ports)}
        self._arrays.update((("constant", i), name) for i, name in constants.items())
        self._symbols = nest.symbols()
        self._integer = integer_type(math.prod(nest.bounds) + BEYOND)
        self.integer = C_TYPES[DType.I32 if self._integer == I32 else DType.I64]
        letter = "n" if self._integer == I32 else "d"
        self.sizes = {name: f"{letter}{i}" for i, name in enumerate(self._symbols)}

    # --- pieces of text

    def array(self, key: ArrayKey) -> str:
        return self._arrays[key]

    def extent(self, dim: int) -> str:
        """The extent of a dim, as a factor."""
        return f"({text})" if "*" in (text := self.size(self.nest.dims[dim])) else text

    def size(self, size: Size) -> str:
        return size_text(size, self.sizes)

    def vector(self, dtype: DType) -> str:
        """The type of what is moved at once."""
        ctype = C_TYPES[dtype]
        return ctype if self.lanes == 1 else f"Lanes<{ctype}, {self.lanes}>"

    def load(self, access: ArrayAccess, place: str, left: str = "") -> str:
        """What reads a vector; `left`: how many elements there are, if they may be fewer."""
        return self.load_from(self.array((access.kind, access.index)), place, left)

    def load_from(self, array: str, place: str, left: str = "") -> str:
        if self.lanes == 1:
            return f"{array}[{place}]"
        limit = f", {left}" if left else ""
        return f"load<{self.lanes}>({moved(array, place)}{limit})"

    def store(self, array: str, place: str, vector: str, left: str = "") -> str:
        """What writes a vector."""
        if self.lanes == 1:
            return f"{array}[{place}] = {vector};"
        limit = f", {left}" if left else ""
        return f"store({moved(array, place)}, {vector}{limit});"

    def each_lane(self, lines: Iterable[str]) -> list[str]:
        """Lines for every element `k` of what is moved at once."""
        if self.lanes == 1:
            return list(lines)
        head = f"for (int k = 0; k < {self.lanes}; k++) {{"
        return ["#pragma unroll", head, *indented(lines), "}"]

    def of_lane(self, vector: str) -> str:
        """Element `k` of a vector."""
        return vector if self.lanes == 1 else f"{vector}.at[k]"

    def element(self, indices: Sequence[str], values: Mapping[int, Val] | None = None) -> Element:
        names = Names(self._arrays, self.sizes, indices, self._integer)
        made = Element(self.nest, self.scalars, names)
        made.values.update(values or {})
        return made

    def define(self, name: str, value: str) -> str:
        return f"const {self.integer} {name} = {value};"

    def part_of(self, number: str, dims: Sequence[int], used: frozenset[int]) -> list[str]:
        """The indices `i0`, … of those dims that are used, of the place `number` in all `dims`."""
        lines: list[str] = []
        inner = Size()
        for d in reversed(dims):
            before = "" if inner == Size() else f" / ({self.size(inner)})"
            rest = "" if d == dims[0] else f" % {self.extent(d)}"
            if d in used:
                lines.append(self.define(f"i{d}", f"{number}{before}{rest}"))
            inner *= self.nest.dims[d]
        return lines[::-1]

    # --- the whole

    def kernel(self, name: str, frame: Frame, lines: Sequence[str]) -> Kernel:
        """`lines`: what is done for `tile`."""
        pointers = tuple(pointer_type(p.dtype, is_written=p.is_written) for p in self.ports)
        symbols = self._symbols
        kernel = Kernel(name, pointers, symbols, frame.tiles, "", shared=frame.shared)
        begin = list(frame.begin)
        if self._integer == I32:
            begin = [*(f"const int n{i} = (int)d{i};" for i in range(len(symbols))), *begin]
        names = {symbol: f"d{i}" for i, symbol in enumerate(symbols)}
        count = tiles_text(frame.tiles, names)
        loop = f"for (i64 tile = block.index; tile < {count}; tile += block.count) {{"
        body = indented([*begin, loop, *indented(lines), "}"])
        listed = f",\n{INDENT}".join([", ".join(kernel.parameters), "Block block"])
        if len(kernel.parameters) < 4:
            listed = listed.replace(f",\n{INDENT}", ", ")
        head = f"__device__ void {name}({listed})"
        text = "\n".join([head, "{", *(line.rstrip() for line in body), "}", ""])
        return replace(kernel, text=comment(frame.about) + text)


def moved(pointer: str, place: str) -> str:
    """The address of an element."""
    return pointer if place == "0" else f"{pointer} + {place}"


def is_whole(access: ArrayAccess, dims: int) -> bool:
    """Whether it has all dims, so that its elements lie in the order of the nest."""
    return len(access.dims) == dims
