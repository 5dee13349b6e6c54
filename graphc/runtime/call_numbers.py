"""What calls by a short way check besides inputs: hyperparameters, and what functions hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphc.runtime.argument_specs import ArgumentSpec
from graphc.runtime.plan import Array, Plan

Store = Mapping[str, Array]
Stores = Sequence[tuple[Store, Sequence[str]]]
"""Parameters, learner state and the like, with the names of what a function reads of them."""
Hyperparameters = Mapping[str, float] | Callable[[int], Mapping[str, float]]
"""Numbers of a call by name, or what they are for a number of samples, in a mapping that nobody
changes; those of an integer type are given as int."""


class HeldArrays:
    """The arrays that stood in the stores: other ones there make it another call."""

    __slots__ = ("_held",)

    def __init__(self, stores: Stores) -> None:
        self._held = [(store, name, store[name]) for store, held in stores for name in held]

    def stand(self) -> bool:
        """Whether they still do."""
        try:
            for store, name, array in self._held:
                if store[name] is not array:
                    return False
        except KeyError:
            return False
        return True


class CallNumbers:
    """The hyperparameters of calls, in arrays that stay: `arrays` by their places."""

    __slots__ = ("_arrays", "_last", "_numbers", "arrays")

    def __init__(self, plan: Plan, arguments: Sequence[Array]) -> None:
        """Begins with those among the `arguments` of a call."""
        self._arrays = {n: (arguments[p.place].copy(), p) for n, p in plan.hyperparameters.items()}
        self._numbers: dict[str, object] = {}
        self._last: Mapping[str, float] | None = None
        self.arrays = {spec.place: array for array, spec in self._arrays.values()}

    def take(self, hyperparameters: Hyperparameters, samples: int) -> bool:
        """Whether these are the numbers of the call, which are then in their places."""
        numbers = hyperparameters(samples) if callable(hyperparameters) else hyperparameters
        if numbers is self._last and numbers is not hyperparameters:
            return True
        if len(numbers) != len(self._arrays):
            return False
        self._last = None  # what ends this in between leaves numbers of neither
        for name, value in numbers.items():
            if value is not self._numbers.get(name, self):
                array, spec = self._arrays.get(name, _NONE)
                if spec is None or (spec.dtype.kind == "i" and not isinstance(value, int)):
                    return False
                self._numbers.pop(name, None)
                array[...] = value
                self._numbers[name] = value
        self._last = numbers
        return True


_NONE: tuple[Array, ArgumentSpec | None] = np.empty(0), None
