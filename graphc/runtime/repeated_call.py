"""The short way of calls with sequences or sparse inputs: one like an earlier call moves numbers.

Where sequences lie side by side, and where the entries of sparse rows go, follows from lengths,
offsets and shapes alone. A `RepeatedCall` keeps what followed from those of an earlier call of the
same thread: a call with equal ones copies its numbers to where that call's were, in memory that
stays. In arrays (T, S, rows) of one shape, lengths may differ: they decide nothing but two tables.
Anything else is left to the thorough way, errors included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeGuard

import numpy as np

from graphc.runtime.argument_specs import ArgumentSpec, SparseArgumentSpec
from graphc.runtime.call_numbers import CallNumbers, HeldArrays, Hyperparameters, Stores
from graphc.runtime.class_numbers import are_class_numbers, are_inside
from graphc.runtime.plan import Array, Plan, by_input
from graphc.runtime.sequence_state import GoingOn, Held
from graphc.runtime.sequences import (
    MOST_BEHIND,
    Layout,
    Minibatch,
    entry_places,
    read_minibatch,
)

MOST_BYTES = 1 << 18
"""Of inputs and results together: to copy more takes as long as to look at them anew."""

Take = Callable[[object], bool]
"""Whether a value of this call is like that of the earlier one; its numbers are then in place."""


@dataclass(frozen=True, slots=True)
class _Equal:
    """A value that has to be the same: lengths, offsets. `content` is the bytes of an array."""

    kind: type
    dtype: np.dtype | None
    shape: tuple[int, ...]
    content: object

    @staticmethod
    def of(value: object) -> _Equal | None:
        """None for what cannot be compared."""
        if type(value) is np.ndarray:
            return _Equal(np.ndarray, value.dtype, value.shape, value.tobytes())
        if type(value) is list and all(type(number) is int for number in value):
            return _Equal(list, None, (), list(value))
        return None

    def take(self, value: Any) -> bool:
        if type(value) is not self.kind:
            return False
        if self.kind is list:
            return bool(value == self.content)
        is_like = value.dtype == self.dtype and value.shape == self.shape
        return is_like and value.tobytes() == self.content


class _Lengths:
    """Lengths of the sequences in arrays of one shape, which may be others in each call: the tables
    of `Layout` are filled anew.

    begin, end  of the call, [T, S], with the steps that no caller knows of
    time        the steps that the caller's arrays have
    samples     the number of steps of the last lengths, and
    gaps        the numbers of the columns that are none
    """

    __slots__ = ("_last", "_slots", "_steps", "_time", "begin", "end", "gaps", "samples")
    _last: _Equal | None

    def __init__(self, begin: Array, end: Array, time: int) -> None:
        self.begin, self.end = begin, end
        self._time, self._slots = time, (begin.shape[1],)
        self._steps = np.arange(len(begin), dtype=np.int32)[:, None]
        self._last = None
        self._fill(end.max(axis=0))

    @staticmethod
    def of(made: MadeCall, arguments: list[Array]) -> _Lengths | None:
        """Of a call with lengths= alone, whose arguments get tables of their own; None for
        another."""
        plan, minibatch = made.plan, made.minibatch
        if minibatch is None or plan.tables is None or not _may_vary(made):
            return None
        tables: list[Array] = []
        for name in (plan.tables.begin, plan.tables.end):
            place = plan.arguments[name].place
            arguments[place] = arguments[place].copy()
            tables.append(arguments[place])
        return _Lengths(tables[0], tables[1], minibatch.sizes[0] - minibatch.gaps)

    def take(self, value: Any) -> bool:
        if self._last is not None and self._last.take(value):
            return True
        is_list = type(value) is list and all(type(number) is int for number in value)
        lengths = np.array(value) if is_list else value
        if type(lengths) is not np.ndarray or lengths.dtype.kind not in "iu":
            return False
        if lengths.shape != self._slots:
            return False
        if lengths.min(initial=1) < 1 or lengths.max(initial=0) > self._time:
            return False
        self._last = None  # what ends the filling leaves tables of neither
        self._fill(lengths)
        self._last = _Equal.of(value)
        return True

    def _fill(self, lengths: Array) -> None:
        lengths = lengths.astype(np.int32)
        is_step = self._steps < lengths
        np.multiply(is_step, lengths, out=self.end)
        np.multiply(~is_step, np.int32(len(is_step)), out=self.begin)
        self.samples = int(np.add.reduce(lengths))
        self.gaps = np.flatnonzero(~is_step[: self._time])


@dataclass(frozen=True, slots=True)
class _Numbers:
    """An array of this shape and of the element type `given`, which is copied."""

    own: Array
    given: np.dtype

    def take(self, value: Any) -> bool:
        own = self.own
        if type(value) is not np.ndarray or value.dtype != self.given or value.shape != own.shape:
            return False
        own[...] = value
        return True


@dataclass(frozen=True, slots=True)
class _Entries:
    """Sparse rows, a tuple: their entries go to these places.

    kind     of the indices, as whole numbers without sign: those below 0 are large
    indices, values  of all rows, filled up
    """

    given: np.dtype
    kind: np.dtype
    width: int
    offsets: _Equal
    places: slice | Array
    count: int
    indices: Array
    values: Array
    has_values: bool

    def take(self, value: Any) -> bool:
        if type(value) is not tuple or len(value) != 2 + self.has_values:
            return False
        if not self.offsets.take(value[1]):
            return False
        if self.has_values and not self._fits(value[2], self.values.dtype):
            return False
        if not self.take_indices(value[0]):
            return False
        if self.has_values:
            self.values[self.places] = value[2]
        return True

    def take_indices(self, found: Any) -> bool:
        """The same for class numbers, which are an index for each row."""
        if not self._fits(found, self.given):
            return False
        if self.count and np.maximum.reduce(found.view(self.kind)) >= self.width:
            return False
        self.indices[self.places] = found
        return True

    def _fits(self, array: Any, dtype: np.dtype) -> bool:
        is_array = type(array) is np.ndarray
        return is_array and array.dtype == dtype and array.shape == (self.count,)


@dataclass(frozen=True, slots=True)
class _List:
    """A value for each sequence."""

    items: tuple[Take, ...]

    def take(self, value: Any) -> bool:
        if type(value) is not list or len(value) != len(self.items):
            return False
        return all(take(item) for take, item in zip(self.items, value, strict=True))


@dataclass(frozen=True, slots=True)
class Carried:
    """Where the state is that a call went on from, and the steps behind it then."""

    held: Held
    behind: Array | None


@dataclass(frozen=True, slots=True)
class MadeCall:
    """A call that was made: what the caller gave, and what the function got.

    inputs, options  by the names that the caller used
    samples          what hyperparameters may depend on
    carried          of a call that went on from a state
    """

    plan: Plan
    inputs: Mapping[str, object]
    options: Mapping[str, object]
    arguments: Sequence[Array]
    results: Sequence[Array]
    sizes: Mapping[str, int]
    minibatch: Minibatch | None
    samples: int
    carried: Carried | None = None


class RepeatedCall:
    """Calls like one that was made, one at a time. Results are new arrays."""

    __slots__ = (
        "_going_on",
        "_held",
        "_labels",
        "_lengths",
        "_numbers",
        "_plan",
        "_results",
        "_run",
        "_samples",
        "_takes",
        "is_of_carry_plan",
    )

    def __init__(
        self,
        made: MadeCall,
        takes: Sequence[tuple[str, Take]],
        arguments: list[Array],
        stores: Stores,
        going_on: Callable[[list[Array], list[Array]], GoingOn | None],
        lengths: _Lengths | None,
        *,
        of_carry_plan: bool,
    ) -> None:
        """`takes` copy to `arguments`, which are memory of its own but for what is in `stores`.

        lengths        those that `takes` read, where they may change
        of_carry_plan  the plan is the one that the executable made for calls that go on
        """
        plan = self._plan = made.plan
        self.is_of_carry_plan = of_carry_plan
        self._takes, self._samples, self._lengths = takes, made.samples, lengths
        self._held = HeldArrays(stores)
        labels = [p for p in plan.dense.values() if p.to_look_at]
        self._labels = [(arguments[p.place], p.to_look_at) for p in labels]
        self._numbers = CallNumbers(plan, arguments)
        for place, array in self._numbers.arrays.items():
            arguments[place] = array
        results = [np.empty_like(array) for array in made.results]
        handed_on = {spec.place for _, spec in plan.carried}
        self._results = [
            (p.name, _giver(plan, p, array, made.minibatch, lengths))
            for p, array in zip(plan.results, results, strict=True)
            if p.place not in handed_on
        ]
        self._going_on = going_on(arguments, results)
        if self._going_on is None:
            self._run = plan.compiled.fixed(arguments, results, made.sizes)
        else:
            self._run = self._going_on.run

    @staticmethod
    def serves(made: MadeCall) -> bool:
        """Whether calls are of sequences or sparse inputs, and what is carried is known."""
        plan = made.plan
        is_sparse = len(plan.dense) < len(plan.inputs)
        is_whole = bool(plan.carried) == (made.carried is not None)
        return (is_sparse or plan.tables is not None) and is_whole

    @staticmethod
    def takes_other_lengths(made: MadeCall) -> bool:
        """Whether calls like this one may have other lengths in arrays of the same sizes."""
        return _may_vary(made)

    @staticmethod
    def like(made: MadeCall, stores: Stores, *, of_carry_plan: bool = False) -> RepeatedCall | None:
        """For calls like this one; None where they have to be looked at anew."""
        arguments = list(made.arguments)
        takes: list[tuple[str, Take]] = []
        declared = by_input(made.plan, made.inputs)
        for name, (known, value) in zip(made.inputs, declared.items(), strict=True):
            take = _taker(made, known, value, arguments)
            if take is None:
                return None
            takes.append((name, take))
        lengths = _Lengths.of(made, arguments)
        for name, value in made.options.items():
            if lengths is not None:
                takes.append((name, lengths.take))
                continue
            equal = _Equal.of(value)
            if equal is None:
                return None
            takes.append((name, equal.take))
        if made.carried is not None:
            takes.append(("carry", _is_true))
        own = (b for a, b in zip(made.arguments, arguments, strict=True) if a is not b)
        if sum(array.nbytes for array in (*own, *made.results)) > MOST_BYTES:
            return None
        found = RepeatedCall(
            made,
            takes,
            arguments,
            stores,
            partial(_going_on, made),
            lengths,
            of_carry_plan=of_carry_plan,
        )
        return None if made.carried is not None and found._going_on is None else found

    def run(
        self, inputs: Mapping[str, object], hyperparameters: Hyperparameters, plan: Plan | None
    ) -> dict[str, Any] | None:
        """The results; None for a call that this is not for, of which nothing has been done."""
        if plan is not self._plan or len(inputs) != len(self._takes) or not self._held.stand():
            return None
        if self._going_on is not None and not self._going_on.is_next():
            return None
        for name, take in self._takes:
            if not take(inputs.get(name)):
                return None
        for own, classes in self._labels:
            if not are_inside(own, classes):
                return None
        numbered = hyperparameters or self._numbers.arrays
        samples = self._samples if self._lengths is None else self._lengths.samples
        if numbered and not self._numbers.take(hyperparameters, samples):
            return None
        self._run()
        return {name: give() for name, give in self._results}


def _is_true(value: object) -> bool:
    return value is True


def _may_vary(made: MadeCall) -> bool:
    """Whether lengths alone say how the sequences lie, and nothing kept depends on them."""
    is_alone = made.carried is None and not made.plan.kept and list(made.options) == ["lengths"]
    return is_alone and made.plan.tables is not None


def _giver(
    plan: Plan,
    spec: ArgumentSpec,
    own: Array,
    minibatch: Minibatch | None,
    lengths: _Lengths | None,
) -> Callable[[], Any]:
    """What makes a result of the memory that it is computed in."""
    if spec.is_number:
        return lambda: own[0, 0]
    if minibatch is not None and spec.shape and spec.shape[0] in plan.columns:
        return minibatch.giver(own, None if lengths is None else lambda: lengths.gaps)
    return own.copy


def _going_on(made: MadeCall, arguments: list[Array], results: list[Array]) -> GoingOn | None:
    """How calls like this one go on from each other; None for one that does not."""
    plan, carried, minibatch = made.plan, made.carried, made.minibatch
    if carried is None or minibatch is None or plan.tables is None:
        return None
    multiple, slots = plan.tables.multiple, minibatch.sizes[1]
    values = by_input(plan, made.inputs)
    options: dict[str, Any] = {**made.options}

    def layout_for(behind: Array) -> Layout:
        read = read_minibatch(
            plan.inputs,
            values,
            behind=behind,
            carry=True,
            is_shared=plan.compiled.is_shared,
            **options,
        )
        return read.filled_up(multiple).layout

    before = np.zeros(slots, np.int64) if carried.behind is None else carried.behind
    before = np.minimum(before.astype(np.int64), MOST_BEHIND)
    return GoingOn.of(
        carried.held,
        plan,
        before,
        layout_for,
        arguments,
        results,
        made.sizes,
        has_flags="flags" in made.options,
    )


def _taker(made: MadeCall, name: str, value: object, arguments: list[Array]) -> Take | None:
    """What copies an input like `value` to the `arguments`, which get memory of their own for it;
    None where there is none."""
    spec, minibatch = made.plan.inputs[name], made.minibatch
    if isinstance(spec, SparseArgumentSpec):
        return _sparse_taker(spec, value, arguments, minibatch)
    own = arguments[spec.place] = arguments[spec.place].copy()
    if minibatch is not None:
        own = own[: minibatch.sizes[0] - minibatch.gaps]
    items: list[object] = value if type(value) is list else [value]
    arrays = [
        item
        for item in items
        if isinstance(item, np.ndarray)
        and (are_class_numbers(item) if spec.is_numbered else item.dtype == spec.dtype)
    ]
    if len(arrays) < len(items):
        return None
    if type(value) is not list:
        (array,) = arrays
        return _Numbers(own.reshape(array.shape), array.dtype).take
    if minibatch is None:
        return None
    taken = [_Numbers(own[: len(a), s], a.dtype) for s, a in enumerate(arrays)]
    return _List(tuple(each.take for each in taken)).take


def _sparse_taker(
    spec: SparseArgumentSpec, value: object, arguments: list[Array], minibatch: Minibatch | None
) -> Take | None:
    items: list[object] = value if type(value) is list else [value]
    is_list = type(value) is list
    if is_list and minibatch is None:
        return None
    numbered = [are_class_numbers(item) for item in items]
    items = [_as_tuple(item) if n else item for item, n in zip(items, numbered, strict=True)]
    tuples = [item for item in items if _is_of_arrays(item)]
    if len(tuples) < len(items):
        return None
    own: list[Array] = []
    for place in (spec.indices.place, spec.values.place):
        arguments[place] = arguments[place].copy()
        own.append(arguments[place].reshape(-1))
    time = minibatch.sizes[0] - minibatch.gaps if is_list and minibatch is not None else None
    places = entry_places(spec, [spec.read(item) for item in tuples], time)
    made = [_entries(spec, item, own, p) for item, p in zip(tuples, places, strict=True)]
    takes = tuple(
        entries.take_indices if n else entries.take
        for entries, n in zip(made, numbered, strict=True)
        if entries is not None
    )
    if len(takes) < len(items):
        return None
    return _List(takes).take if is_list else takes[0]


def _as_tuple(numbers: Any) -> tuple[Array, Array]:
    """Class numbers as the indices of rows of one entry, and their offsets."""
    return numbers, np.arange(len(numbers) + 1)


def _is_of_arrays(item: object) -> TypeGuard[tuple[Array, ...]]:
    return isinstance(item, tuple) and all(isinstance(part, np.ndarray) for part in item)


def _entries(
    spec: SparseArgumentSpec, item: tuple[Array, ...], own: Sequence[Array], places: Array
) -> _Entries | None:
    indices, offsets, *values = item
    equal = _Equal.of(offsets)
    if equal is None or indices.dtype.kind not in "iu":
        return None
    count = len(places)
    is_whole = np.array_equal(places, np.arange(count))
    return _Entries(
        indices.dtype,
        np.dtype(f"u{indices.dtype.itemsize}").newbyteorder(indices.dtype.byteorder),
        spec.rows,
        equal,
        slice(0, count) if is_whole else places,
        count,
        own[0],
        own[1],
        bool(values),
    )
