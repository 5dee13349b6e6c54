"""`gc.program`: a function of arrays as a program, with its sizes, parameters and results named.

    net = gc.program(f, {"x": "Nx64"}, parameters={"w": w, "b": b})

Where `gc.function` compiles for the shapes of each call, a program is one function whose sizes may
be dims that a call decides, and has a file, an executable and a header of its own.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from graphc.driver.options import DEFAULT_BATCH
from graphc.ir.elements import as_array
from graphc.ir.types import DIM_NAME, Dim, DType, Symbol, TensorType, TypeRuleError
from graphc.model.program import Program
from graphc.support.arguments import whole
from graphc.support.diagnostics import fail
from graphc.support.source import Location
from graphc.tensor.caller import caller_location, definition_location
from graphc.tensor.function import ArrayFunction, run_traced
from graphc.tensor.program_builder import CAPTURED, ProgramBuilder, dim
from graphc.tensor.promotion import Array, element_type, named_type
from graphc.tensor.tracing import Held
from graphc.tensor.trees import flatten, leaf_names, unflatten

RESULT = "result"


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
    size, or a number in arithmetic; what is cut of such an axis, a call has to have. Results are
    called by the keys of the dicts that the function gives, `result` for a single one, `result0`, …
    for a tuple. Larger arrays that the function closes over are parameters by the names of their
    variables. Arguments that are neither need a default.

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


def read_type(name: str, given: object, bounds: Mapping[str, int]) -> TensorType:
    """The type that a text such as "Nx64", or an array like it, stands for."""
    return _InputTypes(bounds, caller_location()).read(name, given)


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
        try:
            return dim(name, whole(bound, "a bound"))
        except ValueError as problem:
            raise fail("bad-value", f"bounds {problem}", self._location) from None


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
    builder = ProgramBuilder(default_float([*inputs.values(), *_types(values)]), place)
    tensors = {
        **{name: builder.input(name, type.dims, type.dtype) for name, type in inputs.items()},
        **{name: builder.parameter(name, value) for name, value in values.items()},
    }
    given: dict[str, object] = {name: tensors[name] for name in inputs}
    for argument, tree in parameters.items():
        leaves = [tensors[name] for name in leaf_names(tree, argument)]
        given[argument] = unflatten(flatten(tree)[1], leaves)
    try:
        with builder.open():
            made = run_traced(lambda: python(**given))
        results = dict(zip(_result_names(made), flatten(made)[0], strict=True))
        if not results:
            raise fail("argument-type", "a program requires a result", place)
        return builder.finish(results, partial(_captured, _variables(python), {*tensors}))
    finally:
        builder.close()


def _types(values: Mapping[str, Array]) -> list[TensorType]:
    return [TensorType(v.shape, element_type(v.dtype)) for v in values.values()]


def default_float(types: Sequence[TensorType]) -> DType:
    """The type of plain floats: that of the first array of floats."""
    return next((t.dtype for t in types if t.dtype.is_float), DType.F32)


def _parameter(name: str, leaf: object, location: Location) -> Array:
    """A copy of a parameter's value, of an element type that there is here."""
    try:
        array = np.asarray(leaf)
        return as_array(array, element_type(array.dtype))
    except (ValueError, TypeRuleError) as problem:
        raise fail(
            "argument-type", f"parameter `{name}` requires an array: {problem}", location
        ) from None


def _result_names(made: object) -> list[str]:
    """Of a dict the keys, of a tuple `result0`, …, else `result`."""
    if isinstance(made, tuple | list) and not hasattr(made, "_fields"):
        return [n for i, part in enumerate(made) for n in leaf_names(part, f"{RESULT}{i}")]
    return leaf_names(made, "") if isinstance(made, tuple | dict) else [RESULT]


def _captured(
    variables: Mapping[str, object], declared: set[str], held: Sequence[tuple[object, Held]]
) -> list[str]:
    """The names of arrays from around the function: those of the variables that hold them."""
    names: list[str] = []
    for index, (source, _) in enumerate(held):
        named = [name for name, value in variables.items() if value is source]
        free = [name for name in named if name not in declared and name not in names]
        names.append(free[0] if free else f"{CAPTURED}{index}")
    return names


def _variables(python: Callable[..., Any]) -> dict[str, object]:
    """What the function's own code sees from outside."""
    plain = python.python if isinstance(python, ArrayFunction) else python
    try:
        found = inspect.getclosurevars(plain)
    except TypeError:  # of a callable that is no function
        return {}
    return {**found.globals, **found.nonlocals}
