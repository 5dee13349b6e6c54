"""The fast path of calls: one with the shapes of an earlier call reuses what that call checked.

A thorough call checks everything and finds a place for everything. A `FastCall` made from it
serves those that follow in the same thread: arrays that need no conversion, under the same names,
and the same parameter arrays. Anything else is left to the thorough way, errors included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from operator import is_, itemgetter
from typing import Any

import numpy as np

from graphc.runtime.argument_specs import ArgumentSpec
from graphc.runtime.plan import Array, Plan
from graphc.runtime.signature import concrete_shape

Store = Mapping[str, Array]
Hyperparameters = Mapping[str, float] | Callable[[int], Mapping[str, float]]
"""Numbers of a call by name, or what they are for a number of samples, in a mapping that nobody
changes; those of an integer type are given as int."""

IN_PLACE = 0x101
"""numpy's flags of an array that is C-contiguous and aligned, so that it is read where it lies."""


class FastCall:
    """Calls of a plan with inputs of these names, one at a time.

    Results that are single numbers are read out of memory that stays; others are new arrays.
    """

    __slots__ = (
        "_bound",
        "_fresh",
        "_held",
        "_hyperparameters",
        "_inputs",
        "_last",
        "_names",
        "_numbers",
        "_plan",
        "_results",
        "_run",
    )

    def __init__(
        self,
        plan: Plan,
        names: Sequence[str],
        arguments: Sequence[Array],
        stores: Sequence[tuple[Store, Sequence[str]]],
    ) -> None:
        """`arguments` of a call that was made; parameters and state among them stand in `stores`
        by these names."""
        self._plan = plan
        self._names = tuple(names)
        specs = [plan.dense[name] for name in names]
        places = [spec.place for spec in specs]
        self._inputs = [(p.dtype, p.fixed, p.shape[-1] if p.shape else 0) for p in specs]
        self._bound = next(iter(plan.bounds.values()), 0)
        # Of one name alone the getter would give no tuple.
        self._held = [
            (itemgetter(*n, n[0]), s, [s[name] for name in (*n, n[0])]) for s, n in stores if n
        ]
        self._hyperparameters = {
            n: (arguments[p.place].copy(), p) for n, p in plan.hyperparameters.items()
        }
        self._numbers: dict[str, object] = {}
        self._last: Mapping[str, float] | None = None
        results = [np.empty((1, 1), p.dtype) if p.is_number else None for p in plan.results]
        self._results = [(p.name, a) for p, a in zip(plan.results, results, strict=True)]
        self._fresh = [p for p in plan.results if not p.is_number]
        arrays: list[Array | None] = [*arguments, *results]
        for name, spec in plan.hyperparameters.items():
            arrays[spec.place] = self._hyperparameters[name][0]
        changing = [*places, *(i for i, a in enumerate(arrays) if a is None)]
        for i in places:
            arrays[i] = None
        self._run = plan.compiled.prepare(plan.signature, arrays, changing)

    @staticmethod
    def serves(plan: Plan) -> bool:
        """Whether a call's sizes are those of its samples, as its dense inputs say them."""
        specs = plan.dense.values()
        if plan.tables is not None or len(specs) < len(plan.inputs):
            return False
        if plan.products or len(plan.bounds) > 1:
            return False
        open_specs = [spec for spec in specs if spec.fixed is None]
        return bool(open_specs) == bool(plan.bounds) and all(map(_has_samples, open_specs))

    def __call__(
        self, inputs: Mapping[str, object], hyperparameters: Hyperparameters, plan: Plan
    ) -> dict[str, Any] | None:
        """The results; None for a call that this is not for, of which nothing has been done."""
        if plan is not self._plan or tuple(inputs) != self._names:
            return None
        given: list[Any] = list(inputs.values())
        samples = self._samples(given)
        if samples is None:
            return None
        try:
            for get, store, arrays in self._held:
                if not all(map(is_, get(store), arrays)):
                    return None
        except KeyError:
            return None
        numbers = hyperparameters(samples) if callable(hyperparameters) else hyperparameters
        if (numbers is not self._last or numbers is hyperparameters) and not self._set_numbers(
            numbers
        ):
            return None
        if not self._fresh:
            self._run(samples, given)
            return {name: array[0, 0] for name, array in self._results}  # type: ignore[index]
        sizes = dict.fromkeys(plan.bounds, samples)
        made = [np.empty(p.fixed or concrete_shape(p.shape, sizes), p.dtype) for p in self._fresh]
        self._run(samples, given + made)
        fresh = iter(made)
        return {n: next(fresh) if a is None else a[0, 0] for n, a in self._results}

    def _samples(self, given: Sequence[Any]) -> int | None:
        """How many there are; None where an input has to be looked at or converted."""
        samples = -1
        for value, (dtype, fixed, width) in zip(given, self._inputs, strict=True):
            if (
                type(value) is not np.ndarray
                or value.dtype is not dtype
                or value.flags.num & IN_PLACE != IN_PLACE
            ):
                return None
            shape = value.shape
            if fixed is not None:
                if shape != fixed:
                    return None
            elif len(shape) != 2 or shape[1] != width:
                return None
            elif shape[0] != samples:
                if samples >= 0:
                    return None
                samples = shape[0]
        return samples if samples <= self._bound else None

    def _set_numbers(self, numbers: Mapping[str, float]) -> bool:
        """Whether these are the hyperparameters; those that changed are written."""
        if len(numbers) != len(self._hyperparameters):
            return False
        for name, value in numbers.items():
            if value is not self._numbers.get(name, self):
                array, spec = self._hyperparameters.get(name, _NONE)
                if spec is None or (spec.dtype.kind == "i" and not isinstance(value, int)):
                    return False
                array[...] = value
                self._numbers[name] = value
        self._last = numbers
        return True


_NONE: tuple[Array, ArgumentSpec | None] = np.empty(0), None


def _has_samples(spec: ArgumentSpec) -> bool:
    """Whether it is a row of a known width for each sample."""
    return (
        len(spec.shape) == 2 and isinstance(spec.shape[0], str) and isinstance(spec.shape[1], int)
    )
