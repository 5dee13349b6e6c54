"""How near the reference a backend's result must be, and the operands to try."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphc.ir.core import OpDef
from graphc.ir.params import Params
from graphc.ir.types import DType
from graphc.ops.contraction import MatmulParams
from graphc.ops.reduction import ReduceParams
from tests.support.ulp import ulp_distance

Array = np.ndarray
Check = Callable[[OpDef, Params, Sequence[Array], Array, Array], str]
"""(op, resolved params, operands, got, expected) -> what is wrong, '' if nothing."""

Fill = Literal["ordinary", "special"]


@dataclass(frozen=True)
class Judge:
    """A tolerance, why it is that large, and the check."""

    name: str
    reason: str
    check: Check


def _exact(_op: OpDef, _params: Params, _operands: Sequence[Array], got: Array, want: Array) -> str:
    same = (got == want) | (got != got) & (want != want)
    if got.dtype.kind == "f":
        same &= (np.signbit(got) == np.signbit(want)) | (want != want)
    return _first(got, want, same)


def _numbers(
    _op: OpDef, _params: Params, _operands: Sequence[Array], got: Array, want: Array
) -> str:
    return _first(got, want, (got == want) | (got != got) & (want != want))


def _first(got: Array, want: Array, same: Array) -> str:
    if bool(np.all(same)):
        return ""
    place = tuple(int(i) for i in np.argwhere(~np.atleast_1d(same))[0])
    g, w = np.atleast_1d(got)[place], np.atleast_1d(want)[place]
    return f"at {place} requires {w!r}, got {g!r} ({int(np.sum(~same))} of {same.size} wrong)"


EXACT = Judge("exact", "IEEE or integer arithmetic, or no arithmetic at all", _exact)
SAME_NUMBERS = Judge("exact but for the sign of 0", "max(0, -0) may be either", _numbers)


def ulps(limit: float, reason: str) -> Judge:
    """Within `limit` units in the last place of the function in the next wider type."""

    def check(op: OpDef, params: Params, operands: Sequence[Array], got: Array, _: Array) -> str:
        assert op.reference is not None
        wide = np.float64 if got.dtype == np.float32 else np.longdouble
        with np.errstate(all="ignore"):
            exact = op.reference(params, *[x.astype(wide) for x in operands])
        assert isinstance(exact, np.ndarray | np.generic)
        distance = ulp_distance(got, np.asarray(exact))
        return _first(got, np.asarray(exact).astype(got.dtype), distance <= limit)

    return Judge(f"{limit:g} ulp", reason, check)


def sums() -> Judge:
    """|error| at most 2 n u sum|x|, which any order of n additions keeps; integers exactly."""

    def check(op: OpDef, params: Params, operands: Sequence[Array], got: Array, want: Array) -> str:
        if got.dtype.kind != "f":
            return _numbers(op, params, operands, got, want)
        assert isinstance(params, ReduceParams)
        (x,) = operands
        wide = x.astype(np.longdouble)
        count = math.prod(x.shape[a] for a in params.axes)
        exact = np.sum(wide, axis=params.axes, keepdims=True)
        size = np.sum(np.abs(wide), axis=params.axes, keepdims=True)
        return _within(got, exact, 2 * count * _unit(got) * size)

    return Judge("2 n u sum|x|", "the order of additions is the backend's", check)


def products() -> Judge:
    """|error| at most 2 k u |a| |b| for inner products of k terms."""

    def check(_op: OpDef, params: Params, operands: Sequence[Array], got: Array, _: Array) -> str:
        assert isinstance(params, MatmulParams)
        a, b = (x.astype(np.longdouble) for x in operands)
        a, b = a.T if params.transpose_a else a, b.T if params.transpose_b else b
        count = a.shape[1]
        tiny = float(np.finfo(got.dtype).smallest_subnormal)  # what rounding a tiny product costs
        bound = 2 * count * (_unit(got) * (np.abs(a) @ np.abs(b)) + tiny)
        return _within(got, a @ b, bound)

    return Judge("2 k u |a||b|", "the order of additions is the backend's", check)


def _unit(x: Array) -> float:
    return float(np.finfo(x.dtype).eps) / 2


def _within(got: Array, exact: Array, bound: Array) -> str:
    with np.errstate(all="ignore"):
        near = np.abs(got - exact) <= bound
    same = (got == exact) | (got != got) & (exact != exact)
    return _first(got, exact.astype(got.dtype), near | same)


def make_operand(
    rng: np.random.Generator, shape: Sequence[int], dtype: DType, fill: Fill, *, tame: bool
) -> Array:
    """Random elements; "special" mixes in the values where arithmetic has its corners.

    tame leaves out what overflows in a sum, where the order of additions decides.
    """
    if dtype is DType.I1:
        return rng.integers(0, 2, shape).astype(np.bool_)
    if dtype.is_float:
        values = (rng.standard_normal(shape) * 3).astype(dtype.numpy)
        corners = _float_corners(dtype, tame)
    else:
        values = rng.integers(-50, 50, shape).astype(dtype.numpy)
        corners = _integer_corners(dtype)
    if fill == "ordinary":
        return values
    # A sum with many infinities is nan nearly everywhere: one corner in twenty says more.
    chosen = rng.random(shape) < (0.05 if tame else 0.6)
    return np.where(chosen, rng.choice(corners, shape), values).astype(dtype.numpy)


def _float_corners(dtype: DType, tame: bool) -> Array:
    info = np.finfo(dtype.numpy)
    tiny, small = float(info.smallest_subnormal), float(info.tiny)
    corners = [0.0, -0.0, 1.0, -1.0, 0.5, tiny, -tiny, small, -small, np.inf, -np.inf, np.nan]
    if not tame:
        large = float(info.max)
        corners += [large, -large, 1e-3, 100.0, -100.0, 2.0**31, -(2.0**31), 2.0**63, 2147483520.0]
    return np.array(corners, dtype.numpy)


def _integer_corners(dtype: DType) -> Array:
    info = np.iinfo(dtype.numpy)
    corners = [0, 1, -1, 2, -2, 7, -7, info.min, info.max, info.min + 1, info.max - 1]
    return np.array(corners, dtype.numpy)
