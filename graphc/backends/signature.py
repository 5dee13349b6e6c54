"""The `Signature` of a function in the IR: the record that calls, headers and artifacts go by."""

from __future__ import annotations

from dataclasses import replace

from graphc.ir.codegen import Collective
from graphc.ir.core import Function, Module, Value
from graphc.ir.traversal import walk
from graphc.ir.types import DType
from graphc.ops.kernel import LaidParams
from graphc.ops.schedules import has_one_beside, schedule_of
from graphc.passes.analysis.panels import Panels, laid_of, panels_of
from graphc.runtime.signature import Argument, Dimension, Result, Shape, Signature
from graphc.support.matrix_sizes import matrix_sizes


def make_signature(module: Module, function: Function) -> Signature:
    """Arguments and results of `function` in its order, and the dims of `module` in its order.

    `arena_bytes` is 0 before `plan-memory` has run.
    """
    panels, laid = panels_of(function), laid_of(function)
    arguments = tuple(
        _laid(
            _in_panels(
                Argument(a.name or f"argument{i}", *_element_and_shape(a), role), panels.get(a)
            ),
            laid.get(a),
        )
        for i, (a, role) in enumerate(zip(function.arguments, function.roles, strict=True))
    )
    results = tuple(
        Result(info.name, *_element_and_shape(value), info.updates)
        for info, value in zip(function.results, function.returned, strict=True)
    )
    dims = tuple(Dimension(d.name, d.bound, d.formula) for d in module.dims)
    is_split = any(schedule_of(op) is not None or has_one_beside(op) for op in walk(function))
    arena = function.arena or 0
    sums = tuple(
        tuple(Result(f"sum.{i}", *_element_and_shape(value)) for i, value in enumerate(op.results))
        for op in function.block
        if isinstance(op.opdef.codegen, Collective)
    )
    return Signature(function.name, dims, arguments, results, arena, is_split=is_split, sums=sums)


def _in_panels(argument: Argument, panels: Panels | None) -> Argument:
    """The same for what lies in panels."""
    if panels is None:
        return argument
    rows, columns = matrix_sizes(d for d in argument.shape if isinstance(d, int))
    width, pairs, dtype = panels.width, panels.pairs, argument.dtype
    if pairs:
        rows, dtype = -(-rows // 2), DType.I32.value
    shape = (-(-columns // width), rows, width)
    made = replace(argument, dtype=dtype, shape=shape, panel=width, pairs=pairs)
    return replace(made, name=f"{argument.name}{made.layout}")


def _laid(argument: Argument, how: LaidParams | None) -> Argument:
    """The same for what lies transposed."""
    if how is None:
        return argument
    shape = tuple(how.dims[i] for i in how.permutation)
    made = replace(argument, shape=shape, dims=how.dims, permutation=how.permutation)
    return replace(made, name=f"{argument.name}{made.layout}")


def _element_and_shape(value: Value) -> tuple[str, Shape]:
    shape = tuple(d if isinstance(d, int) else d.name for d in value.tensor.dims)
    return value.tensor.dtype.value, shape
