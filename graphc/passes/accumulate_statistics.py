"""Turns a function that computes some data into one that adds up its statistics over many calls.

    func @main(%x: tensor<Nx64xf64> input) -> (x: tensor<Nx64xf64>) { return %x }
becomes, for `accumulate-statistics{centred = true}`,
    func @main(%x: … input, %"<centre>": tensor<1x64xf64> parameter,
               %"<total>": tensor<1x64xf64> state)
        -> ("<total>": tensor<1x64xf64> updates %"<total>") {
      … the old total + the sum over samples of (x - centre)² …
    }
Of sequences, [T, S, rows], gaps do not count. Without `centred` the plain sum is added. Two rounds
over the data, first the mean and then the squared deviations from it, lose no digits where a single
round with Σx² would.
Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance" (1983), two-pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, RegionKind, ResultInfo, Value
from graphc.ops.constant import full_like
from graphc.ops.elementwise import add, mul, select, sub
from graphc.ops.movement import reshape
from graphc.ops.nodes.sequence_columns import BEGIN, END, is_real
from graphc.ops.reduction import broadcast, reduce_sum
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

CENTRE, TOTAL = "<centre>", "<total>"  # no node of a network file can have these names


def accumulate_statistics(function: Function, *, centred: bool) -> None:
    """Replace the function's only result by the update of a running total [1, rows].

    The result is [N, rows], or [T, S, rows] of sequences.
    """
    terminator = function.block.end
    (x,) = terminator.operands
    over = tuple(range(x.tensor.rank - 1))
    row = x.tensor.with_dims((1, *x.tensor.dims[len(over) :]))
    b = IRBuilder.before(terminator)
    if centred:
        centre = function.add_argument(CENTRE, row, "parameter")
        spread = reshape(b, centre, (1,) * len(over) + row.dims[1:])
        deviation = sub(b, x, broadcast(b, spread, x.tensor.dims))
        x = mul(b, deviation, deviation)
    if len(over) > 1:
        x = _without_gaps(b, x, function)
    total = function.add_argument(TOTAL, row, "state")
    found = reshape(b, reduce_sum(b, x, over), row.dims)
    terminator.set_operands([add(b, total, found)])
    function.results = [ResultInfo(TOTAL, TOTAL)]


def _without_gaps(b: IRBuilder, x: Value, function: Function) -> Value:
    """`x` [T, S, rows] with 0 in the columns that belong to no sequence."""
    begin, end = (function.argument(name) for name in (BEGIN, END))
    assert begin is not None and end is not None
    real = reshape(b, is_real(b, begin, end), (*x.tensor.dims[:2], 1))
    return select(b, broadcast(b, real, x.tensor.dims), x, full_like(b, 0.0, x))


@dataclass(frozen=True)
class AccumulateStatistics(Pass):
    """`centred`: add squared deviations from the argument `<centre>` instead of values."""

    name: ClassVar[str] = "accumulate-statistics"
    summary: ClassVar[str] = "add up a statistic of the only result over many calls"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    centred: bool = False

    def run(self, module: Module, context: Context) -> PassOutcome:
        for function in module.functions:
            if function.kind is not RegionKind.SSA or len(function.results) != 1:
                context.sink.error(
                    "graph-structure",
                    f"accumulate-statistics requires one result, @{function.name} has "
                    f"{len(function.results)}",
                    function.location,
                )
                continue
            accumulate_statistics(function, centred=self.centred)
        return PassOutcome(True)
