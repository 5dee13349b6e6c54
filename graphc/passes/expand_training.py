"""What is something else in training becomes what it is there, before gradients are made.

    %h = drop %x {rate = 0.5}                             // seed 0
    %m = running_statistic %mean, %seen {momentum = 0.9}  // %mean: a parameter
    return %loss
 =>
    %0 = random_uniform …, …                              // of the element's place and %step
    %1 = greater_equal %0, …
    %h = select %1, %2, …                                 // %2 = x / (1 - 0.5)
    … %seen in place of %m …
    return %loss, %3                                      // mean updates %mean

Each `drop` has numbers of its own, told apart by their order in the function. Leaves nothing of the
kind behind: in a step of a loop, where every step would draw the same numbers, and for a running
value that is no parameter, it is an error. O(operations).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, RegionKind, ResultInfo, Value
from graphc.ir.traversal import walk
from graphc.ir.types import DType, TensorType
from graphc.ops.constant import constant, full_like
from graphc.ops.elementwise import add, mul, select
from graphc.ops.nodes.training import STEP
from graphc.ops.random import keep_mask
from graphc.ops.training_forms import (
    DROP,
    RUNNING_STATISTIC,
    DropParams,
    RunningStatisticParams,
)
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import fail


def expand_training(function: Function, seed: int = 0) -> int:
    """Replace them all; how many there were. GraphcError for one that cannot be trained."""
    if function.kind is not RegionKind.SSA:
        return 0
    found = [op for op in walk(function) if op.opdef in (DROP, RUNNING_STATISTIC)]
    moved: dict[Value, Value] = {}
    drops = 0
    for op in found:
        if op.block is not function.block:
            message = f"`{op.opdef.name}` in a step of a loop cannot be trained yet"
            raise fail("not-supported", message, op.location)
        b = IRBuilder.before(op)
        with b.at(op.location):
            if op.opdef is DROP:
                new = _dropped(b, function, op, seed, drops)
                drops += 1
            else:
                new = _seen(b, function, op, moved)
        op.result.replace_all_uses(new)
        op.erase()
    end = function.block.end
    end.set_operands([*end.operands, *moved.values()])
    function.results += [ResultInfo(v.name or "", v.name or "") for v in moved]
    return len(found)


def _dropped(b: IRBuilder, function: Function, op: Operation, seed: int, stream: int) -> Value:
    (x,), rate = op.operands, op.params_as(DropParams).rate
    if rate == 0:
        return x
    one = constant(b, rate, TensorType((1,) * x.tensor.rank, DType.F32))
    step = _step(function)
    kept = keep_mask(b, x.tensor.dims, one, seed=seed, stream=stream, step=step)
    scale = 1 / (1 - rate) if rate < 1 else 0.0
    return select(b, kept, mul(b, x, full_like(b, scale, x)), full_like(b, 0.0, x))


def _step(function: Function) -> Value:
    """The number of calls before this one; an argument from its first use."""
    found = function.argument(STEP)
    if found is not None and function.roles[found.index] == "hyperparameter":
        return found
    return function.add_argument(STEP, TensorType((1, 1), DType.I64), "hyperparameter")


def _seen(b: IRBuilder, function: Function, op: Operation, moved: dict[Value, Value]) -> Value:
    running, seen = op.operands
    if running.op is not None or function.roles[running.index] != "parameter":
        message = "what a minibatch shows moves a running value, which has to be a parameter"
        raise fail("argument-type", f"{message}, got `{running.called}`", op.location)
    if running in moved:
        message = f"`{running.name}` is moved by two statistics of a minibatch"
        raise fail("bad-value", message, op.location)
    momentum = op.params_as(RunningStatisticParams).momentum
    kept = mul(b, running, full_like(b, momentum, running))
    moved[running] = add(b, kept, mul(b, seen, full_like(b, 1 - momentum, seen)))
    return seen


@dataclass(frozen=True)
class ExpandTraining(Pass):
    """`seed`: of what is drawn."""

    name: ClassVar[str] = "expand-training"
    summary: ClassVar[str] = "make dropout and statistics of minibatches what training computes"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    seed: int = 0

    def run(self, module: Module, context: Context) -> PassOutcome:
        count = sum(expand_training(f, self.seed) for f in module.functions)
        return PassOutcome(count > 0, {"expanded": count})
