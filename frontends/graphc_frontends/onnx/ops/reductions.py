"""Operators over axes: sums, extrema, and where these are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import graphc as gc
from graphc_frontends.onnx.operators import operator
from graphc_frontends.onnx.values import (
    along,
    axis_of,
    dtype_of,
    fixed,
    is_float,
    known_ints,
    of,
    rank_of,
    shape_of,
)

Reduction = Callable[[Any, tuple[int, ...] | None, bool], Any]


def _sum(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
    made = of(x).sum(x, axis=axes, keepdims=keep)
    return made.astype(dtype_of(x)) if not is_float(x) else made


def _prod(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
    if of(x) is np:
        return np.multiply.reduce(x, axis=axes, keepdims=keep, dtype=x.dtype)
    rank = rank_of(x)
    places = tuple(range(rank)) if axes is None else tuple(sorted(axis_of(a, rank) for a in axes))
    made = x
    for place in places:
        count = fixed(shape_of(x), "a product")[place]
        at = (slice(None),) * place
        parts = [made[(*at, slice(i, i + 1))] for i in range(count)]
        one = [1 if i == place else n for i, n in enumerate(shape_of(made))]
        made = parts[0] if parts else gc.ones(one, x.dtype)
        for part in parts[1:]:
            made = made * part
    return made if keep else gc.squeeze(made, places)


def _extremum(largest: bool) -> Reduction:
    def reduce(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
        xp, dtype = of(x), dtype_of(x)
        rank = rank_of(x)
        places = [*range(rank)] if axes is None else [axis_of(a, rank) for a in axes]
        if any(shape_of(x)[a] == 0 for a in places):
            sizes = [1 if i in places else n for i, n in enumerate(shape_of(x))]
            kept = sizes if keep else [n for i, n in enumerate(sizes) if i not in places]
            return xp.full(kept, _least(dtype, largest), dtype)
        if dtype.kind == "b":
            return (xp.max if largest else xp.min)(
                x.astype(np.int32), axis=axes, keepdims=keep
            ).astype(np.bool_)
        return (xp.max if largest else xp.min)(x, axis=axes, keepdims=keep)

    return reduce


def _least(dtype: np.dtype[Any], largest: bool) -> Any:
    """What every element is at least, or at most: the extremum of nothing."""
    if dtype.kind == "f":
        return -np.inf if largest else np.inf
    if dtype.kind == "b":
        return not largest
    return np.iinfo(dtype).min if largest else np.iinfo(dtype).max


def _mean(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
    return of(x).mean(x, axis=axes, keepdims=keep)


def _l1(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
    return _sum(of(x).absolute(x), axes, keep)


def _l2(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
    return of(x).sqrt(_sum(x * x, axes, keep))


def _sum_square(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
    return _sum(x * x, axes, keep)


def _log_sum(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
    return of(x).log(_sum(x, axes, keep))


def _log_sum_exp(x: Any, axes: tuple[int, ...] | None, keep: bool) -> Any:
    xp = of(x)
    highest = _extremum(True)(x, axes, True)
    finite = xp.where(xp.absolute(highest) == np.inf, np.zeros((), dtype_of(x)), highest)
    total = xp.log(_sum(xp.exp(x - finite), axes, True)) + finite
    return total if keep else _dropped(total, axes)


def _dropped(x: Any, axes: tuple[int, ...] | None) -> Any:
    return of(x).squeeze(x, tuple(range(rank_of(x))) if axes is None else axes)


_REDUCTIONS: dict[str, Reduction] = {
    "ReduceSum": _sum,
    "ReduceMean": _mean,
    "ReduceMax": _extremum(largest=True),
    "ReduceMin": _extremum(largest=False),
    "ReduceProd": _prod,
    "ReduceL1": _l1,
    "ReduceL2": _l2,
    "ReduceSumSquare": _sum_square,
    "ReduceLogSum": _log_sum,
    "ReduceLogSumExp": _log_sum_exp,
}
_AXES_ARE_INPUTS = {"ReduceSum": 13}
"""The version from which on the axes are an input; 18 of the others."""


def _register(name: str, reduction: Reduction) -> None:
    @operator(name)
    def of_attributes(x: Any, *, axes: Sequence[int] | None = None, keepdims: int) -> object:
        return reduction(x, None if axes is None else tuple(axes), bool(keepdims))

    @operator(name, _AXES_ARE_INPUTS.get(name, 18))
    def of_inputs(x: Any, axes: Any = None, *, keepdims: int, noop_with_empty_axes: int) -> object:
        given = [] if axes is None else known_ints(axes, "the axes")
        if not given and noop_with_empty_axes:
            return reduction(x, (), True) if name not in _PLAIN else x
        return reduction(x, tuple(given) or None, bool(keepdims))


_PLAIN = ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd")

for _name, _reduction in _REDUCTIONS.items():
    _register(_name, _reduction)


def _place(name: str, largest: bool) -> None:
    @operator(name)
    def handler(x: Any, *, axis: int, keepdims: int, select_last_index: int = 0) -> object:
        """The first place of the extremum, or the last."""
        xp = of(x)
        place = axis_of(axis, rank_of(x))
        count = shape_of(x)[place]
        best = _extremum(largest)(x, (place,), True)
        none = np.int64(-1) if select_last_index else count
        places = xp.where(x == best, along(count, rank_of(x), place), none)
        return _extremum(bool(select_last_index))(places, (place,), bool(keepdims))


_place("ArgMax", largest=True)
_place("ArgMin", largest=False)


@operator("CumSum")
def cum_sum(x: Any, axis: Any, *, exclusive: int, reverse: int) -> object:
    return _cumulated(x, axis, exclusive, reverse, product=False)


@operator("CumProd")
def cum_prod(x: Any, axis: Any, *, exclusive: int, reverse: int) -> object:
    return _cumulated(x, axis, exclusive, reverse, product=True)


def _cumulated(x: Any, axis: Any, exclusive: int, reverse: int, *, product: bool) -> object:
    """By a loop over the axis."""
    (which,) = known_ints(axis, "the axis")
    place = axis_of(which, rank_of(x))
    start = gc.full([n for i, n in enumerate(shape_of(x)) if i != place], int(product), dtype_of(x))

    def step(total: Any, one: Any) -> tuple[Any, Any]:
        after = (total * one if product else total + one).astype(dtype_of(x))
        return after, total if exclusive else after

    order = [place, *(i for i in range(rank_of(x)) if i != place)]
    back = [order.index(i) for i in range(rank_of(x))]
    _, made = gc.scan(step, start, gc.transpose(x, order), reverse=bool(reverse))
    return gc.transpose(made, back)


@operator("Softmax")
def softmax_1(x: Any, *, axis: int) -> object:
    """Before version 13 over all axes from `axis` on."""
    return _over_rest(gc.softmax, x, axis)


@operator("LogSoftmax")
def log_softmax_1(x: Any, *, axis: int) -> object:
    return _over_rest(gc.log_softmax, x, axis)


def _over_rest(function: Callable[..., Any], x: Any, axis: int) -> object:
    place = axis_of(axis, rank_of(x))
    flat = gc.reshape(x, (*shape_of(x)[:place], -1))
    return gc.reshape(function(flat, axis=place), shape_of(x))


@operator("Softmax", 13)
def softmax(x: Any, *, axis: int) -> object:
    return gc.softmax(x, axis)


@operator("LogSoftmax", 13)
def log_softmax(x: Any, *, axis: int) -> object:
    return gc.log_softmax(x, axis)


@operator("Hardmax")
def hardmax(x: Any, *, axis: int) -> object:
    place = axis_of(axis, rank_of(x))
    numbers = along(shape_of(x)[place], rank_of(x), place)
    best = _extremum(True)(x, (place,), True)
    first = gc.min(gc.where(x == best, numbers, shape_of(x)[place]), place, keepdims=True)
    return gc.cast(numbers == first, dtype_of(x))
