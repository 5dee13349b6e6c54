"""A learner's rule on the rows that a call looks up, in place: each row once, with the sum of all
that its entries add to the gradient (`row_sums.py`)."""

from __future__ import annotations

from collections.abc import Mapping

from graphc.backends.cuda.launcher import Launcher
from graphc.backends.cuda.module import C_TYPES
from graphc.backends.cuda.moves import launch_copy
from graphc.backends.cuda.row_sums import Entries, RowRule, launch_row_sums
from graphc.backends.cuda.scalars import DeviceScalars
from graphc.backends.cuda.text import CudaCode
from graphc.backends.loops.values import Val, constant, element_of, lane_type
from graphc.ir.codegen import Broadcast, Elementwise, Fill, Terminator
from graphc.ir.core import Operation, Value
from graphc.ops.constant import ConstantParams
from graphc.ops.update_rows import RowUpdateParts, row_update
from graphc.support.diagnostics import InternalError


def launch_update_rows(program: Launcher, op: Operation) -> None:
    update = row_update(op)
    for old, new in zip(update.tables, update.updated, strict=True):
        if program.where[old] != program.where[new]:
            launch_copy(program, new.tensor, program.where[old], program.where[new])
    table, columns = update.tables[0].tensor, update.params.columns
    size, width = reversed(table.dims) if columns else table.dims
    pointers = [program.where[v] for v in (*update.updated, *update.numbers)]
    entries = [Entries(one.x, one.y, one.index) for one in update.lookups]
    writes = tuple(range(len(update.updated)))
    rule = _rule(program, update)
    launch_row_sums(program, entries, size, width, rule, pointers, writes)


def _rule(program: Launcher, update: RowUpdateParts) -> RowRule:
    """The block for one number of a row."""
    program.module.use("words")
    code = CudaCode(program.module)
    real = lane_type(element_of(update.tables[0].tensor.dtype))
    count = len(update.tables)
    rows = [code.value(real, f"t{i}[at]") for i in range(count)]
    numbers = [Val(f"n{i}", real) for i in range(len(update.numbers))]
    given = (*rows, Val("g", real), *numbers)
    values = dict(zip(update.block.arguments, given, strict=True))
    scalars = DeviceScalars(code, contraction=program.contraction)
    for op in update.block:
        if not isinstance(op.opdef.codegen, Terminator):
            values[op.result] = _result(scalars, op, values)
    stores = [f"t{i}[at] = {code.use(values[v])};" for i, v in enumerate(update.block.end.operands)]
    ctype = C_TYPES[update.tables[0].tensor.dtype]
    return RowRule(
        (f"{ctype} *",) * count,
        (ctype,) * len(numbers),
        (*code.lines, *stores),
        update.params.columns,
    )


def _result(scalars: DeviceScalars, op: Operation, values: Mapping[Value, Val]) -> Val:
    match op.opdef.codegen:
        case Elementwise(rule):
            return rule(scalars, op.params, *(values[v] for v in op.operands))
        case Broadcast():
            return values[op.operands[0]]
        case Fill():
            type_ = lane_type(element_of(op.result.tensor.dtype))
            return constant(op.params_as(ConstantParams).value[0], type_)
        case _:
            raise InternalError(f"`{op.opdef.name}` cannot stand in the rule of `update_rows`")
