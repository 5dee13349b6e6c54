"""From a program to a compiled function, and from a file with a function of the IR to a program.

A file, such as `graphc dump` prints and people edit, may hold any level below nodes: what tensor
operations need to become planned kernels is done here. A schedule or a plan that is written in the
file is kept, what it leaves open is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from graphc.backends import BACKENDS
from graphc.backends.base import CompiledFunction
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.driver.begun import Begun
from graphc.driver.compile import (
    Lowered,
    all_passes,
    compile_kept,
    computed_early,
    machine_of,
    passed,
    run_passes,
    sequence_tables,
)
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.core import Function, Level, Module, RegionKind
from graphc.ir.parser import parse_module
from graphc.ir.traversal import walk
from graphc.ir.verifier import verify_module
from graphc.model.model import Model
from graphc.model.program import Program
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.choose_schedule import ChooseSchedule
from graphc.passes.manager import Pass
from graphc.runtime.executable import Executable
from graphc.runtime.residency import come_home
from graphc.runtime.signature import ClassNumbers, Signature
from graphc.runtime.threads import thread_count
from graphc.support.diagnostics import fail, suggestion
from graphc.support.files import read_text

SUFFIX = ".gir"


def lower_program(program: Program, options: CompileOptions, passes: Sequence[Pass]) -> Lowered:
    """A copy that `options.backend` takes, after these passes.

    Raises GraphcError (bad-schedule) for a schedule that does not fit its operation.
    """
    module, records = passed(program.module, passes, options)
    (function,) = module.functions
    if not program.is_written:
        function.contraction = options.contraction
        function.launch = options.launch
    signature = make_signature(module, function)
    tables = sequence_tables(function, signature)
    signature = replace(signature, sequences=tables, classes=_class_numbers(program))
    return Lowered(module, function, signature, records)


def _class_numbers(program: Program) -> tuple[ClassNumbers, ...]:
    taken = [name for name in program.classes if program.find(name) is not None]
    return tuple(ClassNumbers(name, program.classes[name]) for name in taken)


def compile_program(
    program: Program, passes: Sequence[Pass], options: CompileOptions
) -> tuple[CompiledFunction, Signature]:
    """The function of `options.backend`, to call: from the cache, if it is there."""

    def lowered() -> tuple[Function, Signature]:
        made = lower_program(program, options, passes)
        return made.function, made.signature

    decided = {"classes": str(_class_numbers(program))} if program.classes else {}
    return compile_kept(program.module, passes, lowered, options, decided)


def bind_program(
    program: Program, outputs: Sequence[str], gradients: Sequence[str], options: CompileOptions
) -> Executable:
    """The compiled function with the program's parameters bound to it.

    outputs    names of results, all of them for none
    gradients  names of arguments: also the gradient of the first result's sum with respect to each

    A call beyond the bound of a dim compiles again, for a larger one. Raises GraphcError.
    """
    # Without open sizes there is no second compilation that would need the values as they are now.
    keeps = options.freeze and len(program.module.dims) > 0
    held = with_results(program.frozen() if keeps else program, outputs)
    embedded: dict[str, np.ndarray] = {}

    def compiled(bounds: Mapping[str, int]) -> tuple[CompiledFunction, Signature]:
        wider = held.with_bounds(bounds)
        own = replace(options, begun=Begun() if options.freeze else None)
        passes = program_passes(wider, own, gradients)
        function, signature = compile_program(wider, passes, own)
        if options.freeze:
            found = frozen_values(wider, signature, own, gradients)
            embedded.update(found if keeps else _apart(found, program))
        return function, replace(signature, gives_numbers=wider.is_written)

    function, signature = compiled({})
    values = embedded if options.freeze else held.values
    threads = thread_count(options.threads)
    return Executable(function, signature, values, recompile=compiled, threads=threads)


def _apart(values: Mapping[str, np.ndarray], program: Program) -> dict[str, np.ndarray]:
    """The arrays, none of them in memory of the program's parameters."""
    own = [*program.values.values()]

    def is_own(array: np.ndarray) -> bool:
        return any(np.may_share_memory(array, other) for other in own)

    return {name: array.copy() if is_own(array) else array for name, array in values.items()}


def read_module(path: Path) -> Module:
    """The module of a file, verified. Raises GraphcError at the line that is wrong."""
    context = default_context()
    module = parse_module(read_text(path), context, file=str(path))
    context.sink.raise_if_errors()
    verify_module(module, context.sink)
    context.sink.raise_if_errors()
    return module


def read_function(path: Path, model: Model | None = None) -> Program:
    """The function of a file, its parameters those of `model`.

    Raises GraphcError at the line that is wrong.
    """
    module = read_module(path)
    if len(module.functions) != 1:
        raise fail("bad-value", f"{path} requires one function, it has {len(module.functions)}")
    program = Program(module, is_written=True)
    if program.function.kind is not RegionKind.SSA:
        message = f"{path} holds a network's nodes: print it with `--stage tensor` or a later one"
        raise fail("bad-value", message)
    if model is None:
        return program
    return replace(program, values=model.values_in(program.precision))


def with_results(program: Program, names: Sequence[str]) -> Program:
    """The program that gives these results, all of them for no names."""
    known = [r.name for r in program.function.results]
    for name in names:
        if name not in known:
            near = suggestion(name, known)
            raise fail("missing-node", f"the program has no result `{name}`{near}")
    if not names or [*names] == known:
        return program
    module = clone_module(program.module)
    (function,) = module.functions
    returned = dict(zip(known, function.returned, strict=True))
    function.block.end.set_operands([returned[name] for name in names])
    function.results = [r for name in names for r in function.results if r.name == name]
    return replace(program, module=module)


def optimised(program: Program, options: CompileOptions) -> Module:
    """The tensor level, optimised; of what somebody wrote that itself."""
    module = clone_module(program.module)
    if not program.is_written:
        run_passes(module, pipeline(pipelines.OPTIMISE), default_context(), options)
    return module


def program_passes(
    program: Program, options: CompileOptions, gradients: Sequence[str] = ()
) -> list[Pass]:
    """What a backend needs of a program; of one that somebody wrote, what is left of it."""
    if program.is_written:
        if gradients:
            message = "a function of the IR is compiled as it is written, without gradients="
            raise fail("not-supported", message)
        return passes_left(program.function, options)
    return all_passes(tensor_passes(program, options, gradients), options)


def tensor_passes(
    program: Program, options: CompileOptions, gradients: Sequence[str] = ()
) -> list[Pass]:
    """From what was traced to the optimised tensor level, with gradients of the first result."""
    first, freeze = program.function.results[0].name, options.freeze
    passes = pipelines.differentiation(first, gradients, options.recompute, freeze=freeze)
    passes += pipelines.folding(gradients, freeze=options.freeze)
    passes += [*pipeline(pipelines.OPTIMISE), *pipelines.rounding(options.contraction)]
    return [*passes, *pipelines.early_parts(options.part, (), freeze=options.freeze)]


def frozen_values(
    program: Program,
    signature: Signature,
    options: CompileOptions,
    gradients: Sequence[str] = (),
) -> dict[str, np.ndarray]:
    """The parameters' values as a function of `program_passes` takes them, with what it takes of
    what depends on frozen parameters alone, which is computed here."""
    come_home(program.values.values())
    values = dict(program.parameters)
    if not signature.model_names <= values.keys():
        own = replace(options, part="frozen")
        passes = program_passes(program, own, gradients)
        function, early = compile_program(program, passes, own)
        values |= computed_early(function, early, values)
    return parameter_arrays(signature, values)


def passes_left(function: Function, options: CompileOptions) -> list[Pass]:
    """What the backend needs and the function has not gone through yet."""
    machine = machine_of(options)
    is_tensors = not any(op.opdef.level is Level.KERNEL for op in walk(function))
    rounding = pipelines.rounding(function.contraction) if is_tensors else []
    if BACKENDS[options.backend]().stage != "kernels":
        return rounding
    if is_tensors:
        return [*rounding, *pipelines.kernels(machine)]
    chosen: list[Pass] = [ChooseSchedule(machine)] if machine is not None else []
    return chosen if function.arena is not None else [*chosen, *pipelines.planned(machine)]


def parameter_arrays(
    signature: Signature, values: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """The arrays of the function's parameters.

    Raises GraphcError for one that `values` lack, or that has another shape.
    """
    for name in sorted(signature.model_names):
        if name not in values:
            known = ", ".join(sorted(values)) or "none"
            message = (
                f"the function takes the parameter `{name}`, which has no value; given: {known}"
            )
            raise fail("missing-node", message)
    made = signature.model_arrays(values)
    for argument in signature.arguments:
        array = made.get(argument.name)
        if array is not None and array.shape != argument.shape:
            wanted, came = ("x".join(map(str, s)) for s in (argument.shape, array.shape))
            message = f"the parameter `{argument.name}` requires {wanted} elements, got {came}"
            raise fail("shape-mismatch", message)
    return made
