"""`Executable`: a compiled function with its signature and parameters, callable with named arrays.

It checks inputs, converts what may be converted, and knows nothing of how the function was made.
Nothing here imports the compiler, so it also serves functions loaded from artifacts.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np

from graphc.runtime.argument_specs import ArgumentSpec, labels_of, read_array
from graphc.runtime.call_numbers import Hyperparameters, Stores
from graphc.runtime.class_numbers import NoSuchClass, are_class_numbers, is_numbered
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.device_arrays import DeviceArray
from graphc.runtime.fast_path import FastCall
from graphc.runtime.plan import Plan, add_hyperparameters, all_sizes, bind, by_input, note_samples
from graphc.runtime.plans import Plans, Recompile, Variants, no_sequences
from graphc.runtime.repeated_call import Carried, MadeCall, RepeatedCall
from graphc.runtime.residency import come_home, some_are_away
from graphc.runtime.seldom import SeldomInputs
from graphc.runtime.sequence_state import Held, add_carried, left_by, read_state
from graphc.runtime.sequences import (
    Layout,
    Minibatch,
    read_minibatch,
    read_sequences,
)
from graphc.runtime.signature import GRADIENT, Signature, concrete_shape
from graphc.runtime.sparse import SparseRows
from graphc.runtime.threads import checked_threads
from graphc.support.aligned import result_array
from graphc.support.arguments import text, truth
from graphc.support.diagnostics import GraphcError, InternalError, fail, suggestion
from graphc.support.element_types import type_text
from graphc.support.pickling import refused

Array = np.ndarray

OUT = "out"
OPTIONS = ("lengths", "flags", "carry", "out")
"""What a call takes besides its inputs, all but the last of a function of sequences."""


class Results(Mapping[str, Any]):
    """What a call computed, by result name: one row per sample; a single number has no dims.

    Of sequences in the form of the inputs: a list of arrays for lists.

    Names do not distinguish case, as in the network.
    """

    __slots__ = ("_arrays",)

    def __init__(self, arrays: dict[str, Any]) -> None:
        self._arrays = arrays

    def __getitem__(self, name: str) -> Any:
        try:
            return self._arrays[name]
        except KeyError:
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


class _Calls(threading.local):
    """What a thread knows of its calls.

    fast  for calls like one before
    form  of the last call with sequences or sparse inputs: how they lay, and all sizes
    """

    fast: FastCall | RepeatedCall | None = None
    form: tuple[Layout | None, Mapping[str, int]] | None = None


_NO_NUMBERS: Mapping[str, float] = {}


def _by_name(arrays: Mapping[str, Any], name: str) -> Any:
    for known, array in arrays.items():
        if known.lower() == name.lower():
            return array
    raise KeyError(f"no result is called `{name}`{suggestion(name, arrays)}")


class Executable:
    """A function ready to be called: `executable(features=x)["z"]`.

    parameters     read at every call, so a changed store is seen at once. An array of the declared
                   dtype is used where it is, and updates go into it; another dtype is converted at
                   every call, which for parameters that the function updates is refused here.
    learner_state  arrays that updates go into; those missing are added as zeros
    recompile      called when dims are above their bounds, with the next powers of two for them;
                   without it that is an error
    variants       in place of `recompile` what makes functions for other forms of calls as well:
                   that go on with sequences from the call before, or take class numbers
    threads        how many compute a call, `threads` from then on
    seldom         inputs that not every call has to give, if there are

    One call at a time where the function updates parameters or state, or carries sequences on;
    otherwise thread-safe.
    """

    def __init__(
        self,
        compiled: CompiledFunction,
        signature: Signature,
        parameters: Mapping[str, Array],
        learner_state: MutableMapping[str, Array] | None = None,
        recompile: Recompile | None = None,
        variants: Variants | None = None,
        threads: int = 1,
        seldom: SeldomInputs | None = None,
    ) -> None:
        self._seldom = seldom
        first = Plan.of(compiled, signature)
        self._plans = Plans(first, checked_threads(threads), recompile, variants)
        self._parameters = parameters
        self._learner_state = {} if learner_state is None else learner_state
        self._sequences = Held()
        self._calls = _Calls()
        self._known: dict[str, Array] = {}  # parameters and state that are taken as they are
        self._names = frozenset(name.lower() for name in signature.input_names)
        self._prepare_stores()

    __reduce__ = refused(
        "a compiled function",
        "its code is this process's; pickle or copy the network or program, and compile that",
    )

    @property
    def signature(self) -> Signature:
        """That of the last function called; labels may be given in either form whatever it says."""
        return self._plans.current.signature

    @property
    def parameters(self) -> Mapping[str, Array]:
        """What it reads at every call."""
        return self._parameters

    @property
    def threads(self) -> int:
        """How many compute a call, where the backend shares work; results have the same bits for
        any number. May be set between calls: nothing is compiled again."""
        return self._plans.threads

    @threads.setter
    def threads(self, threads: int) -> None:
        self._plans.threads = checked_threads(threads)

    @property
    def learner_state(self) -> MutableMapping[str, Array]:
        """The learner's arrays by name, live, with what they are now."""
        if some_are_away():
            come_home(self._learner_state.values())
        return self._learner_state

    @property
    def state(self) -> Mapping[str, Array] | None:
        """What `carry=True` goes on from: an array [S, rows] for each delayed value, and the steps
        behind; None before the first such call. Set it to go on from elsewhere, None to start
        anew. What is read is a copy."""
        return self._sequences.copied()

    @state.setter
    def state(self, state: Mapping[str, object] | None) -> None:
        if state is not None and self._plans.current.tables is None:
            raise no_sequences("a state")
        self._sequences.arrays = None if state is None else read_state(state)

    def __call__(self, /, **inputs: object) -> Results:
        """Run on arrays of shape (samples, rows), named like the inputs.

        A function of sequences takes what `graphc.runtime.sequences` says, with lengths= or flags=;
        carry=True goes on from `state`, and leaves there what the next call can go on from.
        A function on a GPU takes arrays of its memory without a copy (`__cuda_array_interface__`,
        `__dlpack__`), and gives CuPy's arrays with out="device" (docs/gpu.md).

        Raises GraphcError `input`.
        """
        return self.run(inputs, _NO_NUMBERS)

    def run(self, inputs: Mapping[str, object], hyperparameters: Hyperparameters) -> Results:
        """Run once with inputs by name and the numbers of this call (learning rate, …) by name."""
        plans = self._plans
        if some_are_away() and not plans.current.compiled.keeps_arrays:
            self._bring_home()
        if self._seldom is not None and self._seldom.are_in(inputs):
            with self._seldom.taken(inputs) as others:
                return self.run(others, hyperparameters)
        fast = self._calls.fast
        if fast is not None:
            plan = plans.carrying if fast.is_of_carry_plan else plans.current
            try:
                results = fast.run(inputs, hyperparameters, plan)
            except NoSuchClass:  # the thorough way says which
                results = None
            if results is not None:
                return Results(results)
        return self._run_thoroughly(inputs, hyperparameters)

    def _run_thoroughly(
        self, inputs: Mapping[str, object], hyperparameters: Hyperparameters
    ) -> Results:
        inputs, options = self._split(inputs)
        carry = truth(options.pop("carry", False), "carry")
        out = options.pop(OUT, "host")
        plan = self._plans.for_call(inputs, carry=carry)
        make = _maker_of_results(plan, out)
        given_steps = self._minibatch(plan, inputs, options, carry)
        arguments, sizes, minibatch = self._bound(plan, inputs, given_steps)
        above = {d: sizes[d] for d, bound in plan.bounds.items() if sizes.get(d, 1) > bound}
        if above:
            plan = self._plans.widened(plan, above, carry=carry)
            arguments, sizes, minibatch = self._bound(plan, inputs, given_steps)
        sizes = all_sizes(plan, sizes)
        samples = minibatch.layout.samples if minibatch is not None else _samples(plan, sizes)
        given = (
            hyperparameters if isinstance(hyperparameters, Mapping) else hyperparameters(samples)
        )
        add_hyperparameters(plan, given, arguments)
        self._add_held(plan, arguments)
        if minibatch is not None:
            state = self._sequences.arrays if carry else None
            add_carried(plan, state, minibatch.sizes[1], arguments)
        results = [
            make(p.fixed if p.fixed is not None else concrete_shape(p.shape, sizes), p.dtype)
            for p in plan.results
        ]
        try:
            plan.compiled(arguments, results, sizes)  # type: ignore[arg-type]  # all are filled by now
        except NoSuchClass:
            plan.check_classes(inputs)
            raise
        if results and isinstance(results[0], DeviceArray):
            results = [array.owner for array in results if isinstance(array, DeviceArray)]
            return _results(plan, results, minibatch)
        # Every argument has an array after a call.
        made = MadeCall(plan, inputs, options, arguments, results, sizes, minibatch, samples)  # type: ignore[arg-type]
        found = _results(plan, results, minibatch)
        if carry and minibatch is not None:
            made = replace(made, carried=Carried(self._sequences, self._sequences.behind))
            self._sequences.arrays = left_by(plan, results, minibatch.layout)
        self._prepare_fast_calls(made, given_steps.layout if given_steps else None)
        return found

    def _bound(
        self, plan: Plan, inputs: Mapping[str, object], minibatch: Minibatch | None
    ) -> tuple[list[Array | None], dict[str, int], Minibatch | None]:
        """As `bind`, with what is kept of inputs that are given seldom."""
        arguments, sizes, minibatch = bind(plan, inputs, minibatch)
        if self._seldom is not None:
            self._seldom.add(plan, arguments, sizes)
        return arguments, sizes, minibatch

    def _prepare_fast_calls(self, made: MadeCall, layout: Layout | None) -> None:
        """For calls of this thread that look like this one, where nothing was converted.

        With sequences and sparse inputs, once two calls had the same form.
        """
        plan = made.plan
        if RepeatedCall.serves(made):
            form, self._calls.form = self._calls.form, (layout, made.sizes)
            is_again = form is not None and form[1] == made.sizes
            if form is not None and not RepeatedCall.takes_other_lengths(made):
                is_again = is_again and _lie_alike(form[0], layout)
            stores = self._stores_of(made) if is_again else None
            if stores is not None:
                of_carry_plan = plan is self._plans.carrying
                self._calls.fast = RepeatedCall.like(made, stores, of_carry_plan=of_carry_plan)
        elif FastCall.serves(plan):
            specs, arguments = plan.dense, made.arguments
            given = {
                name: value
                for name, value in made.inputs.items()
                if isinstance(value, np.ndarray)
                and name in specs
                and (arguments[specs[name].place] is value or _is_numbered(specs[name], value))
            }
            stores = self._stores_of(made) if len(given) == len(made.inputs) else None
            if stores is not None:
                self._calls.fast = FastCall(plan, given, arguments, stores)

    def _stores_of(self, made: MadeCall) -> Stores | None:
        """What the function holds, by the stores that it stands in; None where some was
        converted."""
        plan = made.plan
        stores: list[tuple[Mapping[str, Array], list[str]]] = []
        for store, kind in ((self._parameters, False), (self._learner_state, True)):
            held = {p.name: made.arguments[p.place] for p in plan.held if p.is_state == kind}
            if any(store[name] is not array for name, array in held.items()):
                return None
            stores.append((store, list(held)))
        if self._seldom is not None:
            stores.append((self._seldom.kept, [spec.name for spec in plan.kept]))
        return stores

    @property
    def runs_minibatches(self) -> bool:
        """Whether `run_minibatches` is there: only of functions of dense samples, in native code
        and on a GPU."""
        return self._plans.current.compiled.run_minibatches is not None

    @property
    def adds_beside(self) -> bool | None:
        """Whether members add beside what is computed; None where they could not."""
        return self._plans.current.compiled.adds_beside

    def forget_data(self) -> None:
        """The data that `run_minibatches` gets from here on may be others in the same arrays."""
        for plan in self._plans:
            plan.compiled.forget_data()

    def run_minibatches(
        self,
        data: Mapping[str, Array],
        order: Array,
        size: int,
        numbers: Mapping[str, Array],
        done: Array,
    ) -> dict[str, Array]:
        """Run once for each `size` samples of `order`, in one call that Python does not pace.

        data     all samples of every input, by its declared name, as `check_inputs` gives them
        order    i64[samples], C-contiguous: the numbers of samples, which have to be there
        numbers  the hyperparameters by name, one number for each minibatch
        done     i64[1], 0: counts the minibatches that are through

        Returns the results by name, one number for each minibatch.
        """
        plan = self._plans.for_call(data)
        if some_are_away() and not plan.compiled.keeps_arrays:
            self._bring_home()
        (dim,) = plan.bounds
        widest = min(size, len(order))
        if widest > plan.bounds[dim]:
            plan = self._plans.widened(plan, {dim: widest}, carry=False)
        arguments: list[Array | None] = [None] * len(plan.arguments)
        for name, spec in plan.dense.items():
            is_ready = spec.is_numbered or not spec.classes
            arguments[spec.place] = data[name] if is_ready else labels_of(spec, data[name])
        for name, spec in plan.hyperparameters.items():
            arguments[spec.place] = np.ascontiguousarray(numbers[name], spec.dtype)
        self._add_held(plan, arguments)
        results = [np.empty(-(-len(order) // size), spec.dtype) for spec in plan.results]
        run = plan.compiled.run_minibatches
        assert run is not None
        # Every argument is filled by now.
        try:
            run(arguments, results, order, size, done)  # type: ignore[arg-type]
        except NoSuchClass:  # the data are others than when they were checked
            plan.check_classes(data)
            raise
        return {p.name: array for p, array in zip(plan.results, results, strict=True)}

    def _split(self, inputs: Mapping[str, object]) -> tuple[dict[str, object], dict[str, object]]:
        """The inputs, and what of `OPTIONS` is given besides; an input of such a name is one."""
        options = {
            name: inputs[name] for name in OPTIONS if name in inputs and name not in self._names
        }
        plan = self._plans.current
        if plan.tables is None and (first := next((o for o in options if o != OUT), None)):
            raise no_sequences(f"{first}=")
        return {n: v for n, v in inputs.items() if n not in options}, options

    def _minibatch(
        self, plan: Plan, inputs: Mapping[str, object], options: Mapping[str, object], carry: bool
    ) -> Minibatch | None:
        """The inputs of a function of sequences as it takes them; None for another function."""
        if plan.tables is None:
            return None
        behind = self._sequences.behind if carry else None
        return read_minibatch(
            plan.inputs,
            by_input(plan, inputs),
            behind=behind,
            carry=carry,
            is_shared=plan.compiled.is_shared,
            **options,
        )

    def _add_held(self, plan: Plan, arguments: list[Array | None]) -> None:
        for spec in plan.held:
            store = self._learner_state if spec.is_state else self._parameters
            if spec.name not in store:
                raise fail("input", f"the network has no parameter {spec.name} any more")
            array = store[spec.name]
            if array is self._known.get(spec.name):
                arguments[spec.place] = array
                continue
            if (
                array.dtype != spec.dtype
                or array.shape != spec.fixed
                or not array.flags.c_contiguous
            ):
                if spec.is_updated:
                    raise _not_updatable(spec, array)
                come_home((array,))
                array = _held(spec, array)
            else:
                self._known[spec.name] = array
            arguments[spec.place] = array

    def _bring_home(self) -> None:
        """What the function reads where it lies in this process."""
        for spec in self._plans.current.held:
            store = self._learner_state if spec.is_state else self._parameters
            if spec.name in store:
                come_home((store[spec.name],))

    def _prepare_stores(self) -> None:
        """Check the parameters, add missing state, refuse what updates could not reach."""
        if some_are_away():
            self._bring_home()
        for spec in self._plans.current.held:
            store = self._learner_state if spec.is_state else self._parameters
            if spec.is_state and spec.name not in store:
                self._learner_state[spec.name] = np.zeros(spec.fixed or (), spec.dtype)
            if spec.name not in store:
                raise fail("input", f"parameter {spec.name} requires a value, got none")
            array = store[spec.name]
            usable = _held(spec, array)
            if spec.is_updated and (usable is not array or not array.flags.writeable):
                raise _not_updatable(spec, array)


def check_inputs(
    signature: Signature, inputs: Mapping[str, object]
) -> tuple[dict[str, Array | SparseRows], int]:
    """The inputs by their declared names, converted and contiguous, and the number of samples.
    Labels that are given as class numbers stay so: i64.

    For callers that cut a data set into minibatches: the bound on samples is not checked, and
    either kind of value may be indexed by a slice or by the numbers of samples. Raises GraphcError
    `input`.
    """
    plan = _plan_to_check(signature)
    found: dict[str, Array | SparseRows] = {}
    sizes: dict[str, int] = {}
    for name, value in by_input(plan, inputs).items():
        spec = plan.inputs[name]
        if isinstance(spec, ArgumentSpec):
            if spec.classes:
                spec = spec.taking(is_numbered(value, of_sequences=False))
            found[name] = read_array(spec, value, sizes)
        else:
            found[name] = rows = spec.read(value)
            note_samples(spec, len(rows), sizes)
    return {name: found[name] for name in plan.inputs}, _samples(plan, sizes)


def check_sequences(
    signature: Signature, inputs: Mapping[str, object]
) -> tuple[dict[str, list[Array | SparseRows]], Array]:
    """The sequences of every input by its declared name, converted, and their lengths i64[count].

    For callers that choose minibatches out of a data set of lists. Raises GraphcError `input`.
    """
    plan = _plan_to_check(signature)
    lists: dict[str, Sequence[object]] = {}
    for name, value in by_input(plan, inputs).items():
        if not isinstance(value, list | tuple):
            shape = getattr(value, "shape", "")
            raise fail(
                "input",
                f"input {name} requires a list of sequences, one array "
                f"(steps, rows) for each; got {type(value).__name__} {shape}".rstrip(),
            )
        lists[name] = value
    specs = {
        name: spec.taking(is_numbered(lists[name], of_sequences=True))
        if isinstance(spec, ArgumentSpec)
        else spec
        for name, spec in plan.inputs.items()
    }
    found, lengths = read_sequences(specs, lists)
    if len(lengths) and not lengths.min():
        number = int(np.argmin(lengths))
        raise fail("input", f"a sequence requires at least one step, sequence {number} has none")
    return found, lengths


@lru_cache(maxsize=16)
def _plan_to_check(signature: Signature) -> Plan:
    """What is known of a function's arguments, without the function."""
    return Plan.of(_NoFunction(), signature)


class _NoFunction(CompiledFunction):
    """Stands for a function that is not called."""

    def __call__(
        self, arguments: Sequence[Array], results: Sequence[Array], sizes: Mapping[str, int]
    ) -> None:
        raise InternalError("a function that was made to check arguments was called")


def needed_inputs(signature: Signature, data: Mapping[str, object]) -> dict[str, object]:
    """What of a data set the function takes; the data set may hold more."""
    names = {name.lower() for name in signature.input_names}
    return {name: array for name, array in data.items() if name.lower() in names}


def _samples(plan: Plan, sizes: Mapping[str, int]) -> int:
    """The first of the dims that a call decides, in whatever order inputs are given."""
    return next((sizes[dim] for dim in plan.bounds if dim in sizes), 0)


def _results(plan: Plan, arrays: Sequence[Array], minibatch: Minibatch | None) -> Results:
    """What the caller gets; the state of sequences is not among it."""
    handed_on = {spec.place for _, spec in plan.carried}
    found: dict[str, Any] = {}
    for spec, array in zip(plan.results, arrays, strict=True):
        if spec.place in handed_on:
            continue
        if spec.is_number:
            found[spec.name] = array[0, 0]
        elif minibatch is not None and spec.shape[0] in plan.columns:
            found[spec.name] = minibatch.returned(array)
        else:
            found[spec.name] = array
    return Results(found)


def _maker_of_results(plan: Plan, out: object) -> Callable[..., Any]:
    """What makes memory for a result of a shape and element type."""
    if text(out, "out") == "host":
        return result_array
    if out != "device":
        raise fail("input", f'out requires "host" or "device", got {out!r}')
    if plan.tables is not None:
        raise fail("not-supported", 'results of sequences are made on the host: out="host"')
    return plan.compiled.new_array


def _is_numbered(spec: ArgumentSpec, value: object) -> bool:
    """Whether it is taken as class numbers, of whatever integer type."""
    return spec.is_numbered and are_class_numbers(value)


def _lie_alike(one: Layout | None, other: Layout | None) -> bool:
    """Whether sequences lie in the same columns; how many steps came before may differ."""
    if one is other or one is None or other is None:
        return one is other
    return one.end.shape == other.end.shape and bool((one.end == other.end).all())


def _held(spec: ArgumentSpec, array: Array) -> Array:
    """A parameter or state array as the function needs it; itself when it fits already."""
    if array.shape != spec.fixed:
        raise fail("input", f"{spec.name} requires shape {spec.fixed}, got {array.shape}")
    if array.dtype == spec.dtype and array.flags.c_contiguous and array.flags.aligned:
        return array
    if array.dtype.kind not in "fiub" and array.dtype != spec.dtype:
        raise fail("input", f"{spec.name} requires {type_text(spec.dtype)}, got {array.dtype}")
    with np.errstate(over="ignore"):
        return np.array(array, spec.dtype, order="C")


def _not_updatable(spec: ArgumentSpec, array: Array) -> GraphcError:
    return fail(
        "input",
        f"{spec.name} is updated in place: requires a writeable, contiguous array of {spec.dtype}, "
        f"got {array.dtype}; a step compiled for another precision has to be compiled again",
    )
