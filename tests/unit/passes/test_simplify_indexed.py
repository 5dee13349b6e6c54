"""Products with sparse matrices compute the same before and after, whatever the indices are."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from graphc.ir.core import Function
from graphc.ir.evaluate import evaluate
from graphc.passes.simplify import simplify
from tests.support.compiling import parse
from tests.support.judges import make_index

GOLDEN = Path(__file__).parents[2] / "golden/passes/simplify/sparse.gir"
LOWEST = np.iinfo(np.int32).min

Array = np.ndarray


def functions() -> list[Function]:
    return list(parse(GOLDEN.read_text(encoding="utf-8")).functions)


def operands(function: Function, index: Array, seed: int) -> dict[str, Array]:
    rng = np.random.default_rng(seed)
    sizes = {"N": index.shape[0]}
    made = {
        a.name or "": rng.standard_normal(a.type.shape(sizes)).astype(np.float32)  # type: ignore[union-attr]
        for a in function.arguments
    }
    return made | {"i": index}


@pytest.mark.parametrize("samples", [0, 1, 8])
@pytest.mark.parametrize("which", range(len(functions())), ids=[f.name for f in functions()])
def test_the_result_is_that_of_the_dense_product(which: int, samples: int) -> None:
    before, after = functions()[which], functions()[which]
    assert simplify(after) > 0
    index = make_index(np.random.default_rng(which), (samples, 3), 50, "special")
    given = operands(before, index, which)
    want, got = (evaluate(f, given, {"N": samples})["z"] for f in (before, after))
    np.testing.assert_allclose(got, want, 1e-5, 1e-5)


def test_an_index_that_wraps_when_it_is_moved_stays_outside() -> None:
    (before,) = (f for f in functions() if f.name == "slice_of_sparse")
    (after,) = (f for f in functions() if f.name == "slice_of_sparse")
    simplify(after)
    lows = [LOWEST + i for i in range(24)]
    index = np.array(lows, np.int32).reshape(8, 3)
    given = operands(before, index, 0)
    assert not evaluate(before, given, {"N": 8})["z"].any()
    assert not evaluate(after, given, {"N": 8})["z"].any()


def test_a_slice_too_far_out_for_an_index_is_left_alone() -> None:
    text = (
        "func @f(%v: tensor<2x1xf32> input, %i: tensor<2x1xi32> input)"
        " -> (z: tensor<2x5xf32>) {\n"
        "  %s = scatter_add %v, %i {size = 4294967296} : tensor<2x4294967296xf32>\n"
        "  %z = slice %s {starts = [0, 2147483648], stops = [2, 2147483653], steps = [1, 1]}"
        " : tensor<2x5xf32>\n"
        "  return %z\n}\n"
    )
    (function,) = parse(text).functions
    assert simplify(function) == 0
