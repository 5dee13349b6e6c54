"""What `graphc opt` does with one section: read, run passes, then print, emit or compute."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import click
import numpy as np

from graphc.backends import BACKENDS
from graphc.backends.base import EmitRequest, FileKind
from graphc.backends.signature import make_signature
from graphc.builder import GraphBuilder
from graphc.cli.reducing import reduced
from graphc.cli.sections import Section
from graphc.cli.terminal import Terminal
from graphc.driver.pipelines import PIPELINES
from graphc.frontend import frontend_for
from graphc.ir.context import Context
from graphc.ir.core import Function, Module, RegionKind, Value
from graphc.ir.dims import sizes_with_made
from graphc.ir.evaluate import evaluate
from graphc.ir.parser import parse_module
from graphc.ir.printer import print_module
from graphc.ir.types import TensorType
from graphc.ir.verifier import verify_module
from graphc.model.model import Model
from graphc.passes import pipeline
from graphc.passes.invariants import CHECKERS, Invariant
from graphc.passes.manager import Pass, PassManager, PassRecord
from graphc.runtime.signature import NUMPY_DTYPES, ROLES_OF_MODEL, concrete_shape
from graphc.support.diagnostics import fail, suggestion
from graphc.support.randomness import Purpose, random_words, unit_interval

DEFAULT_SIZE = 3


@dataclass(frozen=True, slots=True)
class Request:
    """What was asked of each section.

    run, seed     compute the function, for random arguments of this seed
    sizes         of dims, for that
    emit          print the source that this backend makes
    reduce_by     shrink the module while this command ends well
    function      which one to compute or emit
    macros        a name for messages and the text of each file
    """

    passes: Sequence[str]
    print_after_all: bool
    print_locations: bool
    timing: bool
    trace_patterns: bool
    verify: bool
    run: bool
    seed: int
    sizes: Sequence[tuple[str, int]]
    emit: str | None
    reduce_by: str | None
    function: str | None
    defines: Mapping[str, object] = field(default_factory=dict[str, object])
    macros: Sequence[tuple[str, str]] = ()


def transform(section: Section, request: Request, terminal: Terminal, context: Context) -> str:
    """The text that the section becomes. Raises GraphcError with everything that is wrong; warnings
    stay in the sink of `context`."""
    if request.trace_patterns:
        context = replace(context, trace=[])
    module = read_module(section, request, context)
    records = run_passes(module, request, context, terminal)
    for firing in context.trace or ():
        terminal.message(f"{firing.pattern}: {firing.operation}")
    if request.timing:
        terminal.message(timing_table(records))
    if request.run:
        return run_text(module, request)
    if request.emit is not None:
        return emit_text(module, request)
    if request.reduce_by is not None:
        module = reduced(module, request.reduce_by, terminal)
    return print_module(module, locations=request.print_locations)


def read_module(section: Section, request: Request, context: Context) -> Module:
    """The module of a section; verified unless that is switched off."""
    if section.suffix == ".gir":
        module = parse_module(section.text, context, file=section.file)
    else:
        module = read_network(section, request, context)
    context.sink.raise_if_errors()
    if request.verify:
        verify_module(module, context.sink)
        context.sink.raise_if_errors()
    return module


def read_network(section: Section, request: Request, context: Context) -> Module:
    """The module of a network's text, as its front end builds it; mistakes go to the context."""
    builder = GraphBuilder(Model(folder=Path(section.file).parent))
    frontend = frontend_for(section.suffix.removeprefix("."))
    frontend.load(
        builder,
        section.text,
        file=section.file,
        macros=request.macros,
        defines=request.defines,
    )
    context.sink.diagnostics.extend(builder.sink.diagnostics)
    return builder.model.module


def run_passes(
    module: Module, request: Request, context: Context, terminal: Terminal
) -> Sequence[PassRecord]:
    """Run the pipeline of the request."""

    def show(done: Pass, after: Module) -> None:
        if request.print_after_all:
            terminal.message(f"// ----- after {done}\n{print_module(after)}".rstrip())

    passes = [p for text in request.passes for p in pipeline(text, PIPELINES)]
    manager = PassManager(passes, request.verify, check_claim=request.verify, after=show)
    return manager.run(module, context)


def timing_table(records: Sequence[PassRecord]) -> str:
    """One line for each pass: time, name, whether it changed anything, its counts."""
    lines = [f"{'time':>10}  pass"]
    for r in records:
        counts = "".join(f", {count} {name}" for name, count in r.counters.items() if count)
        changed = "changed" if r.changed else "nothing to do"
        lines.append(f"{r.seconds * 1e3:>7.2f} ms  {r.name}: {changed}{counts}")
    total = sum(r.seconds for r in records)
    return "\n".join([*lines, f"{total * 1e3:>7.2f} ms  in all"])


# ----------------------------------------------------------------------------------- --run


def run_text(module: Module, request: Request) -> str:
    """The results of the function for random arguments, by the operations' references."""
    function = pick_function(module, request.function)
    sizes = choose_sizes(module, dict(request.sizes))
    arguments = {
        a.name or "": random_argument(a, request.seed, index, sizes)
        for index, a in enumerate(function.arguments)
    }
    results = evaluate(function, arguments, sizes)
    return "".join(f"{name}: {array_text(array)}" for name, array in results.items())


def pick_function(module: Module, name: str | None) -> Function:
    """The function of that name; without one, the only function that can be computed."""
    candidates = [f for f in module.functions if f.kind is RegionKind.SSA]
    if name is not None:
        found = next((f for f in candidates if f.name == name), None)
        if found is None:
            near = suggestion(name, [f.name for f in candidates])
            raise fail("bad-option", f"the module has no function @{name} to compute{near}")
        return found
    if len(candidates) != 1:
        names = ", ".join(f"@{f.name}" for f in candidates) or "none"
        raise fail(
            "bad-option",
            f"one function to compute is required, got {names}; name it by --function, or make "
            "one out of a network by `-p infer-shapes,expand-nodes{outputs=[...]}`",
        )
    return candidates[0]


def choose_sizes(module: Module, given: Mapping[str, int]) -> dict[str, int]:
    """The size of every dim of the module, within its bound; of made dims what follows.

    A dim that is cut into parts is a multiple of them, by default the least above the usual size.
    """
    dims = {d.name: d.bound for d in module.dims if not d.is_made}
    parts = {f.name: d.divisor for d in module.dims for f in d.factors[:1] if d.exact}
    for name, size in given.items():
        if name not in dims:
            raise fail("bad-option", f"the module has no dim {name}{suggestion(name, dims)}")
        if not 0 <= size <= dims[name]:
            raise fail("bad-option", f"--size {name} requires 0 to {dims[name]}, got {size}")
        if size % parts.get(name, 1):
            message = f"--size {name} requires a multiple of {parts[name]}, got {size}"
            raise fail("bad-option", message)
    usual = {name: -(-DEFAULT_SIZE // parts.get(name, 1)) * parts.get(name, 1) for name in dims}
    sizes = {name: given.get(name, min(usual[name], bound)) for name, bound in dims.items()}
    found = sizes_with_made(sizes, module.dims)
    wrong = next((d for d in module.dims if found[d.name] < 0), None)
    if wrong is not None:
        message = f"{wrong.name} = {wrong.formula} is {found[wrong.name]}, at least 0 is required"
        raise fail("bad-option", f"{message}: give other sizes by --size")
    return found


def random_argument(value: Value, seed: int, index: int, sizes: Mapping[str, int]) -> np.ndarray:
    """Floats from -1 to 1, integers from 0 to 9, truth values: the same on every machine."""
    assert isinstance(value.type, TensorType)
    shape, dtype = value.type.shape(sizes), value.type.dtype.numpy
    words = random_words(seed, Purpose.INITIAL_VALUE, index, math.prod(shape))
    if dtype.kind == "f":
        return (2.0 * unit_interval(words) - 1.0).astype(dtype).reshape(shape)
    return (words % np.uint64(2 if dtype.kind == "b" else 10)).astype(dtype).reshape(shape)


def array_text(array: np.ndarray) -> str:
    """Element type and shape, then the numbers, one line for each row of the last axis."""
    head = f"{array.dtype}{list(array.shape)}\n"
    rows = array.reshape(-1, array.shape[-1] if array.ndim else 1)
    return head + "".join("  " + " ".join(f"{x:.6g}" for x in row) + "\n" for row in rows)


# ---------------------------------------------------------------------------------- --emit


def emit_text(module: Module, request: Request) -> str:
    """The source that a backend makes of the planned function; parameters are zeros."""
    assert request.emit is not None
    sources = {name: source for name, load in BACKENDS.items() if (source := load().source)}
    kind = sources.get(request.emit)
    if kind is None:
        known = ", ".join(sources)
        raise fail("bad-option", f"--emit requires one of {known}, got `{request.emit}`")
    function = pick_function(module, request.function)
    if problems := CHECKERS[Invariant.PLANNED](module):
        required = Invariant.PLANNED.value
        raise fail(
            "invariant", f"--emit requires {required}: {problems[0]}; run `-p kernels` first"
        )
    return source_text(module, function, kind)


def source_text(
    module: Module, function: Function, kind: FileKind, target: str = EmitRequest.target
) -> str:
    """A planned function as a backend's source; parameters are zeros."""
    signature = make_signature(module, function)
    bounds = {d.name: d.bound for d in module.dims}
    zeros = {
        a.name: np.zeros(concrete_shape(a.shape, bounds), NUMPY_DTYPES[a.dtype])
        for a in signature.arguments
        if a.role in ROLES_OF_MODEL
    }
    emission = EmitRequest(function.name, zeros, "{}", target)
    return kind.make(function, signature, emission).decode("utf-8")


# ------------------------------------------------------------------------------- arguments


class SeedType(click.ParamType):
    """`seed:N` of `--inputs`."""

    name = "seed:n"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        match = re.fullmatch(r"seed:([0-9]{1,18})", str(value))
        if match is None:
            self.fail(f"seed:N is required, got {value!r}", param, ctx)
        return int(match[1])


class SizeType(click.ParamType):
    """`N=K` of `--size`."""

    name = "n=k"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, int]:
        match = re.fullmatch(r"([A-Za-z_]\w*)=([0-9]{1,9})", str(value))
        if match is None:
            self.fail(f"N=K is required, got {value!r}", param, ctx)
        return match[1], int(match[2])
