"""Every backend computes what each operation's numpy reference says, on all shapes and values."""

from __future__ import annotations

import pytest

from graphc.ir.types import DType
from tests.conformance.check import BACKEND_NAMES, check_row
from tests.support.compiling import load_backend
from tests.support.op_table import ROWS, Row

PAIRS = [(row, dtype) for row in ROWS for dtype in row.dtypes]


@pytest.mark.parametrize("backend_name", BACKEND_NAMES)
@pytest.mark.parametrize(("row", "dtype"), PAIRS, ids=[f"{r.op.name}-{d}" for r, d in PAIRS])
def test_a_backend_agrees_with_the_reference(row: Row, dtype: DType, backend_name: str) -> None:
    backend = load_backend(backend_name)
    if isinstance(backend, str):
        pytest.skip(backend)
    outcome = check_row(row, dtype, backend)
    assert outcome.failures == []
    assert outcome.kinds["ordinary"] >= 12
    if row.op.operands:
        assert outcome.kinds["special"] >= 12
        assert outcome.kinds["views"] >= 12
