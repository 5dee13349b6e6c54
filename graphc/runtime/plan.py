"""What is looked up once about a compiled function, and how a call's arrays find their places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from graphc.runtime.argument_specs import ArgumentSpec, Input, SparseArgumentSpec, read_array
from graphc.runtime.class_numbers import check_classes, is_numbered, require_classes
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.sequences import Minibatch
from graphc.runtime.signature import ROLES_OF_MODEL, SequenceTables, Signature
from graphc.support.diagnostics import GraphcError, fail, suggestion
from graphc.support.size_formula import SizeFormula

Array = np.ndarray


@dataclass(frozen=True)
class Plan:
    """A compiled function and all that a call has to know of its signature.

    arguments        all of them, by name
    inputs           what callers give, by declared name
    dense            those of them that are one array each
    hyperparameters  the numbers of a call, by name
    held             parameters and what the learner keeps
    carried          arguments that the call before left, each with the result that it was left in
    kept             arguments made of inputs that are given seldom
    results          the fresh ones
    bounds           of the dims that calls decide
    formulas         of the dims that follow from others
    """

    compiled: CompiledFunction
    signature: Signature
    arguments: dict[str, ArgumentSpec]
    inputs: dict[str, Input]
    dense: dict[str, ArgumentSpec]
    hyperparameters: dict[str, ArgumentSpec]
    held: tuple[ArgumentSpec, ...]
    carried: tuple[tuple[ArgumentSpec, ArgumentSpec], ...]
    kept: tuple[ArgumentSpec, ...]
    results: tuple[ArgumentSpec, ...]
    bounds: dict[str, int]
    formulas: dict[str, SizeFormula]

    @staticmethod
    def of(compiled: CompiledFunction, signature: Signature) -> Plan:
        """What a call of the function has to know."""
        updated = {r.updates for r in signature.results}
        labels = {label.name: label for label in signature.labels}
        specs = {
            a.name: ArgumentSpec.of(i, a, updated, label=labels.get(a.name))
            for i, a in enumerate(signature.arguments)
        }
        for name in (name for name in labels if compiled.checks_classes):
            specs[name] = replace(specs[name], is_checked=specs[name].is_numbered)
        for given in signature.classes:
            spec, is_checked = specs[given.name], compiled.checks_classes
            specs[given.name] = replace(spec, below=given.classes, is_checked=is_checked)
        results = tuple(
            ArgumentSpec.of(i, r, numbers=signature.gives_numbers)
            for i, r in enumerate(signature.fresh_results)
        )
        sparse = {
            s.name: SparseArgumentSpec(s.name, s.rows, specs[s.indices], specs[s.values])
            for s in signature.sparse
        }
        left = {spec.name: spec for spec in results}
        held = (*ROLES_OF_MODEL, "state")
        return Plan(
            compiled,
            signature,
            specs,
            {name: sparse.get(name) or specs[name] for name in signature.input_names},
            {name: specs[name] for name in signature.input_names if name not in sparse},
            {a.name: specs[a.name] for a in signature.with_role("hyperparameter")},
            tuple(specs[a.name] for a in signature.arguments if a.role in held),
            tuple((specs[a.name], left[a.name]) for a in signature.with_role("carried")),
            tuple(specs[a.name] for a in signature.with_role("kept")),
            results,
            {d.name: d.bound for d in signature.call_dims},
            signature.formulas,
        )

    @cached_property
    def numbered(self) -> frozenset[str]:
        """The inputs of labels that it takes as class numbers."""
        return frozenset(label.name for label in self.signature.labels if label.is_numbered)

    def numbered_in(self, inputs: Mapping[str, object]) -> frozenset[str]:
        """The inputs of labels that a call gives as class numbers, or may have given so where this
        function takes them."""
        found: list[str] = []
        for label in self.signature.labels:
            name = label.name
            if name not in inputs:  # names do not distinguish case
                name = next((n for n in inputs if n.lower() == name.lower()), name)
            given = is_numbered(inputs.get(name), of_sequences=self.tables is not None)
            if given or (given is None and label.is_numbered):
                found.append(label.name)
        return frozenset(found)

    def check_classes(self, inputs: Mapping[str, object]) -> None:
        """GraphcError `input` where a call gave numbers of no classes."""
        of_sequences = self.tables is not None
        for name, value in by_input(self, inputs).items():
            spec = self.inputs[name]
            if isinstance(spec, ArgumentSpec) and spec.below:
                require_classes(name, np.asarray(value), spec.below)
            if not isinstance(spec, ArgumentSpec) or not spec.is_numbered:
                continue
            if of_sequences and isinstance(value, list | tuple):
                for number, item in enumerate(value):
                    check_classes(name, np.asarray(item), spec.classes, number)
            else:
                check_classes(name, np.asarray(value), spec.classes)

    @property
    def tables(self) -> SequenceTables | None:
        """Of a function of sequences."""
        return self.signature.sequences

    def noun(self, dim: str) -> str:
        """What a dim counts, for messages."""
        if self.tables is not None and dim in (self.tables.time, self.tables.slots):
            return "steps" if dim == self.tables.time else "sequences"
        sparse = [spec for spec in self.inputs.values() if isinstance(spec, SparseArgumentSpec)]
        is_of_entries = any(dim in spec.indices.shape[1:] for spec in sparse)
        return "entries in a sample" if is_of_entries else "samples"

    @property
    def columns(self) -> tuple[str, ...]:
        """The dims that the columns of sequences have."""
        return () if self.tables is None else (self.tables.time, *self.formulas)


def all_sizes(plan: Plan, sizes: Mapping[str, int]) -> dict[str, int]:
    """Of every dim, those included that follow from others. GraphcError `input` where there is no
    such size; a dim that the call has nothing of is 1, and what follows from it is not checked."""
    found = {dim: sizes.get(dim, 1) for dim in (*sizes, *plan.bounds)}
    decided = {*sizes} - {*plan.formulas}
    for name, formula in plan.formulas.items():
        found[name] = max(formula.value(found), 0)
        if decided.issuperset(formula.names):
            decided.add(name)
            if not formula.fits(found):
                raise _no_size(plan, name, found)
            if sizes.get(name, found[name]) != found[name]:
                message = f"{name} = {formula} is {found[name]}{_where(plan, found)}"
                raise fail("input", f"{message}, got an input of size {sizes[name]}")
    return found


def _no_size(plan: Plan, name: str, sizes: Mapping[str, int]) -> GraphcError:
    """That a call of these sizes cannot have a dim that follows from them."""
    formula = plan.formulas[name]
    total, place = formula.total(sizes), _where(plan, sizes)
    if total < 0:
        wanted = formula.total_text(_meanings(plan, formula))
        return fail("input", f"the program requires {wanted} to be at least 0, got {total}{place}")
    (first, *_) = formula.names
    message = f"the network requires a number of {plan.noun(first)} that is a multiple of"
    return fail("input", f"{message} {formula.multiple}, got {sizes[first]}")


def _meanings(plan: Plan, formula: SizeFormula) -> dict[str, str]:
    """The dims of a formula that follow from others, as what they are."""
    made = {name: plan.formulas[name] for name in formula.names if name in plan.formulas}
    return {name: f"({inner.text(_meanings(plan, inner))})" for name, inner in made.items()}


def _where(plan: Plan, sizes: Mapping[str, int]) -> str:
    """` for T = 2`: the sizes that the call decides."""
    told = ", ".join(f"{dim} = {sizes[dim]}" for dim in plan.bounds)
    return f" for {told}" if told else ""


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
        spec = plan.inputs[name]
        if isinstance(spec, ArgumentSpec):
            arguments[spec.place] = read_array(spec, plan.compiled.taken(value), sizes)
        else:
            _add_sparse(spec, value, arguments, sizes)
    return arguments, sizes, minibatch


def _add_sparse(
    spec: SparseArgumentSpec, value: object, arguments: list[Array | None], sizes: dict[str, int]
) -> None:
    """Add the two arguments of a sparse input."""
    rows = spec.read(value)
    note_samples(spec, len(rows), sizes)
    indices, values = rows.padded(spec.values.dtype)
    arguments[spec.indices.place], arguments[spec.values.place] = indices, values
    entries = spec.values.shape[1]
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


def note_samples(spec: SparseArgumentSpec, samples: int, sizes: dict[str, int]) -> None:
    """Note the samples of a sparse input, which have to be those of the others."""
    dim = spec.indices.shape[0]
    assert isinstance(dim, str)
    if sizes.setdefault(dim, samples) != samples:
        raise fail(
            "input",
            f"input {spec.name} requires {sizes[dim]} samples as another input has, got {samples}",
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


def add_hyperparameters(
    plan: Plan, hyperparameters: Mapping[str, float], arguments: list[Array | None]
) -> None:
    """Add the numbers of a call; all have to be there, none more. GraphcError `input`."""
    for name, value in hyperparameters.items():
        spec = plan.hyperparameters.get(name)
        if spec is None:
            listed = ", ".join(plan.hyperparameters) or "none"
            near = suggestion(name, plan.hyperparameters)
            raise fail(
                "input",
                f"no hyperparameter is called `{name}`; the hyperparameters are: {listed}{near}",
            )
        if spec.dtype.kind == "i" and not isinstance(value, int):
            raise fail("input", f"hyperparameter {name} requires a whole number, got {value}")
        arguments[spec.place] = np.full(spec.fixed or (), value, spec.dtype)
    if len(hyperparameters) != len(plan.hyperparameters):
        absent = ", ".join(n for n in plan.hyperparameters if n not in hyperparameters)
        raise fail(
            "input",
            f"requires the hyperparameters {', '.join(plan.hyperparameters)}: {absent} missing",
        )
