"""A kernel as data: a device function over tiles, what it takes, and how many tiles there are.

    __device__ void NAME(T *p0, T *p1, …, i64 d0, i64 d1, …, Block block)
    {
        for (i64 tile = block.index; tile < tiles; tile += block.count) { … }
    }

Pointers come first, in the order of `pointers`, then the sizes of `symbols`. A block of `threads`
threads computes every `block.count`th tile from `block.index` on, with `block.shared` bytes of
memory of its own; all its threads call the function together. What a tile computes depends neither
on the block that computes it nor on the order, so one function serves a launch of its own, a launch
with others beside it, and a kernel that runs a whole function.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from graphc.passes.analysis.loopnest import Size

THREADS = 256
"""Of a block."""


@dataclass(frozen=True, slots=True)
class Limit:
    """Whether the sum of some sizes is at most so much, or with `is_over` whether it is more."""

    sizes: tuple[Size, ...]
    most: int
    is_over: bool

    def holds(self, sizes: Mapping[str, int]) -> bool:
        """In a call with these sizes of dims."""
        return (sum(size_in(size, sizes) for size in self.sizes) > self.most) == self.is_over

    def text(self, names: Mapping[str, str]) -> str:
        """As an expression of C."""
        total = " + ".join(size_text(size, names) for size in self.sizes)
        return f"{total} {'>' if self.is_over else '<='} {self.most}"


@dataclass(frozen=True, slots=True)
class Tiles:
    """How many: the product of extents, each in parts of some length, the last maybe shorter.

    others  the tiles of kernels that run beside it: theirs come after these
    limit   there are none, but for the others', where it does not hold
    """

    factors: tuple[tuple[Size, int], ...] = ()
    others: tuple[Tiles, ...] = ()
    limit: Limit | None = None

    def count(self, sizes: Mapping[str, int]) -> int:
        """In a call with these sizes of dims; 0 where an extent is 0."""
        counts = (-(-size_in(extent, sizes) // length) for extent, length in self.factors)
        own = math.prod(counts) if self.limit is None or self.limit.holds(sizes) else 0
        return own + sum(tiles.count(sizes) for tiles in self.others)


@dataclass(frozen=True, slots=True)
class Kernel:
    """A device function.

    pointers  the C types of its pointers, `const float *`, say
    symbols   names of the dims of the call that it takes the sizes of
    tiles     what its blocks share
    shared    bytes of shared memory that a block needs
    text      the definition, with a comment before it
    blocks    that a multiprocessor has registers for, at least
    together  blocks wait for each other: no more are launched than are resident at once
    """

    name: str
    pointers: tuple[str, ...]
    symbols: tuple[str, ...]
    tiles: Tiles
    text: str
    shared: int = 0
    threads: int = THREADS
    together: bool = False
    blocks: int = 1

    @property
    def parameters(self) -> tuple[str, ...]:
        """Their types and names, but for the block."""
        pointers = (f"{type}p{i}" for i, type in enumerate(self.pointers))
        return (*pointers, *(f"i64 d{i}" for i in range(len(self.symbols))))


def size_in(size: Size, sizes: Mapping[str, int]) -> int:
    """The number of elements in a call with these sizes of dims."""
    return size.factor * math.prod(sizes[name] for name in size.symbols)


def symbols_of(tiles: Tiles) -> frozenset[str]:
    """The dims that their number depends on."""
    sizes = [extent for extent, _ in tiles.factors]
    sizes += tiles.limit.sizes if tiles.limit is not None else ()
    own = {name for size in sizes for name in size.symbols}
    return frozenset(own.union(*(symbols_of(other) for other in tiles.others)))


def size_text(size: Size, names: Mapping[str, str]) -> str:
    """The number of elements as an expression of C; `names`: what the sizes of dims are called."""
    factors = [names[symbol] for symbol in size.symbols]
    if size.factor == 0:
        return "0"
    if size.factor != 1 or not factors:
        factors.append(str(size.factor) if abs(size.factor) < 2**31 else f"{size.factor}LL")
    return " * ".join(factors)


def tiles_text(tiles: Tiles, names: Mapping[str, str]) -> str:
    """The number of tiles as an expression of C, of type i64."""
    known = 1
    factors: list[str] = []
    for extent, length in tiles.factors:
        text = size_text(extent, names)
        if not extent.symbols:
            known *= -(-extent.factor // length)
        else:
            factors.append(f"({text})" if length == 1 else f"(({text} + {length - 1}) / {length})")
    if known != 1 or not factors:
        factors.append(f"{known}LL")
    product = " * ".join(factors)
    if tiles.limit is not None:
        product = f"({tiles.limit.text(names)} ? {product} : 0)"
    return " + ".join([product, *(tiles_text(other, names) for other in tiles.others)])
