"""Every tensor operation that PyTorch has: its meaning, its gradient rule, its forward rule.

The operands are those of the operation table's gradient tests, which have no ties and stay off
kinks, in f64 and f32. What is judged is `OpDef.reference`, which judges the backends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from graphc.ir.core import Function, IRBuilder, NotDifferentiable, RegionKind, ResultInfo, Value
from graphc.ir.evaluate import evaluate
from graphc.ir.params import resolve_sizes
from graphc.ir.types import DType, TensorType
from graphc.ops.control import RETURN
from graphc.ops.elementwise import add
from graphc.ops.reduction import REDUCE_MAX, REDUCE_MIN
from tests.conformance.test_gradients import operands_of, result_type
from tests.support.compiling import one_op_module
from tests.support.differentiate import vjp_function
from tests.support.op_table import ROWS, Case, N, Row
from tests.torch.conftest import Tally
from tests.torch.tensor_functions import FUNCTIONS, NOT_IN_TORCH, Tensor, torch

# PyTorch's forward mode warns of its own compiler on first use.
pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")

Array = np.ndarray

FLOATS = (DType.F32, DType.F64)
LARGEST = 2000  # elements of an operand or the result
EXTREMES = (REDUCE_MAX, REDUCE_MIN)  # PyTorch has none of an empty axis; here it is infinite
TOLERANCE = {DType.F32: 1e-5, DType.F64: 1e-13}  # times the largest element of what is compared
IN_TORCH = [row for row in ROWS if row.op.name in FUNCTIONS]
SAMPLED = [(row, dtype) for row in IN_TORCH for dtype in FLOATS if dtype in row.dtypes]
SLOPED = [(row, dtype) for row, dtype in SAMPLED if row.smoothness != "none"]


def ids(pairs: list[tuple[Row, DType]]) -> list[str]:
    return [f"{row.op.name}-{dtype}" for row, dtype in pairs]


def cases_of(row: Row, dtype: DType) -> list[Case]:
    return [
        case
        for case in row.cases(dtype)
        if case.given is None
        and case.samples == 5
        # PyTorch converts negative numbers to unsigned ones as C does, f64 to f16 in two steps.
        and getattr(case.params, "dtype", None) not in (DType.U32, DType.F16)
        and not (row.op in EXTREMES and any(0 in t.dims for t in case.types))
        and all(t.bound_elements <= LARGEST for t in (*case.types, result_type(row, case)))
    ]


def operands(row: Row, case: Case) -> list[Array]:
    pairs = zip(operands_of(row, case), case.types, strict=True)
    return [np.asarray(x, t.dtype.numpy) for x, t in pairs]


def in_torch(row: Row, case: Case) -> Callable[..., Tensor]:
    """The operation as a function of tensors."""
    params = resolve_sizes(case.params, {N.name: case.samples})
    return lambda *tensors: FUNCTIONS[row.op.name](params, *tensors)


def require_near(got: Array, wanted: Tensor, dtype: DType, case: Case) -> None:
    expected = wanted.detach().numpy()
    assert got.shape == expected.shape, case.name
    largest = float(np.max(np.abs(expected), where=np.isfinite(expected), initial=1.0))
    count = max(1.0, float(np.sqrt(expected.size)))  # sums over what the result does not show
    np.testing.assert_allclose(
        got, expected, rtol=0, atol=TOLERANCE[dtype] * largest * count, err_msg=case.name
    )


def test_every_operation_is_in_pytorch_or_has_a_reason_not_to_be() -> None:
    assert {row.op.name for row in ROWS} == set(FUNCTIONS) | set(NOT_IN_TORCH)


@pytest.mark.parametrize(
    ("row", "dtype"), [(r, r.dtypes[0]) for r in IN_TORCH if DType.F64 not in r.dtypes]
)
def test_values_of_operations_that_f64_has_not(row: Row, dtype: DType, tally: Tally) -> None:
    for case in cases_of(row, dtype):
        given = operands(row, case)
        module = one_op_module(row.op, case.params, case.types, case.types, [N])
        got = evaluate(module.functions[0], _named(given), {N.name: case.samples})["y"]
        expected = in_torch(row, case)(*map(torch.from_numpy, given)).numpy()
        np.testing.assert_array_equal(got, expected, err_msg=case.name)
        tally.add(row.op.name, "values f64")


@pytest.mark.parametrize(("row", "dtype"), SAMPLED, ids=ids(SAMPLED))
def test_values(row: Row, dtype: DType, tally: Tally) -> None:
    cases = cases_of(row, dtype)
    assert cases
    for case in cases:
        given = operands(row, case)
        module = one_op_module(row.op, case.params, case.types, case.types, [N])
        got = evaluate(module.functions[0], _named(given), {N.name: case.samples})["y"]
        require_near(got, in_torch(row, case)(*map(torch.from_numpy, given)), dtype, case)
        tally.add(row.op.name, f"values {dtype}")


@pytest.mark.parametrize(("row", "dtype"), SLOPED, ids=ids(SLOPED))
def test_gradients(row: Row, dtype: DType, tally: Tally) -> None:
    for case in cases_of(row, dtype):
        if not result_type(row, case).dtype.is_float:
            continue
        given = operands(row, case)
        tensors = [torch.from_numpy(x).requires_grad_(x.dtype.kind == "f") for x in given]
        value = in_torch(row, case)(*tensors)
        cotangent = np.random.default_rng(1).standard_normal(tuple(value.shape))
        cotangent = cotangent.astype(value.detach().numpy().dtype)
        floats = [t for t in tensors if t.requires_grad]
        wanted = torch.autograd.grad(value, floats, torch.from_numpy(cotangent), allow_unused=True)
        function = vjp_function(row.op, case.params, case.types)
        got = evaluate(function, {**_named(given), "dy": cotangent}, {N.name: case.samples})
        names = [f"dx{i}" for i, x in enumerate(given) if x.dtype.kind == "f"]
        for name, slope in zip(names, wanted, strict=True):
            found = got.get(name)
            if found is None or slope is None:
                assert found is None or not np.any(found)
                assert slope is None or not torch.any(slope)
                continue
            require_near(found, slope, dtype, case)
            tally.add(row.op.name, f"gradients {dtype}")


@pytest.mark.parametrize(("row", "dtype"), SLOPED, ids=ids(SLOPED))
def test_directional_derivatives(row: Row, dtype: DType, tally: Tally) -> None:
    for case in cases_of(row, dtype):
        if not result_type(row, case).dtype.is_float:
            continue
        given = operands(row, case)
        rng = np.random.default_rng(2)
        moved = [i for i, x in enumerate(given) if x.dtype.kind == "f"]
        directions = {i: rng.standard_normal(given[i].shape).astype(given[i].dtype) for i in moved}
        tensors = [torch.from_numpy(x) for x in given]

        def along(*floats: Tensor) -> Tensor:
            held = list(tensors)  # noqa: B023
            for i, x in zip(moved, floats, strict=True):  # noqa: B023
                held[i] = x
            return in_torch(row, case)(*held)  # noqa: B023

        points = tuple(tensors[i] for i in moved)
        steps = tuple(torch.from_numpy(directions[i]) for i in moved)
        _, wanted = torch.func.jvp(along, points, steps)
        function = _jvp_function(row, case, moved)
        tangents = {f"t{i}": x for i, x in directions.items()}
        got = evaluate(function, {**_named(given), **tangents}, {N.name: case.samples})["dy"]
        require_near(got, wanted, dtype, case)
        tally.add(row.op.name, f"forward {dtype}")


def _jvp_function(row: Row, case: Case, moved: Sequence[int]) -> Function:
    """`(x0, …, t0, …) -> dy` by the operation's forward rule, its terms added."""
    function = Function("jvp", RegionKind.SSA)
    types = case.types
    values = [function.add_argument(f"x{i}", t, "input") for i, t in enumerate(types)]
    tangents: list[Value | None] = [None] * len(types)
    for i in moved:
        tangents[i] = function.add_argument(f"t{i}", types[i], "input")
    builder = IRBuilder(function.block)
    made = builder.emit(row.op, values, case.params)
    assert row.op.jvp is not None and not isinstance(row.op.vjp, NotDifferentiable)
    terms = list(row.op.jvp(builder, made, tangents))
    assert terms
    total = terms[0]
    for term in terms[1:]:
        total = add(builder, total, term)
    assert isinstance(total.type, TensorType)
    builder.emit(RETURN, [total])
    function.results.append(ResultInfo("dy"))
    return function


def _named(given: Sequence[Array]) -> dict[str, Array]:
    return {f"x{i}": x for i, x in enumerate(given)}
