"""Every wrong use in the table gets its one message, at its place, on whatever backend.

A network is read and its sizes are inferred before anything knows which backend it is for. So the
table is checked once, and one use per operation through `gc.compile` for each backend.
"""

from __future__ import annotations

import re

import pytest

import graphc as gc
from graphc.driver.prepare import prepare
from graphc.ops.nodes import OPS
from graphc.support.diagnostics import Diagnostic, GraphcError, GraphcWarning
from tests.conformance.check import BACKEND_NAMES
from tests.conformance.wrong_uses import LEAST, WRONG_USES, WrongUse

ALL = [(op, use) for op, uses in WRONG_USES.items() for use in uses]
OF_ONE_PER_OPERATION = [(op, uses[0]) for op, uses in WRONG_USES.items()]

SHAPES = (
    r"requires? .+, got .+",
    r"takes .+, got .+",
    r".+ (is|are) required, got .+",
    r".+ is one of .+, got .+",
    r"takes no .+, it is ignored",
    r"`.+` is not defined",
    r"`.+` has to be .+",
    r".+=.+ requires .+",
    r".+ (is|are) not supported yet",
    r"the size of `.+` cannot be inferred, it is .+",
)
"""What a message looks like: what is required, and what came."""

FORBIDDEN = re.compile(
    r"Traceback|object at 0x|<class|\w(Type|Value|Key|Rule|Index)Error\b"
    r"|\bNone\b|node\.[a-z]|Params|\.$"
)
"""Nothing of the inside of graphc, and no full stop."""

COMPLAINTS = (GraphcError, GraphcWarning)  # all warnings are exceptions here


def problems(use: WrongUse) -> tuple[Diagnostic, ...]:
    with pytest.raises(COMPLAINTS) as caught:
        prepare(gc.loads(use.text).model)
    return caught.value.diagnostics


def ids(pairs: list[tuple[str, WrongUse]]) -> list[str]:
    return [f"{op}: {use.statement}" for op, use in pairs]


def test_every_node_has_enough_wrong_uses() -> None:
    names = {op.name.removeprefix("node.") for op in OPS}
    few = [op for op in sorted(names) if len(WRONG_USES.get(op, ())) < LEAST]
    assert few == []
    assert sorted(set(WRONG_USES) - names) == []


def test_no_wrong_use_stands_there_twice() -> None:
    statements = [use.statement for _, use in ALL]
    assert len(set(statements)) == len(statements)


@pytest.mark.parametrize(("op", "use"), ALL, ids=ids(ALL))
def test_a_wrong_use_gets_one_message_with_its_slug_at_its_place(op: str, use: WrongUse) -> None:
    (problem,) = problems(use)
    assert problem.slug == use.slug, problem.message
    assert problem.span is not None
    found = (problem.span.line, problem.span.column, problem.span.end_column)
    assert found == use.marked, problem.message


@pytest.mark.parametrize(("op", "use"), ALL, ids=ids(ALL))
def test_the_message_says_what_is_required_and_what_came(op: str, use: WrongUse) -> None:
    (problem,) = problems(use)
    assert any(re.search(shape, problem.message) for shape in SHAPES), problem.message
    assert not FORBIDDEN.search(problem.message), problem.message
    assert len(problem.message) <= 300


@pytest.mark.parametrize(
    ("op", "use"), OF_ONE_PER_OPERATION, ids=[op for op, _ in OF_ONE_PER_OPERATION]
)
def test_the_message_is_the_same_whatever_the_backend(op: str, use: WrongUse) -> None:
    said: set[tuple[Diagnostic, ...]] = set()
    for backend in BACKEND_NAMES:
        with pytest.raises(COMPLAINTS) as caught:
            gc.compile(gc.loads(use.text), "y", backend=backend)
        said.add(caught.value.diagnostics)
    assert len(said) == 1
