"""`gc.program`: a function of arrays as a program, with its sizes, parameters and results named.

    net = gc.program(f, {"x": "Nx64"}, parameters={"w": w, "b": b})

Where `gc.function` compiles for the shapes of each call, a program is one function whose sizes may
be dims that a call decides, and has a file, an executable and a header of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from graphc.driver.options import DEFAULT_BATCH, MOST_SAMPLES
from graphc.ir.core import Function, Module, ResultInfo
from graphc.ir.declared_dims import dims_of, require_names
from graphc.ir.types import DIM_NAME, Dim, DType, Symbol, TensorType, TypeRuleError
from graphc.ir.verifier import verify_module
from graphc.model.program import Program
from graphc.support.arguments import whole
from graphc.support.diagnostics import DiagnosticSink, fail
from graphc.support.source import Location
from graphc.tensor.caller import caller_location, definition_location
from graphc.tensor.function import FUNCTION, ArrayFunction, lifted_result, run_traced
from graphc.tensor.promotion import Array, element_type, named_type
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import PROGRAM, Trace, Traced
from graphc.tensor.trees import flatten, leaf_names, unflatten

RESULT = "result"
CAPTURED = "captured"


def program(
    python: Callable[..., Any] | None = None,
    inputs: Mapping[str, object] | None = None,
    *,
    parameters: Mapping[str, object] | None = None,
    bounds: Mapping[str, int] | None = None,
) -> Any:
    """A program out of a Python function of arrays; a decorator where `python` is left out.

    inputs      the type of each argument that a call gives: a text such as "Nx64" (f32), "Nx5xi32"
                or "f64" (one number), of sizes and names of dims in capital letters; or an array
                of the same shape and type
    parameters  the values of the others, arrays or tuples, lists and dicts of arrays; a parameter
                inside of these is called by its place, as `layers.0.w`. They are copied
    bounds      the largest size that a dim has without compiling again, 256 by default

    The function is traced once. `x.shape[0]` of an axis that is a dim is that dim, which can be a
    size, or a number in arithmetic; what is cut of such an axis, a call has to have. Results are called by the keys of the dicts that the function
    gives, `result` for a single one, `result0`, … for a tuple. Larger arrays that the function
    closes over are parameters by the names of their variables. Arguments that are neither need a
    default.

    Gives a `Program`: `gc.compile(program)(x=…)`, `program.save(path)`, `program.parameters`.
    Raises GraphcError at the user's line for what cannot be traced.
    """
    if python is None:
        return lambda f: program(f, inputs, parameters=parameters, bounds=bounds)
    location = caller_location()
    if not callable(python):
        got = type(python).__name__
        raise fail("argument-type", f"program requires a function, got {got}", location)
    types = _InputTypes(dict(bounds or {}), location)
    asked = {name: types.read(name, given) for name, given in (inputs or {}).items()}
    given = dict(parameters or {})
    _check_names(python, [*asked], [*given], location)
    return _traced(python, asked, given, location)


# --- what is asked for ---------------------------------------------------------------------------


class _InputTypes:
    """Reads the types of inputs; the same name is the same dim in all of them."""

    def __init__(self, bounds: Mapping[str, int], location: Location) -> None:
        self._location = location
        self._dims = {name: self._dim(name, bound) for name, bound in bounds.items()}

    def read(self, name: str, given: object) -> TensorType:
        """The type of an input, of a text or of an array like it."""
        try:
            if isinstance(given, str):
                return self._of_text(name, given)
            if isinstance(given, np.ndarray):
                return TensorType(given.shape, element_type(given.dtype))
        except TypeRuleError as problem:
            raise fail(problem.slug, f"input `{name}` {problem.message}", self._location) from None
        message = f'input `{name}` requires a type such as "Nx64xf32", or an array of that type'
        raise fail("argument-type", f"{message}, got {type(given).__name__}", self._location)

    def _of_text(self, name: str, text: str) -> TensorType:
        *sizes, last = text.split("x")
        if DIM_NAME.fullmatch(last) or last.isdecimal():
            sizes, last = [*sizes, last], DType.F32.value
        wrong = [s for s in sizes if not (s.isdecimal() or DIM_NAME.fullmatch(s))]
        if wrong:
            message = (
                f"input `{name}` requires sizes, names of dims in capital letters and an element "
                f'type with `x` between, as "Nx64xf32", got "{text}"'
            )
            raise fail("bad-value", message, self._location)
        return TensorType(tuple(map(self._size, sizes)), named_type(last))

    def _size(self, text: str) -> Dim:
        if text.isdecimal():
            return int(text)
        return self._dims.setdefault(text, self._dim(text, DEFAULT_BATCH))

    def _dim(self, name: str, bound: int) -> Symbol:
        if DIM_NAME.fullmatch(name) and 1 <= whole(bound, "a bound") <= MOST_SAMPLES:
            return Symbol(name, bound)
        message = (
            "bounds requires names of dims in capital letters, each with a whole number "
            f"from 1 to {MOST_SAMPLES}, got {name!r}: {bound!r}"
        )
        raise fail("bad-value", message, self._location)


def _check_names(
    python: Callable[..., Any], inputs: list[str], parameters: list[str], location: Location
) -> None:
    """GraphcError unless the function can be called with these arguments, each given once."""
    for name in parameters:
        if name in inputs:
            raise fail("bad-option", f"`{name}` is an input and a parameter", location)
    try:
        signature = inspect.signature(python)
    except ValueError:  # of a function that is not Python
        return
    try:
        signature.bind(**dict.fromkeys([*inputs, *parameters]))
    except TypeError as problem:
        known = ", ".join(signature.parameters)
        message = f"inputs and parameters do not fit the arguments ({known}): {problem}"
        raise fail("argument-type", message, location) from None


# --- tracing -------------------------------------------------------------------------------------


def _traced(
    python: Callable[..., Any],
    inputs: Mapping[str, TensorType],
    parameters: Mapping[str, object],
    location: Location,
) -> Program:
    place = python.location if isinstance(python, ArrayFunction) else definition_location(python)
    values = {
        name: _parameter(name, leaf, location)
        for argument, tree in parameters.items()
        for name, leaf in zip(leaf_names(tree, argument), flatten(tree)[0], strict=True)
    }
    of_values = {n: TensorType(v.shape, element_type(v.dtype)) for n, v in values.items()}
    trace = Trace(FUNCTION, default_float([*inputs.values(), *of_values.values()]), None, place)
    tensors = {
        **{name: Tensor(trace, trace.argument(name, type)) for name, type in inputs.items()},
        **{n: Tensor(trace, trace.argument(n, t, "parameter")) for n, t in of_values.items()},
    }
    given: dict[str, object] = {name: tensors[name] for name in inputs}
    for argument, tree in parameters.items():
        leaves = [tensors[name] for name in leaf_names(tree, argument)]
        given[argument] = unflatten(flatten(tree)[1], leaves)
    token = PROGRAM.set(trace)
    try:
        made = run_traced(lambda: python(**given))
        results = [lifted_result(leaf, trace, place) for leaf in flatten(made)[0]]
    finally:
        PROGRAM.reset(token)
        trace.is_open = False
    if not results:
        raise fail("argument-type", "a program requires a result", place)
    function = trace.finish(results)
    function.results = [ResultInfo(name) for name in _result_names(made)]
    values |= _captured(python, trace)
    module = Module([function], _dims(function, location))
    sink = DiagnosticSink()
    verify_module(module, sink)
    sink.raise_if_errors()
    return Program(module, values)


def default_float(types: Sequence[TensorType]) -> DType:
    """The type of plain floats: that of the first array of floats."""
    return next((t.dtype for t in types if t.dtype.is_float), DType.F32)


def _parameter(name: str, leaf: object, location: Location) -> Array:
    """A copy of a parameter's value, of an element type that there is here."""
    try:
        array = np.asarray(leaf)
        return np.array(array, element_type(array.dtype).numpy, order="C")
    except (ValueError, TypeRuleError) as problem:
        raise fail(
            "argument-type", f"parameter `{name}` requires an array: {problem}", location
        ) from None


def _result_names(made: object) -> list[str]:
    """Of a dict the keys, of a tuple `result0`, …, else `result`."""
    if isinstance(made, tuple | list) and not hasattr(made, "_fields"):
        return [n for i, part in enumerate(made) for n in leaf_names(part, f"{RESULT}{i}")]
    return leaf_names(made, "") if isinstance(made, tuple | dict) else [RESULT]


def _captured(python: Callable[..., Any], trace: Trace) -> dict[str, Array]:
    """The values of arrays from around the function, which are its last arguments: they are called
    as the variables that hold them."""
    variables = _variables(python)
    values: dict[str, Array] = {}
    arguments = trace.function.arguments
    last = arguments[len(arguments) - len(trace.held) :]
    taken = {a.name for a in arguments}
    for index, (argument, array, source) in enumerate(
        zip(last, trace.held, trace.sources, strict=True)
    ):
        if isinstance(array, Traced):
            message = "a program cannot be made of values of a function that is being traced"
            raise fail("input", message, trace.location)
        named = [name for name, value in variables.items() if value is source]
        free = [name for name in named if name not in taken]
        argument.name = free[0] if free else f"{CAPTURED}{index}"
        taken.add(argument.name)
        values[argument.name] = array
    return values


def _variables(python: Callable[..., Any]) -> dict[str, object]:
    """What the function's own code sees from outside."""
    plain = python.python if isinstance(python, ArrayFunction) else python
    try:
        found = inspect.getclosurevars(plain)
    except TypeError:  # of a callable that is no function
        return {}
    return {**found.globals, **found.nonlocals}


def _dims(function: Function, location: Location) -> list[Symbol]:
    """All dims of the function's values, those that a call decides first."""
    dims = dims_of(function)
    require_names(dims, location)
    return sorted(dims, key=lambda dim: dim.is_made)
