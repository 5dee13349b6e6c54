"""Weights that were multiplied give what was multiplied before, and only in inference."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.driver import pipelines
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, TensorType
from graphc.ops import default_context
from graphc.passes.fold_scales import FoldScales
from graphc.passes.manager import PassManager
from graphc.passes.synthesize_gradient import SynthesizeGradient
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse

TEXT = Path("tests/golden/passes/fold-scales/chains.gir").read_text()
FUNCTIONS = [f.name for f in parse(TEXT).functions]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_the_numbers_are_those_of_the_chain(name: str, dtype: DType) -> None:
    """Within 8 units of rounding of sums of at most 18 products of about 1."""
    text = TEXT.replace("f32", dtype.value)
    module, judge = parse(text), parse(TEXT.replace("f32", "f64"))
    PassManager([FoldScales()], verify=True, check_claim=True).run(module, default_context())
    function, whole = (next(f for f in m.functions if f.name == name) for m in (module, judge))
    rng = np.random.default_rng(3)
    for samples in (0, 1, 3):
        sizes = {"N": samples}
        given = {
            a.name or "": rng.uniform(0.5, 2, a.type.shape(sizes)).astype(dtype.numpy)
            for a in function.arguments
            if isinstance(a.type, TensorType)
        }
        found = evaluate(function, given, sizes)
        wanted = evaluate(whole, {n: x.astype(np.float64) for n, x in given.items()}, sizes)
        for result, array in wanted.items():
            limit = 8 * np.finfo(dtype.numpy).eps * max(np.abs(array).max(initial=1.0), 100)
            np.testing.assert_allclose(found[result], array, 0, limit)


def test_it_runs_for_frozen_parameters_without_gradients_alone() -> None:
    bounds = pipelines.Bounds()

    def names(gradients: tuple[str, ...], *, freeze: bool) -> list[str]:
        passes = pipelines.evaluation(("y",), gradients, DType.F32, bounds, freeze=freeze)
        return [p.name for p in passes]

    assert "fold-scales" in names((), freeze=True)
    assert "fold-scales" not in names((), freeze=False)
    assert "fold-scales" not in names(("w",), freeze=True)


def test_it_may_not_run_before_differentiation() -> None:
    passes = [FoldScales(), SynthesizeGradient("y", ("w",))]
    with pytest.raises(GraphcError, match="run `fold-scales` after it"):
        PassManager(passes).run(parse(TEXT), default_context())
