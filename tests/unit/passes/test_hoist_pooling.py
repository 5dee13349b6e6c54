"""A pooling that is taken early has the same bits; training does without."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from graphc.ir.clone import clone_module
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.compiling import parse

LAYER = """
dim N <= 4
func @f(%c: tensor<Nx75xf32> input, %b: tensor<3x1xf32> parameter) -> (y: tensor<Nx2x2x1x1x3xf32>) {
  %0 = reshape %b {dims = [1, 1, 3]} : tensor<1x1x3xf32>
  %1 = broadcast %0 {dims = [N, 25, 3]} : tensor<Nx25x3xf32>
  %2 = reshape %1 {dims = [N, 75]} : tensor<Nx75xf32>
  %3 = add %c, %2 : tensor<Nx75xf32>
  %4 = constant {type = tensor<Nx75xf32>, value = [0.25]} : tensor<Nx75xf32>
  %5 = maximum %3, %4 : tensor<Nx75xf32>
  %6 = reshape %5 {dims = [N, 5, 5, 3]} : tensor<Nx5x5x3xf32>
  %7 = patches %6 {axis = 1, sizes = [3, 2], strides = [2, 3]} : tensor<Nx2x2x3x2x3xf32>
  %y = reduce_max %7 {axes = [3, 4]} : tensor<Nx2x2x1x1x3xf32>
  return %y
}
"""


@pytest.mark.parametrize("reduction", ["reduce_max", "reduce_min"])
def test_the_result_has_the_same_bits(reduction: str) -> None:
    module = parse(LAYER.replace("reduce_max", reduction))
    early = clone_module(module)
    (record,) = PassManager(pipeline("hoist-pooling"), verify=True, check_claim=True).run(
        early, default_context()
    )
    assert record.changed
    rng = np.random.default_rng(0)
    given = {
        "c": rng.standard_normal((4, 75)).astype(np.float32),
        "b": rng.standard_normal((3, 1)).astype(np.float32),
    }
    given["c"][1, 5], given["c"][2, 7] = np.nan, -np.inf
    expected = evaluate(module.functions[0], given, {"N": 4})["y"]
    found = evaluate(early.functions[0], given, {"N": 4})["y"]
    np.testing.assert_array_equal(found, expected)


NETWORK = """
x = ImageInput(9, 8, 2, tag=feature)
t = Input(12, tag=label)
K = Parameter(3, 18, init=uniform, initValueScale=4)
b = Parameter(3, 1, init=uniform, initValueScale=1)
c = Convolution(K, x, 3, 3, 3, 1, 1, zeroPadding={pad})
h = RectifiedLinear(Plus(c, b))
p = {pooling}(h, 3, 2, 3, 3)
W = Parameter(12, {rows})
z = Times(W, p, tag=output)
e = SquareError(t, z, tag=criterion)
"""


@pytest.mark.parametrize("pooling", ["MaxPooling", "AveragePooling"])
@pytest.mark.parametrize(("pad", "rows"), [("false", 12), ("true", 27)])
@pytest.mark.parametrize("backend", ["numpy", "llvm"])
def test_training_agrees_with_the_reference(
    pooling: str, pad: str, rows: int, backend: str
) -> None:
    pytest.importorskip("llvmlite" if backend == "llvm" else "numpy")
    text = NETWORK.format(pooling=pooling, pad=pad, rows=rows)
    rng = np.random.default_rng(0)
    x, t = rng.standard_normal((5, 144)), rng.standard_normal((5, 12))
    losses: dict[str, list[float]] = {}
    for name in ("reference", backend):
        step = gc.compile_training(
            gc.loads(text), batch=8, learner=gc.SGD(0.002), backend=name, precision="f64"
        )
        losses[name] = [float(np.sum(step(x=x, t=t)["e"])) for _ in range(4)]
    assert losses["reference"][3] < losses["reference"][0]
    np.testing.assert_allclose(losses[backend], losses["reference"], rtol=1e-10)
