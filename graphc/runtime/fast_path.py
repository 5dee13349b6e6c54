"""The fast path of calls: one with the shapes of an earlier call reuses what that call checked.

A thorough call checks everything and finds a place for everything. A `FastCall` made from it
serves those that follow in the same thread: arrays that need no conversion, under the same names,
and the same parameter arrays. Anything else is left to the thorough way, errors included.

Where inputs and results are small and a call has as many samples as the one before, their numbers
are copied into memory that stays and out of it: that takes less time than telling the compiled
function where other memory is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.runtime.argument_specs import ArgumentSpec
from graphc.runtime.compiled import Prepared
from graphc.runtime.plan import Array, Plan
from graphc.runtime.signature import concrete_shape

Store = Mapping[str, Array]
Hyperparameters = Mapping[str, float] | Callable[[int], Mapping[str, float]]
"""Numbers of a call by name, or what they are for a number of samples, in a mapping that nobody
changes; those of an integer type are given as int."""

IN_PLACE = 0x101
"""numpy's flags of an array that is C-contiguous and aligned, so that it is read where it lies."""
SMALL_BYTES = 8192
"""Up to here an array is copied in less time than its address is found in."""


@dataclass(frozen=True, slots=True)
class _SmallCall:
    """A call of so many samples in memory of its own.

    inputs   name, element type and shape of what is taken, and where it is copied to
    results  where each lies, and whether it is a single number
    """

    samples: int
    inputs: list[tuple[str, np.dtype, tuple[int, ...], Array]]
    results: list[tuple[str, Array, bool]]
    run: Prepared


class FastCall:
    """Calls of a plan with inputs of these names, one at a time.

    Results that are single numbers are read out of memory that stays; others are new arrays.
    """

    __slots__ = (
        "_arrays",
        "_fresh",
        "_held",
        "_hyperparameters",
        "_inputs",
        "_is_first",
        "_last",
        "_least",
        "_most",
        "_numbers",
        "_places",
        "_plan",
        "_results",
        "_run",
        "_samples",
        "_small",
    )

    def __init__(
        self,
        plan: Plan,
        names: Sequence[str],
        arguments: Sequence[Array],
        stores: Sequence[tuple[Store, Sequence[str]]],
    ) -> None:
        """`arguments` of a call that was made; parameters and state among them stand in `stores`
        by these names, and may be others at a later call."""
        self._plan = plan
        specs = [plan.dense[name] for name in names]
        self._inputs = [
            (name, p.dtype, p.fixed, p.shape[-1] if p.shape else 0)
            for name, p in zip(names, specs, strict=True)
        ]
        bound = next(iter(plan.bounds.values()), 0)
        # An array that is kept with a row for each sample is of so many samples.
        rows = [arguments[p.place].shape[0] for p in plan.kept if p.fixed is None]
        self._least, self._most = (rows[0], rows[0]) if rows else (-1, bound)
        self._held = [(store, name, store[name]) for store, held in stores for name in held]
        self._hyperparameters = {
            n: (arguments[p.place].copy(), p) for n, p in plan.hyperparameters.items()
        }
        self._numbers: dict[str, object] = {}
        self._last: Mapping[str, float] | None = None
        results = [np.empty((1, 1), p.dtype) if p.is_number else None for p in plan.results]
        self._results = [(p.name, a) for p, a in zip(plan.results, results, strict=True)]
        self._fresh = [(p.name, p.dtype, _width(p), p) for p in plan.results if not p.is_number]
        arrays: list[Array | None] = [*arguments, *results]
        for name, spec in plan.hyperparameters.items():
            arrays[spec.place] = self._hyperparameters[name][0]
        places = [spec.place for spec in specs]
        self._places = [*places, *(i for i, a in enumerate(arrays) if a is None)]
        for i in places:
            arrays[i] = None
        self._arrays = arrays
        self._run = plan.compiled.prepare(plan.signature, arrays, self._places)
        self._samples: int | None = None
        self._is_first = True
        self._small: _SmallCall | None = None

    @staticmethod
    def serves(plan: Plan) -> bool:
        """Whether a call's sizes are those of its samples, as its dense inputs say them."""
        specs = plan.dense.values()
        if plan.tables is not None or len(specs) < len(plan.inputs):
            return False
        if plan.products or len(plan.bounds) > 1:
            return False
        if not all(spec.fixed or _has_samples(spec) for spec in plan.kept):
            return False
        open_specs = [spec for spec in specs if spec.fixed is None]
        return bool(open_specs) == bool(plan.bounds) and all(map(_has_samples, open_specs))

    def run(
        self, inputs: Mapping[str, object], hyperparameters: Hyperparameters, plan: Plan
    ) -> dict[str, Any] | None:
        """The results; None for a call that this is not for, of which nothing has been done."""
        if plan is not self._plan or len(inputs) != len(self._inputs):
            return None
        try:
            for store, name, array in self._held:
                if store[name] is not array:
                    return None
        except KeyError:
            return None
        small = self._small
        if small is not None:
            for name, dtype, shape, own in small.inputs:
                value: Any = inputs.get(name)
                if (
                    type(value) is not np.ndarray
                    or value.dtype is not dtype
                    or value.shape != shape
                ):
                    break
                own[...] = value
            else:
                numbered = hyperparameters or self._hyperparameters
                if numbered and not self._takes(hyperparameters, small.samples):
                    return None
                small.run(small.samples, ())
                results: dict[str, Any] = {}
                for name, own, is_number in small.results:
                    results[name] = own[0, 0] if is_number else own.copy()
                return results
        return self._run_in_place(inputs, hyperparameters)

    def _run_in_place(
        self, inputs: Mapping[str, object], hyperparameters: Hyperparameters
    ) -> dict[str, Any] | None:
        """The same on the arrays themselves."""
        arrays: list[Any] = []
        samples = -1
        for name, dtype, fixed, width in self._inputs:
            value: Any = inputs.get(name)
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
            arrays.append(value)
        if not self._least <= samples <= self._most or not self._takes(hyperparameters, samples):
            return None
        if samples != self._samples:
            self._samples, self._small, self._is_first = samples, None, True
        elif self._is_first:
            self._is_first, self._small = False, self._small_call(samples, arrays)
        results: dict[str, Any] = {}
        for name, dtype, width, spec in self._fresh:
            shape = (samples, width) if width is not None else _shape(spec, self._plan, samples)
            results[name] = array = np.empty(shape, dtype)
            arrays.append(array)
        self._run(samples, arrays)
        if len(results) < len(self._results):
            return {n: results[n] if a is None else a[0, 0] for n, a in self._results}
        return results

    def _small_call(self, samples: int, given: Sequence[Array]) -> _SmallCall | None:
        """Of so many samples, with inputs of these shapes; None where arrays are large."""
        plan = self._plan
        names = [name for name, *_ in self._inputs]
        inputs = [
            (n, a.dtype, a.shape, np.empty_like(a)) for n, a in zip(names, given, strict=True)
        ]
        made = [np.empty(_shape(p, plan, samples), d) for _, d, _, p in self._fresh]
        own = [*(array for *_, array in inputs), *made]
        if any(array.nbytes > SMALL_BYTES for array in own):
            return None
        arrays = list(self._arrays)
        for place, array in zip(self._places, own, strict=True):
            arrays[place] = array
        run = plan.compiled.prepare(plan.signature, arrays, ())
        fresh = iter(made)
        results = [(n, next(fresh) if a is None else a, a is not None) for n, a in self._results]
        return _SmallCall(samples, inputs, results, run)

    def _takes(self, hyperparameters: Hyperparameters, samples: int) -> bool:
        """Whether these are the numbers of the call, which are then in their places."""
        numbers = hyperparameters(samples) if callable(hyperparameters) else hyperparameters
        if numbers is self._last and numbers is not hyperparameters:
            return True
        return self._set_numbers(numbers)

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
    return _width(spec) is not None


def _width(spec: ArgumentSpec) -> int | None:
    """Of the row that it has for each sample; None where it is of another shape."""
    if len(spec.shape) != 2 or not isinstance(spec.shape[0], str):
        return None
    return spec.shape[1] if isinstance(spec.shape[1], int) else None


def _shape(spec: ArgumentSpec, plan: Plan, samples: int) -> tuple[int, ...]:
    return spec.fixed or concrete_shape(spec.shape, dict.fromkeys(plan.bounds, samples))
