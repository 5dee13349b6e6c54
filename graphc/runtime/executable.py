"""`Executable`: a compiled function with its signature and parameters, callable with named arrays.

It checks inputs, converts what may be converted, and knows nothing of how the function was made.
Nothing here imports the compiler, so it also serves functions loaded from artifacts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.runtime.signature import (
    NUMPY_DTYPES,
    Argument,
    Result,
    Shape,
    Signature,
    concrete_shape,
)
from graphc.runtime.sparse import SparseRows, sparse_rows
from graphc.support.diagnostics import GraphcError, fail, suggestion

Array = np.ndarray
Compiled = Callable[[Sequence[Array], Sequence[Array], Mapping[str, int]], None]
"""(arguments, fresh results, sizes of the dims): runs the function once."""
Settings = Mapping[str, float] | Callable[[int], Mapping[str, float]]
"""Numbers of a call by name, or what they are for a number of samples; those of an integer type
are given as int."""
Recompile = Callable[[Mapping[str, int]], tuple[Compiled, Signature]]
"""A function for these bounds of its dims, by their names."""

GRADIENT = "gradient."
"""Results whose name starts so are gradients of the parameter named after it."""


class Results(Mapping[str, Array]):
    """What a call computed, by result name: one row per sample; a single number has no dims.

    Names do not distinguish case, as in the network.
    """

    __slots__ = ("_arrays",)

    def __init__(self, arrays: dict[str, Array]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Array:
        return _by_name(self._arrays, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._arrays)

    def __len__(self) -> int:
        return len(self._arrays)

    @property
    def gradients(self) -> Results:
        """The gradients by the name of what they belong to."""
        return Results(
            {
                name.removeprefix(GRADIENT): array
                for name, array in self._arrays.items()
                if name.startswith(GRADIENT)
            }
        )

    def __repr__(self) -> str:
        return f"Results({', '.join(self._arrays)})"


def _by_name(arrays: Mapping[str, Array], name: str) -> Array:
    if name in arrays:
        return arrays[name]
    for known, array in arrays.items():
        if known.lower() == name.lower():
            return array
    raise KeyError(f"no result is called `{name}`{suggestion(name, arrays)}")


@dataclass(frozen=True, slots=True)
class _Sparse:
    """Where an input of two arguments goes."""

    name: str
    rows: int
    indices: int
    values: int

    def read(self, value: object) -> SparseRows:
        """`value` in any of the accepted forms; GraphcError `input`."""
        return sparse_rows(self.name, value, self.rows)


@dataclass(frozen=True)
class _Plan:
    """A compiled function and all that a call has to know of its signature."""

    compiled: Compiled
    signature: Signature
    ports: tuple[Port, ...]
    inputs: dict[str, int]  # of a sparse one its indices
    sparse: dict[int, _Sparse]
    settings: dict[str, int]
    held: tuple[tuple[int, bool], ...]  # (argument, whether it is state) of parameters and state
    results: tuple[Port, ...]
    bounds: dict[str, int]
    updated: frozenset[str | None]
    entries: frozenset[int | str]  # dims of the entries of sparse inputs

    @staticmethod
    def of(compiled: Compiled, signature: Signature) -> _Plan:
        arguments = list(enumerate(signature.arguments))
        places = {a.name: i for i, a in arguments}
        sparse = [
            _Sparse(s.name, s.rows, places[s.indices], places[s.values]) for s in signature.sparse
        ]
        places |= {s.name: s.indices for s in sparse}
        return _Plan(
            compiled,
            signature,
            tuple(Port.of(a) for a in signature.arguments),
            {name: places[name] for name in signature.input_names},
            {places[s.name]: s for s in sparse},
            {a.name: i for i, a in arguments if a.role == "setting"},
            tuple((i, a.role == "state") for i, a in arguments if a.role in ("parameter", "state")),
            tuple(Port.of(r) for r in signature.fresh_results),
            {d.name: d.bound for d in signature.dims},
            frozenset(r.updates for r in signature.results),
            frozenset(signature.arguments[s.indices].shape[1] for s in sparse),
        )


class Executable:
    """A function ready to be called: `executable(features=x)["z"]`.

    parameters  read at every call, so a changed store is seen at once. An array of the declared
                dtype is used where it is, and updates go into it; another dtype is converted at
                every call, which for parameters that the function updates is refused here.
    state       arrays kept between calls; those missing are added as zeros
    recompile   called when a dim is above its bound, with the next power of two for that dim;
                without it that is an error

    One call at a time where the function updates parameters or state; otherwise thread-safe.
    """

    def __init__(
        self,
        compiled: Compiled,
        signature: Signature,
        parameters: Mapping[str, Array],
        state: MutableMapping[str, Array] | None = None,
        recompile: Recompile | None = None,
    ) -> None:
        self._plan = _Plan.of(compiled, signature)
        self._parameters = parameters
        self._state: MutableMapping[str, Array] = {} if state is None else state
        self._recompile = recompile
        self._prepare_stores()

    @property
    def signature(self) -> Signature:
        return self._plan.signature

    @property
    def state(self) -> MutableMapping[str, Array]:
        """The learner's arrays by name, live."""
        return self._state

    def __call__(self, /, **inputs: object) -> Results:
        """Run on arrays of shape (samples, rows), named like the inputs.

        Raises GraphcError `input`.
        """
        return self.run(inputs, {})

    def run(self, inputs: Mapping[str, object], settings: Settings) -> Results:
        """Run once with inputs by name and the numbers of this call (learning rate, …) by name."""
        plan = self._plan
        arguments, sizes = _bind(plan, inputs)
        for dim, bound in plan.bounds.items():
            # A dim that no input has is 1: such a function has nothing to do with samples.
            if sizes.setdefault(dim, 1) > bound:
                return self._with_larger_bound(dim, sizes[dim]).run(inputs, settings)
        given = settings if isinstance(settings, Mapping) else settings(_samples(sizes))
        _add_settings(plan, given, arguments)
        self._add_held(plan, arguments)
        results = [
            np.empty(p.fixed if p.fixed is not None else concrete_shape(p.shape, sizes), p.dtype)
            for p in plan.results
        ]
        plan.compiled(arguments, results, sizes)  # type: ignore[arg-type]  # all are filled by now
        return Results(
            {
                p.name: array[0, 0] if p.is_number else array
                for p, array in zip(plan.results, results, strict=True)
            }
        )

    def _with_larger_bound(self, dim: str, size: int) -> Executable:
        """This executable after it was compiled again for the next power of two."""
        bounds = self._plan.bounds
        what = "entries in a sample" if dim in self._plan.entries else "samples"
        if self._recompile is None:
            message = f"requires at most {bounds[dim]} {what} ({dim}) in a call, got {size}"
            raise fail("input", message)
        plan = _Plan.of(*self._recompile({**bounds, dim: 1 << (size - 1).bit_length()}))
        if plan.bounds[dim] < size:
            raise fail("input", f"requires at most {plan.bounds[dim]} {what} in a call, got {size}")
        self._plan = plan
        return self

    def _add_held(self, plan: _Plan, arguments: list[Array | None]) -> None:
        for index, is_state in plan.held:
            port = plan.ports[index]
            store = self._state if is_state else self._parameters
            if port.name not in store:
                raise fail("input", f"the network has no parameter {port.name} any more")
            array = store[port.name]
            if (
                array.dtype != port.dtype
                or array.shape != port.fixed
                or not array.flags.c_contiguous
            ):
                if port.name in plan.updated:
                    raise _not_updatable(port, array)
                array = _held(port, array)
            arguments[index] = array

    def _prepare_stores(self) -> None:
        """Check the parameters, add missing state, refuse what updates could not reach."""
        plan = self._plan
        for index, is_state in plan.held:
            port = plan.ports[index]
            store = self._state if is_state else self._parameters
            if is_state and port.name not in store:
                self._state[port.name] = np.zeros(port.fixed or (), port.dtype)
            if port.name not in store:
                raise fail("input", f"parameter {port.name} requires a value, got none")
            array = store[port.name]
            usable = _held(port, array)
            if port.name in plan.updated and (usable is not array or not array.flags.writeable):
                raise _not_updatable(port, array)


def check_inputs(
    signature: Signature, inputs: Mapping[str, object]
) -> tuple[dict[str, Array | SparseRows], int]:
    """The inputs by their declared names, converted and contiguous, and the number of samples.

    For callers that cut a data set into minibatches: the bound on samples is not checked, and
    either kind of value may be indexed by a slice or by the numbers of samples. Raises GraphcError
    `input`.
    """
    plan = _Plan.of(lambda _arguments, _results, _sizes: None, signature)
    found: dict[str, Array | SparseRows] = {}
    places = _places(plan, inputs)
    sizes: dict[str, int] = {}
    for index, value in places.items():
        if (sparse := plan.sparse.get(index)) is not None:
            found[sparse.name] = rows = sparse.read(value)
            _note_samples(plan.ports[index], sparse.name, len(rows), sizes)
        else:
            port = plan.ports[index]
            found[port.name] = read_array(port, value, sizes)
    return {name: found[name] for name in plan.inputs}, _samples(sizes)


def needed_inputs(signature: Signature, data: Mapping[str, object]) -> dict[str, object]:
    """What of a data set the function takes; the data set may hold more."""
    names = {name.lower() for name in signature.input_names}
    return {name: array for name, array in data.items() if name.lower() in names}


def _samples(sizes: Mapping[str, int]) -> int:
    return next(iter(sizes.values()), 0)


def _bind(plan: _Plan, inputs: Mapping[str, object]) -> tuple[list[Array | None], dict[str, int]]:
    """The arguments with the inputs filled in, and the sizes of the dims that they have."""
    arguments: list[Array | None] = [None] * len(plan.ports)
    sizes: dict[str, int] = {}
    for index, value in _places(plan, inputs).items():
        if (sparse := plan.sparse.get(index)) is not None:
            rows = sparse.read(value)
            port = plan.ports[sparse.values]
            _note_samples(port, sparse.name, len(rows), sizes)
            padded = rows.padded(port.dtype)
            arguments[sparse.indices], arguments[sparse.values] = padded
            entries = port.shape[1]
            if isinstance(entries, str):
                sizes[entries] = padded[1].shape[1]
        else:
            arguments[index] = read_array(plan.ports[index], value, sizes)
    return arguments, sizes


def _places(plan: _Plan, inputs: Mapping[str, object]) -> dict[int, object]:
    """The inputs by the argument that each is for, a sparse one by its indices; each is there."""
    places: dict[int, object] = {}
    for name, value in inputs.items():
        index = plan.inputs.get(name)
        if index is None:
            index = _find(plan, name)
        if index in places:
            raise fail("input", f"input {_input_name(plan, index)} is given twice")
        places[index] = value
    if len(inputs) != len(plan.inputs):
        raise _missing(plan, inputs, places)
    return places


def _input_name(plan: _Plan, index: int) -> str:
    sparse = plan.sparse.get(index)
    return plan.ports[index].name if sparse is None else sparse.name


def _note_samples(port: Port, name: str, samples: int, sizes: dict[str, int]) -> None:
    """Note the samples of a sparse input, which have to be those of the others."""
    dim = port.shape[0]
    assert isinstance(dim, str)
    if sizes.setdefault(dim, samples) != samples:
        raise fail(
            "input",
            f"input {name} requires {sizes[dim]} samples as another input has, got {samples}",
        )


def _find(plan: _Plan, name: str) -> int:
    """The input of that name in any case: names of a network do not distinguish it."""
    found = [index for known, index in plan.inputs.items() if known.lower() == name.lower()]
    if len(found) != 1:
        raise _unknown(plan, name)
    return found[0]


def _unknown(plan: _Plan, name: str) -> GraphcError:
    listed = ", ".join(plan.inputs) or "none"
    near = suggestion(name, plan.inputs)
    return fail("input", f"no input is called `{name}`; the inputs are: {listed}{near}")


def _missing(
    plan: _Plan, inputs: Mapping[str, object], places: Mapping[int, object]
) -> GraphcError:
    absent = [name for name, index in plan.inputs.items() if index not in places]
    given = ", ".join(inputs) or "none"
    return fail(
        "input",
        f"requires the inputs {', '.join(plan.inputs)}, got {given}: {', '.join(absent)} missing",
    )


def _add_settings(
    plan: _Plan, settings: Mapping[str, float], arguments: list[Array | None]
) -> None:
    for name, value in settings.items():
        index = plan.settings.get(name)
        if index is None:
            listed = ", ".join(plan.settings) or "none"
            near = suggestion(name, plan.settings)
            raise fail("input", f"no setting is called `{name}`; the settings are: {listed}{near}")
        port = plan.ports[index]
        if port.dtype.kind == "i" and not isinstance(value, int):
            raise fail("input", f"setting {name} requires a whole number, got {value}")
        arguments[index] = np.full(port.fixed or (), value, port.dtype)
    if len(settings) != len(plan.settings):
        absent = ", ".join(n for n in plan.settings if n not in settings)
        raise fail("input", f"requires the settings {', '.join(plan.settings)}: {absent} missing")


def _held(port: Port, array: Array) -> Array:
    """A parameter or state array as the function needs it; itself when it fits already."""
    if array.shape != port.fixed:
        raise fail("input", f"{port.name} requires shape {port.fixed}, got {array.shape}")
    if array.dtype.kind not in "fiub":
        raise fail("input", f"{port.name} requires {port.dtype}, got {array.dtype}")
    if array.dtype == port.dtype and array.flags.c_contiguous and array.flags.aligned:
        return array
    with np.errstate(over="ignore"):
        return np.array(array, port.dtype, order="C")


def _not_updatable(port: Port, array: Array) -> GraphcError:
    return fail(
        "input",
        f"{port.name} is updated in place: requires a writeable, contiguous array of {port.dtype}, "
        f"got {array.dtype}; a step compiled for another precision has to be compiled again",
    )
