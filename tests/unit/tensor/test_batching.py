"""A batched function gives what a loop over the function gives, for every operation with a rule."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.codegen import Elementwise
from graphc.ir.core import Function, Module
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType
from graphc.ir.verifier import verify_module
from graphc.ops.indexed import GATHER
from graphc.passes.batching_rules import RULES
from graphc.support.diagnostics import DiagnosticSink, GraphcError
from graphc.tensor.batching import batched
from tests.conformance.test_gradients import (
    named,
    names,
    operands_of,
    result_type,
    small_cases,
)
from tests.conformance.test_tangents import one_operation
from tests.support.op_table import ROWS, Case, Row

COUNT = 3
WITH_A_RULE = [
    r
    for r in ROWS
    if DType.F64 in r.dtypes and (r.op in RULES or isinstance(r.op.codegen, Elementwise))
]


def cases_of(row: Row) -> list[Case]:
    """Small cases without a symbol: the tensor interface has none."""
    return [
        c
        for c in small_cases(row)
        if c.types and not any(t.symbols() for t in (*c.types, result_type(row, c)))
    ]


def results(function: Function, arguments: dict[str, np.ndarray]) -> np.ndarray:
    sink = DiagnosticSink()
    verify_module(Module([function]), sink)
    assert not sink.has_errors, sink.diagnostics
    return evaluate(function, arguments, {})["y"]


@pytest.mark.parametrize("row", WITH_A_RULE, ids=names)
def test_a_batch_is_a_loop(row: Row) -> None:
    rng = np.random.default_rng(4)
    for case in cases_of(row):
        operands = named(operands_of(row, case))
        function = one_operation(row, case)
        for chosen in {frozenset(operands), *(frozenset([name]) for name in operands)}:
            many = {
                name: np.stack([rng.permutation(x.ravel()).reshape(x.shape) for _ in range(COUNT)])
                for name, x in operands.items()
                if name in chosen
            }
            got = results(batched(function, sorted(chosen), COUNT, [0]), {**operands, **many})
            for i in range(COUNT):
                one = {**operands, **{name: x[i] for name, x in many.items()}}
                wanted = results(function, one)
                np.testing.assert_allclose(got[i], wanted, 1e-13, 1e-13, err_msg=case.name)


def test_what_does_not_depend_on_the_batch_is_repeated() -> None:
    row = next(r for r in ROWS if r.op.name == "exp")
    case = next(c for c in cases_of(row) if c.name == "matrix")
    function = one_operation(row, case)
    operands = named(operands_of(row, case))
    got = results(batched(function, [], COUNT, [0]), operands)
    np.testing.assert_array_equal(got, np.stack([results(function, operands)] * COUNT))


def test_an_operation_without_a_rule_is_an_error() -> None:
    from graphc.ir.core import IRBuilder, RegionKind, ResultInfo
    from graphc.ir.types import TensorType
    from graphc.ops.control import RETURN

    function = Function("f", RegionKind.SSA)
    x = function.add_argument("x", TensorType((2, 3), DType.F64), "input")
    index = function.add_argument("i", TensorType((2, 1), DType.I32), "input")
    b = IRBuilder(function.block)
    b.emit(RETURN, [b.emit_one(GATHER, x, index)])
    function.results.append(ResultInfo("y"))
    with pytest.raises(GraphcError, match=r"not-supported.*gather.*gc\.jvp"):
        batched(function, ["x"], COUNT, [0])
