"""Operators on the bits of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.reading import element_type
from graphc_frontends.onnx.values import dtype_of, is_known, mistake, of, unsupported

_SAME = {
    "BitwiseAnd": "bitwise_and",
    "BitwiseOr": "bitwise_or",
    "BitwiseXor": "bitwise_xor",
    "BitwiseNot": "bitwise_not",
}


def _register(name: str, function: str) -> None:
    @operator(name)
    def handler(*inputs: Any) -> object:
        return getattr(of(*inputs), function)(*inputs)


for _name, _function in _SAME.items():
    _register(_name, _function)


@operator("BitShift")
def bit_shift(x: Any, count: Any, *, direction: str) -> object:
    """Counts outside of the type's bits move every bit out, the sign's stays to the right."""
    if direction not in ("LEFT", "RIGHT"):
        raise unsupported(f"the direction {direction}")
    if of(x, count) is not np:
        return (gc.left_shift if direction == "LEFT" else gc.right_shift)(x, count)
    last = 8 * x.dtype.itemsize - 1
    inside = (count >= 0) & (count <= last)
    if direction == "LEFT":
        return np.where(inside, np.left_shift(x, np.where(inside, count, 0)), 0).astype(x.dtype)
    if x.dtype.kind == "u":
        return np.where(inside, np.right_shift(x, np.where(inside, count, 0)), 0).astype(x.dtype)
    return np.right_shift(x, np.where(inside, count, last)).astype(x.dtype)


@operator("BitCast")
def bit_cast(x: Any, *, to: int) -> object:
    wanted = element_type(to)
    if wanted.itemsize != dtype_of(x).itemsize:
        message = f"requires a type of as many bits, got {dtype_of(x)} and {wanted}"
        raise mistake("bad-value", message)
    return x.view(wanted) if is_known(x) and x.dtype != object else gc.bitcast(x, wanted)
