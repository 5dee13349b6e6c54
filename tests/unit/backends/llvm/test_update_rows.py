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
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature
from tests.support.compiling import KERNEL_PIPELINE, call
from tests.support.guarded_child import exit_code_guarded
from tests.support.guarded_memory import SIDES, Side
from tests.support.native import random_arguments, runnable_targets
from tests.support.row_updates import step

Array = np.ndarray
SIZE = 53
"""Rows of the table."""


def planned(dtype: DType, *, columns: bool, width: int) -> tuple[Function, Signature]:
    module = step(SIZE, width, dtype, columns=columns)
    PassManager(pipeline(KERNEL_PIPELINE), verify=True).run(module, default_context())
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


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.isa)
@pytest.mark.parametrize("columns", [False, True])
def test_every_target_compiles(columns: bool, target: Target) -> None:
    function, signature = planned(DType.F32, columns=columns, width=40)
    assert engine.object_code(emit_function(function, signature, target), target)
