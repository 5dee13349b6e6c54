"""What is looked up once about a compiled function, and how a call's arrays find their places."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from graphc.runtime.ports import Port, read_array
from graphc.runtime.sequences import Minibatch, SparsePort
from graphc.runtime.signature import ROLES_OF_MODEL, Dimension, Signature
from graphc.support.diagnostics import GraphcError, fail, suggestion

Array = np.ndarray
Compiled = Callable[[Sequence[Array], Sequence[Array], Mapping[str, int]], None]
"""(arguments, fresh results, sizes of the dims): runs the function once.

One that shares its work among threads has an attribute `threads`: how many.
"""
RunMinibatches = Callable[[Sequence[Array], Sequence[Array], Array, int, Array], None]
"""(arguments, fresh results, order i64[samples], size, done i64[1]): runs the function on `size`
rows of the inputs at a time, in this order, the last time on those that are left.

Inputs are all data [any, row]; settings and results hold a number for each minibatch. What the rest
is, and what is required of arrays, is as in a single call. `done` is 0 before and counts the
minibatches that are through, so it is right even where an interrupt ends the call in Python.
"""

Prepared = Callable[[int, Sequence[Array]], None]
"""(samples, arrays that change): runs a function whose other arrays were said before."""


@dataclass(frozen=True, slots=True)
class SparseArguments(SparsePort):
    """Where an input of two arguments goes."""

    indices: int
    values: int


@dataclass(frozen=True, slots=True)
class Tables:
    """Where the tables of sequences go, the dims of these, and what divides the steps."""

    begin: int
    end: int
    time: str
    slots: str
    multiple: int


@dataclass(frozen=True)
class Plan:
    """A compiled function and all that a call has to know of its signature."""

    compiled: Compiled
    run_minibatches: RunMinibatches | None  # of a function that can do it by itself
    signature: Signature
    ports: tuple[Port, ...]
    inputs: dict[str, int]  # of a sparse one its indices
    sparse: dict[int, SparseArguments]
    settings: dict[str, int]
    held: tuple[tuple[int, bool], ...]  # (argument, whether it is state) of parameters and state
    results: tuple[Port, ...]
    bounds: dict[str, int]
    updated: frozenset[str | None]
    entries: frozenset[int | str]  # dims of the entries of sparse inputs
    products: dict[str, Dimension]  # dims that follow from others
    tables: Tables | None
    carried: dict[str, int]  # results that the next call takes as arguments of these names
    carried_arguments: dict[str, int]

    @staticmethod
    def of(compiled: Compiled, signature: Signature) -> Plan:
        """What a call of the function has to know."""
        arguments = list(enumerate(signature.arguments))
        places = {a.name: i for i, a in arguments}
        sparse = [
            SparseArguments(s.name, s.rows, places[s.indices], places[s.values])
            for s in signature.sparse
        ]
        places |= {s.name: s.indices for s in sparse}
        tables = signature.sequences
        fresh = {r.name: i for i, r in enumerate(signature.fresh_results)}
        carried = {a.name: i for i, a in arguments if a.role == "carried"}
        return Plan(
            compiled,
            getattr(compiled, "run_minibatches", None),
            signature,
            tuple(Port.of(a) for a in signature.arguments),
            {name: places[name] for name in signature.input_names},
            {places[s.name]: s for s in sparse},
            {a.name: i for i, a in arguments if a.role == "setting"},
            tuple(
                (i, a.role == "state") for i, a in arguments if a.role in (*ROLES_OF_MODEL, "state")
            ),
            tuple(Port.of(r) for r in signature.fresh_results),
            {d.name: d.bound for d in signature.dims if not d.factors},
            frozenset(r.updates for r in signature.results),
            frozenset(signature.arguments[s.indices].shape[1] for s in sparse),
            {d.name: d for d in signature.dims if d.factors},
            tables
            and Tables(
                places[tables.begin],
                places[tables.end],
                tables.time,
                tables.slots,
                tables.multiple,
            ),
            {name: fresh[name] for name in carried},
            carried,
        )

    def prepared(self, arrays: Sequence[Array | None], changing: Sequence[int]) -> Prepared:
        """The function of at most one dim with these arguments and fresh results; the places that
        are `changing` are filled at each call. For one thread, one call at a time."""
        prepare = getattr(self.compiled, "prepare", None)
        if prepare is not None:
            return prepare(arrays, changing)
        count, dims = len(self.ports), tuple(self.bounds)

        def run(samples: int, given: Sequence[Array]) -> None:
            filled = list(arrays)
            for i, array in zip(changing, given, strict=True):
                filled[i] = array
            self.compiled(filled[:count], filled[count:], dict.fromkeys(dims, samples))  # type: ignore[arg-type]

        return run

    def noun(self, dim: str) -> str:
        """What a dim counts, for messages."""
        if self.tables is not None and dim in (self.tables.time, self.tables.slots):
            return "steps" if dim == self.tables.time else "sequences"
        return "entries in a sample" if dim in self.entries else "samples"

    @property
    def columns(self) -> tuple[str, ...]:
        """The dims that the columns of sequences have."""
        return () if self.tables is None else (self.tables.time, *self.products)

    def input_ports(self, of: Iterable[int]) -> dict[int, Port | SparsePort]:
        """Of inputs by their places."""
        return {i: self.sparse.get(i) or self.ports[i] for i in of}


def all_sizes(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    """Of every dim, those included that follow from others."""
    found = {dim: sizes.get(dim, 1) for dim in (*sizes, *plan.bounds)}
    for name, dim in plan.products.items():
        found[name], rest = divmod(prod(found[f] for f in dim.factors) * dim.times, dim.divisor)
        if rest:
            noun = plan.noun(dim.factors[0])
            message = f"the network requires a number of {noun} that is a multiple of"
            raise fail("input", f"{message} {dim.multiple}, got {found[dim.factors[0]]}")
    return found


def bind(
    plan: Plan, inputs: Mapping[str, object], minibatch: Minibatch | None = None
) -> tuple[list[Array | None], dict[str, int], Minibatch | None]:
    """The arguments with the inputs filled in, the sizes of the dims that they have, and the
    minibatch with the gaps that this plan's number of steps requires."""
    if plan.tables is not None and minibatch is not None:
        minibatch = minibatch.filled_up(plan.tables.multiple)
    arguments: list[Array | None] = [None] * len(plan.ports)
    sizes: dict[str, int] = {}
    values: Mapping[int, object] = minibatch.values if minibatch else places_of(plan, inputs)
    if plan.tables is not None and minibatch is not None:
        sizes[plan.tables.time], sizes[plan.tables.slots] = minibatch.sizes
        arguments[plan.tables.begin] = minibatch.layout.begin
        arguments[plan.tables.end] = minibatch.layout.end
    for index, value in values.items():
        if (sparse := plan.sparse.get(index)) is not None:
            rows = sparse.read(value)
            port = plan.ports[sparse.values]
            note_samples(port, sparse.name, len(rows), sizes)
            padded = rows.padded(port.dtype)
            arguments[sparse.indices], arguments[sparse.values] = padded
            entries = port.shape[1]
            if isinstance(entries, str):
                sizes[entries] = padded[1].shape[1]
        else:
            arguments[index] = read_array(plan.ports[index], value, sizes)
    return arguments, sizes, minibatch


def places_of(plan: Plan, inputs: Mapping[str, object]) -> dict[int, object]:
    """The inputs by the argument that each is for, a sparse one by its indices; each is there."""
    places: dict[int, object] = {}
    for name, value in inputs.items():
        index = plan.inputs.get(name)
        if index is None:
            index = _find(plan, name)
        if index in places:
            raise fail("input", f"input {input_name(plan, index)} is given twice")
        places[index] = value
    if len(inputs) != len(plan.inputs):
        raise _missing(plan, inputs, places)
    return places


def input_name(plan: Plan, index: int) -> str:
    """The input that is handed over at a place."""
    sparse = plan.sparse.get(index)
    return plan.ports[index].name if sparse is None else sparse.name


def note_samples(port: Port, name: str, samples: int, sizes: dict[str, int]) -> None:
    """Note the samples of a sparse input, which have to be those of the others."""
    dim = port.shape[0]
    assert isinstance(dim, str)
    if sizes.setdefault(dim, samples) != samples:
        raise fail(
            "input",
            f"input {name} requires {sizes[dim]} samples as another input has, got {samples}",
        )


def _find(plan: Plan, name: str) -> int:
    """The input of that name in any case: names of a network do not distinguish it."""
    found = [index for known, index in plan.inputs.items() if known.lower() == name.lower()]
    if len(found) != 1:
        raise _unknown(plan, name)
    return found[0]


def _unknown(plan: Plan, name: str) -> GraphcError:
    listed = ", ".join(plan.inputs) or "none"
    near = suggestion(name, plan.inputs)
    return fail("input", f"no input is called `{name}`; the inputs are: {listed}{near}")


def _missing(plan: Plan, inputs: Mapping[str, object], places: Mapping[int, object]) -> GraphcError:
    absent = [name for name, index in plan.inputs.items() if index not in places]
    given = ", ".join(inputs) or "none"
    return fail(
        "input",
        f"requires the inputs {', '.join(plan.inputs)}, got {given}: {', '.join(absent)} missing",
    )


def add_settings(plan: Plan, settings: Mapping[str, float], arguments: list[Array | None]) -> None:
    """Add the numbers of a call; all have to be there, none more. GraphcError `input`."""
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
