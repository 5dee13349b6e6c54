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

Each `drop` has numbers of its own, told apart by their order in the function. Of members who train
together, each with every so many-th sample, elements have the places of the minibatch of all; what
has no axis of samples is the same for all of them. With `sync` what a minibatch shows is the
average over all members' samples, for all that read it:
    %0 = mul %seen, …                                     // this member's share of the samples
    %1 = all_reduce %0 {members = 2}                      // in place of %seen
A variance which says what mean it is around is pooled with that (`ops/pooled_moments.py`), so that
members need not wait for the mean first.

Leaves nothing of the kind behind: in a step of a loop, where every step would draw the same
numbers, and for a running value that is no parameter, it is an error. O(operations).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, RegionKind, ResultInfo, Value
from graphc.ir.dims import dims_behind, size_quotient, size_text
from graphc.ir.traversal import walk
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.ops.communication import ANY_NUMBER, all_reduce
from graphc.ops.constant import constant, extent, full_like
from graphc.ops.elementwise import GREATER, add, cast, compare, div, mul, select
from graphc.ops.movement import reshape
from graphc.ops.nodes.training import MINIBATCH_SAMPLES, STEP
from graphc.ops.pooled_moments import can_pool, pooled
from graphc.ops.random import RANDOM_UNIFORM, Shard, keep_mask
from graphc.ops.reduction import broadcast
from graphc.ops.training_forms import (
    DROP,
    RUNNING_STATISTIC,
    DropParams,
    RunningStatisticParams,
)
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import fail
from graphc.support.graphs import reachable
from graphc.support.member_place import SHARD, SHARDS


def expand_training(
    function: Function, seed: int = 0, shards: int = 1, samples: str = "", *, sync: bool = False
) -> int:
    """Replace them all; how many there were. GraphcError for one that cannot be trained.

    shards   parts that members compute a minibatch in, of which a call is one, or `ANY_NUMBER`
    samples  the dim that counts those of a call, as text
    sync     what a minibatch shows is of all parts of it
    """
    if function.kind is not RegionKind.SSA:
        return 0
    if shards != 1:
        _require_same_numbers(function, samples)
    found = [op for op in walk(function) if op.opdef in (DROP, RUNNING_STATISTIC)]
    if sync and shards != 1:
        _show_samples_of_all(function, found, shards, samples)
    moved: dict[Value, Value] = {}
    drops = 0
    for op in found:
        if op.block is not function.block:
            message = f"`{op.opdef.name}` in a step of a loop cannot be trained yet"
            raise fail("not-supported", message, op.location)
        b = IRBuilder.before(op)
        with b.at(op.location):
            if op.opdef is DROP:
                parts = None if shards == 1 else _Parts(b, function, shards, samples)
                new = _dropped(b, function, op, seed, drops, parts)
                drops += 1
            else:
                new = _seen(b, function, op, moved)
        op.result.replace_all_uses(new)
        op.erase()
    end = function.block.end
    end.set_operands([*end.operands, *moved.values()])
    function.results += [ResultInfo(v.name or "", v.name or "") for v in moved]
    return len(found)


def _require_same_numbers(function: Function, samples: str) -> None:
    """GraphcError `not-supported` for random numbers of the function's own that differ from sample
    to sample: members would draw the same, each for its own ones."""
    drawn = [op for op in walk(function) if op.opdef is RANDOM_UNIFORM]
    for op in drawn:
        if any(_counts(dim, samples) for dim in op.result.tensor.dims):
            message = "each would draw the same for its own samples"
            problem = f"members cannot share a program's random numbers, {message}"
            raise fail("not-supported", problem, op.location)
    if drawn:
        _number(function, SHARD)  # says that they have been looked at


def _counts(dim: Dim, samples: str) -> bool:
    """Whether there are more of it with more samples."""
    parts = dims_behind(dim) if isinstance(dim, Symbol) else [dim]
    return any(str(part) == samples for part in parts)


@dataclass(frozen=True)
class _Parts:
    """How members share a minibatch."""

    b: IRBuilder
    function: Function
    shards: int
    samples: str

    def shard_of(self, x: Value) -> tuple[Sequence[Dim], Shard | None]:
        """What part of a larger array this one is, of dims among which one counts the samples;
        None where it is the same for all members."""
        number = _number(self.function, SHARD)
        axis = next((i for i, d in enumerate(x.tensor.dims) if _counts(d, self.samples)), None)
        if axis is None or not self._is_of_inputs(x):
            return x.tensor.dims, None
        before, behind = x.tensor.dims[:axis], x.tensor.dims[axis + 1 :]
        dims = (*before, *self._split(x.tensor.dims[axis]), *behind)
        whole = _number(self.function, MINIBATCH_SAMPLES) if axis else None
        count = self.shards if self.shards != ANY_NUMBER else _number(self.function, SHARDS)
        return dims, Shard(number, count, axis, whole)

    def _split(self, dim: Dim) -> tuple[Dim, ...]:
        """An axis as that of samples, and what there is of each."""
        if not isinstance(dim, Symbol) or dim.name == self.samples:
            return (dim,)
        unit = next(d for d in dims_behind(dim) if d.name == self.samples)
        each = size_quotient([dim], [unit])
        if each is None:
            message = f"members cannot share dropout of an axis of {size_text(dim)}"
            raise fail("not-supported", f"{message}, which is no multiple of the samples {unit}")
        return unit, each

    def _is_of_inputs(self, x: Value) -> bool:
        """Where all sizes are fixed, an axis as long as that of samples may be another one."""
        found = reachable([x], lambda v: v.op.operands if v.op is not None else ())
        roles = self.function.roles
        return any(v.op is None and roles[v.index] == "input" for v in found)


def _dropped(
    b: IRBuilder, function: Function, op: Operation, seed: int, stream: int, parts: _Parts | None
) -> Value:
    (x,), rate = op.operands, op.params_as(DropParams).rate
    if rate == 0:
        return x
    dims, shard = (x.tensor.dims, None) if parts is None else parts.shard_of(x)
    one = constant(b, rate, TensorType((1,) * x.tensor.rank, DType.F32))
    step = _number(function, STEP)
    kept = keep_mask(b, dims, one, seed=seed, stream=stream, step=step, shard=shard)
    if kept.tensor.dims != x.tensor.dims:
        kept = reshape(b, kept, x.tensor.dims)
    scale = 1 / (1 - rate) if rate < 1 else 0.0
    return select(b, kept, mul(b, x, full_like(b, scale, x)), full_like(b, 0.0, x))


def _number(function: Function, name: str) -> Value:
    """A whole number of the call; an argument from its first use."""
    found = function.argument(name)
    if found is not None and function.roles[found.index] == "hyperparameter":
        return found
    return function.add_argument(name, TensorType((1, 1), DType.I64), "hyperparameter")


def _show_samples_of_all(
    function: Function, found: Sequence[Operation], shards: int, samples: str
) -> None:
    """Let statistics of this member's samples be those of all members'."""
    places = {op: place for place, op in enumerate(function.block)}
    statistics = [op for op in found if op.opdef is RUNNING_STATISTIC and op in places]
    is_pooled: set[Operation] = set()
    for op in statistics:
        _, seen, *around = op.operands
        its = [other for other in statistics if other.operands[1] in around]
        first = -1 if seen.op is None else places[seen.op]
        if around and can_pool(seen.tensor.dtype) and all(places[m] > first for m in its):
            _pool(function, op, its, shards, samples)
            is_pooled |= {op, *its}
    for op in statistics:
        if op not in is_pooled:
            _show_all(function, op.operands[1], shards, samples)


def _pool(
    function: Function, op: Operation, means: Sequence[Operation], shards: int, samples: str
) -> None:
    """Show the variance of all members to its statistic, and the mean to those that read it."""
    _, seen, around = op.operands
    b = _behind(function, seen)
    with b.at(op.location):
        own = _own_samples(b, function, TensorType((1, 1), DType.F64), samples)
        whole = _number(function, MINIBATCH_SAMPLES)
        mean, variance = pooled(b, around, seen, own, whole, shards)
    op.set_operand(1, variance)
    for its in means:
        its.set_operand(1, mean)


def _behind(function: Function, value: Value) -> IRBuilder:
    return IRBuilder(function.block, function.block.first if value.op is None else value.op.next)


def _show_all(function: Function, seen: Value, shards: int, samples: str) -> None:
    """Let all who read what the samples of this member show read what those of all do: the average
    by how many each member has. One without samples, whose mean may be nan, counts nothing."""
    readers, b = seen.uses, _behind(function, seen)
    with b.at(function.location if seen.op is None else seen.op.location):
        one = seen.tensor.with_dims((1,) * seen.tensor.rank)
        own = _own_samples(b, function, one, samples)
        whole = cast(b, reshape(b, _number(function, MINIBATCH_SAMPLES), one.dims), one.dtype)
        dims = seen.tensor.dims
        part = mul(b, seen, broadcast(b, div(b, own, whole), dims))
        is_there = broadcast(b, compare(b, GREATER, own, full_like(b, 0.0, own)), dims)
        (shown,) = all_reduce(b, [select(b, is_there, part, full_like(b, 0.0, part))], shards)
    for op, index in readers:
        op.set_operand(index, shown)


def _own_samples(b: IRBuilder, function: Function, type: TensorType, samples: str) -> Value:
    """How many samples this call has, as a number."""
    sizes = [d for a in function.arguments for d in a.tensor.symbols()]
    parts = [part for size in sizes for part in dims_behind(size)]
    dim = next((d for d in parts if d.name == samples), None)
    return constant(b, float(samples), type) if dim is None else extent(b, dim, type)


def _seen(b: IRBuilder, function: Function, op: Operation, moved: dict[Value, Value]) -> Value:
    running, seen = op.operands[:2]
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
    """`seed`: of what is drawn; `shards`: parts that members compute a minibatch in, 0 for any
    number; `samples`: the dim that counts those of a call; `sync`: statistics of a minibatch are
    those of all parts."""

    name: ClassVar[str] = "expand-training"
    summary: ClassVar[str] = "make dropout and statistics of minibatches what training computes"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    seed: int = 0
    shards: int = 1
    samples: str = ""
    sync: bool = False

    def run(self, module: Module, context: Context) -> PassOutcome:
        if self.shards < 0:
            message = f"expand-training requires shards of 0 or more, got {self.shards}"
            context.sink.error("bad-option", message)
            return PassOutcome(False)
        how = self.seed, self.shards, self.samples
        count = sum(expand_training(f, *how, sync=self.sync) for f in module.functions)
        return PassOutcome(count > 0, {"expanded": count})
