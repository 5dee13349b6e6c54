"""What is looked up once about a compiled function, and how a call's arrays find their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

import numpy as np

from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.ports import Input, Port, SparsePort, read_array
from graphc.runtime.sequences import Minibatch
from graphc.runtime.signature import ROLES_OF_MODEL, Dimension, SequenceTables, Signature
from graphc.support.diagnostics import GraphcError, fail, suggestion

Array = np.ndarray


@dataclass(frozen=True)
class Plan:
    """A compiled function and all that a call has to know of its signature.

    arguments  all of them, by name
    inputs     what callers give, by declared name
    dense      those of them that are one array each
    settings   the numbers of a call, by name
    held       parameters and what the learner keeps
    carried    arguments that the call before left, each with the result that it was left in
    results    the fresh ones
    bounds     of the dims that calls decide
    products   dims that follow from others
    """

    compiled: CompiledFunction
    signature: Signature
    arguments: dict[str, Port]
    inputs: dict[str, Input]
    dense: dict[str, Port]
    settings: dict[str, Port]
    held: tuple[Port, ...]
    carried: tuple[tuple[Port, Port], ...]
    results: tuple[Port, ...]
    bounds: dict[str, int]
    products: dict[str, Dimension]

    @staticmethod
    def of(compiled: CompiledFunction, signature: Signature) -> Plan:
        """What a call of the function has to know."""
        updated = {r.updates for r in signature.results}
        ports = {a.name: Port.of(i, a, updated) for i, a in enumerate(signature.arguments)}
        results = tuple(Port.of(i, r) for i, r in enumerate(signature.fresh_results))
        sparse = {
            s.name: SparsePort(s.name, s.rows, ports[s.indices], ports[s.values])
            for s in signature.sparse
        }
        left = {port.name: port for port in results}
        held = (*ROLES_OF_MODEL, "state")
        return Plan(
            compiled,
            signature,
            ports,
            {name: sparse.get(name) or ports[name] for name in signature.input_names},
            {name: ports[name] for name in signature.input_names if name not in sparse},
            {a.name: ports[a.name] for a in signature.with_role("setting")},
            tuple(ports[a.name] for a in signature.arguments if a.role in held),
            tuple((ports[a.name], left[a.name]) for a in signature.with_role("carried")),
            results,
            {d.name: d.bound for d in signature.dims if not d.factors},
            {d.name: d for d in signature.dims if d.factors},
        )

    @property
    def tables(self) -> SequenceTables | None:
        """Of a function of sequences."""
        return self.signature.sequences

    def noun(self, dim: str) -> str:
        """What a dim counts, for messages."""
        if self.tables is not None and dim in (self.tables.time, self.tables.slots):
            return "steps" if dim == self.tables.time else "sequences"
        sparse = [port for port in self.inputs.values() if isinstance(port, SparsePort)]
        is_of_entries = any(dim in port.indices.shape[1:] for port in sparse)
        return "entries in a sample" if is_of_entries else "samples"

    @property
    def columns(self) -> tuple[str, ...]:
        """The dims that the columns of sequences have."""
        return () if self.tables is None else (self.tables.time, *self.products)


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
    arguments: list[Array | None] = [None] * len(plan.arguments)
    sizes: dict[str, int] = {}
    values: Mapping[str, object] = minibatch.values if minibatch else by_input(plan, inputs)
    if plan.tables is not None and minibatch is not None:
        sizes[plan.tables.time], sizes[plan.tables.slots] = minibatch.sizes
        arguments[plan.arguments[plan.tables.begin].place] = minibatch.layout.begin
        arguments[plan.arguments[plan.tables.end].place] = minibatch.layout.end
    for name, value in values.items():
        port = plan.inputs[name]
        if isinstance(port, Port):
            arguments[port.place] = read_array(port, value, sizes)
        else:
            _add_sparse(port, value, arguments, sizes)
    return arguments, sizes, minibatch


def _add_sparse(
    port: SparsePort, value: object, arguments: list[Array | None], sizes: dict[str, int]
) -> None:
    """Add the two arguments of a sparse input."""
    rows = port.read(value)
    note_samples(port, len(rows), sizes)
    indices, values = rows.padded(port.values.dtype)
    arguments[port.indices.place], arguments[port.values.place] = indices, values
    entries = port.values.shape[1]
    if isinstance(entries, str):
        sizes[entries] = values.shape[1]


def by_input(plan: Plan, inputs: Mapping[str, object]) -> dict[str, object]:
    """The inputs by their declared names; each is there, once."""
    found: dict[str, object] = {}
    for name, value in inputs.items():
        declared = name if name in plan.inputs else _find(plan, name)
        if declared in found:
            raise fail("input", f"input {declared} is given twice")
        found[declared] = value
    if len(inputs) != len(plan.inputs):
        raise _missing(plan, inputs, found)
    return found


def note_samples(port: SparsePort, samples: int, sizes: dict[str, int]) -> None:
    """Note the samples of a sparse input, which have to be those of the others."""
    dim = port.indices.shape[0]
    assert isinstance(dim, str)
    if sizes.setdefault(dim, samples) != samples:
        raise fail(
            "input",
            f"input {port.name} requires {sizes[dim]} samples as another input has, got {samples}",
        )


def _find(plan: Plan, name: str) -> str:
    """The input of that name in any case: names of a network do not distinguish it."""
    found = [known for known in plan.inputs if known.lower() == name.lower()]
    if len(found) != 1:
        raise _unknown(plan, name)
    return found[0]


def _unknown(plan: Plan, name: str) -> GraphcError:
    listed = ", ".join(plan.inputs) or "none"
    near = suggestion(name, plan.inputs)
    return fail("input", f"no input is called `{name}`; the inputs are: {listed}{near}")


def _missing(plan: Plan, inputs: Mapping[str, object], found: Mapping[str, object]) -> GraphcError:
    absent = [name for name in plan.inputs if name not in found]
    given = ", ".join(inputs) or "none"
    return fail(
        "input",
        f"requires the inputs {', '.join(plan.inputs)}, got {given}: {', '.join(absent)} missing",
    )


def add_settings(plan: Plan, settings: Mapping[str, float], arguments: list[Array | None]) -> None:
    """Add the numbers of a call; all have to be there, none more. GraphcError `input`."""
    for name, value in settings.items():
        port = plan.settings.get(name)
        if port is None:
            listed = ", ".join(plan.settings) or "none"
            near = suggestion(name, plan.settings)
            raise fail("input", f"no setting is called `{name}`; the settings are: {listed}{near}")
        if port.dtype.kind == "i" and not isinstance(value, int):
            raise fail("input", f"setting {name} requires a whole number, got {value}")
        arguments[port.place] = np.full(port.fixed or (), value, port.dtype)
    if len(settings) != len(plan.settings):
        absent = ", ".join(n for n in plan.settings if n not in settings)
        raise fail("input", f"requires the settings {', '.join(plan.settings)}: {absent} missing")
