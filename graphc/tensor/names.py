"""The names of the functions of arrays, and what to write in place of numpy's other functions.

`graphc` exports `FUNCTIONS`; the error about a numpy function on a traced value looks here.
"""

from __future__ import annotations

from collections.abc import Mapping

_FUNCTIONS = """
    abs absolute add arange broadcast_to cast concatenate cos cross_correlate divide equal erf exp
    expand_dims expm1 eye flip floor full greater greater_equal less less_equal log log1p
    log_softmax logical_and logical_not logical_or matmul max maximum maxpool mean min minimum
    multiply negative not_equal ones pad power relu reshape sigmoid sin softmax sqrt square squeeze
    stack stop_gradient subtract sum tanh transpose where zeros
"""
FUNCTIONS = frozenset(_FUNCTIONS.split())

INSTEAD: Mapping[str, str] = {
    "amax": "gc.max",
    "amin": "gc.min",
    "average": "gc.mean",
    "clip": "gc.minimum(gc.maximum(x, low), high)",
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
    if method == "__call__":
        found = f"gc.{name}" if name in FUNCTIONS else INSTEAD.get(name)
    else:
        found = _REDUCTIONS.get(name) if method == "reduce" else None
    return f"use {found}" if found else "docs/tensor.md lists the functions that can"
