"""Runs the steps of a program on memory without numbers: which launch wrote each byte last.

This knows the addresses of a call alone, and nothing of how phases are found: in whatever order a
program is run, each launch has to find the same bytes, and launches of a phase must not meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations

import numpy as np

from graphc.backends.cuda.kernel import size_in
from graphc.backends.cuda.phases import Phase, Phased
from graphc.backends.cuda.steps import Either, Launch, Part, Place, Where, address_of

REGION = 1 << 24
"""Bytes for the arena, the scratch memory, and each buffer."""

Sizes = Mapping[str, int]
Turns = tuple[int, ...]
Group = tuple[Sequence[Launch], Turns]


def replay(order: Iterable[tuple[Launch, Turns]], sizes: Sizes) -> tuple[object, object]:
    """What each launch of a call finds in what it may read, and what is in memory at the end.

    Launches are told apart by their remarks.
    """
    written: dict[int, np.ndarray] = {}
    found: dict[tuple[str, Turns], tuple[bytes, ...]] = {}
    for launch, turns in order:
        touched = stretches(launch, sizes, turns)
        for stretch in touched:
            _grow(written, stretch)
        arrays = [_array(written, stretch) for stretch in touched]
        assert (launch.remark, turns) not in found
        found[launch.remark, turns] = tuple(array.tobytes() for array in arrays)
        for i in sorted(launch.writes):
            arrays[i][:] = hash((launch.remark, turns, i))
    return found, {region: array.tobytes() for region, array in written.items()}


def groups_in_call(phases: Sequence[Phased], sizes: Sizes, turns: Turns = ()) -> Iterator[Group]:
    """The phases that a call goes through, with the turns of the loops around them."""
    for phased in phases:
        if isinstance(phased, Phase):
            yield phased.launches, turns
            continue
        for turn in range(phased.count.at(sizes, turns)):
            yield from groups_in_call(phased.phases, sizes, (*turns, turn))


def meetings(group: Group, sizes: Sizes) -> list[str]:
    """The pairs of launches in a group of which one writes what the other touches."""
    launches, turns = group
    found: list[str] = []
    for a, b in combinations(launches, 2):
        for i, x in enumerate(stretches(a, sizes, turns)):
            for j, y in enumerate(stretches(b, sizes, turns)):
                is_shared = max(x[0], y[0]) < min(x[1], y[1])
                if is_shared and (i in a.writes or j in b.writes):
                    found.append(f"{a.remark} and {b.remark} in {turns}")
    return found


def stretches(launch: Launch, sizes: Sizes, turns: Turns) -> list[tuple[int, int]]:
    """The bytes of each array that it is given, from the first to behind the last."""
    starts = [address_of(where, _address, sizes, turns) for where in launch.pointers]
    lengths = [_bytes(where, sizes, turns) for where in launch.pointers]
    return [(start, start + length) for start, length in zip(starts, lengths, strict=True)]


def _address(place: Place) -> int:
    match place:
        case Place("arena", index):
            return index
        case Place("scratch", index):
            return REGION + index
        case Place(_, index):
            return (2 + index) * REGION


def _bytes(where: Where, sizes: Sizes, turns: Turns) -> int:
    match where:
        case Place(size=size):
            return size
        case Part(_, _, size, itemsize):
            return size_in(size, sizes) * itemsize
        case Either(turn, some, otherwise):
            return _bytes(some if turn.at(sizes, turns) > 0 else otherwise, sizes, turns)


def _grow(written: dict[int, np.ndarray], stretch: tuple[int, int]) -> None:
    """Have a region at least as long as this stretch needs it."""
    region, start = divmod(stretch[0], REGION)
    needed = start + stretch[1] - stretch[0]
    whole = written.setdefault(region, np.zeros(0, np.int64))
    if needed > len(whole):
        written[region] = np.concatenate([whole, np.zeros(needed - len(whole), np.int64)])


def _array(written: dict[int, np.ndarray], stretch: tuple[int, int]) -> np.ndarray:
    region, start = divmod(stretch[0], REGION)
    end = start + stretch[1] - stretch[0]
    assert end <= REGION
    return written[region][start:end]
