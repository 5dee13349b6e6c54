"""`update_rows` on every backend: which rows change, by which gradient, and that others stay."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from graphc.ir.core import IRBuilder, Module, ResultInfo
from graphc.ir.evaluate import evaluate
from graphc.ir.placement import Address
from graphc.ir.printer import print_module
from graphc.ir.types import DType, TensorType, TypeRuleError
from graphc.ops.movement import transpose
from graphc.ops.reduction import reduce_sum
from graphc.ops.update_rows import UPDATE_ROWS, UpdateRowsParams, most_rows
from graphc.passes.analysis.memory import check_plan
from tests.support.compiling import JUDGED, call, compile_for, load_backend, parse
from tests.support.judges import make_index
from tests.support.row_updates import K, N, step

Array = np.ndarray
EVERYWHERE = pytest.mark.parametrize("backend", JUDGED)
TOLERANCE = {DType.F32: 2e-5, DType.F64: 1e-12}


def arguments(module: Module, samples: int, indices: Sequence[Array]) -> dict[str, Array]:
    rng = np.random.default_rng(1)
    sizes = {"N": samples, "K": indices[0].shape[1] if indices else 0}
    made: dict[str, Array] = {}
    for argument in module.functions[0].arguments:
        assert isinstance(argument.type, TensorType)
        name = argument.name or ""
        shape = argument.type.shape(sizes)
        made[name] = rng.normal(size=shape).astype(argument.type.dtype.numpy)
        if name.startswith("i"):
            made[name] = indices[int(name[1:])].astype(np.int32)
    return made | {
        name: np.full((1, 1), value, made[name].dtype)
        for name, value in (("learning_rate", 0.3), ("momentum", 0.6))
    }


def run(backend: str, module: Module, given: Mapping[str, Array]) -> dict[str, Array]:
    sizes = dict(zip("NK", given["i0"].shape, strict=True))
    loaded = load_backend(backend)
    if isinstance(loaded, str):
        pytest.skip(loaded)
    compiled, signature = compile_for(loaded, parse(print_module(module)))
    return call(compiled, signature, given, sizes)


def check(backend: str, module: Module, given: Mapping[str, Array], dtype: DType) -> None:
    sizes = dict(zip("NK", given["i0"].shape, strict=True))
    wanted = evaluate(module.functions[0], given, sizes)
    found = run(backend, module, given)
    for name in ("w", "v"):
        tolerance = TOLERANCE[dtype]
        np.testing.assert_allclose(found[name], wanted[name], tolerance, tolerance)


def runs(samples: int, entries: int, size: int, length: int) -> Array:
    """Rows of neighbours from random starts, some of which go on beyond the table or come early."""
    starts = np.random.default_rng(2).integers(-3, size, samples)[:, None]
    found = starts + np.arange(entries)
    return np.where(np.arange(entries) < length, found, -1)


# --- the rule by hand ---


@EVERYWHERE
def test_rows_that_are_looked_up_take_a_step_and_others_keep_even_their_velocity(
    backend: str,
) -> None:
    module = step(5, 2, DType.F64)
    x, y = np.array([[2.0, 3.0], [5.0, 7.0]]), np.array([[1.0, 10.0], [100.0, 1000.0]])
    given = arguments(module, 2, [np.array([[3, 0], [3, -1]])]) | {"x0": x, "y0": y}
    given["w"] = np.arange(10.0).reshape(5, 2)
    given["v"] = np.ones((5, 2))
    found = run(backend, module, given)
    gradient = np.zeros((5, 2))
    gradient[3] = 2 * y[0] + 5 * y[1]
    gradient[0] = 3 * y[0]
    v = given["v"].copy()
    v[[0, 3]] = 0.4 * 0.3 * gradient[[0, 3]] + 0.6
    np.testing.assert_allclose(found["v"], v, rtol=1e-14)
    w = given["w"].copy()
    w[[0, 3]] -= v[[0, 3]]
    np.testing.assert_allclose(found["w"], w, rtol=1e-14)
    for name in ("w", "v"):
        np.testing.assert_array_equal(found[name][[1, 2, 4]], given[name][[1, 2, 4]])


@EVERYWHERE
def test_a_row_that_is_looked_up_with_weight_0_takes_its_step_too(backend: str) -> None:
    module = step(3, 1, DType.F64)
    given = arguments(module, 1, [np.array([[1]])]) | {"x0": np.zeros((1, 1))}
    found = run(backend, module, given)
    assert found["v"][1] == pytest.approx(0.6 * given["v"][1])
    np.testing.assert_array_equal(found["v"][[0, 2]], given["v"][[0, 2]])


# --- against the reference ---


@EVERYWHERE
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("width", [1, 7, 8, 33, 70])
def test_repeated_rows_and_indices_outside(
    width: int, columns: bool, dtype: DType, backend: str
) -> None:
    index = make_index(np.random.default_rng(0), (9, 11), 13, "special")
    module = step(13, width, dtype, columns=columns)
    check(backend, module, arguments(module, 9, [index]), dtype)


@EVERYWHERE
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("length", [8, 19, 37])
def test_runs_of_neighbours(length: int, columns: bool, dtype: DType, backend: str) -> None:
    """Whole runs, runs that overlap others, that begin in front of the table or end behind it."""
    module = step(100, 11, dtype, columns=columns)
    check(backend, module, arguments(module, 14, [runs(14, 37, 100, length)]), dtype)


@EVERYWHERE
def test_classes_of_words_that_come_again(backend: str) -> None:
    classes = np.array([3, 0, 3, 1, 3, 0])
    index = classes[:, None] * 24 + np.arange(24)
    module = step(24 * 5, 9, DType.F32, columns=True)
    check(backend, module, arguments(module, 6, [index]), DType.F32)


@EVERYWHERE
@pytest.mark.parametrize("columns", [False, True])
def test_gradients_of_several_lookups_are_added_row_by_row(columns: bool, backend: str) -> None:
    module = step(30, 10, DType.F64, columns=columns, lookups=3)
    rng = np.random.default_rng(5)
    indices = [runs(6, 17, 30, 17), make_index(rng, (6, 17), 30, "special"), runs(6, 17, 30, 9)]
    check(backend, module, arguments(module, 6, indices), DType.F64)


@EVERYWHERE
@pytest.mark.parametrize(("samples", "entries"), [(0, 3), (3, 0), (0, 0), (24, 40)])
@pytest.mark.parametrize("columns", [False, True])
def test_every_size_of_the_call(columns: bool, samples: int, entries: int, backend: str) -> None:
    index = make_index(np.random.default_rng(0), (samples, entries), 12, "special")
    module = step(12, 5, DType.F32, columns=columns)
    check(backend, module, arguments(module, samples, [index]), DType.F32)


@EVERYWHERE
@pytest.mark.parametrize(("size", "width"), [(0, 4), (4, 0), (1, 1)])
@pytest.mark.parametrize("columns", [False, True])
def test_empty_tables(columns: bool, size: int, width: int, backend: str) -> None:
    index = make_index(np.random.default_rng(0), (3, 9), size, "special")
    module = step(size, width, DType.F64, columns=columns)
    check(backend, module, arguments(module, 3, [index]), DType.F64)


@EVERYWHERE
def test_what_stands_beside_an_index_outside_does_not_matter(backend: str) -> None:
    module = step(4, 3, DType.F32)
    given = arguments(module, 2, [np.array([[1, -1], [4, 1]])])
    given["x0"][0, 1] = given["x0"][1, 0] = np.nan
    found = run(backend, module, given)
    assert np.isfinite(found["w"]).all()


# --- memory ---


def test_the_tables_are_written_in_place_and_memory_follows_the_indices() -> None:
    module = step(100_000, 64, DType.F32)
    loaded = load_backend("numpy")
    assert not isinstance(loaded, str)
    compile_for(loaded, module)
    function = module.functions[0]
    assert check_plan(function) == []
    op = function.block.first
    assert op is not None
    assert op.placement == (Address("argument", 0), Address("argument", 1))
    # A place for each row, and a block of sums for each of the 24 * 40 entries.
    assert function.arena is not None
    assert function.arena < 4 * 100_000 + 24 * 40 * (4 * 32 + 8) + 4 * 64


@EVERYWHERE
def test_a_table_that_is_read_later_is_updated_in_other_memory(backend: str) -> None:
    module = step(6, 3, DType.F64)
    function = module.functions[0]
    terminator = function.block.terminator
    assert terminator is not None
    builder = IRBuilder.before(terminator)
    w = function.arguments[0]
    total = reduce_sum(builder, transpose(builder, w, (1, 0)), [0, 1])
    terminator.set_operands([*terminator.operands, total])
    function.results.append(ResultInfo("total"))
    given = arguments(module, 2, [np.array([[1, 2], [2, 9]])])
    check(backend, module, given, DType.F64)
    assert run(backend, module, given)["total"] == pytest.approx(given["w"].sum())


# --- types ---


def test_the_rows_of_a_call_are_no_more_than_its_entries_or_the_table_has() -> None:
    index = TensorType((N, K), DType.I32)
    assert most_rows(10**6, [index, index]) == 2 * 24 * 40
    assert most_rows(100, [index]) == 100


@pytest.mark.parametrize(
    ("at", "dims", "message"),
    [
        (1, (3, 4), "requires tensor<4x3xf32>, got tensor<3x4xf32>"),
        (2, (1, 2), "requires tensor<1x1xf32>"),
        (4, (2, 5), "requires tensor<2x4xf32>"),
        (5, (3, 3), "requires tensor<2x3xf32>"),
        (6, (8,), "requires an index of rank 2"),
    ],
)
def test_operands_that_do_not_fit_are_refused(at: int, dims: tuple[int, ...], message: str) -> None:
    shapes: list[tuple[int, ...]] = [(4, 3), (4, 3), (1, 1), (1, 1), (2, 4), (2, 3), (2, 4)]
    shapes[at] = dims
    kinds = [DType.F32] * 6 + [DType.I32]
    types = [TensorType(d, t) for d, t in zip(shapes, kinds, strict=True)]
    with pytest.raises(TypeRuleError, match=message):
        UPDATE_ROWS.infer(types, UpdateRowsParams(2, 2))
