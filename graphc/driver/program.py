"""A function of the IR in a file, such as `graphc dump` prints and people edit, for a backend.

The file may hold any level below nodes: what tensor operations need to become planned kernels is
done here. A schedule or a plan that is written in the file is kept, what it leaves open is chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from graphc.backends import BACKENDS
from graphc.backends.base import CompiledFunction
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.driver.compile import (
    Lowered,
    compile_kept,
    machine_of,
    run_passes,
    sequence_tables,
)
from graphc.driver.options import CompileOptions
from graphc.ir.clone import clone_module
from graphc.ir.core import Function, Level, Module, RegionKind
from graphc.ir.parser import parse_module
from graphc.ir.traversal import walk
from graphc.ir.types import DType
from graphc.ir.verifier import verify_module
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.passes.choose_schedule import ChooseSchedule
from graphc.passes.manager import Pass
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail
from graphc.support.files import read_text

SUFFIX = ".gir"


@dataclass(frozen=True)
class FunctionFile:
    """The module of a file with one function.

    model  where its parameters have their values
    """

    path: Path
    module: Module
    model: Model | None = None

    @property
    def function(self) -> Function:
        (function,) = self.module.functions
        return function

    @property
    def precision(self) -> DType:
        """The type of its floating-point values, by its first argument or result of one."""
        found = [v.tensor.dtype for v in (*self.function.arguments, *self.function.returned)]
        return next((dtype for dtype in found if dtype.is_float), DType.F32)

    def lower(self, options: CompileOptions) -> Lowered:
        """A copy that `options.backend` takes.

        Raises GraphcError (bad-schedule) for a schedule that does not fit its operation.
        """
        module = clone_module(self.module)
        (function,) = module.functions
        records = run_passes(module, passes_left(function, options), default_context(), options)
        (function,) = module.functions
        signature = make_signature(module, function)
        tables = sequence_tables(function, signature)
        return Lowered(module, function, replace(signature, sequences=tables), records)

    def compile(self, options: CompileOptions) -> tuple[CompiledFunction, Signature]:
        """The function of `options.backend`, to call: from the cache, if it is there."""

        def lowered() -> tuple[Function, Signature]:
            made = self.lower(options)
            return made.function, made.signature

        return compile_kept(self.module, passes_left(self.function, options), lowered, options)

    def parameters(self, signature: Signature) -> dict[str, np.ndarray]:
        """The arrays of the function's parameters.

        Raises GraphcError for one that has no value, or one of another shape.
        """
        if self.model is None:
            return parameter_arrays(signature, {})
        return parameter_arrays(signature, self.model.values_in(self.precision))


def read_module(path: Path) -> Module:
    """The module of a file, verified. Raises GraphcError at the line that is wrong."""
    context = default_context()
    module = parse_module(read_text(path), context, file=str(path))
    context.sink.raise_if_errors()
    verify_module(module, context.sink)
    context.sink.raise_if_errors()
    return module


def read_function(path: Path, model: Model | None = None) -> FunctionFile:
    """The function of a file, its parameters those of `model`.

    Raises GraphcError at the line that is wrong.
    """
    module = read_module(path)
    if len(module.functions) != 1:
        raise fail("bad-value", f"{path} requires one function, it has {len(module.functions)}")
    source = FunctionFile(path, module, model)
    if source.function.kind is not RegionKind.SSA:
        message = f"{path} holds a network's nodes: print it with `--stage tensor` or a later one"
        raise fail("bad-value", message)
    return source


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
