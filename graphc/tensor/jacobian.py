"""All first derivatives of a function of arrays, and all second ones: jacobian, hessian.

A derivative along every unit vector is computed in one call: the function of one direction becomes
one of as many as there are elements (`batching.py`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from graphc.ir.types import TensorType
from graphc.support.arguments import text
from graphc.support.diagnostics import fail
from graphc.tensor.batching import batched
from graphc.tensor.caller import caller_location
from graphc.tensor.derivatives import (
    Argnums,
    Inside,
    as_numbers,
    checked_argnums,
    not_differentiable,
    with_gradients,
    with_tangents,
)
from graphc.tensor.function import ArrayFunction, as_function
from graphc.tensor.functions import eye, reshape, transpose
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import Traced
from graphc.tensor.transforms import grad
from graphc.tensor.trees import unflatten

Mode = Literal["auto", "forward", "reverse"]


def jacobian(f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto") -> ArrayFunction:
    """The function that computes dy/dx, of shape y.shape + x.shape.

    mode  "forward": a direction for each element of x, all at once; "reverse": one for each element
          of y; "auto": whichever has fewer

    For a structure of results it gives that structure, each leaf with the structure of the
    argument; for several arguments a tuple of these.
    """
    if text(mode, "mode") not in ("auto", "forward", "reverse"):
        raise fail(
            "bad-option",
            f"mode is one of auto, forward, reverse, got {mode!r}",
            caller_location(),
        )

    def make(base: ArrayFunction) -> Callable[..., object]:
        def all_derivatives(*arguments: object) -> object:
            return _jacobian(base, arguments, argnums, mode)

        return all_derivatives

    return as_function(f).derive(("jacobian", checked_argnums(argnums), mode), make)


def hessian(f: Callable[..., Any], argnums: Argnums = 0) -> ArrayFunction:
    """The function that computes the second derivatives of `f`, whose result is one number.

    Forward over reverse: the Jacobian of the gradient, of shape x.shape + x.shape.
    """
    return jacobian(grad(f, argnums), argnums, mode="forward")


def _jacobian(
    base: ArrayFunction, arguments: Sequence[object], argnums: Argnums, mode: Mode
) -> object:
    inside = Inside.of(base, arguments)
    chosen = inside.argument_leaves(argnums)
    leaves = list(dict.fromkeys(i for part in chosen for i in part))
    results = inside.made.result_types
    for type in results:
        if not type.dtype.is_float:
            raise not_differentiable(base, f"a result is {type}")
    inputs = [x.value.tensor for i in leaves if isinstance(x := inside.leaves[i], Traced)]
    if mode == "auto":
        sizes = [sum(t.bound_elements for t in types) for types in (inputs, results)]
        mode = "forward" if sizes[0] <= sizes[1] else "reverse"
    table = (_forward_table if mode == "forward" else _reverse_table)(inside, leaves)
    per_result: list[object] = []
    for place in inside.made.places:
        trees = [
            inside.tree(number, [None if place is None else table[place, i] for i in part])
            for number, part in zip(as_numbers(argnums), chosen, strict=True)
        ]
        per_result.append(trees[0] if isinstance(argnums, int) else tuple(trees))
    return unflatten(inside.made.outputs, per_result)


def _forward_table(inside: Inside, leaves: Sequence[int]) -> dict[tuple[int, int], Any]:
    """(result, leaf) -> derivative, a push forward of the unit vectors for each leaf."""
    table: dict[tuple[int, int], Any] = {}
    count = len(inside.made.result_types)
    for leaf in leaves:
        x = inside.leaves[leaf]
        assert isinstance(x, Tensor)
        function = with_tangents(inside.made, [leaf])
        tangents = range(count, 2 * count)
        shape = _fixed(inside, x.value.tensor)
        many = batched(function, [f"tangent.x{leaf}"], math.prod(shape), tangents)
        for result, made in enumerate(inside.place(many, [_units(shape)])):
            last = transpose(made, [*range(1, made.ndim), 0])
            table[result, leaf] = reshape(last, (*made.shape[1:], *x.shape))
    return table


def _reverse_table(inside: Inside, leaves: Sequence[int]) -> dict[tuple[int, int], Any]:
    """(result, leaf) -> derivative, a pull back of the unit vectors for each result."""
    table: dict[tuple[int, int], Any] = {}
    types = inside.made.result_types
    function = with_gradients(inside.made, "weighted", leaves, seeds=True)
    gradients = range(len(types) + 1, len(types) + 1 + len(leaves))
    for result, type in enumerate(types):
        shape = _fixed(inside, type)
        many = batched(function, [f"seed{result}"], math.prod(shape), gradients)
        seeds = [
            _units(shape) if i == result else np.zeros(_fixed(inside, t), t.dtype.numpy)
            for i, t in enumerate(types)
        ]
        for leaf, made in zip(leaves, inside.place(many, seeds), strict=True):
            table[result, leaf] = reshape(made, (*shape, *made.shape[1:]))
    return table


def _fixed(inside: Inside, type: TensorType) -> tuple[int, ...]:
    """The shape that unit vectors are made of. GraphcError where each call decides it."""
    if type.symbols():
        why = f"a Jacobian is over sizes that are known before the call, got {type}"
        raise not_differentiable(inside.base, why)
    return type.shape({})


def _units(shape: tuple[int, ...]) -> np.ndarray:
    """All unit vectors of a shape, one after the other."""
    count = math.prod(shape)
    return np.reshape(eye(count), (count, *shape))
