"""Inputs that a caller gives seldom: what depends on them alone is computed when they are given.

A function that was compiled so is two: one makes arrays of these inputs, the other takes those
arrays (its arguments of the role `kept`) with the inputs of every call.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any

import numpy as np

from graphc.runtime.argument_specs import note_shape
from graphc.runtime.plan import Plan
from graphc.support.diagnostics import fail

Array = np.ndarray
Run = Callable[[Mapping[str, object]], tuple[Mapping[str, Any], Mapping[str, int]]]
"""The inputs that are given seldom -> arrays by their names, and single numbers; and the bounds of
the function that made them."""


class SeldomInputs:
    """Those of one function, and what was made of them last.

    names  as the network spells them
    make   what computes for calls of at most so much
    run    the first that it made
    kept   the arrays, by the names that the other function knows
    """

    def __init__(
        self, names: Sequence[str], make: Callable[[Mapping[str, int]], Run], run: Run
    ) -> None:
        self.names = tuple(names)
        self.kept: dict[str, Array] = {}
        self._make = make
        self._run = run
        self._bounds: Mapping[str, int] = {}  # of what made `kept`
        self._given: dict[str, object] = {}  # copies: whose arrays they were may change them
        self._declared = {name.lower(): name for name in names}  # names do not distinguish case

    def are_in(self, inputs: Mapping[str, object]) -> bool:
        """Whether a call gives any of them. GraphcError `input` where it has to and does not."""
        if any(name.lower() in self._declared for name in inputs):
            return True
        self._require_all()
        return False

    @contextmanager
    def taken(self, inputs: Mapping[str, object]) -> Generator[Mapping[str, object]]:
        """The other inputs of a call that gives some anew: of these the arrays are computed. After
        an error in here all is as it was."""
        before = self._given, self._bounds, dict(self.kept)
        try:
            yield self._take(inputs)
        except BaseException:
            self._given, self._bounds, kept = before
            self.kept.clear()
            self.kept.update(kept)
            raise

    def _take(self, inputs: Mapping[str, object]) -> Mapping[str, object]:
        found = {n: self._declared[n.lower()] for n in inputs if n.lower() in self._declared}
        given = {**self._given, **{known: inputs[n] for n, known in found.items()}}
        if len(given) == len(self.names):
            self._compute(given)
        self._given = {n: v if v is self._given.get(n) else deepcopy(v) for n, v in given.items()}
        self._require_all()
        return {n: value for n, value in inputs.items() if n not in found}

    def add(self, plan: Plan, arguments: list[Array | None], sizes: dict[str, int]) -> None:
        """Add the arrays to the arguments of a call, and the sizes that they have; sizes alone that
        are above the plan's bounds, where they are of a function for such calls."""
        if any(spec.name not in self.kept for spec in plan.kept):
            # Compiled for other bounds, the function was taken apart elsewhere.
            above = {d: n for d, n in self._bounds.items() if n > plan.bounds.get(d, n)}
            if above:
                sizes.update(above)
                return
            self._run = self._make(plan.bounds)
            self._compute(self._given)
        for spec in plan.kept:
            array = self.kept[spec.name]
            known = {d: n for d, n in zip(spec.shape, array.shape, strict=True) if d in sizes}
            if any(sizes[d] != n for d, n in known.items()):  # type: ignore[index]  # names of dims
                dim = next(d for d, n in known.items() if sizes[d] != n)  # type: ignore[index]
                raise fail(
                    "input",
                    f"{', '.join(self.names)} requires {sizes[dim]} samples as the other inputs "  # type: ignore[index]
                    f"have, and was given with {known[dim]}: give it anew",
                )
            note_shape(spec, array.shape, sizes)
            arguments[spec.place] = array

    def _compute(self, given: Mapping[str, object]) -> None:
        made, self._bounds = self._run(given)
        self.kept.clear()
        for name, value in made.items():
            # A single number has no dims for callers.
            self.kept[name] = value if isinstance(value, np.ndarray) else np.array([[value]])

    def _require_all(self) -> None:
        if len(self._given) < len(self.names):
            absent = ", ".join(n for n in self.names if n not in self._given)
            raise fail("input", f"no call has given {absent} yet, which is kept from then on")
