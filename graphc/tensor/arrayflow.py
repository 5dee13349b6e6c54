"""ArrayFlow's names for functions of arrays, for programs that follow the paper.

Source: "Deep Learning Framework From Scratch Using Numpy", section 3. They are other names of what
`functions.py` has, but for those whose arguments differ: `add` and `concatenate` take any number of
arrays, `max` and `min` compare two, `sum` and `mean` go over everything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any

from graphc.tensor import functions


def _add(*arrays: Any) -> Any:
    """The sum of two arrays or more."""
    return reduce(functions.add, arrays)


def _concatenate(*arrays: Any) -> Any:
    """The arrays one after the other along the first axis."""
    return functions.concatenate(arrays)


def _expand(x: Any) -> Any:
    """A new last axis of size 1."""
    return functions.expand_dims(x, -1)


def _slice(x: Any, start: int, end: int) -> Any:
    """x[start:end]."""
    return x[start:end]


def _sum(x: Any) -> Any:
    """Of all elements."""
    return functions.sum(x)


def _mean(x: Any) -> Any:
    """Of all elements."""
    return functions.mean(x)


NAMES: Mapping[str, Callable[..., Any]] = {
    "matrix_multiply": functions.matmul,
    "cross_correlate": functions.cross_correlate,
    "times": functions.multiply,
    "divide": functions.divide,
    "max": functions.maximum,
    "min": functions.minimum,
    "maxpool": functions.maxpool,
    "sum": _sum,
    "add": _add,
    "subtract": functions.subtract,
    "power": functions.power,
    "exponential": functions.exp,
    "log": functions.log,
    "sqrt": functions.sqrt,
    "sin": functions.sin,
    "cos": functions.cos,
    "tanh": functions.tanh,
    "mean": _mean,
    "absolute_value": functions.absolute,
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
