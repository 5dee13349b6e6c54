"""Every vjp rule against central differences in f64, first and second order."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping

import numpy as np
import pytest

from graphc.ir.core import Function, NotDifferentiable, OpDef
from graphc.ir.evaluate import evaluate
from graphc.ir.params import resolve_sizes
from graphc.ir.types import DType, TensorType, size_of
from graphc.ops import elementwise, reduction
from tests.support.differentiate import central_differences, differentiate, vjp_function
from tests.support.judges import index_extent, make_index
from tests.support.op_table import ROWS, Case, N, Row

Array = np.ndarray

DIFFERENTIABLE = [r for r in ROWS if not isinstance(r.op.vjp, NotDifferentiable)]
SMOOTH = [r for r in DIFFERENTIABLE if r.smoothness == "smooth"]
FULL_JACOBIAN = 64  # elements; above, random directions
ATOL, RTOL = 1e-5, 1e-3


def names(row: Row) -> str:
    return row.op.name


def small_cases(row: Row) -> list[Case]:
    """The cases of few elements, in f64 throughout; a difference costs one run per element."""
    return [
        case
        for case in row.cases(DType.F64)
        if case.given is None
        and all(t.bound_elements <= 100 for t in (*case.types, result_type(row, case)))
        and case.samples == 5
        and not (row.op is elementwise.CAST and getattr(case.params, "dtype", 0) is not DType.F64)
    ]


def result_type(row: Row, case: Case) -> TensorType:
    (type,) = row.op.result_types(case.types, case.params)
    assert isinstance(type, TensorType)
    return type


def operands_of(row: Row, case: Case) -> list[Array]:
    """Operands in the row's domain; all numbers differ, so no maximum is attained twice."""
    rng = np.random.default_rng(zlib.crc32(f"{row.op.name} {case.name}".encode()))
    shapes = [t.shape({N.name: case.samples}) for t in case.types]
    low, high = row.domain
    total = sum(math.prod(s) for s in shapes)
    # Evenly spaced numbers in random order, none at 0: far from every kink and every tie.
    pool = rng.permutation(low + (high - low) * (np.arange(total) + 0.37) / max(total, 1))
    arrays: list[Array] = []
    for t, shape in zip(case.types, shapes, strict=True):
        part, pool = pool[: math.prod(shape)], pool[math.prod(shape) :]
        arrays.append(part.reshape(shape) if t.dtype.is_float else (part > 0).reshape(shape))
    looked_up = index_extent(row.op, case.params, case.types)
    if looked_up is not None:
        size = size_of(looked_up, {N.name: case.samples})
        arrays[-1] = make_index(rng, shapes[-1], size, "ordinary")
    return arrays


def forward(op: OpDef, case: Case, operands: list[Array]) -> Array:
    assert op.reference is not None
    result = op.reference(resolve_sizes(case.params, {N.name: case.samples}), *operands)
    assert not isinstance(result, tuple)
    return result


def gradients(function: Function, arguments: Mapping[str, Array], samples: int) -> dict[str, Array]:
    return evaluate(function, arguments, {N.name: samples})


def named(operands: list[Array]) -> dict[str, Array]:
    return {f"x{i}": x for i, x in enumerate(operands)}


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=names)
def test_the_vjp_is_the_transposed_jacobian_of_the_reference(row: Row) -> None:
    assert compare_vjp(row) >= 10


def compare_vjp(row: Row) -> int:
    """How many cases were compared; an AssertionError for one that is wrong."""
    cases = small_cases(row)
    for case in cases:
        operands = operands_of(row, case)
        function = vjp_function(row.op, case.params, case.types)
        y = forward(row.op, case, operands)
        for index, x in enumerate(operands):
            if f"dx{index}" not in {r.name for r in function.results}:
                assert x.dtype.kind in "bi"
                continue

            def moved(value: Array, i: int = index) -> Array:
                return forward(row.op, case, [*operands[:i], value, *operands[i + 1 :]])  # noqa: B023

            jacobian = central_differences(moved, x)
            for dy in _directions(y):
                given = {**named(operands), "dy": dy}
                got = gradients(function, given, case.samples)[f"dx{index}"]
                wanted = np.sum(dy.reshape(-1, 1) * jacobian, axis=0).reshape(x.shape)
                np.testing.assert_allclose(got, wanted, RTOL, ATOL, err_msg=case.name)
    return len(cases)


def _directions(y: Array) -> list[Array]:
    """Every unit cotangent for small results, else a few random ones."""
    if 0 < y.size <= FULL_JACOBIAN:
        return [row.reshape(y.shape) for row in np.eye(y.size)]
    rng = np.random.default_rng(y.size)
    return [rng.standard_normal(y.shape) for _ in range(3)]


@pytest.mark.parametrize("row", SMOOTH, ids=names)
def test_the_vjp_can_be_differentiated_again(row: Row) -> None:
    assert compare_second_order(row) >= 10


def compare_second_order(row: Row) -> int:
    """How many cases were compared; an AssertionError for one that is wrong."""
    rng = np.random.default_rng(2)
    cases = small_cases(row)
    for case in cases:
        operands = operands_of(row, case)
        first = vjp_function(row.op, case.params, case.types)
        second = vjp_function(row.op, case.params, case.types)
        differentiate(second)
        shape = forward(row.op, case, operands).shape
        given = {**named(operands), "dy": rng.standard_normal(shape)}
        weights = {
            f"d{r.name}": rng.standard_normal(operands[int(r.name.removeprefix("dx"))].shape)
            for r in first.results
        }
        got = gradients(second, {**given, **weights}, case.samples)
        for name in [f"x{i}" for i, t in enumerate(case.types) if t.dtype.is_float] + ["dy"]:

            def weighted(value: Array, n: str = name) -> Array:
                made = gradients(first, {**given, n: value}, case.samples)  # noqa: B023
                return np.array(sum(np.sum(weights[f"d{k}"] * g) for k, g in made.items()))  # noqa: B023

            wanted = central_differences(weighted, given[name]).reshape(given[name].shape)
            # A cotangent that does not depend on an operand has no entry: the derivative is zero.
            found = got.get(f"d{name}", np.zeros_like(wanted))
            np.testing.assert_allclose(found, wanted, RTOL, ATOL, err_msg=f"{case.name}, {name}")
    return len(cases)


@pytest.mark.parametrize(
    ("op", "operands"),
    [
        (elementwise.ABS, [0.0]),
        (elementwise.MAXIMUM, [1.0, 1.0]),
        (elementwise.MINIMUM, [1.0, 1.0]),
        (elementwise.MAXIMUM, [0.0, 0.0]),
    ],
    ids=["abs", "maximum", "minimum", "relu"],
)
def test_at_a_kink_the_slope_lies_between_the_one_sided_ones(
    op: OpDef, operands: list[float]
) -> None:
    row = next(r for r in ROWS if r.op is op)
    case = next(c for c in row.cases(DType.F64) if c.name == "one element")
    arrays = [np.array([x]) for x in operands]
    function = vjp_function(op, case.params, case.types)
    got = gradients(function, {**named(arrays), "dy": np.ones(1)}, 0)
    for index, x in enumerate(arrays):
        here = forward(op, case, arrays)
        step = 1e-6
        after = forward(op, case, [*arrays[:index], x + step, *arrays[index + 1 :]])
        before = forward(op, case, [*arrays[:index], x - step, *arrays[index + 1 :]])
        sides = sorted([(after - here)[0] / step, (here - before)[0] / step])
        assert sides[0] - 1e-9 <= got[f"dx{index}"][0] <= sides[1] + 1e-9


def test_relu_has_slope_0_at_0() -> None:
    row = next(r for r in ROWS if r.op is elementwise.MAXIMUM)
    case = next(c for c in row.cases(DType.F64) if c.name == "one element")
    function = vjp_function(row.op, case.params, case.types)
    zero = {"x0": np.zeros(1), "x1": np.zeros(1), "dy": np.ones(1)}
    assert gradients(function, zero, 0)["dx0"][0] == 0.0


def test_a_maximum_that_is_attained_twice_gives_its_gradient_to_both() -> None:
    row = next(r for r in ROWS if r.op is reduction.REDUCE_MAX)
    case = next(c for c in row.cases(DType.F64) if c.name == "prime over (0,)")
    function = vjp_function(row.op, case.params, case.types)
    x = np.array([1.0, 3.0, 2.0, 3.0, 0.0, -1.0, 2.0])
    got = gradients(function, {"x0": x, "dy": np.array([5.0])}, 0)["dx0"]
    assert got.tolist() == [0.0, 5.0, 0.0, 5.0, 0.0, 0.0, 0.0]


@pytest.mark.parametrize("row", ROWS, ids=names)
def test_the_table_and_the_operation_agree_on_whether_there_is_a_gradient(row: Row) -> None:
    assert (row.smoothness == "none") == isinstance(row.op.vjp, NotDifferentiable)


def test_a_whole_number_gets_no_gradient_through_a_cast() -> None:
    case = next(
        c
        for c in next(r for r in ROWS if r.op is elementwise.CAST).cases(DType.I32)
        if c.name == "prime, to f64"
    )
    assert vjp_function(elementwise.CAST, case.params, case.types).results == []
