"""The table of matrix products: its numbers come from right results, and it can be read."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.products import Row, main, markdown, measure, shape_of, table
from graphc.ir.types import DType

ROWS = [
    Row("1x2x3", "", "f32", ours=30.0, openblas=20.0, mkl=15.0),
    Row("1x2x3", "B", "f32", ours=10.0, openblas=20.0, mkl=None),
]


@pytest.mark.parametrize("transposed", ["", "A", "B"])
def test_a_product_is_checked_and_measured(transposed: str) -> None:
    row = measure((5, 9, 7), transposed, DType.F64, rounds=1, offset=16)
    assert (row.shape, row.transposed, row.dtype) == ("5x9x7", transposed, "f64")
    assert min(row.ours, row.openblas) > 0


def test_a_document_has_a_line_a_shape_with_the_better_of_the_others() -> None:
    (*_, line) = markdown(ROWS).splitlines()
    assert line == "| 1x2x3 | 30.0 / 20.0, **1.50** | 10.0 / 20.0, **0.50** |"


def test_the_table_says_who_is_absent_and_where_we_are_behind() -> None:
    text = table(ROWS, peak=1e11)
    assert "peak 100 GFLOP/s" in text
    assert "absent" in text
    assert "geometric mean 0.87; behind the better of both at 1 of 2" in text


def test_what_is_no_shape_is_refused() -> None:
    assert shape_of("2x3x4") == (2, 3, 4)
    with pytest.raises(SystemExit, match="three extents"):
        shape_of("2x3")


def test_the_record_has_a_row_for_each_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    goal = tmp_path / "products.json"
    monkeypatch.setattr(sys, "argv", ["products", "3x4x5", "--rounds", "1", "--json", str(goal)])
    main()
    record = json.loads(goal.read_text())
    assert [row["transposed"] for row in record["rows"]] == ["", "A", "B"]
    assert record["peak"] > 0
