"""The reference backend writes results where they belong."""

# ruff: noqa: E501  # the text form has one line per function head

from __future__ import annotations

import numpy as np

from graphc.backends.reference import BACKEND
from tests.support.compiling import compile_for, parse

SWAP = """\
func @swap(%a: tensor<3xf32> state, %b: tensor<3xf32> state) -> (a1: tensor<3xf32> updates %a, b1: tensor<3xf32> updates %b, s: tensor<3xf32>) {
  %s = add %a, %b : tensor<3xf32>
  return %b, %a, %s
}
"""


def test_updates_go_into_their_arguments_even_when_they_exchange_values() -> None:
    compiled, _ = compile_for(BACKEND, parse(SWAP))
    a, b = np.array([1, 2, 3], np.float32), np.array([4, 5, 6], np.float32)
    out = np.empty(3, np.float32)
    compiled([a, b], [out], {})
    assert (a.tolist(), b.tolist(), out.tolist()) == ([4, 5, 6], [1, 2, 3], [5, 7, 9])
