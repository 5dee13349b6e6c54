"""The report of what conformance compares: that it counts, lists, and shows what disagrees."""

from __future__ import annotations

import io

import numpy as np
import pytest

from graphc.ir.types import DType
from tests.conformance import report
from tests.conformance.check import not_contiguous
from tests.conformance.report import Count
from tests.support.ulp import largest_ulp


@pytest.fixture(autouse=True)
def one_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    """The quickest; what the others compute is judged elsewhere."""
    monkeypatch.setattr(report, "BACKEND_NAMES", ("reference",))


def lines_of(*operations: str) -> list[str]:
    out = io.StringIO()
    assert report.report(operations, out) == 0
    return out.getvalue().splitlines()


def test_the_report_counts_cases_by_level_check_backend_and_type() -> None:
    totals = [line.split() for line in lines_of("exp", "node.tanh")]
    for level in ("tensor", "node"):
        for check in ("ordinary", "special", "views"):
            for dtype in ("f32", "f64"):
                assert any(t[:4] == [level, check, "reference", dtype] for t in totals)
    assert any(t[:4] == ["tensor", "vjp", "against", "differences"] for t in totals)
    (every,) = [int(t[1]) for t in totals if t[:1] == ["all"]]
    counted = sum(int(t[4]) for t in totals if t[1:2] and t[1] in ("ordinary", "special", "views"))
    derivatives = sum(int(t[-1]) for t in totals if t[:1] == ["tensor"] and "against" in t)
    assert every == counted + derivatives


def test_the_report_lists_the_largest_errors_first() -> None:
    lines = lines_of("exp", "add")
    start = next(i for i, line in enumerate(lines) if line.startswith("largest errors"))
    assert lines[start + 1].startswith("exp ")
    assert lines[start + 2] == "and 1 operations that round exactly or not at all"


def test_the_report_shows_what_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    def found(rows: object, count: Count) -> None:
        count.failures.append("add f32: 1 is not 2")

    monkeypatch.setattr(report, "_derivatives", found)
    out = io.StringIO()
    assert report.report(["extent"], out) == 1
    assert out.getvalue().endswith("add f32: 1 is not 2\n")


def test_a_wrong_derivative_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(row: object) -> int:
        raise AssertionError("3 is not 4")

    monkeypatch.setattr(report, "DERIVATIVES", (("vjp", report.DIFFERENTIABLE[:1], wrong),))
    count = Count()
    report._derivatives(report.DIFFERENTIABLE, count)
    assert count.failures == [f"{report.DIFFERENTIABLE[0].op.name} vjp: 3 is not 4"]
    assert count.cases[("tensor", "vjp", "reference", DType.F64)] == 0


def test_the_error_of_a_sum_is_measured_by_the_terms_that_cancelled() -> None:
    got, exact = np.array([2.0**-24], np.float32), np.array([0.0])
    assert largest_ulp(got, exact) > 1e30
    assert largest_ulp(got, exact, size=np.array([1.5])) == 0.5


def test_a_view_holds_the_same_numbers_in_another_place() -> None:
    array = np.arange(6.0).reshape(2, 3)
    views = [not_contiguous(array, choice) for choice in range(3)]
    assert [v.tolist() for v in views] == [array.tolist()] * 3
    assert len({v.strides for v in views}) == 3
    assert not any(v.flags.c_contiguous for v in views)
