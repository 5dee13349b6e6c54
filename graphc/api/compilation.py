"""What is made of a network or a program: a callable, an ONNX file, a graph for networkx."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from graphc.api.given import model_of, refuse_of_networks
from graphc.builder import GraphBuilder
from graphc.driver.cache_key import default_cache
from graphc.driver.compile import bind, checked_numbered, evaluation_passes, node_names
from graphc.driver.onnx_export import export_model
from graphc.driver.options import CompileOptions, parse_arithmetic, parse_precision
from graphc.driver.program import bind_program
from graphc.ir.core import ContractionMode, Function, LaunchMode
from graphc.model.model import Model
from graphc.model.program import Program
from graphc.passes.loop_gradient import Recompute
from graphc.runtime.executable import Executable
from graphc.support import arguments
from graphc.support.diagnostics import fail

if TYPE_CHECKING:
    import networkx as nx

    from graphc.learn.stages import Stage
    from graphc.tensor.function import ArrayFunction


def compile(
    network: GraphBuilder | Model | Program,
    outputs: str | Sequence[str] = (),
    *,
    gradients: str | Sequence[str] = (),
    backend: str = CompileOptions.backend,
    precision: str = CompileOptions.precision.value,
    batch: int = CompileOptions.batch,
    time: int = CompileOptions.time,
    sequences: int = CompileOptions.sequences,
    recompute: Recompute = CompileOptions.recompute,
    contraction: ContractionMode = CompileOptions.contraction,
    launch: LaunchMode = CompileOptions.launch,
    threads: int | None = CompileOptions.threads,
    freeze: bool = CompileOptions.freeze,
    seldom: str | Sequence[str] = (),
    class_numbers: str | Sequence[str] = (),
    verify: bool = CompileOptions.verify,
) -> Executable:
    """A callable that computes `outputs`, by default the network's output nodes.

    gradients  names of parameters, inputs or nodes: also compute the gradient of the first
               output's sum with respect to each
    batch      bound on the samples of a call; a larger call recompiles for the next power of two
    time       for sequences: bound on their steps, 64 if a network that looks along time is
               compiled without it; `sequences`: on how many lie side by side in a call. Beyond them
               a call recompiles too
    recompute  for gradients of recurrent networks, "none", "auto", "all" or "sqrt": what is
               computed again to save memory (docs/loops.md)
    contraction  "fma" or "off": whether native code may round a product and the sum that it goes
               to together; "tf32" and "bf16", as precision = "tf32" and "bf16" say too: factors of
               matrix products of f32 are rounded, on a GPU or everywhere (docs/numerics.md)
    launch     how a GPU runs it, "graph", "grid" or "block": many kernels, one, or one of one
               block; "auto": what takes least time by estimate
    threads    how many compute a call, `exe.threads` from then on; by default what the variable
               GRAPHC_NUM_THREADS says, else one for each core (docs/threads.md)
    freeze     the parameters stay as they are now: kept a second time, in the form that products
               read fastest; what depends on them alone is computed once, here
    seldom     names of inputs that not every call gives: what depends on them alone (and on frozen
               parameters) is computed when they are given, and kept; of networks without sequences
    class_numbers  names of inputs with the tag `label` that calls will give as class numbers, whole
               numbers (N,): what takes them is then compiled now and not at the first such call

    `exe(features=x)` takes one array (N, rows) per input and gives one (N, rows) per output; a 1x1
    output is a scalar, a parameter's gradient has its shape (rows, cols). A sparse input takes what
    `train` says. Of sequences it takes one list of arrays (steps, rows) per input and gives a list
    of arrays per output, or arrays (T, S, rows) with `lengths=` or `flags=` (docs/sequences.md);
    with `carry=True` they go on from `exe.state`. Parameters are read at every call unless frozen.
    Raises GraphcError for a bad network or option.
    """
    dtype, contraction = parse_arithmetic(precision, contraction)
    options = CompileOptions(
        backend=backend,
        precision=dtype,
        batch=batch,
        verify=verify,
        time=time,
        sequences=sequences,
        recompute=recompute,
        cache=default_cache(),
        contraction=contraction,
        launch=launch,
        threads=threads,
        freeze=freeze,
    )
    wanted, of = arguments.texts(outputs, "outputs"), arguments.texts(gradients, "gradients")
    rare = arguments.texts(seldom, "seldom")
    numbered = arguments.texts(class_numbers, "class_numbers")
    if isinstance(network, Program):
        refuse_of_networks(seldom=bool(rare), class_numbers=bool(numbered))
        return bind_program(network, wanted, of, options)
    model = model_of(network)
    options = replace(
        options,
        seldom=tuple(node_names(model, rare)),
        numbered=checked_numbered(model, numbered),
    )
    return bind(model, lambda m, o: evaluation_passes(m, wanted, of, o), options)


def export_onnx(
    network: GraphBuilder | Model | Program,
    path: str | Path,
    outputs: str | Sequence[str] = (),
    *,
    precision: str = CompileOptions.precision.value,
    batch: int = CompileOptions.batch,
    time: int = CompileOptions.time,
    sequences: int = CompileOptions.sequences,
) -> list[Path]:
    """Write `outputs` of a network or program, by default the network's output nodes and all that
    a program gives, as an ONNX file (docs/onnx.md).

    precision               of a network, "f32" or "f64"; a program says its own
    batch, time, sequences  of a network, as in `compile`: a file tells its reader what is bounded

    The files written: `path`, and beside it `path` with `.data` at its end where parameters take
    more than 1 GB. Raises GraphcError for a bad network or option, with every operation that ONNX
    has nothing for and its place, and without the package `onnx`.
    """
    path = arguments.path(path, "export_onnx")
    options = CompileOptions(
        precision=parse_precision(precision), batch=batch, time=time, sequences=sequences
    )
    source = network if isinstance(network, Program) else model_of(network)
    return export_model(source, path, arguments.texts(outputs, "outputs"), options)


def to_networkx(
    network: GraphBuilder | Model | ArrayFunction | Function,
    *given: object,
    stage: Stage | None = None,
    outputs: str | Sequence[str] = (),
    training: bool = False,
    precision: str = CompileOptions.precision.value,
    batch: int = CompileOptions.batch,
    time: int = CompileOptions.time,
    sequences: int = CompileOptions.sequences,
    recompute: Recompute = CompileOptions.recompute,
) -> nx.MultiDiGraph[str]:
    """The graph of `network` at a stage of its compilation, for networkx (docs/graphs.md).

    network    a network; a `gc.function`, traced for the arguments `given`; or a function of the
               IR, shown as it is
    stage      "nodes" (what was written, the default for networks), "tensor" (what is computed,
               optimised, the default for functions), "kernels" (fused and placed) or "schedule"
               (kernels with all that is decided for this machine)
    outputs    nodes to compute, by default all outputs and criteria; or `training`, a training step
    precision, batch, time, sequences, recompute  as in `compile`

    Nothing of the network changes. Raises GraphcError for a bad network or option.
    """
    from graphc.learn.stages import STAGES, module_at
    from graphc.model.digraph import function_graph
    from graphc.tensor.function import ArrayFunction

    if stage is not None and stage not in STAGES:
        raise fail("bad-option", f"stage requires one of {', '.join(STAGES)}, got {stage!r}")
    if isinstance(network, Function):
        if stage is not None:
            raise fail("bad-option", "a function of the IR is shown as it is: leave out stage=")
        return function_graph(network)
    if isinstance(network, ArrayFunction):
        if stage == "nodes" or outputs or training:
            raise fail(
                "bad-option",
                'a function of arrays has no stage "nodes", no outputs= and no training=',
            )
        return function_graph(network.module_at(stage or "tensor", *given).functions[0])
    model = model_of(network)
    if given:
        raise fail("argument-type", "a network takes no arguments; name its nodes by outputs=")
    stage = stage or "nodes"
    if training and outputs:
        raise fail("bad-option", "training decides what is computed: leave out outputs=")
    if stage == "nodes" and (training or outputs):
        raise fail("bad-option", "outputs= and training= need the stage tensor or kernels")
    options = CompileOptions(
        precision=parse_precision(precision),
        batch=batch,
        time=time,
        sequences=sequences,
        recompute=recompute,
    )
    names = arguments.texts(outputs, "outputs")
    module = module_at(model, stage, options, train=training, nodes=names)
    return function_graph(module.functions[0])
