"""Rounding to bf16 on every backend: all of its numbers, what lies around them, and beyond."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.compiling import RUN_HERE, call, compile_for, load_backend, parse

LOW_HALVES = (0, 1, 0x7FFF, 0x8000, 0x8001, 0xFFFF)
COUNT = len(LOW_HALVES) << 16
TEXT = f"""
func @f(%x: tensor<{COUNT}xf32> input) -> (y: tensor<{COUNT}xf32>) {{
  %y = round_bf16 %x : tensor<{COUNT}xf32>
  return %y
}}
"""


def operands() -> np.ndarray:
    """Every upper half of an f32 with numbers at, next to and between the ends of its lower one."""
    high = np.arange(1 << 16, dtype=np.uint32) << 16
    return (high[:, None] | np.array(LOW_HALVES, np.uint32)).reshape(-1).view(np.float32)


def nearest(x: np.ndarray) -> np.ndarray:
    """Of the two neighbours in bf16 the nearer one, by their distances in f64."""
    below = (x.view(np.uint32) >> 16).astype(np.int64)
    numbers = [_number(below), _number(below + 1)]
    exact = x.astype(np.float64)
    with np.errstate(invalid="ignore"):
        near, far = (np.abs(exact - n) for n in numbers)
    upper = (far < near) | ((far == near) & (below % 2 == 1))
    chosen = np.where(upper, numbers[1], numbers[0])
    return np.where(np.abs(chosen) == 2.0**128, np.copysign(np.inf, x), chosen).astype(np.float32)


def _number(halves: np.ndarray) -> np.ndarray:
    """What the upper halves stand for; the one behind the largest is 2^128."""
    sign = np.where(halves & 0x8000, -1.0, 1.0)
    exponent, fraction = (halves >> 7) & 0xFF, halves & 0x7F
    normal = np.ldexp(1 + fraction / 128, exponent - 127)
    return sign * np.where(exponent == 0, np.ldexp(fraction / 128, -126), normal)


@pytest.mark.parametrize("name", ("reference", *(n for n in RUN_HERE if n != "reference")))
def test_the_nearest_number_of_eight_bits_is_taken_and_of_two_the_even_one(name: str) -> None:
    backend = load_backend(name)
    assert not isinstance(backend, str)
    compiled, signature = compile_for(backend, parse(TEXT))
    x = operands()
    y = call(compiled, signature, {"x": x}, {})["y"]
    is_finite = np.isfinite(x)
    np.testing.assert_array_equal(
        y[is_finite].view(np.uint32), nearest(x[is_finite]).view(np.uint32)
    )
    np.testing.assert_array_equal(np.isnan(y), np.isnan(x))
    np.testing.assert_array_equal(y[np.isinf(x)], x[np.isinf(x)])
