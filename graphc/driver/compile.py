"""From a network to a compiled function: clone, run the passes, hand over to a backend."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from graphc.backends import BACKENDS
from graphc.backends.base import CompiledFunction
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.driver.begun import Begun, shared_passes
from graphc.driver.cache import Cache, Entry
from graphc.driver.cache_key import make_key, sources_are_unchanged
from graphc.driver.options import DEFAULT_TIME, CompileOptions
from graphc.driver.prepare import draw, infer
from graphc.driver.profile import Source
from graphc.driver.shared_code import BACKEND as SHARING
from graphc.driver.shared_code import shared_code
from graphc.ir.clone import clone_module
from graphc.ir.context import Context
from graphc.ir.core import Function, Module
from graphc.ir.machine import AnyMachine, GpuMachine
from graphc.ir.printer import print_module
from graphc.ir.traversal import walk
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import find_node, node_type
from graphc.ops.nodes.leaves import INPUT, SPARSE_INPUT
from graphc.ops.nodes.sequence_columns import (
    BEGIN,
    END,
    SEGMENTS_DIM,
    SEQUENCES_DIM,
    TIME_DIM,
)
from graphc.passes.expand_nodes import MAIN, ExpandNodes, inputs_of
from graphc.passes.manager import Pass, PassManager, PassRecord
from graphc.passes.merge_products import MergeProducts
from graphc.runtime.executable import Executable, Results
from graphc.runtime.plans import Recompile, Variant
from graphc.runtime.seldom import Run, SeldomInputs
from graphc.runtime.signature import (
    NUMPY_DTYPES,
    LabelInput,
    SequenceTables,
    Signature,
    SparseInput,
    concrete_shape,
)
from graphc.runtime.threads import thread_count
from graphc.support.diagnostics import InternalError, fail, suggestion
from graphc.support.graphs import reachable


@dataclass(frozen=True)
class Lowered:
    """A function ready for a backend, and what each pass did."""

    module: Module
    function: Function
    signature: Signature
    records: Sequence[PassRecord]


def lower(model: Model, passes: Sequence[Pass], options: CompileOptions) -> Lowered:
    """Run `passes`, and those that the backend needs, on a copy of the network."""
    return lower_by(model, all_passes(passes, options), options)


def lower_by(model: Model, passes: Sequence[Pass], options: CompileOptions) -> Lowered:
    """Run `passes`, and no others, on a copy of the network."""
    infer(model)
    module, records = passed(model.module, passes, options)
    function = module.function(MAIN)
    if function is None:
        raise InternalError(f"the passes left no function @{MAIN}")
    function.contraction = options.contraction
    function.launch = options.launch
    signature = make_signature(module, function)
    sparse, tables = _sparse_inputs(model, function), sequence_tables(function, signature)
    signature = replace(
        signature, sparse=sparse, sequences=tables, labels=_labels(model, signature, options)
    )
    return Lowered(module, function, signature, records)


def sequence_tables(function: Function, signature: Signature) -> SequenceTables | None:
    """Where a function of sequences is told how they lie."""
    if function.argument(BEGIN) is None:
        return None
    segment = next((d.multiple for d in signature.dims if d.name == SEGMENTS_DIM), 1)
    return SequenceTables(BEGIN, END, TIME_DIM, SEQUENCES_DIM, segment)


def all_passes(passes: Sequence[Pass], options: CompileOptions) -> list[Pass]:
    """These passes, and then those that the backend needs.

    On a GPU products stay apart: its kernels take whole arrays, so that each part of a product
    would be moved by a launch of its own, and products that share a factor run side by side.
    """
    if BACKENDS[options.backend]().stage != "kernels":
        return list(passes)
    machine = machine_of(options)
    if isinstance(machine, GpuMachine):
        passes = [p for p in passes if not isinstance(p, MergeProducts)]
    return [*passes, *pipelines.kernels(machine, freeze=options.freeze)]


def machine_of(options: CompileOptions) -> AnyMachine | None:
    """What schedules are made for; None for a backend that asks for none."""
    backend = BACKENDS[options.backend]()
    if options.machine is not None or backend.machine is None:
        return options.machine
    return backend.machine(options.target)


def check_machine(options: CompileOptions) -> None:
    """GraphcError for code of a processor by the schedules of a GPU, or the other way round."""
    backend = BACKENDS[options.backend]()
    if options.machine is None or backend.machine is None:
        return
    wants_gpu = isinstance(backend.machine(options.target), GpuMachine)
    if isinstance(options.machine, GpuMachine) != wants_gpu:
        wanted, got = ("a GPU", "a processor") if wants_gpu else ("a processor", "a GPU")
        message = f"the backend {backend.name} requires the machine of {wanted}, got {got}"
        raise fail("bad-option", message)


def _sparse_inputs(model: Model, function: Function) -> tuple[SparseInput, ...]:
    """The sparse inputs of the network that the function takes."""
    nodes = [op for op in model.graph.block if op.opdef is SPARSE_INPUT]
    inputs = [SparseInput(op.result.name or "", node_type(op).rows or 0) for op in nodes]
    return tuple(s for s in inputs if function.argument(s.indices) is not None)


def label_inputs(model: Model) -> dict[str, int]:
    """The inputs that class numbers may be given for, and the classes: those with the tag, of
    several rows that are numbers."""
    nodes = [model.find(name) for name in model.tagged("label")]
    inputs = [op for op in nodes if op is not None and op.opdef is INPUT]
    rows = {op.result.name or "": node_type(op).rows or 0 for op in inputs}
    return {name: count for name, count in rows.items() if count > 1}


def checked_numbered(model: Model, names: Sequence[str]) -> tuple[str, ...]:
    """Inputs that class numbers may be given for, as the network spells them. GraphcError."""
    found = node_names(model, names)
    for name in found:
        if name not in label_inputs(model):
            wanted = "class_numbers requires inputs of several rows with the tag `label`"
            raise fail("bad-option", f"{wanted}, got `{name}`")
    return tuple(found)


def _labels(model: Model, signature: Signature, options: CompileOptions) -> tuple[LabelInput, ...]:
    """Those that the function takes."""
    classes, dtype = label_inputs(model), options.precision.value
    return tuple(
        LabelInput(a.name, classes[a.name], dtype, a.name in options.numbered)
        for a in signature.with_role("input")
        if a.name in classes
    )


def passed(
    source: Module, passes: Sequence[Pass], options: CompileOptions
) -> tuple[Module, list[PassRecord]]:
    """A copy of the module after the passes, and what each of those that were run did: not the
    first ones where `options.begun` has what they make."""
    begun, count = options.begun, shared_passes(passes)
    if begun is None or options.verify or options.after is not None:
        count = 0
    module = begun.take(source, passes[:count]) if begun is not None and count else None
    records: list[PassRecord] = []
    if module is None:
        module = clone_module(source)
        if begun is not None and count:
            records = run_passes(module, passes[:count], default_context(), options)
            begun.keep(source, passes[:count], module)
    return module, [*records, *run_passes(module, passes[count:], default_context(), options)]


def run_passes(
    module: Module, passes: Sequence[Pass], context: Context, options: CompileOptions
) -> list[PassRecord]:
    manager = PassManager(
        passes, verify=options.verify, check_claim=options.verify, after=options.after
    )
    records = manager.run(module, context)
    for record in records:
        options.phases.add(f"pass {record.name}", record.seconds)
    return records


def compile_model(
    model: Model, passes: Sequence[Pass], options: CompileOptions
) -> tuple[CompiledFunction, Signature]:
    """The backend's callable for what `passes` make of a network: from the cache, if it is there,
    without running them."""

    passes = all_passes(passes, options)

    def lowered() -> tuple[Function, Signature]:
        made = lower_by(model, passes, options)
        return made.function, made.signature

    with options.phases.measure("sizes"):
        infer(model)
    return compile_kept(model.module, passes, lowered, options)


def compile_kept(
    module: Module,
    passes: Sequence[Pass],
    lowered: Callable[[], tuple[Function, Signature]],
    options: CompileOptions,
    decided: Mapping[str, str] | None = None,
) -> tuple[CompiledFunction, Signature]:
    """The backend's callable for what `lowered` gives: `module` after all `passes`.

    decided  what else the code follows from, by names

    With a cache `lowered` is called only if the code is not there yet; then it is kept.
    """
    backend, phases = BACKENDS[options.backend](), options.phases
    backend.require_here()
    check_machine(options)
    if options.profile is not None:
        if backend.profile is None:
            raise fail("backend", f"the backend {backend.name} takes no times of single operations")
        function, signature = lowered()
        keep = options.profile.keep_events
        made = backend.profile.compile(function, signature, phases, keep)
        profiled = options.profile.add(*made, Source(function, signature, module))
        return _threaded(profiled, options), signature
    halves = backend.code
    if halves is None:
        function, signature = lowered()
        with phases.measure("backend"):
            return _threaded(backend.compile(function, signature), options), signature
    entry = key = None
    if options.cache is not None and options.after is None and not options.verify:
        with phases.measure("cache"):
            versions = {**halves.versions("native"), "options": options.deciding()}
            versions |= decided or {}
            text = print_module(_decided(module, passes, options))
            key = make_key(text, passes, backend.name, versions)
            entry = options.cache.lookup(key) if key is not None else None
    if options.cache is not None:
        _offer_pool(options.cache)
    if entry is not None:
        loaded = halves.load(entry.code, entry.signature, phases)
        return _threaded(loaded, options), entry.signature
    start = time.perf_counter()
    function, signature = lowered()
    code = halves.make(function, signature, phases)
    if options.cache is not None and key is not None and sources_are_unchanged():
        with phases.measure("cache"):
            seconds = time.perf_counter() - start
            options.cache.store(Entry(key, signature, code, seconds))
    return _threaded(halves.load(code, signature, phases), options), signature


def _decided(module: Module, passes: Sequence[Pass], options: CompileOptions) -> Module:
    """`module`, or what nodes of other distributions expand to in it: nothing else says whether
    their code has changed."""
    expansion = [i for i, p in enumerate(passes) if isinstance(p, ExpandNodes)]
    if not expansion or not any(op.opdef.origin for op in walk(module)):
        return module
    expanded = clone_module(module)
    run_passes(expanded, passes[: expansion[0] + 1], default_context(), options)
    return expanded


def _threaded(compiled: CompiledFunction, options: CompileOptions) -> CompiledFunction:
    compiled.use_threads(thread_count(options.threads))
    return compiled


def _offer_pool(cache: Cache) -> None:
    """What is split among threads finds in the cache their code, and what was measured of them."""
    pool = BACKENDS[SHARING]().pool
    if pool is not None:
        pool.kept_by(partial(shared_code, cache=cache))


PassesFor = Callable[[Model, CompileOptions], list[Pass]]


CompileModel = Callable[[Model, Sequence[Pass], CompileOptions], tuple[CompiledFunction, Signature]]


OF_CALLERS = ("sparse", "sequences", "labels", "classes", "gives_numbers")
"""What a signature says of how callers give inputs and get results, which no operation does."""


def compile_operations(
    module: Module,
    options: CompileOptions,
    first: Sequence[Pass] = (),
    *,
    like: Signature | None = None,
) -> tuple[CompiledFunction, Signature]:
    """The function that these passes, and those of the backend, make of a module of tensor
    operations; how its inputs are given is `like` this."""
    passes = all_passes(first, options)
    given: dict[str, Any] = {}
    if like is not None:
        given = {name: getattr(like, name) for name in OF_CALLERS}

    def lowered() -> tuple[Function, Signature]:
        run_passes(module, passes, default_context(), options)
        (function,) = module.functions
        return function, replace(make_signature(module, function), **given)

    decided = {"signature": str(given)} if given else None
    return compile_kept(module, passes, lowered, options, decided)


def bind(
    model: Model,
    passes_for: PassesFor,
    options: CompileOptions,
    compile_by: CompileModel = compile_model,
) -> Executable:
    """The compiled function with the network's parameters bound to it.

    A call beyond the bound compiles again, with the passes for a larger one, and so does the first
    one with labels of the other kind than `options` say: of the network as it is now, whatever
    becomes of it in between. With inputs that are given seldom class numbers become rows.
    """
    infer(model)
    if options.seldom:
        options = replace(options, numbered=())
    frozen = model.frozen() if options.freeze else model.snapshot()
    embedded: dict[str, np.ndarray] = {}

    def draw_for(signature: Signature) -> None:
        with options.phases.measure("initial values"):
            draw(frozen, signature.model_names)

    def variant(form: Variant) -> Recompile:
        numbered = tuple(sorted(form.numbered))
        own = replace(options, carry=form.carry or options.carry, numbered=numbered)
        return lambda bounds: part(own.widened(bounds))

    def part(options: CompileOptions) -> tuple[CompiledFunction, Signature]:
        options = replace(options, begun=Begun() if options.freeze else None)
        function, signature = compile_by(frozen, passes_for(frozen, options), options)
        if options.freeze:
            draw_for(signature)
            embedded.update(frozen_arrays(frozen, signature, passes_for, options, compile_by))
        return function, signature

    def seldom(bounds: Mapping[str, int]) -> Run:
        """What makes arrays of the inputs that are given seldom."""
        own = partial(_seldom_part, part, options)
        executable = Executable(
            *own(bounds), values(), recompile=own, threads=thread_count(options.threads)
        )

        def run(inputs: Mapping[str, object]) -> tuple[Results, dict[str, int]]:
            results = executable.run(inputs, {})
            return results, {dim.name: dim.bound for dim in executable.signature.call_dims}

        return run

    def values() -> Mapping[str, np.ndarray]:
        return embedded if options.freeze else frozen.values_in(options.precision)

    function, signature = part(options)
    if not options.freeze:  # only once: what has been renamed or removed by a later call stays so
        draw_for(signature)
    return Executable(
        function,
        signature,
        values(),
        recompile=variant(Variant()) if options.seldom else None,
        variants=None if options.seldom else variant,
        threads=thread_count(options.threads),
        seldom=SeldomInputs(options.seldom, seldom, seldom({})) if options.seldom else None,
    )


def _seldom_part(
    compile_part: Callable[[CompileOptions], tuple[CompiledFunction, Signature]],
    options: CompileOptions,
    bounds: Mapping[str, int],
) -> tuple[CompiledFunction, Signature]:
    """The function of the inputs that are given seldom, which has to take each of them."""
    function, signature = compile_part(replace(options.widened(bounds), part="seldom"))
    if unknown := [n for n in options.seldom if n not in signature.input_names]:
        message = f"nothing depends on {', '.join(unknown)} and on no other input"
        raise fail(
            "bad-option", f"seldom requires inputs that something depends on alone: {message}"
        )
    return function, signature


def frozen_arrays(
    model: Model,
    signature: Signature,
    passes_for: PassesFor,
    options: CompileOptions,
    compile_by: CompileModel = compile_model,
) -> dict[str, np.ndarray]:
    """The model's arrays as a function takes them, with what it takes of what depends on frozen
    parameters alone, which is computed here."""
    values: dict[str, np.ndarray] = {}
    if any(model.find(name) is None for name in signature.model_names):
        own = replace(options, part="frozen")
        function, early = compile_by(model, passes_for(model, own), own)
        draw(model, early.model_names)
        values = computed_early(function, early, model.values_in(options.precision))
    held = model.values_in(options.precision)
    return signature.model_arrays(
        {**{n: held[n] for n in signature.model_names - {*values}}, **values}
    )


def computed_early(
    function: CompiledFunction, signature: Signature, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """What a function of frozen parameters alone makes of their values, by the names of results."""
    arrays = signature.model_arrays(values)
    made = {
        r.name: np.empty(concrete_shape(r.shape, {}), NUMPY_DTYPES[r.dtype])
        for r in signature.results
    }
    unused = dict.fromkeys((d.name for d in signature.dims), 0)  # nothing early has such a size
    function([arrays[a.name] for a in signature.arguments], [*made.values()], unused)
    return made


def evaluation_passes(
    model: Model, outputs: Sequence[str], gradients: Sequence[str], options: CompileOptions
) -> list[Pass]:
    """The passes for `outputs`, by default the output nodes, and for gradients of the first."""
    names = node_names(model, outputs or default_outputs(model))
    wanted = node_names(model, gradients)
    bounds = bounds_for(model, names, options)
    if options.seldom and bounds.time:
        raise fail("not-supported", "seldom= is for inputs of samples, this network has sequences")
    passes = pipelines.evaluation(
        *(names, wanted, options.precision, bounds, options.recompute, options.contraction),
        freeze=options.freeze,
    )
    return [*passes, *pipelines.early_parts(options.part, options.seldom, freeze=options.freeze)]


def bounds_for(model: Model, names: Sequence[str], options: CompileOptions) -> pipelines.Bounds:
    """What a call holds at most: with time if it is asked for, or if the nodes look along it."""
    time = options.time or (DEFAULT_TIME if looks_along_time(model, names) else 0)
    carry = options.carry and bool(time)
    return pipelines.Bounds(
        options.batch, options.entries, time, options.sequences, carry, options.numbered
    )


def looks_along_time(model: Model, names: Sequence[str]) -> bool:
    """Whether a delay is among what the nodes are computed of."""
    roots = [op for name in names if (op := model.find(name)) is not None]
    return any(op.opdef in DELAYS for op in reachable(roots, inputs_of))


def node_names(model: Model, names: Sequence[str]) -> list[str]:
    """The names as the network spells them; GraphcError for one that it does not have."""
    found: list[str] = []
    for name in names:
        op = find_node(model.graph, name)
        if op is None:
            near = suggestion(name, [o.result.name or "" for o in model.graph.block])
            raise fail("missing-node", f"the network has no node `{name}`{near}")
        found.append(op.result.name or "")
    return list(dict.fromkeys(found))


def default_outputs(model: Model) -> list[str]:
    """The nodes tagged as outputs."""
    names = model.tagged("output")
    if not names:
        raise fail(
            "missing-node",
            "no output nodes are specified: name some (`outputs=`), tag them `output`, "
            "or list them in OutputNodes",
        )
    return names
