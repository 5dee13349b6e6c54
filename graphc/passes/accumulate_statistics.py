"""Turns a function that computes some data into one that adds up its statistics over many calls.

    func @main(%x: tensor<Nx64xf64> input) -> (x: tensor<Nx64xf64>) { return %x }
becomes, for `accumulate-statistics{centred = true}`,
    func @main(%x: … input, %"<centre>": tensor<1x64xf64> parameter,
               %"<total>": tensor<1x64xf64> state)
        -> ("<total>": tensor<1x64xf64> updates %"<total>") {
      … the old total + the sum over samples of (x - centre)² …
    }
Without `centred` the plain sum is added. Two rounds over the data, first the mean and then the
squared deviations from it, lose no digits where a single round with Σx² would.
Source: Chan, Golub, LeVeque, "Algorithms for computing the sample variance" (1983), two-pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, RegionKind, ResultInfo
from graphc.ir.types import TensorType
from graphc.ops.elementwise import add, mul, sub
from graphc.ops.reduction import broadcast, reduce_sum
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome

CENTRE, TOTAL = "<centre>", "<total>"  # no node of a network file can have these names


def accumulate_statistics(function: Function, *, centred: bool) -> None:
    """Replace the function's only result, [N, rows], by the update of a running total [1, rows]."""
    terminator = function.block.terminator
    assert terminator is not None
    (x,) = terminator.operands
    assert isinstance(x.type, TensorType)
    row = x.type.with_dims((1, *x.type.dims[1:]))
    b = IRBuilder.before(terminator)
    if centred:
        centre = function.add_argument(CENTRE, row, "parameter")
        deviation = sub(b, x, broadcast(b, centre, x.type.dims))
        x = mul(b, deviation, deviation)
    total = function.add_argument(TOTAL, row, "state")
    terminator.set_operands([add(b, total, reduce_sum(b, x, (0,)))])
    function.results = [ResultInfo(TOTAL, TOTAL)]


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
