"""Scratch memory of compiled functions: aligned, or an error that says what to do."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.base import aligned_bytes
from graphc.runtime.signature import Dimension
from graphc.support.adjacent import ALIGNMENT
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import call, compile_for, load_backend, parse

DIMS = (Dimension("N", 2**31 - 1),)


@pytest.mark.parametrize("size", [0, 1, 64, 1000])
def test_scratch_memory_is_aligned(size: int) -> None:
    scratch = aligned_bytes(size, DIMS)
    assert scratch.nbytes >= size
    assert scratch.ctypes.data % ALIGNMENT == 0


@pytest.mark.parametrize("size", [2**62, 2**63, 2**70])
def test_scratch_memory_that_no_machine_has_is_a_limit(size: int) -> None:
    with pytest.raises(GraphcError, match=rf"{size} bytes .* for N up to 2147483647") as caught:
        aligned_bytes(size, DIMS)
    assert caught.value.diagnostics[0].slug == "limit"


@pytest.mark.parametrize("name", ["numpy", "llvm"])
def test_a_call_of_a_function_compiled_for_too_much_is_a_limit(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = """
dim N <= 4

func @f(%x: tensor<Nx4xf32> input, %w: tensor<4x4xf32> input) -> (y: tensor<Nx4xf32>) {
  %h = matmul %x, %w : tensor<Nx4xf32>
  %y = matmul %h, %w : tensor<Nx4xf32>
  return %y
}
"""
    backend = load_backend(name)
    if isinstance(backend, str):
        pytest.skip(backend)
    compiled, signature = compile_for(backend, parse(text))
    arguments = {"x": np.ones((2, 4), np.float32), "w": np.ones((4, 4), np.float32)}

    def exhausted(size: int, dtype: object) -> np.ndarray:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("graphc.backends.base.np.empty", exhausted)
        with pytest.raises(GraphcError, match="N up to 4"):
            call(compiled, signature, arguments, {"N": 2})
    assert call(compiled, signature, arguments, {"N": 2})["y"].sum() == 2 * 4 * 16
