"""`update_rows`: a learner's rule on the rows of a table that a minibatch looks up, and no others.

    %W.new, %v.new = update_rows %W, %v, %rate, %x, %y, %index
        {tables = 2, numbers = 1} : tensor<1000x8xf32>, tensor<1000x8xf32> {
    ^(%w: tensor<1x8xf32>, %vw: tensor<1x8xf32>, %g: tensor<1x8xf32>, %r: tensor<1x1xf32>):
      …
      yield %w1, %v1 : tensor<1x8xf32>, tensor<1x8xf32>
    }

Operands   the parameter and the learner's states, then numbers [1, 1], then lookups: each x [N, K],
           y [N, D] and an index [N, K], which stand for a gradient `transposed_sparse_product x, y,
           index`
Block      one row of every table, that row of the gradient, the numbers
`yield`    the new row of every table
Results    the tables, of which only the rows that some index points at have changed
Workspace  `RowWorkspace`

A row's gradient is the sum of x[n, k] y[n, :] over all places of its index, lookup by lookup in the
order of n and k. An index outside of the table points at nothing. With `columns` the tables are
stored the other way round, [D, I], and their columns are what is looked up.

Because a row that is not looked up keeps its states too, a rule such as momentum is applied lazily.
The operation works on whole tables in place (`plan-memory`), so it is of the kernel level at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir import codegen
from graphc.ir.codegen import Broadcast, Elementwise, Fill
from graphc.ir.core import (
    Array,
    Block,
    IRBuilder,
    Level,
    NotDifferentiable,
    OpDef,
    Operation,
    Region,
    Value,
)
from graphc.ir.params import Params
from graphc.ir.types import Dim, DType, TensorType, Type, TypeRuleError, bound_of
from graphc.ops.control import YIELD
from graphc.ops.rules import FLOATS, require_dtype, tensor
from graphc.ops.schedules import RowUpdateSchedule, check_schedule, schedule_of

BLOCK = 32
"""Numbers of a row that are worked on together, where a row's numbers are neighbours."""
COLUMN_BLOCK = 8
"""The same where rows are the columns of a stored table, whose numbers are far apart."""
_PADDING = 16
"""Keeps rows of sums from lying a power of two apart."""


@dataclass(frozen=True)
class UpdateRowsParams(Params):
    """How many operands are `tables` and how many `numbers`; the rest are lookups.

    columns  the columns of the tables are looked up, not their rows
    """

    tables: int
    numbers: int
    columns: bool = False


@dataclass(frozen=True)
class Lookup:
    """A part of the gradient: x[n, k] y[n, :] at row index[n, k]."""

    x: Value
    y: Value
    index: Value


@dataclass(frozen=True)
class RowUpdateParts:
    """An `update_rows` operation taken apart; every group in order.

    Of the operands: `tables`, `numbers`, `lookups`. `updated` are the results, one for each table.
    """

    op: Operation
    params: UpdateRowsParams
    block: Block
    tables: tuple[Value, ...]
    numbers: tuple[Value, ...]
    lookups: tuple[Lookup, ...]
    updated: tuple[Value, ...]


def row_update(op: Operation) -> RowUpdateParts:
    """The parts of an `update_rows` operation."""
    params = op.params_as(UpdateRowsParams)
    middle = params.tables + params.numbers
    rest = op.operands[middle:]
    lookups = tuple(Lookup(*rest[i : i + 3]) for i in range(0, len(rest), 3))
    return RowUpdateParts(
        op,
        params,
        op.regions[0].block,
        op.operands[: params.tables],
        op.operands[params.tables : middle],
        lookups,
        tuple(op.results),
    )


def updates(op: Operation, result: Value) -> Value:
    """The table that `result` is the new form of."""
    return op.operands[result.index]


@dataclass(frozen=True)
class RowWorkspace:
    """The arrays that a row update works in. L is the most rows that a call looks up.

    slots   i32, of the type of each index: the number of its row among those that are looked up
    rows    i32[L]: which row of the table has that number
    places  i32[I]: the number of each row of the table; written only where an index points
    count   i32[1]: how many different rows are looked up
    sums    of the gradient, `BLOCK` numbers for each of L rows; as often as there are chunks
    """

    slots: tuple[TensorType, ...]
    rows: TensorType
    places: TensorType
    count: TensorType
    sums: TensorType

    @staticmethod
    def of(update: RowUpdateParts) -> RowWorkspace:
        table = tensor(update.tables[0].type)
        slots = tuple(tensor(one.index.type) for one in update.lookups)
        size = bound_of(table.dims[1 if update.params.columns else 0])
        most = most_rows(size, slots)
        rows, places, count = (TensorType((n,), DType.I32) for n in (most, size, 1))
        block = sums_type(table, most, update.params)
        sums = block.with_dims((chunks_of(update), *block.dims))
        return RowWorkspace(slots, rows, places, count, sums)

    def arrays(self) -> tuple[TensorType, ...]:
        """All of them, in this order."""
        return (*self.slots, self.rows, self.places, self.count, self.sums)


Rule = Callable[[IRBuilder, Sequence[Value], Value, Sequence[Value]], Sequence[Value]]
"""(builder in the body, a row of each table, that of the gradient, numbers) -> the new rows."""


def update_rows(
    b: IRBuilder,
    tables: Sequence[Value],
    numbers: Sequence[Value],
    lookups: Sequence[Lookup],
    rule: Rule,
    *,
    columns: bool = False,
) -> list[Value]:
    """The tables with new rows by `rule`; the body is what `rule` emits."""
    params = UpdateRowsParams(len(tables), len(numbers), columns)
    row = _row_type(tensor(tables[0].type), params)
    count = len(tables)
    body = Block([*[row] * (count + 1), *(v.type for v in numbers)], [])
    given = body.arguments
    called = [*(f"{t.called}.row" for t in tables), "d.row", *(n.called for n in numbers)]
    for argument, name in zip(given, called, strict=True):
        argument.label = name
    inner = IRBuilder(body)
    inner.location = b.location
    inner.emit(YIELD, list(rule(inner, given[:count], given[count], given[count + 1 :])))
    operands = [*tables, *numbers, *(v for one in lookups for v in (one.x, one.y, one.index))]
    return b.emit(UPDATE_ROWS, operands, params, regions=[Region([body])]).results


# --- types ---------------------------------------------------------------------------------------


def _row_type(table: TensorType, params: UpdateRowsParams) -> TensorType:
    return table.with_dims((1, table.dims[0 if params.columns else 1]))


def _infer(types: Sequence[Type], params: UpdateRowsParams) -> Sequence[Type]:
    found = [tensor(t, i) for i, t in enumerate(types)]
    middle = params.tables + params.numbers
    if params.tables < 1 or params.numbers < 0 or len(found) <= middle or (len(found) - middle) % 3:
        raise TypeRuleError(
            "requires a table, numbers and lookups of three operands each, "
            f"got {len(found)} operands for {params.tables} tables and {params.numbers} numbers"
        )
    table = found[0]
    require_dtype(table, FLOATS, 0)
    for operand, type in enumerate(found[:middle]):
        wanted = table if operand < params.tables else table.with_dims((1, 1))
        _require(type, wanted, operand)
    if table.rank != 2:
        raise TypeRuleError(f"requires tables of rank 2, got {table}", operand=0)
    axis = 1 if params.columns else 0
    width = table.dims[1 - axis]
    for first in range(middle, len(found), 3):
        x, y, index = found[first : first + 3]
        if index.rank != 2:
            raise TypeRuleError(f"requires an index of rank 2, got {index}", operand=first + 2)
        _require(index, index.with_dtype(DType.I32), first + 2)
        _require(x, index.with_dtype(table.dtype), first)
        _require(y, table.with_dims((index.dims[0], width)), first + 1)
    return found[: params.tables]


def _require(type: TensorType, wanted: TensorType, operand: int) -> None:
    if type != wanted:
        raise TypeRuleError(f"requires {wanted}, got {type}", operand=operand)


def most_rows(size: Dim, indices: Sequence[TensorType]) -> int:
    """The most different rows that indices of these types point at."""
    return min(bound_of(size), sum(t.bound_elements for t in indices))


def row_width(update: RowUpdateParts) -> Dim:
    """Numbers of a row."""
    return tensor(update.tables[0].type).dims[0 if update.params.columns else 1]


def chunks_of(update: RowUpdateParts) -> int:
    """Into how many chunks the numbers of each row are cut."""
    schedule = schedule_of(update.op)
    return -(-bound_of(row_width(update)) // schedule.chunk) if schedule else 1


def sums_type(table: TensorType, most: int, params: UpdateRowsParams) -> TensorType:
    """What has room for the gradient's numbers of one block, of all rows that are looked up."""
    if params.columns:
        return table.with_dims((COLUMN_BLOCK, -(-most // _PADDING) * _PADDING + _PADDING))
    return table.with_dims((most, BLOCK))


def block_of(params: UpdateRowsParams) -> int:
    """Numbers of a row that are worked on together: chunks are multiples of so many."""
    return COLUMN_BLOCK if params.columns else BLOCK


def _check(op: Operation) -> Iterable[str]:
    yield from check_schedule(op)
    schedule, block = schedule_of(op), block_of(op.params_as(UpdateRowsParams))
    if schedule is not None and schedule.chunk % block:
        yield f"a chunk is a multiple of {block} numbers, got {schedule.chunk}"
    if len(op.regions) != 1 or len(op.regions[0].blocks) != 1:
        yield "requires one region with one block"
        return
    parts = row_update(op)
    terminator = parts.block.terminator
    if terminator is None or terminator.opdef is not YIELD:
        yield "its block must end in `yield`"
        return
    row = _row_type(tensor(parts.tables[0].type), parts.params)
    wanted = [*[row] * (len(parts.tables) + 1), *(v.type for v in parts.numbers)]
    taken = [v.type for v in parts.block.arguments]
    if taken != wanted:
        yield f"its block must take {_listed(wanted)}, got {_listed(taken)}"
    yielded = [v.type for v in terminator.operands]
    if yielded != [row] * len(parts.tables):
        yield f"its block must yield {len(parts.tables)} times {row}, got {_listed(yielded)}"
    for inner in parts.block:
        if inner.opdef is not YIELD and not isinstance(
            inner.opdef.codegen, Elementwise | Broadcast | Fill
        ):
            yield (
                f"`{inner.opdef.name}` cannot stand in its block, only what is element by element, "
                "broadcasts and constants"
            )


def _listed(types: Sequence[Type]) -> str:
    return ", ".join(map(str, types)) or "nothing"


# --- reference -----------------------------------------------------------------------------------


def _reference(
    params: UpdateRowsParams,
    body: Callable[..., tuple[Array, ...]],
    _results: Sequence[Array],
    *operands: Array,
) -> tuple[Array, ...]:
    tables = [np.array(t.T if params.columns else t) for t in operands[: params.tables]]
    middle = params.tables + params.numbers
    gradient: dict[int, Array] = {}
    for first in range(middle, len(operands), 3):
        x, y, index = operands[first : first + 3]
        for n, k in np.argwhere((index >= 0) & (index < len(tables[0]))):
            row = int(index[n, k])
            gradient.setdefault(row, np.zeros(y.shape[1], y.dtype))
            gradient[row] += x[n, k] * y[n]
    for row, g in gradient.items():
        before = [t[row][None] for t in tables]
        after = body(*before, g[None], *operands[params.tables : middle])
        for table, new in zip(tables, after, strict=True):
            table[row] = new[0]
    return tuple(np.ascontiguousarray(t.T) if params.columns else t for t in tables)


UPDATE_ROWS = OpDef(
    name="update_rows",
    summary="a learner's rule on the rows of a table that are looked up",
    operands=("inputs*",),
    params=UpdateRowsParams,
    infer=_infer,
    reference=_reference,
    check=_check,
    schedule=RowUpdateSchedule,
    workspace=lambda op: RowWorkspace.of(row_update(op)).arrays(),
    codegen=codegen.RowUpdate(),
    vjp=NotDifferentiable.NONE,
    level=Level.KERNEL,
    equation="t[i] = rule(t[i], Σ_{n,k} x[n, k] y[n] over index[n, k] = i) for every i = "
    "index[n, k]",
)

OPS = (UPDATE_ROWS,)
