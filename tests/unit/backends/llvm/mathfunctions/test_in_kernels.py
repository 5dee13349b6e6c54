"""Functions that branch (angles too large for a vector) inside the loops of a fused kernel."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.ir.evaluate import evaluate
from tests.support.compiling import call, compile_for, load_backend, parse

TEXT = """
dim N <= 50
func @f(%x: tensor<Nx{width}x{dtype}> input) -> (z: tensor<Nx1x{dtype}>, y: tensor<Nx{width}x{dtype}>) {{
  %s = sin %x : tensor<Nx{width}x{dtype}>
  %top = reduce_max %s {{axes = [1]}} : tensor<Nx1x{dtype}>
  %row = cos %top : tensor<Nx1x{dtype}>
  %rows = broadcast %row {{dims = [N, {width}]}} : tensor<Nx{width}x{dtype}>
  %d = sub %s, %rows : tensor<Nx{width}x{dtype}>
  %c = cos %x : tensor<Nx{width}x{dtype}>
  %y = mul %c, %d : tensor<Nx{width}x{dtype}>
  %z = reduce_sum %y {{axes = [1]}} : tensor<Nx1x{dtype}>
  return %z, %y
}}
"""  # noqa: E501  # a function's head is one line


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("width", [1, 3, 16, 37, 200])
@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_large_angles_in_some_lanes_of_a_kernel(share: float, width: int, dtype: str) -> None:
    backend = load_backend("llvm")
    assert not isinstance(backend, str)
    text = TEXT.format(width=width, dtype=dtype)
    compiled, signature = compile_for(backend, parse(text))
    rng = np.random.default_rng(width)
    numpy = np.float32 if dtype == "f32" else np.float64
    x = rng.uniform(-9, 9, (43, width))
    large = np.exp2(rng.uniform(23, 120, x.shape))
    x = np.where(rng.random(x.shape) < share, large, x).astype(numpy)
    got = call(compiled, signature, {"x": x}, {"N": 43})
    wanted = evaluate(parse(text).functions[0], {"x": x}, {"N": 43})
    for name in ("y", "z"):
        eps = float(np.finfo(numpy).eps)
        np.testing.assert_allclose(got[name], wanted[name], 0, 8 * eps * max(width, 8))
