"""What sequences leave for the next call: the state, and how calls like each other go on from it.

A state is an array [S, rows] for each delayed value, and the steps behind each of the S sequences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.runtime.argument_specs import ArgumentSpec
from graphc.runtime.compiled import Fixed
from graphc.runtime.plan import Array, Plan
from graphc.runtime.sequences import MOST_BEHIND, Layout
from graphc.support.diagnostics import fail

STEPS_BEHIND = "sequence.steps"
"""In the state of sequences: i64[S], the steps of each that came before; 0 starts anew."""


@dataclass(slots=True, eq=False)
class Held:
    """The state that an executable goes on from; None to start anew. Its arrays may be memory that
    a later call writes to: users get copies."""

    arrays: Mapping[str, Array] | None = None

    @property
    def behind(self) -> Array | None:
        """The steps behind each sequence, i64[S]."""
        return None if self.arrays is None else self.arrays[STEPS_BEHIND].astype(np.int64)

    def copied(self) -> dict[str, Array] | None:
        """What users see."""
        if self.arrays is None:
            return None
        behind = self.arrays[STEPS_BEHIND].astype(np.int64)
        return {n: a.copy() for n, a in self.arrays.items()} | {STEPS_BEHIND: behind}


def read_state(state: object) -> dict[str, Array]:
    """A copy of a state of sequences; whether it fits a call shows there. GraphcError `input`."""
    if not isinstance(state, Mapping):
        message = f"a state requires arrays by name or None, got {type(state).__name__}"
        raise fail("input", message)
    arrays: dict[str, Array] = {}
    for name, value in state.items():
        try:
            arrays[name] = np.array(value)
        except (ValueError, TypeError) as problem:
            raise fail("input", f"state {name} requires an array, got none: {problem}") from None
    steps = arrays.get(STEPS_BEHIND, np.zeros(0))
    if steps.ndim != 1 or steps.dtype.kind not in "iu" or (steps < 0).any():
        message = f"state {STEPS_BEHIND} requires whole numbers of steps, one per sequence"
        raise fail("input", message)
    counts = [min(int(n), MOST_BEHIND) for n in steps]
    return arrays | {STEPS_BEHIND: np.array(counts, np.int64)}


def add_carried(
    plan: Plan, state: Mapping[str, Array] | None, slots: int, arguments: list[Array | None]
) -> None:
    """Add what the call before left, or zeros, which no sequence reads that starts here."""
    for spec, _ in plan.carried:
        shape = (slots, *spec.shape[1:])
        if state is None:
            # Behind the slots a carried state has known sizes only.
            arguments[spec.place] = np.zeros(shape, spec.dtype)  # type: ignore[arg-type]
        else:
            arguments[spec.place] = _carried(spec, state.get(spec.name), shape)


def _carried(spec: ArgumentSpec, array: Array | None, shape: tuple[int | str, ...]) -> Array:
    """An array of the state of sequences as the function takes it."""
    if array is None or array.shape != shape:
        got = "none" if array is None else array.shape
        message = f"state {spec.name} requires shape {shape}, got {got}; state = None starts anew"
        raise fail("input", message)
    if array.dtype.kind not in "fiub":
        raise fail("input", f"state {spec.name} requires {spec.dtype}, got {array.dtype}")
    return np.ascontiguousarray(array, spec.dtype)


def left_by(plan: Plan, results: Sequence[Array], layout: Layout) -> dict[str, Array]:
    """The state after a call."""
    left = {spec.name: results[spec.place] for _, spec in plan.carried}
    return {STEPS_BEHIND: layout.behind.copy(), **left}


class GoingOn:
    """Calls that go on where the one before ended, with sequences that lie in the same way.

    There are two sets of memory for the state: each call reads what the last one wrote and writes
    the other, which one assignment makes the state: so it is whole wherever a signal ends a call.
    The table of begins is `base - is_open * behind`, and afterwards there are
    `keep * behind + add` steps behind: what follows from lengths or flags is looked at once.
    """

    __slots__ = (
        "_add",
        "_base",
        "_begin",
        "_calls_left",
        "_held",
        "_is_open",
        "_keep",
        "_runs",
        "_states",
        "_turn",
    )

    def __init__(
        self,
        held: Held,
        state: Mapping[str, Array],
        form: _Form,
        begin: Array,
        states: tuple[Mapping[str, Array], Mapping[str, Array]],
        runs: tuple[Fixed, Fixed],
    ) -> None:
        """`state` is what the call left that was made; `runs` read and write `states` in turns."""
        self._held = held
        self._base, self._begin = form.base, begin
        self._is_open = form.is_open if form.is_open.any() else None
        self._keep = form.keep if (form.keep != 1).any() else None
        self._add = form.add
        self._calls_left = form.calls
        behind = state[STEPS_BEHIND].astype(np.int32)
        self._states = tuple({**arrays, STEPS_BEHIND: behind.copy()} for arrays in states)
        self._runs, self._turn = runs, 0
        for name, array in states[0].items():
            array[...] = state[name]
        held.arrays = self._states[0]

    @staticmethod
    def of(
        held: Held,
        plan: Plan,
        before: Array,
        layout_for: Callable[[Array], Layout],
        arguments: list[Array],
        results: list[Array],
        sizes: Mapping[str, int],
        *,
        has_flags: bool,
    ) -> GoingOn | None:
        """After a call with these arguments and results, which get memory of their own, and with
        so many steps behind `before`; None where the next one has another form."""
        form = _Form.of(before, layout_for, has_flags=has_flags)
        if form is None or held.arrays is None or plan.tables is None:
            return None
        place = plan.arguments[plan.tables.begin].place
        begin = arguments[place] = form.base.copy()
        sets = [{s.name: np.empty_like(results[s.place]) for _, s in plan.carried} for _ in "ab"]
        runs: list[Fixed] = []
        for read, written in (sets, sets[::-1]):
            for argument, result in plan.carried:
                arguments[argument.place] = read[result.name]
                results[result.place] = written[result.name]
            runs.append(plan.compiled.fixed(list(arguments), list(results), sizes))
        return GoingOn(held, held.arrays, form, begin, (sets[0], sets[1]), (runs[0], runs[1]))

    def is_next(self) -> bool:
        """Whether the state is that of the last of these calls."""
        return self._held.arrays is self._states[self._turn] and self._calls_left > 0

    def run(self) -> None:
        """Run once; `is_next` said that it may."""
        begin, turn = self._begin, self._turn
        behind, then = self._states[turn][STEPS_BEHIND], self._states[1 - turn][STEPS_BEHIND]
        if self._is_open is not None:
            np.multiply(self._is_open, behind, begin)
            np.subtract(self._base, begin, begin)
        self._runs[turn]()
        if self._keep is None:
            np.add(behind, self._add, then)
        else:
            np.multiply(behind, self._keep, then)
            np.add(then, self._add, then)
        self._calls_left -= 1
        self._turn = turn = 1 - turn
        self._held.arrays = self._states[turn]


@dataclass(frozen=True, slots=True)
class _Form:
    """How tables follow from the steps behind, i32[T, S] and [S]; for so many calls."""

    base: Array
    is_open: Array
    keep: Array
    add: Array
    calls: int

    @staticmethod
    def of(
        before: Array, layout_for: Callable[[Array], Layout], *, has_flags: bool
    ) -> _Form | None:
        """Found by asking for two numbers of steps; None where sequences that went on end here, or
        others begin to: flags like these mean something else then."""
        more = before + (before > 0 if has_flags else 1)
        one, two = layout_for(before), layout_for(more)
        if has_flags and ((one.behind > 0) != (before > 0)).any():
            return None
        is_open = (one.begin != two.begin).astype(np.int32)
        base = (one.begin + is_open * before).astype(np.int32)
        keep = (one.behind != two.behind).astype(np.int32)
        add = (one.behind - keep * before).astype(np.int32)
        most = int(max(one.behind.max(initial=0), before.max(initial=0)))
        calls = (MOST_BEHIND - most) // max(int(add.max(initial=0)), 1) - 1
        return _Form(base, is_open, keep, add, calls) if calls > 0 else None
