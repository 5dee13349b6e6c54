"""`update_rows` on every target that runs here, and that it touches no memory of others."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import TARGETS, Target
from graphc.backends.signature import make_signature
from graphc.ir.core import Function
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType
from graphc.ops import default_context
from graphc.ops.schedules import RowUpdateSchedule
from graphc.ops.update_rows import UPDATE_ROWS
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature
from tests.support.compiling import KERNEL_PIPELINE, call, load_backend
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import random_arguments, runnable_targets
from tests.support.row_updates import step

Array = np.ndarray
SIZE = 53
"""Rows of the table."""


def planned(dtype: DType, *, columns: bool, width: int) -> tuple[Function, Signature]:
    module = step(SIZE, width, dtype, columns=columns)
    text = KERNEL_PIPELINE.replace("plan-memory", "split-work,plan-memory")
    PassManager(pipeline(text), verify=True).run(module, default_context())
    return module.functions[0], make_signature(module, module.functions[0])


def given(signature: Signature, sizes: dict[str, int]) -> dict[str, Array]:
    """Of the samples, every third looks up a run that goes up to the table's end."""
    made = random_arguments(signature, sizes)
    rng = np.random.default_rng(3)
    shape = (sizes["N"], sizes["K"])
    index = rng.integers(-2, SIZE + 2, shape)
    index[::3] = SIZE - sizes["K"] + np.arange(sizes["K"])
    return made | {"i0": index.astype(np.int32), "momentum": np.full((1, 1), 0.5, made["w"].dtype)}


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("width", [5, 16, 67])
def test_every_target_that_runs_here(width: int, columns: bool, dtype: DType) -> None:
    function, signature = planned(dtype, columns=columns, width=width)
    sizes = {"N": 10, "K": 36}
    arguments = given(signature, sizes)
    expected = evaluate(function, arguments, sizes)
    tolerance = 1e-4 if dtype is DType.F32 else 1e-12
    for target in runnable_targets():
        got = call(compile_function(function, signature, target), signature, arguments, sizes)
        for name in ("w", "v"):
            np.testing.assert_allclose(
                got[name], expected[name], tolerance, tolerance, err_msg=target.isa
            )


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("count", [1, 7, 24])
def test_nothing_is_touched_outside_the_arrays(count: int, side: Side, columns: bool) -> None:
    function, signature = planned(DType.F32, columns=columns, width=21)
    sizes = {"N": count, "K": 35}
    arguments = given(signature, sizes)
    for target in runnable_targets():
        code = exit_code_guarded(function, signature, target, arguments, sizes, side)
        assert code == 0, target.isa


# --- chunks of each row's numbers, for threads ---

WIDE = 330
"""Numbers of a row, enough work to be cut: the last chunk is shorter, and no whole block."""


def by_hand(before: dict[str, Array], *, columns: bool) -> dict[str, Array]:
    """The step in f64: every row that is looked up, by momentum and the sum of its gradients."""
    exact = {name: array.astype(np.float64) for name, array in before.items() if name != "i0"}
    w, v = (exact[name].T.copy() if columns else exact[name].copy() for name in "wv")
    inside = (before["i0"] >= 0) & (before["i0"] < SIZE)
    rows, (sample, _) = before["i0"][inside], np.nonzero(inside)
    gradient = np.zeros_like(w)
    np.add.at(gradient, rows, exact["x0"][inside][:, None] * exact["y0"][sample])
    momentum, rate = exact["momentum"].item(), exact["learning_rate"].item()
    found = np.unique(rows)
    v[found] = momentum * v[found] + (1 - momentum) * rate * gradient[found]
    w[found] -= v[found]
    return {"w": w.T if columns else w, "v": v.T if columns else v}


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("backend", ["llvm", "c"])
def test_threads_share_the_numbers_of_rows_and_change_no_bit(
    backend: str, columns: bool, dtype: DType
) -> None:
    if isinstance(loaded := load_backend(backend), str):
        pytest.skip(loaded)
    function, signature = planned(dtype, columns=columns, width=WIDE)
    op = next(op for op in function.block if op.opdef is UPDATE_ROWS)
    schedule = op.schedule_as(RowUpdateSchedule)
    assert schedule.parallel == "numbers" and 2 <= WIDE / schedule.chunk <= 8
    assert loaded.compile is not None
    compiled = loaded.compile(function, signature)
    tolerance = 1e-4 if dtype is DType.F32 else 1e-12
    for sizes in ({"N": 24, "K": 36}, {"N": 1, "K": 1}, {"N": 0, "K": 7}):
        arguments = given(signature, sizes)
        wanted = by_hand(arguments, columns=columns)
        found: list[dict[str, Array]] = []
        for threads in (1, 2, 3, 8):
            compiled.threads = threads  # type: ignore[attr-defined]  # both backends' have it
            found.append(call(compiled, signature, arguments, sizes))
        for name in ("w", "v"):
            np.testing.assert_allclose(found[0][name], wanted[name], tolerance, tolerance)
            for other in found[1:]:
                np.testing.assert_array_equal(other[name], found[0][name])


@pytest.mark.parametrize(("columns", "block"), [(False, 32), (True, 8)])
def test_a_chunk_that_cuts_a_block_is_refused(columns: bool, block: int) -> None:
    function, _signature = planned(DType.F32, columns=columns, width=WIDE)
    op = next(op for op in function.block if op.opdef is UPDATE_ROWS)
    op.schedule = RowUpdateSchedule("numbers", block + 4)
    assert op.opdef.check is not None
    assert list(op.opdef.check(op)) == [
        f"a chunk is a multiple of {block} numbers, got {block + 4}"
    ]


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.isa)
@pytest.mark.parametrize("columns", [False, True])
def test_every_target_compiles(columns: bool, target: Target) -> None:
    function, signature = planned(DType.F32, columns=columns, width=40)
    assert engine.object_code(emit_function(function, signature, target), target)
