"""Arguments of a function of arrays that stay the same: their arrays become part of its code.

A call binds them into a function of the other arguments, which closes over them, and what a
function closes over is frozen (`function.py`). Arrays are told apart by what they are and not by
what they hold, which would have to be read in every call. The last few bindings are kept.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from graphc.support.diagnostics import fail, suggestion
from graphc.support.source import Location
from graphc.tensor.tracing import innermost
from graphc.tensor.trees import flatten, unflatten

MOST_BOUND = 8
"""Bindings that are kept, so that arrays which nobody else knows any more are let go."""


@dataclass(frozen=True, eq=False)
class FrozenArguments:
    """Which arguments of `python` are frozen, by place, and the functions without them."""

    python: Callable[..., object]
    places: tuple[int, ...]
    _bound: dict[object, tuple[list[object], Any]] = field(
        default_factory=dict[object, tuple[list[object], Any]]
    )

    @staticmethod
    def of(
        python: Callable[..., object], names: Sequence[str], location: Location
    ) -> FrozenArguments:
        """GraphcError `bad-option` for a name that is none of its arguments."""
        known = [
            name
            for name, parameter in inspect.signature(python).parameters.items()
            if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
        ]
        for name in names:
            if name not in known:
                listed = ", ".join(known) or "none"
                message = f"freeze requires names of arguments ({listed}), got `{name}`"
                raise fail("bad-option", f"{message}{suggestion(name, known)}", location)
        return FrozenArguments(python, tuple(i for i, n in enumerate(known) if n in names))

    @property
    def functions(self) -> list[Any]:
        """Those that are bound by now."""
        return [function for _, function in self._bound.values()]

    def split(self, arguments: Sequence[object]) -> tuple[list[object], list[object]]:
        """The frozen ones of a call, and the others."""
        places = self.places
        given = [arguments[i] for i in places if i < len(arguments)]
        return given, [x for i, x in enumerate(arguments) if i not in places]

    def bound(self, given: list[object], make: Callable[[Callable[..., object]], Any]) -> Any:
        """The function of the others with these; `make` makes one of a Python function. None where
        one of these is a value of a function that is being traced."""
        key: object = tuple(map(id, given))
        if any(type(x) is not np.ndarray for x in given):
            leaves, structure = flatten(tuple(given))
            if innermost(leaves) is not None:
                return None
            key = (structure, *map(_told, leaves))
        found = self._bound.get(key)
        if found is None:
            while len(self._bound) >= MOST_BOUND:
                del self._bound[next(iter(self._bound))]
            # They are kept, so that no other array gets the number of one that is alive, and in
            # containers of its own, since the caller may put other arrays into theirs.
            leaves, structure = flatten(tuple(given))
            own = unflatten(structure, leaves)
            assert isinstance(own, tuple)
            found = self._bound[key] = ([*own], make(self._without(own)))
        return found[1]

    def _without(self, given: Sequence[object]) -> Callable[..., object]:
        """The Python function of the other arguments."""
        frozen = dict(zip(self.places, given, strict=False))

        def rest(*others: object) -> object:
            values, count = iter(others), len(others) + len(frozen)
            return self.python(*(frozen[i] if i in frozen else next(values) for i in range(count)))

        return rest


def _told(leaf: object) -> object:
    """What tells a leaf apart: a number or text by its value, anything else by what it is."""
    is_value = isinstance(leaf, bool | int | float | str | np.generic | None)
    # As text: 0.0 and -0.0 are equal, nan is not.
    return (type(leaf), repr(leaf)) if is_value else id(leaf)
