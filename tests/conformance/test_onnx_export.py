"""Every tensor operation written as ONNX, computed by the evaluator of the onnx package."""

from __future__ import annotations

import zlib
from collections.abc import Iterator

import numpy as np
import pytest
from onnx import checker
from onnx.reference import ReferenceEvaluator

from graphc.artifacts.onnx.model import make_model
from graphc.artifacts.onnx.walk import WRITERS
from graphc.ir.core import Level, Trait
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, TensorType
from graphc.ops import ALL_OPS
from tests.conformance.check import _compare, module_of, operands_for
from tests.support.op_table import ROWS, Case, N, Row

PAIRS = [(row, dtype) for row in ROWS for dtype in row.dtypes]


@pytest.mark.parametrize(("row", "dtype"), PAIRS, ids=[f"{r.op.name}-{d}" for r, d in PAIRS])
def test_an_operation_written_as_onnx(row: Row, dtype: DType) -> None:
    wrong = []
    for case in row.cases(dtype):
        module = module_of(row, case)
        (function,) = module.functions
        if not any(N in a.tensor.dims for a in function.arguments):
            function.add_argument("size", TensorType((N,), DType.F32), "input")
        model = make_model(function, ())
        checker.check_model(model, full_check=True)
        evaluator = ReferenceEvaluator(model)
        for fill in ("ordinary", "special"):
            seed = zlib.crc32(f"{row.op.name} {dtype} {case.name} {fill}".encode())
            operands = operands_for(row, case, fill, seed)
            feeds = {f"x{i}": x for i, x in enumerate(operands)}
            if function.argument("size"):
                feeds["size"] = np.zeros(case.samples, np.float32)
            want = evaluate(function, feeds, {"N": case.samples})["y"]
            try:
                with np.errstate(all="ignore"):
                    (got,) = evaluator.run(None, feeds)
            except Exception as e:
                wrong.append(f"{case.name} {fill} {type(e)}{e}")
                continue
            if got.shape != want.shape or got.dtype != want.dtype:
                wrong.append(f"{case.name} {fill} shape {got.shape} {want.shape} {got.dtype}")
                continue
            problem = _compare(row, case, operands, got, want)
            if problem:
                wrong.append(f"{case.name} {fill} {problem}")
    assert not wrong, f"{len(wrong)}" + "\n".join(wrong[:3])
