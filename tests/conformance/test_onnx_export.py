"""Every tensor operation written as ONNX, computed by the evaluator of the onnx package.

Depthwise convolutions without infinities: ONNX multiplies the zeros around an image.

The uses are those of the operation table, judged as backends are: against the operation's own
reference, by the table's tolerance. Where the evaluator is less exact than that, a line below says
why.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np
import pytest
from onnx import checker
from onnx.reference import ReferenceEvaluator

from graphc.artifacts.onnx.model import make_model
from graphc.artifacts.onnx.walk import WRITERS
from graphc.ir.core import Function, Level, OpDef, Trait
from graphc.ir.evaluate import evaluate
from graphc.ir.params import Params, resolve_sizes
from graphc.ir.types import Dim, DType, TensorType
from graphc.ops import (
    ALL_OPS,
    bits,
    communication,
    control,
    convolution,
    depthwise,
    functions,
    loop,
    patches,
    pooling,
)
from graphc.ops.convolution import ConvDataGradParams, ConvParams
from graphc.ops.pooling import PoolParams
from tests.conformance.check import FILLS, module_of, operands_for
from tests.support.compiling import one_op_module
from tests.support.op_table import ROWS, Case, N, Row

Array = np.ndarray
PAIRS = [(row, dtype) for row in ROWS for dtype in row.dtypes if row.op in WRITERS]

SIZE = "size"
"""An input that says how many samples there are, where no operand does."""

_SUM = "elements that meet are added in another order"
_ERF = "the evaluator rounds its error function to f32"
OWN_TOLERANCE: dict[tuple[OpDef, DType], tuple[float, str]] = {
    (functions.ERF, DType.F64): (1e-7, _ERF),
    (functions.GELU, DType.F64): (1e-7, _ERF),
    (patches.OVERLAP_ADD, DType.F32): (1e-6, _SUM),
    (patches.OVERLAP_ADD, DType.F64): (1e-15, _SUM),
}
"""Relative to the largest finite element of operands, or to 1 where all are less."""


def one_operation(row: Row, case: Case) -> Function:
    """The operation alone, with an input for every size."""
    (function,) = module_of(row, case).functions
    if not any(N in a.tensor.dims for a in function.arguments):
        function.add_argument(SIZE, TensorType((N,), DType.F32), "input")
    return function


def uses(row: Row, dtype: DType) -> Iterator[tuple[Function, Sequence[Case]]]:
    """The functions of a row, each with the cases that it is for: numbers of samples."""
    cases = row.cases(dtype)
    for _, group in groupby(cases, lambda c: (c.types, c.params, c.given)):
        same = [*group]
        yield one_operation(row, same[0]), same


@pytest.mark.parametrize(("row", "dtype"), PAIRS, ids=[f"{r.op.name}-{d}" for r, d in PAIRS])
def test_an_operation_written_as_onnx_computes_what_it_says(row: Row, dtype: DType) -> None:
    wrong, count = list[str](), 0
    for function, cases in uses(row, dtype):
        model = make_model(function, ())
        checker.check_model(model, full_check=True)
        evaluator = ReferenceEvaluator(model)
        for case in cases:
            for fill in FILLS if case.types and row.op not in depthwise.OPS else FILLS[:1]:
                seed = zlib.crc32(f"{row.op.name} {dtype} {case.name} {fill}".encode())
                operands = operands_for(row, case, fill, seed)
                given = {f"x{i}": x for i, x in enumerate(operands)}
                if function.argument(SIZE) is not None:
                    given[SIZE] = np.zeros(case.samples, np.float32)
                expected = evaluate(function, given, {N.name: case.samples})["y"]
                with np.errstate(all="ignore"):
                    (got,) = evaluator.run(None, given)
                got = got.view(np.dtype(expected.dtype)) if got.dtype.name == "bfloat16" else got
                count += 1
                if problem := _problem(row, case, operands, got, expected):
                    wrong.append(f"{case.name} ({fill}, seed {seed}): {problem}")
    assert wrong == []
    assert count >= 12


def _problem(row: Row, case: Case, operands: Sequence[Array], got: Array, expected: Array) -> str:
    if (got.shape, got.dtype) != (expected.shape, expected.dtype):
        return f"requires {expected.dtype}{expected.shape}, got {got.dtype}{got.shape}"
    sizes = {N.name: case.samples}
    seen = [np.broadcast_to(x, t.shape(sizes)) for x, t in zip(operands, case.types, strict=True)]
    if case.types and (own := OWN_TOLERANCE.get((row.op, case.types[0].dtype))):
        return _far(seen, got, expected, own[0])
    with np.errstate(all="ignore"):
        return row.judge.check(row.op, resolve_sizes(case.params, sizes), seen, got, expected)


def _far(operands: Sequence[Array], got: Array, expected: Array, tolerance: float) -> str:
    finite = [np.abs(x[np.isfinite(x)]) for x in operands]
    limit = tolerance * max(float(np.max(x, initial=1.0)) for x in finite)
    with np.errstate(all="ignore"):
        near = np.isclose(got, expected, rtol=0, atol=limit, equal_nan=True)
    return "" if near.all() else f"{np.argwhere(~near)[:3].tolist()} beyond {limit:.3g}"


# --- windows as one operation --------------------------------------------------------------------

_CONV, _BACK, _POOL = ConvParams, ConvDataGradParams, PoolParams
WINDOWS: list[tuple[OpDef, Params, tuple[tuple[Dim, ...], ...]]] = [
    (convolution.CONV, _CONV(1, (1,)), ((N, 7, 3), (2, 3, 4))),
    (convolution.CONV, _CONV(1, (2,), (1,), (2,)), ((N, 7, 3), (3, 3, 4))),
    (convolution.CONV, _CONV(0, (3,)), ((11, 2), (2, 2, 5))),
    (convolution.CONV, _CONV(1, (1, 2)), ((N, 6, 7, 2), (3, 2, 2, 4))),
    (convolution.CONV, _CONV(1, (2, 1), (1, 0), (0, 2)), ((N, 6, 7, 2), (3, 2, 2, 4))),
    (convolution.CONV, _CONV(2, (1, 1)), ((N, 2, 4, 4), (2, 3, 5))),
    (convolution.CONV, _CONV(1, (1, 1)), ((N, 4, 4, 2, 3), (2, 2, 2, 3, 2, 2))),
    (convolution.CONV_DATA_GRAD, _BACK(1, (7,), (2,)), ((N, 3, 4), (4, 3, 2))),
    (convolution.CONV_DATA_GRAD, _BACK(1, (8,), (2,)), ((N, 3, 4), (4, 3, 2))),
    (convolution.CONV_DATA_GRAD, _BACK(1, (5,), (1,), (1,), (2,)), ((N, 6, 4), (4, 3, 2))),
    (convolution.CONV_DATA_GRAD, _BACK(1, (7, 5), (2, 1)), ((N, 3, 4, 4), (3, 4, 2, 2))),
    (
        convolution.CONV_DATA_GRAD,
        _BACK(1, (6, 4), (2, 1), (1, 0), (1, 1)),
        ((N, 3, 4, 4), (3, 4, 2, 2)),
    ),
    *(
        (pooling.POOL, _POOL(how, 1, sizes, strides), ((N, 6, 7, 3),))
        for how in ("add", "maximum", "minimum")
        for sizes, strides in (((2, 3), (1, 2)), ((2,), (2,)), ((6, 7), (1, 1)))
    ),
    (pooling.POOL, _POOL("maximum", 0, (3,), (2,)), ((9,),)),
]


@pytest.mark.parametrize(("op", "params", "dims"), WINDOWS)
def test_windows_written_as_onnx(
    op: OpDef, params: Params, dims: tuple[tuple[Dim, ...], ...]
) -> None:
    types = [TensorType(d, DType.F32) for d in dims]
    (function,) = one_op_module(op, params, types, types, [N]).functions
    model = make_model(function, ())
    checker.check_model(model, full_check=True)
    evaluator = ReferenceEvaluator(model)
    rng = np.random.default_rng(0)
    for samples in (1, 3):
        shapes = [t.shape({N.name: samples}) for t in types]
        given = {
            f"x{i}": rng.standard_normal(shape).astype(np.float32) for i, shape in enumerate(shapes)
        }
        expected = evaluate(function, given, {N.name: samples})["y"]
        (got,) = evaluator.run(None, given)
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


def test_every_operation_of_the_tensor_level_has_a_row_or_a_reason() -> None:
    tensor = {op for op in ALL_OPS if op.level is Level.TENSOR and not op.has(Trait.TERMINATOR)}
    tested = {row.op for row in ROWS} | {loop.LOOP}
    # ONNX has numbers of another type with the same bits only from opset 26 on
    assert tensor - WRITERS.keys() == {*communication.OPS, bits.BITCAST}
    assert tensor & WRITERS.keys() == (tested & tensor) - {bits.BITCAST}
    assert control.RETURN not in WRITERS
