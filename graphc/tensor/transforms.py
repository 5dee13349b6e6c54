"""Derivatives of functions of arrays: grad, value_and_grad, vjp, jvp, jacobian, hessian.

Each makes a function of arrays that traces the given one, differentiates its IR by the passes, and
puts the result into its own trace. So what they make can be called, compiled, closed over traced
values and differentiated again, like the functions that users write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from graphc.ir.clone import clone_function
from graphc.ir.core import Function, IRBuilder, ResultInfo, Value
from graphc.ir.types import DType, TensorType
from graphc.ops.elementwise import add, mul
from graphc.ops.reduction import reduce_sum
from graphc.passes.synthesize_gradient import synthesize_gradient
from graphc.passes.synthesize_tangent import synthesize_tangent
from graphc.support.diagnostics import DiagnosticSink, fail
from graphc.tensor.batching import batched
from graphc.tensor.caller import caller_location
from graphc.tensor.function import ArrayFunction, TracedFunction, as_function
from graphc.tensor.functions import eye, reshape, transpose
from graphc.tensor.numeric import convert
from graphc.tensor.numeric import reshape as reshape_value
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import Trace, Traced, innermost
from graphc.tensor.trees import Node, Structure, flatten, leaf_count, unflatten

Mode = Literal["auto", "forward", "reverse"]
Argnums = int | Sequence[int]


@dataclass(frozen=True, eq=False)
class Inside:
    """A function traced for the arguments of the trace that is going on.

    tensors  its arguments that are arrays, by leaf
    """

    base: ArrayFunction
    trace: Trace
    made: TracedFunction
    leaves: Sequence[object]
    structure: Structure

    @staticmethod
    def of(base: ArrayFunction, arguments: Sequence[object]) -> Inside:
        leaves, structure = flatten(tuple(arguments))
        trace = innermost(leaves)
        if trace is None:
            raise _not_differentiable(
                base, "it has no argument that is an array or a float (2.0 in place of 2)"
            )
        made = base.traced(base.describe(leaves, structure, trace.default))
        return Inside(base, trace, made, leaves, structure)

    def place(self, function: Function, more: Sequence[object] = ()) -> list[Tensor]:
        """The results of a function made of `made`, whose further arguments are `more`."""
        given = [x for x in self.leaves if isinstance(x, Traced)]
        operands: list[Any] = [*given, *self.made.held, *more]
        return [Tensor(self.trace, v) for v in self.trace.inline(function, operands)]

    def outputs(self, results: Sequence[Tensor]) -> object:
        """The results as the function itself gives them."""
        places = self.made.places
        return unflatten(self.made.outputs, [None if p is None else results[p] for p in places])

    @property
    def children(self) -> tuple[Structure, ...]:
        """The structure of each argument."""
        assert isinstance(self.structure, Node)
        return self.structure.children

    def argument_leaves(self, argnums: Argnums) -> list[range]:
        """The leaves of each chosen argument, all of them floating-point arrays or floats."""
        counts = [leaf_count(child) for child in self.children]
        found: list[range] = []
        for number in _numbers(argnums):
            if not -len(counts) <= number < len(counts):
                raise fail(
                    "bad-value",
                    f"argnums requires numbers of the {len(counts)} arguments, got {number!r}",
                    self.base.location,
                )
            start = sum(counts[: number % len(counts)])
            found.append(range(start, start + counts[number % len(counts)]))
        for leaf in (i for chosen in found for i in chosen):
            if not is_float(self.leaves[leaf]):
                raise _not_differentiable(
                    self.base,
                    f"argument {self._argument_of(leaf)} is {_described(self.leaves[leaf])}; "
                    "a derivative is with respect to floats and arrays of floats "
                    "(2.0 in place of 2)",
                )
        return found

    def _argument_of(self, leaf: int) -> int:
        ends = 0
        for index, child in enumerate(self.children):
            ends += leaf_count(child)
            if leaf < ends:
                return index
        raise AssertionError(leaf)

    def tree(self, number: int, leaves: Sequence[object]) -> object:
        """Leaves in the structure of an argument."""
        return unflatten(self.children[number], leaves)


def is_float(leaf: object) -> bool:
    return isinstance(leaf, Traced) and _type(leaf.value).dtype.is_float


def _type(value: Value) -> TensorType:
    assert isinstance(value.type, TensorType)
    return value.type


def _numbers(argnums: Argnums) -> list[int]:
    return [argnums] if isinstance(argnums, int) else list(argnums)


def _described(leaf: object) -> str:
    if isinstance(leaf, Traced):
        return f"an array of {_type(leaf.value).dtype}"
    return f"{leaf!r} ({type(leaf).__name__})"


def _not_differentiable(base: ArrayFunction, why: str) -> Exception:
    name = getattr(base.python, "__name__", "the function")
    return fail("not-differentiable", f"`{name}` has no derivative: {why}", base.location)


# --- functions of the IR with derivatives --------------------------------------------------------


def _with_gradients(made: TracedFunction, of: str, leaves: Sequence[int], seeds: bool) -> Function:
    """A copy whose last results are the gradients with respect to these leaves.

    seeds  the derivative is of Σ seed · result over all floating-point results, and the seeds are
           further arguments; else of the result `of`
    """
    function = clone_function(made.function)
    if seeds:
        _append_weighted_sum(function, of)
    sink = DiagnosticSink()
    synthesize_gradient(function, of, [f"x{i}" for i in leaves], sink)
    sink.raise_if_errors()
    return function


def _append_weighted_sum(function: Function, name: str) -> None:
    """The result `name`: Σ seed · result, with a new argument for the seed of each result."""
    terminator = function.block.terminator
    assert terminator is not None
    b = IRBuilder.before(terminator)
    total: Value | None = None
    for index, value in enumerate(function.returned):
        type = _type(value)
        if not type.dtype.is_float:
            continue
        seed = function.add_argument(f"seed{index}", type, "input")
        term = reduce_sum(b, mul(b, seed, value), range(type.rank))
        term = convert(b, reshape_value(b, term, ()), DType.F64)
        total = term if total is None else add(b, total, term)
    if total is not None:
        terminator.set_operands([*terminator.operands, total])
        function.results.append(ResultInfo(name))


def _with_tangents(made: TracedFunction, leaves: Sequence[int]) -> Function:
    """A copy with further arguments, the tangents of these leaves, and as results of all floats."""
    function = clone_function(made.function)
    sink = DiagnosticSink()
    synthesize_tangent(function, [f"x{i}" for i in leaves], (), sink)
    sink.raise_if_errors()
    return function


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

    return as_function(f).derive((kind, tuple(_numbers(argnums)), _is_one(argnums)), make)


def _is_one(argnums: Argnums) -> bool:
    return isinstance(argnums, int)


def _value_and_gradient(
    base: ArrayFunction, arguments: Sequence[object], argnums: Argnums
) -> tuple[object, object]:
    inside = Inside.of(base, arguments)
    chosen = inside.argument_leaves(argnums)
    results = inside.made.result_types
    if len(results) != 1 or results[0].dims != () or not results[0].dtype.is_float:
        listed = ", ".join(map(str, results))
        raise _not_differentiable(
            base,
            f"a gradient is of one floating-point number, the result is {listed}; "
            "sum it up (gc.sum), or use gc.jacobian or gc.vjp",
        )
    leaves = [i for leaves in chosen for i in leaves]
    if not leaves:
        raise _not_differentiable(base, "the chosen argument holds no array")
    unique = list(dict.fromkeys(leaves))
    made = inside.place(_with_gradients(inside.made, "result0", unique, seeds=False))
    found = dict(zip(unique, made[1:], strict=True))
    trees = [
        inside.tree(number, [found[i] for i in leaves])
        for number, leaves in zip(_numbers(argnums), chosen, strict=True)
    ]
    return inside.outputs(made), trees[0] if _is_one(argnums) else tuple(trees)


# --- vjp, jvp ------------------------------------------------------------------------------------


def vjp(f: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[[Any], tuple[Any, ...]]]:
    """`f` at `primals`, and the function that takes cotangents of the result back to them.

    (y, pullback): pullback(u) has one entry for each of `primals`, uᵀ J by its structure, with
    None where a leaf is not of floats. u has the structure and shapes of y.
    """
    base = as_function(f)
    derived = base.derive("vjp", _pullback)
    out = base(*primals)

    def pullback(cotangent: Any) -> tuple[Any, ...]:
        return derived(primals, _like(out, cotangent, "a cotangent"))

    return out, pullback


def _pullback(base: ArrayFunction) -> Callable[..., object]:
    def pull(primals: tuple[object, ...], cotangents: object) -> object:
        inside = Inside.of(base, primals)
        seeds = [c for c in flatten(cotangents)[0] if is_float(c)]
        leaves = [i for i, x in enumerate(inside.leaves) if is_float(x)]
        if not leaves or not seeds:
            raise _not_differentiable(base, "it takes or gives no floating-point numbers")
        function = _with_gradients(inside.made, "weighted", leaves, seeds=True)
        made = inside.place(function, seeds)[-len(leaves) :]
        found: dict[int, object] = dict(zip(leaves, made, strict=True))
        return unflatten(inside.structure, [found.get(i) for i in range(len(inside.leaves))])

    return pull


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
    derived = as_function(f).derive("jvp", _push_forward)
    given = tuple(primals)
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
        made = inside.place(_with_tangents(inside.made, leaves), [directions[i] for i in leaves])
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
            f"{what} requires the structure of what it belongs to",
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
    if _element_and_shape(given)[1] != shape:
        raise fail(
            "shape-mismatch",
            f"{what} requires shape {shape}, got {_element_and_shape(given)[1]}",
            caller_location(),
        )
    return given if isinstance(given, Traced) else np.asarray(given, dtype)


def _element_and_shape(given: object) -> tuple[np.dtype, tuple[int, ...]]:
    if isinstance(given, Tensor):
        return given.dtype, given.shape
    array = np.asarray(given)
    return array.dtype, array.shape


# --- jacobian, hessian ---------------------------------------------------------------------------


def jacobian(f: Callable[..., Any], argnums: Argnums = 0, mode: Mode = "auto") -> ArrayFunction:
    """The function that computes dy/dx, of shape y.shape + x.shape.

    mode  "forward": a direction for each element of x, all at once; "reverse": one for each element
          of y; "auto": whichever has fewer

    For a structure of results it gives that structure, each leaf with the structure of the
    argument; for several arguments a tuple of these.
    """
    if mode not in ("auto", "forward", "reverse"):
        raise fail(
            "bad-option",
            f"mode is one of auto, forward, reverse, got {mode!r}",
            caller_location(),
        )

    def make(base: ArrayFunction) -> Callable[..., object]:
        def all_derivatives(*arguments: object) -> object:
            return _jacobian(base, arguments, argnums, mode)

        return all_derivatives

    key = ("jacobian", tuple(_numbers(argnums)), _is_one(argnums), mode)
    return as_function(f).derive(key, make)


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
            raise _not_differentiable(base, f"a result is {type}")
    inputs = [_type(x.value) for i in leaves if isinstance(x := inside.leaves[i], Traced)]
    if mode == "auto":
        sizes = [sum(t.bound_elements for t in types) for types in (inputs, results)]
        mode = "forward" if sizes[0] <= sizes[1] else "reverse"
    table = (_forward_table if mode == "forward" else _reverse_table)(inside, leaves)
    per_result: list[object] = []
    for place in inside.made.places:
        trees = [
            inside.tree(number, [None if place is None else table[place, i] for i in part])
            for number, part in zip(_numbers(argnums), chosen, strict=True)
        ]
        per_result.append(trees[0] if _is_one(argnums) else tuple(trees))
    return unflatten(inside.made.outputs, per_result)


def _forward_table(inside: Inside, leaves: Sequence[int]) -> dict[tuple[int, int], Any]:
    """(result, leaf) -> derivative, a push forward of the unit vectors for each leaf."""
    table: dict[tuple[int, int], Any] = {}
    count = len(inside.made.result_types)
    for leaf in leaves:
        x = inside.leaves[leaf]
        assert isinstance(x, Tensor)
        function = _with_tangents(inside.made, [leaf])
        tangents = range(count, 2 * count)
        many = batched(function, [f"tangent.x{leaf}"], x.size, tangents)
        for result, made in enumerate(inside.place(many, [_units(x.shape)])):
            last = transpose(made, [*range(1, made.ndim), 0])
            table[result, leaf] = reshape(last, (*made.shape[1:], *x.shape))
    return table


def _reverse_table(inside: Inside, leaves: Sequence[int]) -> dict[tuple[int, int], Any]:
    """(result, leaf) -> derivative, a pull back of the unit vectors for each result."""
    table: dict[tuple[int, int], Any] = {}
    types = inside.made.result_types
    function = _with_gradients(inside.made, "weighted", leaves, seeds=True)
    gradients = range(len(types) + 1, len(types) + 1 + len(leaves))
    for result, type in enumerate(types):
        size = type.bound_elements
        many = batched(function, [f"seed{result}"], size, gradients)
        seeds = [
            _units(type.shape({})) if i == result else np.zeros(t.shape({}), t.dtype.numpy)
            for i, t in enumerate(types)
        ]
        for leaf, made in zip(leaves, inside.place(many, seeds), strict=True):
            table[result, leaf] = reshape(made, (*type.shape({}), *made.shape[1:]))
    return table


def _units(shape: tuple[int, ...]) -> np.ndarray:
    """All unit vectors of a shape, one after the other."""
    count = math.prod(shape)
    return np.reshape(eye(count), (count, *shape))
