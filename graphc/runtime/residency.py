"""Arrays of a network that are away: a device works on them in memory of its own.

What is looked at through the network comes home first, and may be changed then, so the device takes
it anew at its next call. While an array is away it is read-only, and may be old: one that somebody
kept from an earlier look refuses to be changed, which nobody would see.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import ref

import numpy as np

Array = np.ndarray
Fetch = Callable[[Array], None]
"""Writes the newest content into the array, which is writeable again."""


@dataclass(frozen=True, slots=True)
class _Away:
    """An array that dies is away no more."""

    array: ref[Array]
    fetch: Fetch
    was_writeable: bool


_AWAY: dict[int, _Away] = {}
_HOMECOMINGS = itertools.count()
_last_homecoming = next(_HOMECOMINGS)


def leave(array: Array, fetch: Fetch) -> None:
    """From now on the newest content of an array that is at home is what `fetch` gets."""
    key = id(array)
    kept = ref(array, lambda _: _AWAY.pop(key, None))
    _AWAY[key] = _Away(kept, fetch, array.flags.writeable)
    array.flags.writeable = False


def is_away(array: Array) -> bool:
    return id(array) in _AWAY


def some_are_away() -> bool:
    return bool(_AWAY)


def come_home(arrays: Iterable[Array]) -> None:
    """Give those of the arrays that are away their newest content; they may be changed then."""
    for array in arrays:
        away = _AWAY.get(id(array))
        if away is None:
            continue
        array.flags.writeable = away.was_writeable
        try:
            away.fetch(array)
        except BaseException:
            array.flags.writeable = False
            raise
        _AWAY.pop(id(array), None)
        _count_homecoming()


def homecomings() -> int:
    """A number that is another one whenever an array has come home."""
    return _last_homecoming


def _count_homecoming() -> None:
    global _last_homecoming  # one number for the process
    _last_homecoming = next(_HOMECOMINGS)
