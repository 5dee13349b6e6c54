"""How near the reference a backend's result must be, and the operands to try."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from graphc.ir.codegen import IndexedSum
from graphc.ir.core import OpDef
from graphc.ir.params import Params
from graphc.ir.types import Dim, DType, TensorType
from graphc.ops.contraction import MatmulParams
from graphc.ops.reduction import ReduceParams
from tests.support.ulp import ulp_distance

Array = np.ndarray
Check = Callable[[OpDef, Params, Sequence[Array], Array, Array], str]
"""(op, resolved params, operands, got, expected) -> what is wrong, '' if nothing."""

Fill = Literal["ordinary", "special"]


@dataclass(frozen=True)
class Judge:
    """A tolerance, why it is that large, and the check.

    adds   whether each element is a sum of products of the operands, so that the operation of their
           absolute values gives the size of what is added
    bound  of element-wise operations that are not exact: (exact result, *exact operands) -> the
           error allowed, in u, half the distance from 1 to the next number
    """

    name: str
    reason: str
    check: Check
    adds: bool = False
    bound: Callable[..., Array] | None = None


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

    return Judge(f"{limit:g} ulp", reason, check, bound=lambda v, *_: 2 * limit * np.abs(v))


def near(bound: Callable[..., Array], name: str, reason: str) -> Judge:
    """|error| at most `bound` u, of the exact result and the exact operands."""

    def check(op: OpDef, params: Params, operands: Sequence[Array], got: Array, _: Array) -> str:
        wide = [x.astype(np.float64 if x.dtype == np.float32 else np.longdouble) for x in operands]
        with np.errstate(all="ignore"):
            exact = _reference(op, params, wide)
            tiny = float(
                np.finfo(got.dtype).smallest_subnormal
            )  # what rounding a tiny number costs
            return _within(got, exact, bound(exact, *wide) * _unit(got) + 2 * tiny)

    return Judge(name, reason, check, bound=bound)


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

    return Judge("2 n u sum|x|", "the order of additions is the backend's", check, adds=True)


def products() -> Judge:
    """|error| at most 2 k u |a| |b| for inner products of k terms."""

    def check(_op: OpDef, params: Params, operands: Sequence[Array], got: Array, _: Array) -> str:
        assert isinstance(params, MatmulParams)
        a, b = (x.astype(np.longdouble) for x in operands)
        inner = a.shape[params.batch :]
        inner = inner[: params.contract] if params.transpose_a else inner[-params.contract :]
        tiny = float(np.finfo(got.dtype).smallest_subnormal)  # what rounding a tiny product costs
        size = _product(params, np.abs(a), np.abs(b))
        bound = 2 * math.prod(inner) * (_unit(got) * size + tiny)
        return _within(got, _product(params, a, b), bound)

    return Judge("2 k u |a||b|", "the order of additions is the backend's", check, adds=True)


def _product(params: MatmulParams, a: Array, b: Array) -> Array:
    """The product by the letters of its dims."""
    batch, contract = params.batch, params.contract
    rows, cols = a.ndim - batch - contract, b.ndim - batch - contract
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    common, inner, left, right = (
        "".join(itertools.islice(letters, n)) for n in (batch, contract, rows, cols)
    )
    of_a = common + (inner + left if params.transpose_a else left + inner)
    of_b = common + (right + inner if params.transpose_b else inner + right)
    return np.einsum(f"{of_a},{of_b}->{common}{left}{right}", a, b)


def lookups() -> Judge:
    """|error| at most 2 n u sum|x| for sums of n looked up products."""

    def check(op: OpDef, params: Params, operands: Sequence[Array], got: Array, _: Array) -> str:
        *factors, index = operands
        wide = [x.astype(np.longdouble) for x in factors]
        exact = _reference(op, params, [*wide, index])
        size = _reference(op, params, [*map(np.abs, wide), index])
        count = _reference(op, params, [*map(np.ones_like, wide), index])
        tiny = float(np.finfo(got.dtype).smallest_subnormal)
        return _within(got, exact, 2 * count * (_unit(got) * size + tiny))

    return Judge("2 n u sum|x|", "the order of additions is the backend's", check, adds=True)


def window_sums() -> Judge:
    """|error| at most 2 n u sum|x||y| for sums of n products."""

    def check(op: OpDef, params: Params, operands: Sequence[Array], got: Array, _: Array) -> str:
        wide = [x.astype(np.longdouble) for x in operands]
        exact = _reference(op, params, wide)
        size = _reference(op, params, [*map(np.abs, wide)])
        count = _reference(op, params, [*map(np.ones_like, wide)])
        tiny = float(np.finfo(got.dtype).smallest_subnormal)
        return _within(got, exact, 2 * count * (_unit(got) * size + tiny))

    return Judge("2 n u sum|x||y|", "the order of additions is the backend's", check, adds=True)


def _reference(op: OpDef, params: Params, operands: Sequence[Array]) -> Array:
    assert op.reference is not None
    result = op.reference(params, *operands)
    assert isinstance(result, np.ndarray)
    return result


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
        least = 0 if dtype.is_unsigned else -50
        values = rng.integers(least, least + 100, shape).astype(dtype.numpy)
        corners = _integer_corners(dtype)
    if fill == "ordinary":
        return values
    # A sum with many infinities is nan nearly everywhere: one corner in twenty says more.
    chosen = rng.random(shape) < (0.05 if tame else 0.6)
    return np.where(chosen, rng.choice(corners, shape), values).astype(dtype.numpy)


def make_index(rng: np.random.Generator, shape: Sequence[int], size: int, fill: Fill) -> Array:
    """Indices into an axis of `size`: repeated ones and, one in four, some outside of it.

    "special" mixes in the ends of the axis and of the integers.
    """
    values = rng.integers(0, max(size, 1), shape, np.int64)
    outside = [-1, size, size + 1, -size, -7]
    chosen = rng.random(shape) < 0.25
    values = np.where(chosen, rng.choice(outside, shape), values)
    if fill == "special":
        info = np.iinfo(np.int32)
        corners = [info.min, info.min + 1, info.max, info.max - 1, 0, size - 1]
        values = np.where(rng.random(shape) < 0.3, rng.choice(corners, shape), values)
    return values.astype(np.int32)


def index_extent(op: OpDef, params: Params, operands: Sequence[TensorType]) -> Dim | None:
    """The extent of the axis that the last operand is an index of; None for other operations."""
    if not isinstance(op.codegen, IndexedSum):
        return None
    (result,) = op.result_types(operands, params)
    assert isinstance(result, TensorType)
    texts, types = op.codegen.subscripts(params), [*operands[:-1], result]
    return next(t.dims[s.index("i")] for s, t in zip(texts, types, strict=True) if "i" in s)


def _float_corners(dtype: DType, tame: bool) -> Array:
    info = np.finfo(dtype.numpy)
    tiny, small = float(info.smallest_subnormal), float(info.tiny)
    corners = [0.0, -0.0, 1.0, -1.0, 0.5, tiny, -tiny, small, -small, np.inf, -np.inf, np.nan]
    if not tame:
        large = float(info.max)
        corners += [large, -large, 1e-3, 100.0, -100.0, 2.0**31, -(2.0**31), 2.0**63, 2147483520.0]
    with np.errstate(over="ignore"):  # in f16
        return np.array(corners).astype(dtype.numpy)


def _integer_corners(dtype: DType) -> Array:
    info = np.iinfo(dtype.numpy)
    corners = [0, 1, -1, 2, -2, 7, -7, info.min, info.max, info.min + 1, info.max - 1]
    return np.array([n for n in corners if info.min <= n <= info.max], dtype.numpy)
