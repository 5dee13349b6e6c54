"""What to write in place of numpy's functions, for the error about one on a traced value."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

INSTEAD: Mapping[str, str] = {
    "amax": "gc.max",
    "amin": "gc.min",
    "average": "gc.mean",
    "dot": "x @ y",
    "floor_divide": "gc.floor(x / y)",
    "full_like": "gc.full(x.shape, value)",
    "hstack": "gc.concatenate",
    "isnan": "x != x",
    "linalg.norm": "gc.sqrt(gc.sum(x**2))",
    "ndim": "x.ndim",
    "ones_like": "gc.ones(x.shape)",
    "outer": "x[:, None] * y",
    "ravel": "x.ravel()",
    "remainder": "x - y * gc.floor(x / y)",
    "shape": "x.shape",
    "size": "x.size",
    "swapaxes": "gc.transpose",
    "vstack": "gc.concatenate",
    "zeros_like": "gc.zeros(x.shape)",
}
"""numpy's name -> what to write, where it is not the function of the same name."""

_REDUCTIONS = {"add": "gc.sum", "maximum": "gc.max", "minimum": "gc.min"}


def numpy_name(function: object) -> str:
    """A numpy function's name as users write it behind `np.`."""
    name = str(getattr(function, "__name__", function))
    inside = str(getattr(function, "__module__", "")).partition("numpy.")[2]
    return f"{inside}.{name}" if inside in ("linalg", "fft", "random") else name


def in_place_of(name: str, method: str = "__call__") -> str:
    """What to write for numpy's `name`, or for `name.reduce` and the other methods of it."""
    # The functions stand on `Tensor`, which asks here for its errors.
    functions = import_module("graphc.tensor.functions").FUNCTIONS
    if method == "__call__":
        found = f"gc.{name}" if name in functions else INSTEAD.get(name)
    else:
        found = _REDUCTIONS.get(name) if method == "reduce" else None
    return f"use {found}" if found else "docs/tensor.md lists the functions that can"
