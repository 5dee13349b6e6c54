"""What one cell says as a number, read by Python: for the cells that quicker readers leave over."""

from __future__ import annotations

import numpy as np

LONGEST_NUMBER = 1100  # the exact decimal expansion of any float64 is shorter

# A value of this size or more becomes infinity when it is rounded to the type.
OVERFLOW = {
    np.dtype(np.float32): 2.0**128 - 2.0**103,
    np.dtype(np.float64): float("inf"),
}


def read_number(text: bytes, overflow: float) -> tuple[float, str]:
    """The value of one cell and what is wrong with it, "" if nothing."""
    if len(text) > LONGEST_NUMBER:
        return 0.0, f"a number of at most {LONGEST_NUMBER} characters is required"
    try:
        # `float` also takes underscores between digits.
        value = float("_" if b"_" in text else text)
    except ValueError:
        if b"," in text:
            return 0.0, "a number with a decimal point, not a comma, is required"
        return 0.0, "a number is required"
    if abs(value) >= overflow and b"n" not in text.lower():
        return 0.0, "a number within the range of the element type is required"
    return value, ""
