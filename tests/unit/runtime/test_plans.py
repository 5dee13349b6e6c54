"""Which function a call gets, with functions that are only named: by the labels that it gives, and
by whether it goes on from another."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from graphc.runtime.plan import Plan
from graphc.runtime.plans import Plans, Recompile, Variant
from graphc.runtime.signature import (
    Argument,
    Dimension,
    LabelInput,
    Result,
    SequenceTables,
    Signature,
)
from graphc.support.diagnostics import GraphcError
from tests.support.called import Called

ROWS, NUMBERS = np.zeros((2, 3), np.float32), np.array([0, 2])
LABELS = ("t", "u")


class Factory:
    """Makes the functions of a form of calls, and notes what it was asked for."""

    def __init__(self, *, of_sequences: bool = False, same_for_all: bool = False) -> None:
        self.of_sequences, self.same_for_all = of_sequences, same_for_all
        self.made: list[tuple[Variant, Mapping[str, int]]] = []

    def __call__(self, form: Variant) -> Recompile:
        def recompile(bounds: Mapping[str, int]) -> tuple[Called, Signature]:
            self.made.append((form, dict(bounds)))
            compiled = Called(lambda *_: None)
            compiled.same_for_all = self.same_for_all
            return compiled, self.signature(form, {**self.bounds, **bounds})

        return recompile

    @property
    def bounds(self) -> dict[str, int]:
        return {"T": 4, "S": 2} if self.of_sequences else {"N": 4}

    def signature(self, form: Variant, bounds: Mapping[str, int]) -> Signature:
        inputs = tuple(
            Argument(n, "i64", tuple(bounds), "input")
            if n in form.numbered
            else Argument(n, "f32", (*bounds, 3), "input")
            for n in LABELS
        )
        tables, left = (), ()
        if self.of_sequences:
            tables = tuple(Argument(n, "i32", ("T", "S"), "input") for n in ("begin", "end"))
        if form.carry:
            tables = (*tables, Argument("z.past1", "f32", ("S", 1), "carried"))
            left = (Result("z.past1", "f32", ("S", 1)),)
        return Signature(
            "main",
            tuple(Dimension(name, bound) for name, bound in bounds.items()),
            (*tables, *inputs),
            (Result("z", "f32", (1, 1)), *left),
            0,
            sequences=SequenceTables("begin", "end") if self.of_sequences else None,
            labels=tuple(LabelInput(n, 3, "f32", n in form.numbered) for n in LABELS),
        )

    def plans(self) -> Plans:
        first = Plan.of(*self(Variant())({}))
        self.made.clear()
        return Plans(first, 1, None, self)


def test_each_combination_of_kinds_is_made_once() -> None:
    factory = Factory()
    plans = factory.plans()
    first = plans.current
    assert plans.for_call({"t": ROWS, "u": ROWS}) is first
    one = plans.for_call({"T": NUMBERS, "u": ROWS})
    assert (one.numbered, plans.current) == (frozenset("t"), one)
    both = plans.for_call({"t": NUMBERS, "u": [0, 1]})
    assert both.numbered == frozenset("tu")
    assert plans.for_call({"t": ROWS, "u": ROWS.tolist()}) is first
    assert plans.for_call({"u": ROWS, "t": NUMBERS}) is one
    asked = [form.numbered for form, _ in factory.made]
    assert asked == [frozenset("t"), frozenset("tu")]


@pytest.mark.parametrize(
    "value",
    [np.array([0.0, 1.0]), np.array([True, False]), np.array([[0], [1]]), [0.5], None, "text"],
)
def test_anything_else_is_read_as_rows(value: object) -> None:
    plans = Factory().plans()
    assert plans.for_call({"t": value, "u": ROWS}) is plans.current
    assert not plans.current.numbered


def test_of_sequences_all_have_to_be_numbers_and_none_is_either() -> None:
    plans = Factory(of_sequences=True).plans()
    assert not plans.for_call({"t": [NUMBERS, ROWS], "u": [ROWS, ROWS]}).numbered
    numbered = plans.for_call({"t": [NUMBERS, [0, 1]], "u": [ROWS, ROWS]})
    assert numbered.numbered == frozenset("t")
    assert plans.for_call({"t": [], "u": []}) is numbered
    assert plans.for_call({"t": NUMBERS, "u": ROWS}) is numbered  # one, as an array


def test_what_is_larger_is_made_again_for_the_same_calls() -> None:
    factory = Factory()
    plans = factory.plans()
    numbered = plans.for_call({"t": NUMBERS, "u": ROWS})
    wider = plans.widened(numbered, {"N": 9}, carry=False)
    assert factory.made[-1] == (Variant(numbered=frozenset("t")), {"N": 16})
    assert (wider.numbered, wider.bounds, plans.current) == (frozenset("t"), {"N": 16}, wider)
    assert plans.for_call({"t": NUMBERS, "u": ROWS}) is wider
    assert plans.for_call({"t": ROWS, "u": ROWS}).bounds == {"N": 4}
    assert len(list(plans)) == 2


def test_calls_that_go_on_have_functions_of_their_own_of_either_kind() -> None:
    factory = Factory(of_sequences=True)
    plans = factory.plans()
    rows, numbers = {"t": [ROWS], "u": [ROWS]}, {"t": [NUMBERS], "u": [ROWS]}
    on = plans.for_call(numbers, carry=True)
    assert on.carried
    assert on.numbered == frozenset("t")
    assert not plans.current.carried
    assert plans.for_call(rows, carry=True) is plans.carrying is not on
    assert plans.for_call(numbers, carry=True) is plans.carrying is on
    wider = plans.widened(on, {"T": 5}, carry=True)
    assert factory.made[-1] == (Variant(carry=True, numbered=frozenset("t")), {"T": 8, "S": 2})
    assert plans.carrying is wider is plans.for_call(numbers, carry=True)


def test_samples_do_not_go_on() -> None:
    with pytest.raises(GraphcError, match="carry= is for functions of sequences"):
        Factory().plans().for_call({"t": ROWS, "u": ROWS}, carry=True)


def test_members_who_need_the_same_function_and_files_have_rows() -> None:
    """What is given becomes rows where the call is bound."""
    same = Factory(same_for_all=True).plans()
    one = Plan.of(Called(lambda *_: None), Factory().signature(Variant(), {"N": 4}))
    for plans in (same, Plans(one, 1, None, None)):
        first = plans.current
        assert plans.for_call({"t": NUMBERS, "u": NUMBERS}) is first


def test_all_functions_have_the_same_threads() -> None:
    plans = Factory().plans()
    seen: list[int] = []
    plans.for_call({"t": NUMBERS, "u": ROWS})
    for plan in plans:
        plan.compiled.use_threads = seen.append  # type: ignore[method-assign]
    plans.threads = 3
    assert (seen, plans.threads) == ([3, 3], 3)
