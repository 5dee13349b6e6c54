"""ArrayFlow's names for functions of arrays, for programs that follow the paper.

Source: "Deep Learning Framework From Scratch Using Numpy", section 3. They are other names of what
`functions.py` has, but for those whose arguments differ: `add` and `concatenate` take any number of
arrays, `max` and `min` compare two, `sum` and `mean` go over everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from graphc.tensor.functions import FUNCTIONS


def _add(*arrays: Any) -> Any:
    """The sum of two arrays or more."""
    return reduce(FUNCTIONS["add"], arrays)


def _concatenate(*arrays: Any) -> Any:
    """The arrays one after the other along the first axis."""
    return FUNCTIONS["concatenate"](arrays)


def _expand(x: Any) -> Any:
    """A new last axis of size 1."""
    return FUNCTIONS["expand_dims"](x, -1)


def _slice(x: Any, start: int, end: int) -> Any:
    """x[start:end]."""
    return x[start:end]


def _sum(x: Any) -> Any:
    """Of all elements."""
    return FUNCTIONS["sum"](x)


def _mean(x: Any) -> Any:
    """Of all elements."""
    return FUNCTIONS["mean"](x)


NAMES: Mapping[str, Callable[..., Any]] = {
    "matrix_multiply": FUNCTIONS["matmul"],
    "cross_correlate": FUNCTIONS["cross_correlate"],
    "times": FUNCTIONS["multiply"],
    "divide": FUNCTIONS["divide"],
    "max": FUNCTIONS["maximum"],
    "min": FUNCTIONS["minimum"],
    "maxpool": FUNCTIONS["maxpool"],
    "sum": _sum,
    "add": _add,
    "subtract": FUNCTIONS["subtract"],
    "power": FUNCTIONS["power"],
    "exponential": FUNCTIONS["exp"],
    "log": FUNCTIONS["log"],
    "sqrt": FUNCTIONS["sqrt"],
    "sin": FUNCTIONS["sin"],
    "cos": FUNCTIONS["cos"],
    "tanh": FUNCTIONS["tanh"],
    "mean": _mean,
    "absolute_value": FUNCTIONS["absolute"],
    "concatenate": _concatenate,
    "expand": _expand,
    "slice": _slice,
}
"""ArrayFlow's name -> function; also attributes of this module."""


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in NAMES:
        raise AttributeError(f"ArrayFlow has no function {name!r}")
    return NAMES[name]


def __dir__() -> list[str]:
    return sorted(NAMES)
