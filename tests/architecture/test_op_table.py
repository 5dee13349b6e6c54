"""Every operation is complete: documented, judged by a reference, and tested on every backend."""

from __future__ import annotations

import pytest

from graphc.backends import BACKENDS
from graphc.ir.codegen import WITH_BODY, Collective, Terminator
from graphc.ir.core import Level, NotDifferentiable, OpDef
from graphc.ir.scalar import WORDS
from graphc.ops import ALL_OPS
from tests.support.op_table import ROWS

# What a loop computes is what its body does: tests/unit/ops/test_loop.py has bodies of every kind.
# Sums over members are no backend's: tests/unit/learn/test_members.py has them.
TENSOR_OPS = [
    op
    for op in ALL_OPS
    if op.level is Level.TENSOR and not isinstance(op.codegen, (Terminator, Collective, *WITH_BODY))
]


def test_every_tensor_operation_has_one_row_in_the_table() -> None:
    assert sorted(r.op.name for r in ROWS) == sorted(op.name for op in TENSOR_OPS)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.op.name)
def test_a_row_tries_at_least_twelve_cases_with_names_of_their_own(row: object) -> None:
    assert row in ROWS
    cases = [c for r in ROWS if r is row for c in r.cases(r.dtypes[0])]
    assert len(cases) >= 12
    assert len({c.name for c in cases}) == len(cases)


@pytest.mark.parametrize("row", ROWS, ids=lambda r: r.op.name)
def test_a_tolerance_says_why_it_is_needed(row: object) -> None:
    assert [r.judge.reason for r in ROWS if r is row and r.judge.reason]


@pytest.mark.parametrize("op", ALL_OPS, ids=lambda op: op.name)
def test_an_operation_has_a_summary_in_one_line(op: OpDef) -> None:
    assert op.summary
    assert "\n" not in op.summary
    assert not op.summary.endswith(".")


@pytest.mark.parametrize("op", TENSOR_OPS, ids=lambda op: op.name)
def test_a_tensor_operation_has_a_reference(op: OpDef) -> None:
    assert op.reference is not None


@pytest.mark.parametrize("op", TENSOR_OPS, ids=lambda op: op.name)
def test_a_tensor_operation_decides_about_its_gradient(op: OpDef) -> None:
    assert callable(op.vjp) or isinstance(op.vjp, NotDifferentiable)


@pytest.mark.parametrize("op", ALL_OPS, ids=lambda op: op.name)
def test_an_operation_below_the_node_level_can_be_evaluated(op: OpDef) -> None:
    structural = isinstance(op.codegen, (Terminator, *WITH_BODY))
    assert op.reference is not None or structural or op.level is Level.NODE


def test_every_word_of_the_vocabulary_is_a_numpy_call() -> None:
    from graphc.backends.numpy.helpers import HELPERS
    from graphc.backends.numpy.scalars import UFUNCS

    assert [w for w in WORDS if w not in {*UFUNCS, *HELPERS, "cast", "literal"}] == []


def test_a_backend_goes_by_the_name_it_is_listed_under() -> None:
    assert [n for n in ("reference", "numpy") if BACKENDS[n]().name != n] == []
