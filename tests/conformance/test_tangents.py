"""Every jvp rule against central differences and against the vjp rule, in f64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from graphc.ir.core import Function, IRBuilder, Module, RegionKind, ResultInfo
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, TensorType
from graphc.ir.verifier import verify_module
from graphc.ops import elementwise
from graphc.ops.control import RETURN
from graphc.passes.synthesize_tangent import synthesize_tangent
from graphc.support.diagnostics import DiagnosticSink
from tests.conformance.test_gradients import (
    ATOL,
    DIFFERENTIABLE,
    RTOL,
    SMOOTH,
    forward,
    named,
    names,
    operands_of,
    small_cases,
)
from tests.support.differentiate import vjp_function
from tests.support.op_table import ROWS, Case, N, Row

Array = np.ndarray
STEP = 1e-6


def one_operation(row: Row, case: Case) -> Function:
    """`(x0, …) -> (y)`: the operation alone."""
    function = Function("one", RegionKind.SSA)
    operands = [function.add_argument(f"x{i}", t, "input") for i, t in enumerate(case.types)]
    b = IRBuilder(function.block)
    made = b.emit(row.op, operands, case.params)
    b.emit(RETURN, made.results)
    function.results.append(ResultInfo("y"))
    return function


def moving(types: Sequence[TensorType]) -> list[int]:
    return [i for i, t in enumerate(types) if t.dtype.is_float]


def with_tangents(function: Function, wrt: Sequence[str]) -> Function:
    sink = DiagnosticSink()
    assert synthesize_tangent(function, wrt, (), sink), sink.diagnostics
    return function


def directions(operands: Sequence[Array], which: Sequence[int]) -> dict[str, Array]:
    rng = np.random.default_rng(len(operands))
    return {f"tangent.x{i}": rng.standard_normal(operands[i].shape) for i in which}


def along(operands: Sequence[Array], vectors: dict[str, Array], step: float) -> list[Array]:
    """The operands moved by `step` times their directions."""
    none = np.float64(0.0)
    return [
        x + step * vectors.get(f"tangent.x{i}", none) if x.dtype.kind == "f" else x
        for i, x in enumerate(operands)
    ]


def difference(after: Array, before: Array) -> Array:
    """The central difference; 0 for the maximum over nothing, which stays infinite."""
    infinite = np.isinf(after) & (after == before)
    return (np.where(infinite, 0.0, after) - np.where(infinite, 0.0, before)) / (2 * STEP)


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=names)
def test_the_tangent_is_the_difference_along_the_direction(row: Row) -> None:
    assert compare_tangent(row) >= 10


def compare_tangent(row: Row) -> int:
    """How many cases were compared; an AssertionError for one that is wrong."""
    cases = small_cases(row)
    for case in cases:
        operands, which = operands_of(row, case), moving(case.types)
        for chosen in [which, *([i] for i in which)]:
            function = with_tangents(one_operation(row, case), [f"x{i}" for i in chosen])
            vectors = directions(operands, chosen)
            got = evaluate(function, {**named(operands), **vectors}, {N.name: case.samples})
            sides = [forward(row.op, case, along(operands, vectors, s * STEP)) for s in (1.0, -1.0)]
            wanted = difference(*sides)
            np.testing.assert_allclose(got["tangent.y"], wanted, RTOL, ATOL, err_msg=case.name)
    return len(cases)


@pytest.mark.parametrize("row", DIFFERENTIABLE, ids=names)
def test_forward_mode_is_the_transpose_of_reverse_mode(row: Row) -> None:
    assert compare_directions(row) >= 10


def compare_directions(row: Row) -> int:
    """How many cases were compared; an AssertionError for one that is wrong."""
    cases = small_cases(row)
    for case in cases:
        operands, which = operands_of(row, case), moving(case.types)
        function = with_tangents(one_operation(row, case), [f"x{i}" for i in which])
        vectors = directions(operands, which)
        sizes = {N.name: case.samples}
        tangent = evaluate(function, {**named(operands), **vectors}, sizes)["tangent.y"]
        u = np.random.default_rng(7).standard_normal(tangent.shape)
        reverse = vjp_function(row.op, case.params, case.types)
        gradients = evaluate(reverse, {**named(operands), "dy": u}, sizes)
        terms = [np.sum(gradients[f"dx{i}"] * vectors[f"tangent.x{i}"]) for i in which]
        scale = max(1.0, *(abs(t) for t in terms))
        assert abs(np.sum(u * tangent) - sum(terms)) <= 1e-10 * scale, case.name
    return len(cases)


@pytest.mark.parametrize("row", SMOOTH, ids=names)
def test_the_vjp_has_a_tangent(row: Row) -> None:
    assert compare_tangent_of_vjp(row) >= 10


def compare_tangent_of_vjp(row: Row) -> int:
    """How many cases were compared; an AssertionError for one that is wrong."""
    cases = small_cases(row)
    for case in cases:
        operands, which = operands_of(row, case), moving(case.types)
        plain = vjp_function(row.op, case.params, case.types)
        function = vjp_function(row.op, case.params, case.types)
        sizes = {N.name: case.samples}
        u = np.random.default_rng(3).standard_normal(forward(row.op, case, operands).shape)
        vectors = directions(operands, which)
        with_tangents(function, [f"x{i}" for i in which])
        got = evaluate(function, {**named(operands), "dy": u, **vectors}, sizes)
        sides = [
            evaluate(plain, {**named(along(operands, vectors, s * STEP)), "dy": u}, sizes)
            for s in (1.0, -1.0)
        ]
        for name in (r.name for r in plain.results):
            wanted = difference(sides[0][name], sides[1][name])
            found = got[f"tangent.{name}"]
            np.testing.assert_allclose(found, wanted, RTOL, ATOL, err_msg=f"{case.name}, {name}")
    return len(cases)


@pytest.mark.parametrize("target", [DType.F32, DType.F64])
@pytest.mark.parametrize("source", [DType.F32, DType.F64])
def test_the_tangent_of_a_cast_has_the_element_type_of_its_result(
    source: DType, target: DType
) -> None:
    row = next(r for r in ROWS if r.op is elementwise.CAST)
    case = next(c for c in row.cases(source) if c.name == f"prime, to {target}")
    function = with_tangents(one_operation(row, case), ["x0"])
    sink = DiagnosticSink()
    verify_module(Module([function], []), sink)
    assert sink.diagnostics == []
    x, direction = np.linspace(-3, 3, 7), np.linspace(0.1, 0.7, 7)
    given = {"x0": x.astype(source.numpy), "tangent.x0": direction.astype(source.numpy)}
    found = evaluate(function, given, {})["tangent.y"]
    assert found.dtype == target.numpy
    np.testing.assert_allclose(found, direction, rtol=1e-6)


def test_a_whole_number_has_no_tangent() -> None:
    row = next(r for r in ROWS if r.op is elementwise.CAST)
    case = next(c for c in row.cases(DType.F64) if c.name == "prime, to i32")
    function = with_tangents(one_operation(row, case), ["x0"])
    assert [r.name for r in function.results] == ["y"]
