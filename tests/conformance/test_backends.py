"""Every backend computes what each operation's numpy reference says, on all shapes and values."""

from __future__ import annotations

import pytest

from graphc.ir.types import DType
from tests.conformance.check import BACKEND_NAMES, PARTS, check_row, dealt, is_dealt
from tests.support.compiling import load_backend
from tests.support.op_table import ROWS, Row

PAIRS = [(row, dtype) for row in ROWS for dtype in row.dtypes]


@pytest.mark.parametrize("backend_name", BACKEND_NAMES)
@pytest.mark.parametrize(("row", "dtype"), PAIRS, ids=[f"{r.op.name}-{d}" for r, d in PAIRS])
def test_a_backend_agrees_with_the_reference(row: Row, dtype: DType, backend_name: str) -> None:
    backend = load_backend(backend_name)
    if isinstance(backend, str):
        pytest.skip(backend)
    outcome = check_row(row, dtype, backend, dealt(row, dtype, backend_name))
    assert outcome.failures == []
    least = 12 // PARTS if is_dealt(row, dtype) else 12
    assert outcome.kinds["ordinary"] >= least
    if row.op.operands:
        assert outcome.kinds["special"] >= least
        assert outcome.kinds["views"] >= least


def test_native_code_and_kernels_try_every_case_of_every_type() -> None:
    for row, dtype in PAIRS:
        tried = {c.name for b in ("llvm", "c", "cuda") for c in dealt(row, dtype, b)}
        assert tried == {c.name for c in row.cases(dtype)}
