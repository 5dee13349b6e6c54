"""The fast path of calls: one with the shapes of an earlier call reuses what that call checked.

A thorough call checks everything and finds a place for everything. A `FastCall` made from it
serves those that follow in the same thread: arrays that need no conversion (or are class numbers
of the same type), under the same names, and the same parameter arrays. Anything else is left to the
thorough way, errors included.

Where inputs and results are small and a call has as many samples as the one before, their numbers
are copied into memory that stays and out of it: that takes less time than telling the compiled
function where other memory is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from graphc.runtime.argument_specs import ArgumentSpec
from graphc.runtime.call_numbers import CallNumbers, HeldArrays, Hyperparameters, Stores
from graphc.runtime.class_numbers import NUMBER, are_inside
from graphc.runtime.compiled import Fixed
from graphc.runtime.plan import Array, Plan
from graphc.runtime.signature import concrete_shape
from graphc.support.aligned import result_array

IN_PLACE = 0x101
"""numpy's flags of an array that is C-contiguous and aligned, so that it is read where it lies."""
SMALL_BYTES = 8192
"""Up to here an array is copied in less time than its address is found in."""


@dataclass(frozen=True, slots=True)
class _SmallCall:
    """A call of so many samples in memory of its own.

    inputs   name, element type and shape of what is taken, and where it is copied to
    labels   class numbers that have to be looked at, and of how many classes
    results  where each lies, and whether it is a single number
    """

    samples: int
    inputs: list[tuple[str, np.dtype, tuple[int, ...], Array]]
    labels: list[tuple[Array, int]]
    results: list[tuple[str, Array, bool]]
    run: Fixed


class FastCall:
    """Calls of a plan with inputs of these names, one at a time.

    Results that are single numbers are read out of memory that stays; others are new arrays.
    """

    is_of_carry_plan = False
    __slots__ = (
        "_arrays",
        "_fresh",
        "_held",
        "_inputs",
        "_is_first",
        "_labels",
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
        inputs: Mapping[str, Array],
        arguments: Sequence[Array],
        stores: Stores,
    ) -> None:
        """`inputs` and `arguments` of a call that was made; parameters and state among these stand
        in `stores` by their names, and may be others at a later call."""
        self._plan = plan
        specs = [plan.dense[name] for name in inputs]
        self._inputs = [
            (name, value.dtype, p.fixed, p.shape[1:], p.is_numbered)
            for (name, value), p in zip(inputs.items(), specs, strict=True)
        ]
        self._labels = [(i, p.to_look_at) for i, p in enumerate(specs) if p.to_look_at]
        bound = next(iter(plan.bounds.values()), 0)
        # An array that is kept with a row for each sample is of so many samples.
        rows = [arguments[p.place].shape[0] for p in plan.kept if p.fixed is None]
        self._least, self._most = (rows[0], rows[0]) if rows else (-1, bound)
        self._held = HeldArrays(stores)
        self._numbers = CallNumbers(plan, arguments)
        results = [np.empty((1, 1), p.dtype) if p.is_number else None for p in plan.results]
        self._results = [(p.name, a) for p, a in zip(plan.results, results, strict=True)]
        self._fresh = [(p.name, p.dtype, _width(p), p) for p in plan.results if not p.is_number]
        arrays: list[Array | None] = [*arguments, *results]
        for place, array in self._numbers.arrays.items():
            arrays[place] = array
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
        if plan.formulas or len(plan.bounds) > 1:
            return False
        if not all(spec.fixed or _has_samples(spec) for spec in plan.kept):
            return False
        open_specs = [spec for spec in specs if spec.fixed is None]
        return bool(open_specs) == bool(plan.bounds) and all(map(_has_samples, open_specs))

    def run(
        self, inputs: Mapping[str, object], hyperparameters: Hyperparameters, plan: Plan | None
    ) -> dict[str, Any] | None:
        """The results; None for a call that this is not for, of which nothing has been done."""
        if plan is not self._plan or len(inputs) != len(self._inputs) or not self._held.stand():
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
                for own, classes in small.labels:
                    if not are_inside(own, classes):
                        return None
                numbered = hyperparameters or self._numbers.arrays
                if numbered and not self._numbers.take(hyperparameters, small.samples):
                    return None
                small.run()
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
        for name, dtype, fixed, row, is_numbered in self._inputs:
            value: Any = inputs.get(name)
            if type(value) is not np.ndarray or value.dtype is not dtype:
                return None
            if value.flags.num & IN_PLACE != IN_PLACE or (is_numbered and dtype is not NUMBER):
                if not is_numbered:
                    return None
                value = value.astype(NUMBER)
            shape = value.shape
            if fixed is not None:
                if shape != fixed:
                    return None
            elif shape[1:] != row or not shape:
                return None
            elif shape[0] != samples:
                if samples >= 0:
                    return None
                samples = shape[0]
            arrays.append(value)
        if not all(are_inside(arrays[i], classes) for i, classes in self._labels):
            return None
        if not self._least <= samples <= self._most:
            return None
        if not self._numbers.take(hyperparameters, samples):
            return None
        if samples != self._samples:
            self._samples, self._small, self._is_first = samples, None, True
        elif self._is_first:
            self._is_first, self._small = False, self._small_call(samples, arrays)
        results: dict[str, Any] = {}
        for name, dtype, width, spec in self._fresh:
            shape = (samples, width) if width is not None else _shape(spec, self._plan, samples)
            results[name] = array = result_array(shape, dtype)
            arrays.append(array)
        self._run(samples, arrays)
        if len(results) < len(self._results):
            return {n: results[n] if a is None else a[0, 0] for n, a in self._results}
        return results

    def _small_call(self, samples: int, given: Sequence[Array]) -> _SmallCall | None:
        """Of so many samples, with inputs of these shapes; None where arrays are large."""
        plan = self._plan
        taken = [np.empty_like(array) for array in given]
        inputs = [
            (name, dtype, array.shape, array)
            for (name, dtype, *_), array in zip(self._inputs, taken, strict=True)
        ]
        labels = [(taken[i], classes) for i, classes in self._labels]
        made = [np.empty(_shape(p, plan, samples), d) for _, d, _, p in self._fresh]
        own = [*taken, *made]
        if any(array.nbytes > SMALL_BYTES for array in own):
            return None
        arrays = list(self._arrays)
        for place, array in zip(self._places, own, strict=True):
            arrays[place] = array
        count, sizes = len(plan.arguments), dict.fromkeys(plan.bounds, samples)
        # Every place has an array by now.
        run = plan.compiled.fixed(arrays[:count], arrays[count:], sizes)  # type: ignore[arg-type]
        fresh = iter(made)
        results = [(n, next(fresh) if a is None else a, a is not None) for n, a in self._results]
        return _SmallCall(samples, inputs, labels, results, run)


def _has_samples(spec: ArgumentSpec) -> bool:
    """Whether it is a row of a known width for each sample."""
    return spec.is_numbered or _width(spec) is not None


def _width(spec: ArgumentSpec) -> int | None:
    """Of the row that it has for each sample; None where it is of another shape."""
    if len(spec.shape) != 2 or not isinstance(spec.shape[0], str):
        return None
    return spec.shape[1] if isinstance(spec.shape[1], int) else None


def _shape(spec: ArgumentSpec, plan: Plan, samples: int) -> tuple[int, ...]:
    return spec.fixed or concrete_shape(spec.shape, dict.fromkeys(plan.bounds, samples))
