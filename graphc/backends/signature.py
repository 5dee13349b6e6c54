"""The `Signature` of a function in the IR: the record that calls, headers and artifacts go by."""

from __future__ import annotations

from dataclasses import replace

from graphc.ir.core import Function, Module, Value
from graphc.ir.traversal import walk
from graphc.ir.types import DType
from graphc.ops.communication import sums_of
from graphc.ops.kernel import LaidParams
from graphc.ops.schedules import has_one_beside, schedule_of
from graphc.passes.analysis.panels import Panels, Windows, laid_of, panels_of, transformed_of
from graphc.runtime.signature import Argument, Dimension, Result, Shape, Signature
from graphc.support.matrix_sizes import matrix_sizes


def make_signature(module: Module, function: Function) -> Signature:
    """Arguments and results of `function` in its order, and the dims of `module` in its order.

    `arena_bytes` is 0 before `plan-memory` has run.
    """
    panels, laid, windows = panels_of(function), laid_of(function), transformed_of(function)
    arguments: list[Argument] = []
    for i, (a, role) in enumerate(zip(function.arguments, function.roles, strict=True)):
        argument = Argument(a.name or f"argument{i}", *_element_and_shape(a), role)
        argument = _laid(_in_panels(argument, panels.get(a)), laid.get(a))
        argument = _transformed(argument, windows.get(a))
        arguments.append(replace(argument, name=f"{argument.name}{argument.layout}"))
    results = tuple(
        Result(info.name, *_element_and_shape(value), info.updates)
        for info, value in zip(function.results, function.returned, strict=True)
    )
    dims = tuple(Dimension(d.name, d.bound, d.formula) for d in module.dims)
    is_split = any(schedule_of(op) is not None or has_one_beside(op) for op in walk(function))
    arena = function.arena or 0
    sums = tuple(
        tuple(Result(f"sum.{i}", *_element_and_shape(v)) for i, v in enumerate(op.results))
        for op in sums_of(function)
    )
    return Signature(
        function.name, dims, tuple(arguments), results, arena, is_split=is_split, sums=sums
    )


def _in_panels(argument: Argument, panels: Panels | None) -> Argument:
    """The same for what lies in panels."""
    if panels is None:
        return argument
    rows, columns = matrix_sizes(d for d in argument.shape if isinstance(d, int))
    width, pairs, dtype = panels.width, panels.pairs, argument.dtype
    if pairs:
        rows, dtype = -(-rows // 2), DType.I32.value
    shape = (-(-columns // width), rows, width)
    return replace(argument, dtype=dtype, shape=shape, panel=width, pairs=pairs)


def _laid(argument: Argument, how: LaidParams | None) -> Argument:
    """The same for what lies transposed."""
    if how is None:
        return argument
    shape = tuple(how.dims[i] for i in how.permutation)
    return replace(argument, shape=shape, dims=how.dims, permutation=how.permutation)


def _transformed(argument: Argument, windows: Windows | None) -> Argument:
    """The same where windows lie transformed."""
    if windows is None:
        return argument
    of_windows = windows.blocks, windows.channels, windows.columns
    shape = (windows.blocks, 16, windows.channels, windows.columns)
    return replace(argument, shape=shape, windows=of_windows)


def _element_and_shape(value: Value) -> tuple[str, Shape]:
    shape = tuple(d if isinstance(d, int) else d.name for d in value.tensor.dims)
    return value.tensor.dtype.value, shape
