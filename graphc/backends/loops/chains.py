"""How long sums are cut into chains of additions, so that rounding errors stay small.

The rounding error of a sum grows with its number of sequential additions. So a chain ends after
`CHAIN` additions: its sum is added to a chain of sums, whose sum is added to a third chain, and so
on; each chain starts at 0. Where chains end depends on the bounds of the extents and on indices
alone, so it is the same for any chunks and any number of threads.

A sum over the lanes of a nest is in a register, and so are its chains. A sum over outer dims is in
memory, with one addition for each row; its chains are on the stack, and a `Block` says for how many
indices. The sum of a convolution's weight gradient over images is of the second kind.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from graphc.passes.analysis.loopnest import ArrayAccess, Nest, Reduce, Size

CHAIN = 128
"""Additions in a chain, a power of two. Ending a chain costs about as much as an addition."""

MAX_BYTES = 131072
"""Stack memory for all chains of a function; a sum that finds none left has one chain."""


@dataclass(frozen=True, slots=True)
class Block:
    """Chains of these sums (numbers of stores) end after `step` indices of an outer dim.

    accesses  where the chain of each sum is, along the dims further in
    sizes     the elements of each, at most
    """

    dim: int
    step: int
    stores: tuple[int, ...]
    accesses: tuple[ArrayAccess, ...]
    sizes: tuple[int, ...]


def is_rounded(fold: Reduce, is_float: bool) -> bool:
    """Whether the result of a fold depends on its order."""
    return fold.scalar_op == "add" and is_float


def chain_ends(count: int, chain: int) -> tuple[list[int], int]:
    """After how many of `count` indices chains end, where each index adds `chain` numbers.

    Innermost chains first, then chains of their sums, … All lengths are powers of two, so that
    loops of these steps nest. The second number is the length of the last chain, which never ends
    early.
    """
    ends: list[int] = []
    step = 1
    while chain * count > CHAIN:
        more = max(CHAIN >> (chain - 1).bit_length(), 1)
        step, count, chain = step * more, -(-count // more), 1
        ends.append(step)
    return ends, chain * count


def steps_of(turns: int, turn: int) -> list[int]:
    """The steps of the loops, outermost first, over that many iterations of length `turn`."""
    ends, _ = chain_ends(turns, 1)
    return [*(end * turn for end in reversed(ends)), turn]


def blocks_of(nest: Nest) -> tuple[Block, ...]:
    """In the order of their loops: outer dims first, and of each dim the longest step first."""
    ends: dict[tuple[int, int], list[int]] = {}
    left = MAX_BYTES
    for number, store in enumerate(nest.stores):
        if store.combine is None or not is_rounded(store.combine, store.access.dtype.is_float):
            continue
        found = _ends(nest, store.access)
        needed = (
            sum(_size(nest, store.access, dim) for dim, _ in found) * store.access.dtype.itemsize
        )
        if needed <= left:
            left -= needed
            for end in found:
                ends.setdefault(end, []).append(number)
    blocks: list[Block] = []
    count = 0
    for dim, step in sorted(ends, key=lambda end: (end[0], -end[1])):
        stores = ends[dim, step]
        accesses = [nest.stores[n].access for n in stores]
        inner = tuple(_inner(nest, p, dim, count + i) for i, p in enumerate(accesses))
        sizes = tuple(_size(nest, p, dim) for p in accesses)
        blocks.append(Block(dim, step, tuple(stores), inner, sizes))
        count += len(stores)
    return tuple(blocks)


def _ends(nest: Nest, access: ArrayAccess) -> list[tuple[int, int]]:
    """(dim, step) after which chains of a sum end."""
    ends: list[tuple[int, int]] = []
    chain = 1  # additions of the dims further in, in one chain
    for dim in reversed(range(nest.lane)):
        if dim in access.dims:
            continue
        steps, chain = chain_ends(nest.bounds[dim], chain)
        ends += [(dim, step) for step in steps]
    return ends


def _inner(nest: Nest, access: ArrayAccess, dim: int, index: int) -> ArrayAccess:
    """A dense array of the dims of `access` that are further in than `dim`."""
    strides: list[Size | None] = [None] * len(nest.dims)
    stride = Size()
    for d in reversed(range(dim + 1, len(nest.dims))):
        if d in access.dims:
            strides[d] = stride
            is_chunk = nest.reach[d] < nest.bounds[d]
            stride *= Size(nest.reach[d]) if is_chunk else nest.dims[d]
    return ArrayAccess("chain", index, access.dtype, tuple(strides))


def _size(nest: Nest, access: ArrayAccess, dim: int) -> int:
    return math.prod(nest.reach[d] for d in access.dims if d > dim)
