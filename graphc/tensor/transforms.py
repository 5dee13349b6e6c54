"""Derivatives of functions of arrays by one pass over them: grad, value_and_grad, vjp, jvp.

Each makes a function of arrays that puts the derivative of the given one into its own trace. So
what they make can be called, compiled, closed over traced values and differentiated again, like
the functions that users write. `jacobian.py` has what needs many directions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from graphc.support.diagnostics import fail
from graphc.tensor.caller import caller_location
from graphc.tensor.derivatives import (
    Argnums,
    Inside,
    as_numbers,
    checked_argnums,
    is_float,
    not_differentiable,
    with_gradients,
    with_tangents,
)
from graphc.tensor.function import ArrayFunction, as_function
from graphc.tensor.shapes import Shape
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import Traced
from graphc.tensor.trees import flatten, unflatten

# --- grad, value_and_grad ------------------------------------------------------------------------


def grad(f: Callable[..., Any], argnums: Argnums = 0) -> ArrayFunction:
    """The function that computes the gradient of `f`, whose result is one number.

    argnums  the arguments to differentiate with respect to: one number, or several for a tuple

    The gradient has the structure of the argument. GraphcError where `f` gives more than one
    number or an argument is not of floats.
    """
    return _gradient_function(f, argnums, "grad")


def value_and_grad(f: Callable[..., Any], argnums: Argnums = 0) -> ArrayFunction:
    """The function that computes `f` and its gradient together: (value, gradient)."""
    return _gradient_function(f, argnums, "value_and_grad")


def _gradient_function(f: Callable[..., Any], argnums: Argnums, kind: str) -> ArrayFunction:
    def make(base: ArrayFunction) -> Callable[..., object]:
        def gradient(*arguments: object) -> object:
            value, found = _value_and_gradient(base, arguments, argnums)
            return found if kind == "grad" else (value, found)

        return gradient

    return as_function(f).derive((kind, checked_argnums(argnums)), make)


def _value_and_gradient(
    base: ArrayFunction, arguments: Sequence[object], argnums: Argnums
) -> tuple[object, object]:
    inside = Inside.of(base, arguments)
    chosen = inside.argument_leaves(argnums)
    results = inside.made.result_types
    if len(results) != 1 or results[0].dims != () or not results[0].dtype.is_float:
        listed = ", ".join(map(str, results))
        raise not_differentiable(
            base,
            f"a gradient is of one floating-point number, the result is {listed}; "
            "sum it up (gc.sum), or use gc.jacobian or gc.vjp",
        )
    leaves = [i for leaves in chosen for i in leaves]
    if not leaves:
        raise not_differentiable(base, "the chosen argument holds no array")
    unique = list(dict.fromkeys(leaves))
    made = inside.place(with_gradients(inside.made, "result0", unique, seeds=False))
    found = dict(zip(unique, made[1:], strict=True))
    trees = [
        inside.tree(number, [found[i] for i in leaves])
        for number, leaves in zip(as_numbers(argnums), chosen, strict=True)
    ]
    return inside.outputs(made), trees[0] if isinstance(argnums, int) else tuple(trees)


# --- vjp, jvp ------------------------------------------------------------------------------------


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """`f` at `primals`, and the function that takes cotangents of the result back to them.

    (y, pullback): pullback(u) has one entry for each of `primals`, uᵀ J by its structure, with
    None where a leaf is not of floats. u has the structure and shapes of y, with None for zeros.
    """
    base = as_function(f)
    derived = base.derive("vjp", _pullback)
    given = base.settled(primals)
    out = base(*given)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        return derived(given, _like(out, cotangent, "a cotangent"))

    return out, pullback


def _pullback(base: ArrayFunction) -> Callable[..., object]:
    def pull(primals: tuple[object, ...], cotangents: object) -> object:
        inside = Inside.of(base, primals)
        seeds = _seeds(inside, flatten(cotangents)[0])
        leaves = [i for i, x in enumerate(inside.leaves) if is_float(x)]
        if not leaves or not seeds:
            raise not_differentiable(base, "it takes or gives no floating-point numbers")
        function = with_gradients(inside.made, "weighted", leaves, seeds=True)
        made = inside.place(function, seeds)[-len(leaves) :]
        found: dict[int, object] = dict(zip(leaves, made, strict=True))
        return unflatten(inside.structure, [found.get(i) for i in range(len(inside.leaves))])

    return pull


def _seeds(inside: Inside, cotangents: Sequence[object]) -> list[object]:
    """The cotangent of every result of floats, zeros for None."""
    types = inside.made.result_types
    results = [None if p is None else types[p] for p in inside.made.places]
    return [
        c if is_float(c) else inside.zeros(type)
        for type, c in zip(results, cotangents, strict=True)
        if type is not None and type.dtype.is_float
    ]


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """`f` at `primals` and its derivative along `tangents`: (y, J v).

    `tangents` has the structure and shapes of `primals`, with None for what does not move. Results
    that are not of floats have the tangent None.
    """
    if not isinstance(primals, tuple | list) or not isinstance(tangents, tuple | list):
        raise fail(
            "argument-type",
            "jvp requires a tuple of arguments and a tuple of tangents: gc.jvp(f, (x,), (v,))",
            caller_location(),
        )
    base = as_function(f)
    derived = base.derive("jvp", _push_forward)
    given = base.settled(primals)
    return derived(given, _like(given, tuple(tangents), "a tangent"))


def _push_forward(base: ArrayFunction) -> Callable[..., object]:
    def push(primals: tuple[object, ...], tangents: object) -> object:
        inside = Inside.of(base, primals)
        directions = flatten(tangents)[0]
        leaves = [
            i
            for i, (x, d) in enumerate(zip(inside.leaves, directions, strict=True))
            if is_float(x) and is_float(d)
        ]
        made = inside.place(with_tangents(inside.made, leaves), [directions[i] for i in leaves])
        floats = [i for i, t in enumerate(inside.made.result_types) if t.dtype.is_float]
        found = dict(zip(floats, made[len(inside.made.result_types) :], strict=True))
        places = [None if p is None else found.get(p) for p in inside.made.places]
        return inside.outputs(made), unflatten(inside.made.outputs, places)

    return push


def _like(primal: object, given: object, what: str) -> object:
    """`given` with its numbers as arrays; its structure and shapes have to be those of `primal`."""
    wanted, structure = flatten(primal)
    leaves, found = flatten(given)
    if found != structure:
        raise fail(
            "argument-type",
            f"{what} requires the structure of what it belongs to: the same containers, with the "
            "same keys in the same order",
            caller_location(),
        )
    return unflatten(
        structure, [_one_like(w, g, what) for w, g in zip(wanted, leaves, strict=True)]
    )


def _one_like(wanted: object, given: object, what: str) -> object:
    if given is None or not isinstance(wanted, Traced | np.ndarray | float | np.floating):
        return None
    dtype, shape = _element_and_shape(wanted)
    if dtype.kind != "f":
        return None
    found_dtype, found_shape = _element_and_shape(given)
    if found_dtype.kind not in "fiub":
        raise fail(
            "argument-type", f"{what} requires numbers, got {found_dtype}", caller_location()
        )
    if found_shape != shape:
        raise fail(
            "shape-mismatch",
            f"{what} requires shape {shape}, got {found_shape}",
            caller_location(),
        )
    return given if isinstance(given, Traced) else np.asarray(given, dtype)


def _element_and_shape(given: object) -> tuple[np.dtype, Shape]:
    if isinstance(given, Tensor):
        return given.dtype, given.shape
    array = np.asarray(given)
    return array.dtype, array.shape
