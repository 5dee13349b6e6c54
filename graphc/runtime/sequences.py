"""Minibatches of sequences: what callers may give, and the tables that a function goes by.

S sequences lie side by side in slots of T steps. Three ways in mean the same:

a list   of arrays (steps, rows), one for each sequence; of sparse inputs CSR matrices and the like
lengths  an array (T, S, rows), with the steps of each slot, or without if all slots are full; one
         sequence may be an array (T, rows)
flags    an array (T, S, rows), or (T*S, rows) with the slots of one step after each other, and for
         every column SequenceStart 1, SequenceEnd 2, NoFeature 4 and NoLabel 8 (the book's figure
         2.9): a slot may hold several sequences one after another

Results come back in the form of the inputs. Columns without a step, gaps, are 0 in them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NoReturn

import numpy as np

from graphc.runtime.argument_specs import (
    ArgumentSpec,
    Input,
    SparseArgumentSpec,
    as_array,
    convert,
    labels_of,
    read_array,
)
from graphc.runtime.class_numbers import are_class_numbers, are_inside
from graphc.runtime.sparse import NO_INDEX, SparseRows
from graphc.support.diagnostics import fail

Array = np.ndarray

START, END, NO_FEATURE, NO_LABEL = 1, 2, 4, 8
_BEFORE = np.iinfo(np.int64).min
MOST_BEHIND = 2**30
"""Steps behind a sequence are counted up to here, further than any delay looks: tables are i32."""

Form = Literal["list", "columns", "array"]


@dataclass(frozen=True)
class Layout:
    """Where sequences lie in T x S columns. Its arrays are never changed.

    begin, end  the tables i32[T, S] of `SequenceTables`
    behind      i64[S]: how many steps the sequence of each slot has at the end of this call, from
                its start on; 0 where none goes on
    """

    begin: Array
    end: Array
    behind: Array

    @cached_property
    def real(self) -> Array:
        """bool[T, S]: the columns that are steps."""
        return self.end > 0

    @cached_property
    def samples(self) -> int:
        """The number of steps."""
        return int(np.count_nonzero(self.end))

    @cached_property
    def has_gaps(self) -> bool:
        return self.samples < self.end.size


def layout_of_lengths(lengths: Array, time: int, behind: Array) -> Layout:
    """One sequence a slot, `lengths` i64 of `time` steps each, that goes on after `behind` steps.

    The last few are kept: calls often have the lengths of calls before.
    """
    return _kept_layout(lengths.tobytes(), time, behind.tobytes())


@lru_cache(maxsize=16)
def _kept_layout(lengths_: bytes, time: int, behind_: bytes) -> Layout:
    lengths, behind = np.frombuffer(lengths_, np.int64), np.frombuffer(behind_, np.int64)
    steps = np.arange(time)[:, None]
    real = steps < lengths
    begin = np.where(real, -behind, time).astype(np.int32)
    end = np.where(real, lengths, 0).astype(np.int32)
    return Layout(begin, end, behind + lengths)


def layout_of_flags(flags: Array, behind: Array, carry: bool) -> Layout:
    """The layout that flags i[T, S] say; GraphcError `input` where they contradict each other.

    carry  sequences may go on from the call before, where `behind` is more than 0, and may go on
           in the next one; otherwise each starts and ends here

    The last few are kept.
    """
    shape = len(flags), len(behind)
    return _kept_layout_of_flags(flags.astype(np.int64).tobytes(), shape, behind.tobytes(), carry)


@lru_cache(maxsize=16)
def _kept_layout_of_flags(
    flags_: bytes, shape: tuple[int, int], behind_: bytes, carry: bool
) -> Layout:
    flags = np.frombuffer(flags_, np.int64).reshape(shape)
    behind = np.frombuffer(behind_, np.int64)
    time = len(flags)
    real = (flags & NO_FEATURE) == 0
    starts, ends = (flags & START) != 0, (flags & END) != 0
    _check_gaps(flags, real)
    is_open = np.concatenate([(behind > 0)[None], real & ~ends])  # before each step
    before, inside = is_open[:-1], is_open[:-1].copy()
    inside[0] = False  # a start takes the place of what was carried
    for wrong, what in (
        (real & starts & inside, "SequenceStart in a sequence that has not ended"),
        (real & ~starts & ~before, "a step of no sequence: SequenceStart is missing"),
        (~real & inside, "a gap in a sequence that has not ended: SequenceEnd is missing"),
    ):
        if wrong.any():
            t, s = np.argwhere(wrong)[0]
            _contradiction(f"{what}, at step {t} of slot {s}")
    if not carry and is_open[-1].any():
        s = int(np.argmax(is_open[-1]))
        _contradiction(
            f"the last sequence of slot {s} has no SequenceEnd; carry=True lets it go on"
        )
    steps = np.arange(time, dtype=np.int64)[:, None]
    begin = np.maximum.accumulate(np.where(starts, steps, _BEFORE), axis=0)
    begin = np.where(begin == _BEFORE, -behind, begin)
    end = np.minimum.accumulate(np.where(ends, steps + 1, time)[::-1], axis=0)[::-1]
    left = np.where(is_open[-1] & real[-1], time - begin[-1], 0)
    idle = ~real.any(axis=0)
    return Layout(
        np.where(real, begin, time).astype(np.int32),
        np.where(real, end, 0).astype(np.int32),
        np.where(idle, behind, left),
    )


def _check_gaps(flags: Array, real: Array) -> None:
    if ((flags < 0) | (flags > (START | END | NO_FEATURE | NO_LABEL))).any():
        _contradiction(f"flags are sums of 1, 2, 4 and 8, got {flags.min()} to {flags.max()}")
    if (wrong := ~real & ((flags & (START | END)) != 0)).any():
        t, s = np.argwhere(wrong)[0]
        _contradiction(f"a column without features starts or ends one, step {t} of slot {s}")
    if (wrong := real & ((flags & NO_LABEL) != 0)).any():
        t, s = np.argwhere(wrong)[0]
        raise fail(
            "not-supported",
            f"a step with features but without a label (NoLabel alone), step {t} of slot {s}: "
            "every step counts in the criteria",
        )


def _contradiction(what: str) -> NoReturn:
    raise fail("input", f"flags require sequences that start and end: {what}")


@dataclass(frozen=True, slots=True)
class Minibatch:
    """What a call takes: values [T, S, …] or rows of T*S columns by input, and how they lie."""

    values: Mapping[str, Array | SparseRows]
    layout: Layout
    form: Form
    gaps: int = 0
    """Steps behind all sequences that no caller knows of."""

    def filled_up(self, multiple: int) -> Minibatch:
        """The same sequences with gaps behind them, so that T is a multiple of this."""
        time, slots = self.sizes
        gaps = -time % multiple
        if not gaps:
            return self
        begin = np.full((time + gaps, slots), time + gaps, np.int32)
        end = np.zeros((time + gaps, slots), np.int32)
        real = self.layout.real
        begin[:time][real], end[:time][real] = self.layout.begin[real], self.layout.end[real]
        values = {n: _with_gaps(v, gaps, slots) for n, v in self.values.items()}
        layout = Layout(begin, end, self.layout.behind)
        return Minibatch(values, layout, self.form, self.gaps + gaps)

    @property
    def sizes(self) -> tuple[int, int]:
        """T and S."""
        time, slots = self.layout.begin.shape
        return time, slots

    def giver(
        self, array: Array, gaps: Callable[[], Array] | None = None
    ) -> Callable[[], Array | list[Array]]:
        """What returns, as `returned` does, what stands in this array, in arrays of their own.

        gaps  of arrays, the numbers of the columns that are no steps, where these change
        """
        time, slots = self.sizes
        if array.shape[:2] != (time, slots):
            array = array.reshape(time, slots, *array.shape[1:])
        array, real = array[: time - self.gaps], self.layout.real[: time - self.gaps]
        if self.form == "list":
            parts = [array[:n, s] for s, n in enumerate(np.count_nonzero(real, axis=0))]
            return lambda: [part.copy() for part in parts]
        rows = array.reshape(-1, *array.shape[2:])
        shown, empty = rows if self.form == "columns" else array, np.flatnonzero(~real)
        if gaps is None and not len(empty):
            return shown.copy

        def give() -> Array:
            rows[empty if gaps is None else gaps()] = 0
            return shown.copy()

        return give

    def returned(self, array: Array) -> Array | list[Array]:
        """A result [T, S, …] or [T*S, …] in the form of the inputs; in gaps it is 0."""
        time, slots = self.sizes
        if array.shape[:2] != (time, slots):
            array = array.reshape(time, slots, *array.shape[1:])
        time -= self.gaps
        array, real = array[:time], self.layout.real[:time]
        if self.form == "list":
            counts = np.count_nonzero(real, axis=0)
            return [np.ascontiguousarray(array[:n, s]) for s, n in enumerate(counts)]
        if self.layout.has_gaps:
            array[~real] = 0
        return array.reshape(time * slots, *array.shape[2:]) if self.form == "columns" else array


def _with_gaps(value: Array | SparseRows, steps: int, slots: int) -> Array | SparseRows:
    """`value` with so many steps of zeros behind it."""
    if isinstance(value, SparseRows):
        offsets = np.pad(value.offsets, (0, steps * slots), mode="edge")
        return SparseRows(value.indices, offsets, value.values, value.width)
    return np.pad(value, [(0, steps), *[(0, 0)] * (value.ndim - 1)])


def read_minibatch(
    specs: Mapping[str, Input],
    values: Mapping[str, object],
    *,
    lengths: object = None,
    flags: object = None,
    behind: Array | None = None,
    carry: bool = False,
    is_shared: bool = False,
) -> Minibatch:
    """The minibatch that a call is given; GraphcError `input`.

    specs      of the inputs, by name
    behind     the steps that came before in each slot, if sequences go on
    is_shared  others have the rest of it: here there may be no step, nor a sequence
    """
    how = _How(behind, carry, is_shared)
    lists = {n: _as_list(specs[n], v) for n, v in values.items()}
    if any(items is not None for items in lists.values()):
        if flags is not None or lengths is not None:
            raise fail("input", "lengths and flags go with arrays (T, S, rows), got lists")
        for name, items in lists.items():
            if items is None:
                raise fail("input", f"all inputs are lists or none is: {name} is an array")
        given = {n: items for n, items in lists.items() if items is not None}
        return _from_lists(specs, given, how)
    return _from_arrays(specs, values, lengths, flags, how)


@dataclass(frozen=True, slots=True)
class _How:
    """What is the same in all forms of a minibatch; see `read_minibatch`."""

    behind: Array | None
    carry: bool
    is_shared: bool

    def require_lengths(self, lengths: Array) -> None:
        if not self.is_shared and not lengths.any():
            raise fail("input", "at least one sequence of at least one step is required")
        least = 0 if self.carry else 1
        if lengths.min(initial=least) < least:
            s = int(np.argmin(lengths))
            message = f"a sequence requires at least {least} steps, sequence {s} has {lengths[s]}"
            raise fail("input", message)

    def steps_behind(self, slots: int) -> Array:
        if self.behind is None:
            return np.zeros(slots, np.int64)
        if len(self.behind) != slots:
            raise fail(
                "input",
                f"the state is of {len(self.behind)} sequences, got {slots}; "
                "state = None starts anew",
            )
        return np.minimum(self.behind, MOST_BEHIND)


def _as_list(spec: Input, value: object) -> Sequence[object] | None:
    """The sequences of a list; None for an array. A tuple is one sequence of a sparse input."""
    if isinstance(value, list) or (isinstance(value, tuple) and isinstance(spec, ArgumentSpec)):
        return value
    return None


def read_sequences(
    specs: Mapping[str, Input], lists: Mapping[str, Sequence[object]]
) -> tuple[dict[str, list[Array | SparseRows]], Array]:
    """The sequences of every input, converted and checked against each other; their lengths."""
    found = {name: _sequences(specs[name], items) for name, items in lists.items()}
    lengths: list[int] | None = None
    first = ""
    for name, items in found.items():
        own = [len(item) for item in items]
        if lengths is None:
            lengths, first = own, name
        elif len(own) != len(lengths):
            raise fail(
                "input", f"{first} has {len(lengths)} sequences, {name} has {len(own)} sequences"
            )
        elif own != lengths:
            s = next(s for s, (a, b) in enumerate(zip(own, lengths, strict=True)) if a != b)
            raise fail(
                "input", f"sequence {s} has {lengths[s]} steps in {first} but {own[s]} in {name}"
            )
    return found, np.array(lengths or [], np.int64)


def _sequences(spec: Input, items: Sequence[object]) -> list[Array | SparseRows]:
    """Those of one input, converted and checked; class numbers all at once, which takes less."""
    if isinstance(spec, ArgumentSpec) and spec.is_numbered:
        found = [item for item in items if are_class_numbers(item)]
        if found and len(found) == len(items):
            numbers = [a if a.dtype == spec.dtype else a.astype(spec.dtype) for a in found]
            if spec.is_checked or are_inside(np.concatenate(numbers), spec.classes):
                return [*numbers]
    return [_sequence(spec, item, s) for s, item in enumerate(items)]


def _sequence(spec: Input, item: object, number: int) -> Array | SparseRows:
    if isinstance(spec, SparseArgumentSpec):
        return spec.read(item)
    array = labels_of(spec, as_array(spec, item), number)
    rows = spec.shape[2:]
    if array.ndim != 1 + len(rows) or array.shape[1:] != rows:
        wanted = ", ".join(["steps", *map(str, rows)])
        raise fail(
            "input",
            f"input {spec.name} requires sequences of shape ({wanted})"
            f"{' or class numbers' * bool(spec.classes)}, got {array.shape} for sequence {number}",
        )
    return array if array.dtype == spec.dtype else convert(spec, array)


def _from_lists(
    specs: Mapping[str, Input], lists: Mapping[str, Sequence[object]], how: _How
) -> Minibatch:
    found, lengths = read_sequences(specs, lists)
    how.require_lengths(lengths)
    time = int(lengths.max(initial=1))
    layout = layout_of_lengths(lengths, time, how.steps_behind(len(lengths)))
    values = {n: _side_by_side(specs[n], items, time) for n, items in found.items()}
    return Minibatch(values, layout, "list")


def as_columns(value: object, *, takes_classes: bool = False) -> object:
    """The steps of a list of sequences one after another, as samples; other values as they are.

    takes_classes  class numbers are steps too
    """
    if not isinstance(value, list) or not value:
        return value
    if all(isinstance(item, SparseRows) for item in value):
        rows: list[SparseRows] = value
        return join_rows(rows, rows[0].width)[: sum(map(len, rows))]
    arrays = [
        item
        for item in value
        if isinstance(item, np.ndarray)
        and (item.ndim > 1 or (takes_classes and are_class_numbers(item)))
    ]
    fits = len(arrays) == len(value) and len({a.shape[1:] for a in arrays}) == 1
    return np.concatenate(arrays) if fits else value


def _side_by_side(
    spec: Input, items: Sequence[Array | SparseRows], time: int
) -> Array | SparseRows:
    """Sequences as columns t * S + s: zeros, or empty sparse rows, after their ends."""
    if isinstance(spec, ArgumentSpec):
        padded = np.zeros((time, len(items), *(d for d in spec.shape[2:])), spec.dtype)  # type: ignore[arg-type]
        for s, item in enumerate(items):
            padded[: len(item), s] = item  # type: ignore[assignment]
        return padded
    rows = [item for item in items if isinstance(item, SparseRows)]
    if not rows:
        nothing = np.zeros(0, np.int32)
        return SparseRows(nothing, np.zeros(1, np.int64), np.zeros(0, spec.values.dtype), spec.rows)
    joined = join_rows(rows, spec.rows)
    starts = np.cumsum([0, *map(len, rows)])
    steps = np.arange(time)[:, None]
    counts = np.array([len(item) for item in rows])
    order = np.where(steps < counts, starts[:-1] + steps, starts[-1])
    return joined.take(order.reshape(-1))


def entry_places(
    spec: SparseArgumentSpec, items: Sequence[SparseRows], time: int | None
) -> list[Array]:
    """Where the entries of each of these come to lie in the two arrays of a sparse input, row after
    row: of sequences side by side in so many steps, or of one value as it is."""
    if not items:
        return []
    ends = np.cumsum([0, *(len(item.indices) for item in items)])
    numbered = [
        SparseRows(np.arange(first, last, dtype=np.int32), item.offsets, item.values, item.width)
        for item, first, last in zip(items, ends, ends[1:], strict=False)
    ]
    rows = numbered[0] if time is None else _side_by_side(spec, numbered, time)
    assert isinstance(rows, SparseRows)
    found, _ = rows.padded(spec.values.dtype)
    is_entry = found != NO_INDEX
    places = np.empty(ends[-1], np.int64)
    places[found[is_entry]] = np.flatnonzero(is_entry)
    return np.split(places, ends[1:-1])


def join_rows(parts: Sequence[SparseRows], width: int) -> SparseRows:
    """The rows of all parts one after another, then an empty one."""
    counts = [np.diff(part.offsets) for part in parts]
    offsets = np.concatenate([[0], np.cumsum(np.concatenate([*counts, [0]]))]).astype(np.int64)
    used = [slice(part.offsets[0], part.offsets[-1]) for part in parts]
    indices = [part.indices[where] for part, where in zip(parts, used, strict=True)]
    values = [part.values[where] for part, where in zip(parts, used, strict=True)]
    return SparseRows(np.concatenate(indices), offsets, np.concatenate(values), width)


def _from_arrays(
    specs: Mapping[str, Input],
    values: Mapping[str, object],
    lengths: object,
    flags: object,
    how: _How,
) -> Minibatch:
    if lengths is not None and flags is not None:
        raise fail("input", "one of lengths and flags is given, not both")
    table = _whole_numbers("flags", flags, 2) if flags is not None else None
    counts = _whole_numbers("lengths", lengths, 1) if lengths is not None else None
    read = {n: _unshaped(specs[n], value) for n, value in values.items()}
    time, slots = _sizes(specs, read, table, counts)
    shaped = {n: _shaped(specs[n], a, time, slots) for n, a in read.items()}
    if time < 1 or (slots < 1 and not how.is_shared):
        raise fail("input", f"at least one step and one sequence are required, got {time}, {slots}")
    earlier = how.steps_behind(slots)
    if table is not None:
        layout = layout_of_flags(table, earlier, how.carry)
    else:
        counts = np.full(slots, time) if counts is None else counts
        if len(counts) != slots:
            raise fail("input", f"lengths requires a number for each of {slots}, got {len(counts)}")
        how.require_lengths(counts)
        if counts.max(initial=0) > time:
            raise fail("input", f"lengths of at most T = {time} are required, got {counts.max()}")
        layout = layout_of_lengths(counts, time, earlier)
    if not layout.samples and not how.is_shared:
        raise fail("input", "at least one step is required, all columns are gaps")
    is_array = any(isinstance(a, np.ndarray) and _is_full(specs[n], a) for n, a in read.items())
    return Minibatch(shaped, layout, "array" if is_array or not read else "columns")


def _whole_numbers(what: str, value: object, rank: int) -> Array:
    wanted = f"{what} requires whole numbers of shape {'(T, S)' if rank == 2 else '(S,)'}"
    try:
        array = np.asarray(value)
    except (ValueError, TypeError) as problem:
        raise fail("input", f"{wanted}, got no array: {problem}") from None
    if array.ndim == rank - 1:
        array = array[..., None]
    if array.dtype.kind not in "iu" or array.ndim != rank:
        raise fail("input", f"{wanted}, got {array.dtype} of {array.shape}")
    return array.astype(np.int64)


def _unshaped(spec: Input, value: object) -> Array | SparseRows:
    if isinstance(spec, SparseArgumentSpec):
        return spec.read(value)
    return labels_of(spec, as_array(spec, value))


def _is_full(spec: Input, array: Array) -> bool:
    """Whether it has a dim of time and one of slots, not one for both."""
    return isinstance(spec, ArgumentSpec) and array.ndim == len(spec.shape)


def _sizes(
    specs: Mapping[str, Input],
    read: Mapping[str, Array | SparseRows],
    flags: Array | None,
    lengths: Array | None,
) -> tuple[int, int]:
    """T and S, from whatever says them."""
    if flags is not None:
        return flags.shape[0], flags.shape[1]
    for name, array in read.items():
        if isinstance(array, np.ndarray) and _is_full(specs[name], array):
            return array.shape[0], array.shape[1]
    slots = len(lengths) if lengths is not None else 1
    columns = next((len(a) if _length(a) else 0 for a in read.values()), slots)
    if columns % max(slots, 1):
        raise fail("input", f"{columns} columns cannot be {slots} slots of equal length")
    return columns // max(slots, 1), slots


def _length(array: Array | SparseRows) -> bool:
    return not isinstance(array, np.ndarray) or array.ndim > 0


def _shaped(spec: Input, array: Array | SparseRows, time: int, slots: int) -> Array | SparseRows:
    """The columns of one input, [T, S, rows]."""
    has_rows = isinstance(spec, SparseArgumentSpec) or array.ndim == len(spec.shape) - 1  # type: ignore[union-attr]
    if has_rows and len(array) != time * slots:
        raise fail(
            "input",
            f"input {spec.name} requires a row for each of {time} x {slots} columns, "
            f"got {len(array)}",
        )
    if isinstance(array, SparseRows):
        return array
    assert isinstance(spec, ArgumentSpec)
    if has_rows:
        array = array.reshape(time, slots, *array.shape[1:])
    return read_array(spec, array, {"T": time, "S": slots})
