"""Minibatches of sequences: three ways in, one meaning; tables, state, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.executable import Executable, check_sequences
from graphc.runtime.plan import Plan, all_sizes
from graphc.runtime.sequence_state import STEPS_BEHIND
from graphc.runtime.sequences import as_columns, layout_of_flags, layout_of_lengths
from graphc.runtime.signature import (
    Argument,
    Dimension,
    Result,
    SequenceTables,
    Signature,
    SparseInput,
)
from graphc.runtime.sparse import SparseRows
from graphc.support.diagnostics import GraphcError
from graphc.support.size_formula import SizeFormula
from tests.support.called import Called

Array = np.ndarray
ROWS = 2
TABLES = SequenceTables("sequence.begin", "sequence.end")
DIMS = (Dimension("T", 8), Dimension("S", 4), Dimension("N", 32, SizeFormula.product(("T", "S"))))
TABLE_ARGUMENTS = (
    Argument("sequence.begin", "i32", ("T", "S"), "input"),
    Argument("sequence.end", "i32", ("T", "S"), "input"),
)


class Running(CompiledFunction):
    """z = x, plus what the sequence's steps before added up to where it is told of them."""

    def __init__(self, *, carries: bool = False) -> None:
        self.begin = self.end = np.zeros(0)
        self.carries = carries

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        assert sizes["N"] == sizes["T"] * sizes["S"]
        self.begin, self.end, x = arguments[:3]
        totals = arguments[3].copy() if self.carries else np.zeros_like(x[0])
        for t in range(len(x)):
            real = t < self.end[t]
            goes_on = real & (t > self.begin[t])
            new = np.where(goes_on[:, None], totals, 0) + x[t]
            totals = np.where(real[:, None], new, totals)
            results[0][t] = np.where(real[:, None], totals, np.nan)
        results[1][...] = np.count_nonzero(self.end)
        if self.carries:
            results[2][...] = totals


def signature(*, carries: bool = False, bound: int = 8) -> Signature:
    carried = Argument("z.past1", "f32", ("S", ROWS), "carried")
    left = Result("z.past1", "f32", ("S", ROWS))
    return Signature(
        "main",
        (Dimension("T", bound), *DIMS[1:]),
        (*TABLE_ARGUMENTS, Argument("x", "f32", ("T", "S", ROWS), "input"))
        + ((carried,) if carries else ()),
        (Result("z", "f32", ("T", "S", ROWS)), Result("count", "f32", (1, 1)))
        + ((left,) if carries else ()),
        0,
        sequences=TABLES,
    )


def running() -> Executable:
    return Executable(
        Running(),
        signature(),
        {},
        variants=lambda form: (
            lambda _bounds: (
                Running(carries=form.carry),
                signature(carries=form.carry),
            )
        ),
    )


LENGTHS = (3, 1, 4)
X = [np.arange(n * ROWS, dtype=np.float32).reshape(n, ROWS) + 10 * i for i, n in enumerate(LENGTHS)]
SUMS = [np.cumsum(x, axis=0) for x in X]


def padded(gap: float = np.nan) -> Array:
    array = np.full((4, 3, ROWS), gap, np.float32)
    for s, x in enumerate(X):
        array[: len(x), s] = x
    return array


# --- one meaning ---------------------------------------------------------------------------------


def test_a_list_of_arrays_gives_a_list_of_the_same_lengths() -> None:
    results = running()(x=X)
    for got, wanted in zip(results["z"], SUMS, strict=True):
        np.testing.assert_array_equal(got, wanted)
    assert results["count"] == sum(LENGTHS)


def test_an_array_with_lengths_gives_an_array_with_zeros_in_the_gaps() -> None:
    z = running()(x=padded(), lengths=LENGTHS)["z"]
    for s, wanted in enumerate(SUMS):
        np.testing.assert_array_equal(z[: len(wanted), s], wanted)
        assert not z[len(wanted) :, s].any()


def test_without_lengths_all_slots_are_full() -> None:
    assert running()(x=np.ones((4, 2, ROWS)))["count"] == 8


def test_an_array_of_two_dims_is_one_sequence() -> None:
    np.testing.assert_array_equal(running()(x=X[0])["z"], SUMS[0])


@pytest.mark.parametrize("as_matrix", [False, True], ids=["[T, S, rows]", "[T*S, rows]"])
def test_flags_pack_sequences_into_slots(as_matrix: bool) -> None:
    """Slot 0 holds the sequences 0 and 1 with a gap between them, slot 1 the last one."""
    x = np.full((5, 2, ROWS), np.nan, np.float32)
    x[:3, 0], x[4, 0], x[:4, 1] = X[0], X[1][0], X[2]
    flags = np.array([[1, 1], [0, 0], [2, 0], [12, 2], [3, 12]])
    z = running()(x=x.reshape(10, ROWS) if as_matrix else x, flags=flags)["z"]
    assert z.shape == ((10, ROWS) if as_matrix else (5, 2, ROWS))
    z = z.reshape(5, 2, ROWS)
    np.testing.assert_array_equal(z[:3, 0], SUMS[0])
    np.testing.assert_array_equal(z[4:, 0], SUMS[1])
    np.testing.assert_array_equal(z[:4, 1], SUMS[2])
    assert not z[3, 0].any() and not z[4, 1].any()


def test_the_tables_of_lengths_and_of_flags_are_those_of_the_spec() -> None:
    flags = layout_of_flags(np.array([[1, 3], [0, 12], [2, 1], [12, 2]]), np.zeros(2, int), False)
    assert flags.begin.T.tolist() == [[0, 0, 0, 4], [0, 4, 2, 2]]
    assert flags.end.T.tolist() == [[3, 3, 3, 0], [1, 0, 4, 4]]
    assert flags.samples == 6
    lengths = layout_of_lengths(np.array([2, 1]), 2, np.array([0, 5]))
    assert lengths.begin.tolist() == [[0, -5], [0, 2]]
    assert lengths.end.tolist() == [[2, 1], [2, 0]]
    assert lengths.behind.tolist() == [2, 6]


def test_sparse_sequences_lie_side_by_side_with_empty_rows_after_their_ends() -> None:
    seen: list[Array] = []

    def compiled(arguments: Sequence[Array], results: Sequence[Array], sizes: object) -> None:
        seen[:] = arguments[2:]

    executable = Executable(
        Called(compiled),
        Signature(
            "main",
            (*DIMS, Dimension("K", 4)),
            (
                *TABLE_ARGUMENTS,
                Argument("w.indices", "i32", ("N", "K"), "input"),
                Argument("w.values", "f32", ("N", "K"), "input"),
            ),
            (),
            0,
            sparse=(SparseInput("w", 9),),
            sequences=TABLES,
        ),
        {},
    )
    executable(w=[([3, 4, 5], [0, 1, 3]), ([7], [0, 1])])
    indices, values = seen
    assert indices.tolist() == [[3, -1], [7, -1], [4, 5], [-1, -1]]
    assert values.tolist() == [[1, 0], [1, 0], [1, 1], [0, 0]]


def test_a_data_set_of_lists_can_be_laid_out_as_columns() -> None:
    rows = SparseRows(np.array([1]), np.array([0, 1]), np.array([1.0]), 3)
    joined = as_columns([rows, rows])
    assert isinstance(joined, SparseRows)
    assert len(joined) == 2
    columns = as_columns(X)
    assert isinstance(columns, np.ndarray)
    assert columns.shape == (8, ROWS)
    assert as_columns(padded()).shape == (4, 3, ROWS)  # type: ignore[attr-defined]


def test_sequences_of_a_data_set_are_checked_and_converted() -> None:
    lists, lengths = check_sequences(signature(), {"X": [x.astype(np.float64) for x in X]})
    assert lengths.tolist() == list(LENGTHS)
    assert all(x.dtype == np.float32 for x in lists["x"])  # type: ignore[union-attr]


# --- state ---------------------------------------------------------------------------------------


def test_calls_that_carry_make_whole_sequences_of_stretches() -> None:
    executable = running()
    first = executable(x=[x[:2] for x in X], carry=True)["z"]
    second = executable(x=[x[2:] for x in X], carry=True)["z"]
    for a, b, wanted in zip(first, second, SUMS, strict=True):
        np.testing.assert_array_equal(np.concatenate([a, b]), wanted)
    assert executable.state is not None
    assert executable.state[STEPS_BEHIND].tolist() == list(LENGTHS)


def test_without_a_state_and_without_carry_sequences_start_anew() -> None:
    executable = running()
    executable(x=X, carry=True)
    np.testing.assert_array_equal(executable(x=X)["z"][0], SUMS[0])
    executable.state = None
    np.testing.assert_array_equal(executable(x=X, carry=True)["z"][0], SUMS[0])


def test_a_state_can_be_kept_and_put_back() -> None:
    executable = running()
    executable(x=X, carry=True)
    kept = dict(executable.state or {})
    after = executable(x=X, carry=True)["z"]
    executable.state = kept
    for a, b in zip(executable(x=X, carry=True)["z"], after, strict=True):
        np.testing.assert_array_equal(a, b)


def test_flags_say_which_sequences_go_on() -> None:
    executable = running()
    one = np.ones((2, 2, ROWS))
    executable(x=one, flags=[[1, 1], [0, 2]], carry=True)
    assert executable.state is not None
    assert executable.state[STEPS_BEHIND].tolist() == [2, 0]
    z = executable(x=one, flags=[[0, 1], [2, 2]], carry=True)["z"]
    assert z[:, 0, 0].tolist() == [3, 4]
    assert z[:, 1, 0].tolist() == [1, 2]


def test_a_slot_may_pause_and_go_on() -> None:
    executable = running()
    one = np.ones((1, 2, ROWS))
    executable(x=one, lengths=[1, 1], carry=True)
    executable(x=one, lengths=[0, 1], carry=True)
    assert executable(x=one, carry=True)["z"][0, :, 0].tolist() == [2, 3]


def test_a_bad_call_leaves_the_state_as_it_was() -> None:
    executable = running()
    executable(x=X, carry=True)
    before = executable.state
    with pytest.raises(GraphcError, match="3 sequences, got 1"):
        executable(x=X[:1], carry=True)
    after = executable.state
    assert before is not None and after is not None
    assert {n: a.tolist() for n, a in before.items()} == {n: a.tolist() for n, a in after.items()}


# --- refused -------------------------------------------------------------------------------------

LONG = [np.zeros((9, ROWS), np.float32)]
REFUSED: list[tuple[dict[str, object], str]] = [
    ({"x": LONG}, "at most 8 steps in a call, got 9"),
    ({"x": [np.zeros((2, ROWS))] * 5}, "at most 4 sequences in a call, got 5"),
    ({"x": []}, "at least one sequence of at least one step"),
    ({"x": [np.zeros((0, ROWS))]}, "at least one sequence of at least one step"),
    ({"x": [X[0], np.zeros((0, ROWS))]}, "at least 1 steps, sequence 1 has 0"),
    ({"x": np.zeros((0, 2, ROWS))}, "at least one step and one sequence are required, got 0"),
    ({"x": np.zeros((0, ROWS))}, "at least one step and one sequence are required, got 0"),
    ({"x": [np.zeros((2, 3))]}, r"shape \(steps, 2\), got \(2, 3\) for sequence 0"),
    ({"x": [[1.0, 2.0]]}, r"shape \(steps, 2\), got \(2,\) for sequence 0"),
    ({"x": X, "lengths": LENGTHS}, "lengths and flags go with arrays"),
    ({"x": padded(), "lengths": [3, 1]}, "a number for each of 3, got 2"),
    ({"x": padded(), "lengths": [3, 1, 5]}, "at most T = 4 are required, got 5"),
    ({"x": padded(), "lengths": [3, 0, 4]}, "at least 1 steps, sequence 1 has 0"),
    ({"x": padded(), "lengths": [3, -1, 4]}, "at least 1 steps, sequence 1 has -1"),
    ({"x": padded(), "lengths": [3.0, 1.0, 4.0]}, "lengths requires whole numbers"),
    ({"x": padded(), "lengths": [[3], [1, 4]]}, r"whole numbers of shape \(S,\), got no array"),
    ({"x": padded(), "flags": [[3], [1, 4]]}, r"whole numbers of shape \(T, S\), got no array"),
    ({"x": padded(), "lengths": LENGTHS, "flags": [[3]]}, "one of lengths and flags"),
    ({"x": np.zeros((7, ROWS)), "lengths": [2, 2]}, "7 columns cannot be 2 slots"),
    (
        {"x": np.zeros((4, ROWS)), "flags": np.full((3, 1), 3)},
        "a row for each of 3 x 1 columns, got 4",
    ),
    ({"x": np.zeros((2, 1, ROWS)), "flags": [[1], [1]]}, "SequenceStart in a sequence that has"),
    ({"x": np.zeros((2, 1, ROWS)), "flags": [[0], [2]]}, "SequenceStart is missing, at step 0"),
    ({"x": np.zeros((2, 1, ROWS)), "flags": [[3], [2]]}, "SequenceStart is missing, at step 1"),
    ({"x": np.zeros((2, 1, ROWS)), "flags": [[1], [12]]}, "SequenceEnd is missing, at step 1"),
    ({"x": np.zeros((2, 1, ROWS)), "flags": [[1], [0]]}, "slot 0 has no SequenceEnd; carry=True"),
    ({"x": np.zeros((2, 1, ROWS)), "flags": [[13], [3]]}, "without features starts or ends one"),
    ({"x": np.zeros((1, 1, ROWS)), "flags": [[16]]}, "sums of 1, 2, 4 and 8, got 16"),
    ({"x": np.zeros((1, 1, ROWS)), "flags": [[12]]}, "all columns are gaps"),
    ({"y": X}, "no input is called `y`"),
]


@pytest.mark.parametrize(("inputs", "message"), REFUSED, ids=[m for _, m in REFUSED])
def test_what_does_not_fit_is_refused(inputs: dict[str, object], message: str) -> None:
    with pytest.raises(GraphcError, match=message) as caught:
        running()(**inputs)
    assert [d.slug for d in caught.value.diagnostics] == ["input"]


def test_a_step_without_a_label_is_not_supported() -> None:
    with pytest.raises(GraphcError, match="NoLabel alone") as caught:
        running()(x=np.zeros((1, 1, ROWS)), flags=[[3 + 8]])
    assert caught.value.diagnostics[0].slug == "not-supported"


def two_inputs() -> Signature:
    y = Argument("y", "f32", ("T", "S", 1), "input")
    base = signature()
    return Signature(
        "main", base.dims, (*base.arguments, y), base.results, 0, sequences=base.sequences
    )


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([np.zeros((n, 1)) for n in (3, 2, 4)], "sequence 1 has 1 steps in x but 2 in y"),
        ([np.zeros((3, 1))], "x has 3 sequences, y has 1 sequences"),
        (np.zeros((4, 3, 1)), "all inputs are lists or none is: y is an array"),
    ],
)
def test_inputs_that_do_not_fit_each_other_are_refused(y: object, message: str) -> None:
    executable = Executable(Running(), two_inputs(), {})
    with pytest.raises(GraphcError, match=message):
        executable(x=X, y=y)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((4, 1), r"input y requires a row for each of 3 x 1 columns, got 4$"),
        ((4, 1, 1), r"got shape \(4, 1, 1\); T is 3 in another input$"),
        ((3, 1, 2), r"input y requires shape \(T, S, 1\) .* got shape \(3, 1, 2\)$"),
    ],
)
def test_what_is_said_of_arrays_is_what_does_not_fit(shape: tuple[int, ...], message: str) -> None:
    executable = Executable(Running(), two_inputs(), {})
    with pytest.raises(GraphcError) as caught:
        executable(x=np.zeros((3, 1, ROWS)), y=np.zeros(shape))
    assert re.search(message, caught.value.diagnostics[0].message)


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ({}, "requires whole numbers of steps"),
        ([1], "a state requires arrays by name or None, got list"),
        ({STEPS_BEHIND: [1] * 3, "z.past1": [[1], [1, 2]]}, "z.past1 requires an array, got none"),
        ({STEPS_BEHIND: [-1, 0, 0]}, "requires whole numbers of steps"),
        ({STEPS_BEHIND: [1, 1]}, "the state is of 2 sequences, got 3"),
        ({STEPS_BEHIND: [1, 1, 1]}, r"z.past1 requires shape \(3, 2\), got none"),
        ({STEPS_BEHIND: [1] * 3, "z.past1": np.zeros((3, 4))}, r"\(3, 2\), got \(3, 4\)"),
        ({STEPS_BEHIND: [1] * 3, "z.past1": np.full((3, 2), "a")}, "got <U1"),
    ],
)
def test_a_state_that_does_not_fit_is_refused(state: dict[str, object], message: str) -> None:
    executable = running()
    with pytest.raises(GraphcError, match=message):
        executable.state = state
        executable(x=X, carry=True)


@pytest.mark.parametrize("steps", [np.full(3, 3, np.uint8), np.full(3, 2**40)])
def test_steps_behind_may_be_any_whole_numbers(steps: np.ndarray) -> None:
    """Those of few bits do not wrap around, those of many are more than any delay looks back."""
    executable = running()
    executable.state = {STEPS_BEHIND: steps, "z.past1": np.full((3, ROWS), 10)}
    for z, wanted in zip(executable(x=X, carry=True)["z"], SUMS, strict=True):
        np.testing.assert_array_equal(z, wanted + 10)


def test_a_function_without_time_takes_no_lengths_and_no_state() -> None:
    plain = Executable(Running(), Signature("f", (), (), (), 0), {})
    with pytest.raises(GraphcError, match=r"carry= is for functions of sequences"):
        plain(carry=True)
    with pytest.raises(GraphcError, match=r"a state is for functions of sequences"):
        plain.state = {STEPS_BEHIND: [1]}


def test_a_larger_call_is_compiled_again_for_all_bounds_at_once() -> None:
    asked: list[Mapping[str, int]] = []

    def wider(bounds: Mapping[str, int]) -> tuple[Running, Signature]:
        asked.append(dict(bounds))
        base = signature(bound=bounds["T"])
        dims = (base.dims[0], Dimension("S", bounds["S"]), base.dims[2])
        return Running(), Signature(
            "main", dims, base.arguments, base.results, 0, sequences=base.sequences
        )

    executable = Executable(Running(), signature(), {}, recompile=wider)
    executable(x=LONG * 5)
    assert asked == [{"T": 16, "S": 8}]


# --- flags against a plain reading of them, column by column -------------------------------------


def plain_layout(
    flags: Array, behind: Array, carry: bool
) -> tuple[list[list[int]], list[list[int]], list[int]] | None:
    """begin, end and what is behind, one slot after another; None where flags contradict."""
    time, slots = flags.shape
    begins, ends, left = [], [], []
    for s in range(slots):
        begin, end = [time] * time, [0] * time
        start = -int(behind[s]) if behind[s] else None
        seen: list[int] = []
        closed = False
        for t in range(time):
            starts, stops, gap = (bool(flags[t, s] & f) for f in (1, 2, 4))
            if gap:
                if starts or stops or (start is not None and t > 0):
                    return None
                start = None if t == 0 else start
                continue
            if starts:
                if start is not None and t > 0:
                    return None
                start, seen = t, []
            elif start is None:
                return None
            begin[t] = start
            seen.append(t)
            closed = stops
            if stops:
                for u in seen:
                    end[u] = t + 1
                start, seen = None, []
        for u in seen:
            end[u] = time
        if seen and not carry:
            return None
        idle = all(flags[:, s] & 4)
        left.append(int(behind[s]) if idle else time - begin[-1] if seen and not closed else 0)
        begins.append(begin)
        ends.append(end)
    return begins, ends, left


@pytest.mark.parametrize("carry", [False, True])
def test_flags_mean_what_a_plain_reading_says(carry: bool) -> None:
    rng = np.random.default_rng(5)
    outcomes = {True: 0, False: 0}
    for _ in range(1500):
        time, slots = rng.integers(1, 5), rng.integers(1, 3)
        flags = rng.choice([0, 1, 2, 3, 12], (time, slots), p=[0.2, 0.25, 0.2, 0.2, 0.15])
        behind = rng.integers(0, 3, slots) if carry else np.zeros(slots, int)
        wanted = plain_layout(flags, behind, carry)
        outcomes[wanted is not None] += 1
        if wanted is None:
            with pytest.raises(GraphcError):
                layout_of_flags(flags, behind, carry)
            continue
        found = layout_of_flags(flags, behind, carry)
        assert (found.begin.T.tolist(), found.end.T.tolist(), found.behind.tolist()) == wanted
    assert min(outcomes.values()) > 100


def test_steps_that_the_segments_do_not_divide_are_refused() -> None:
    segments = Dimension("C", 2, SizeFormula.product(("T",), 4))
    plan = Plan.of(Running(), replace(signature(), dims=(*DIMS, segments)))
    assert all_sizes(plan, {"T": 8, "S": 3}) == {"T": 8, "S": 3, "N": 24, "C": 2}
    with pytest.raises(GraphcError, match="number of steps that is a multiple of 4, got 7"):
        all_sizes(plan, {"T": 7, "S": 3})
