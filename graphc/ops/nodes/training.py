"""What a node that computes something else while it is trained is given to expand with.

`OpDef.expand_training` gets a `TrainingCall` where `expand` gets the element type. Through it a
node asks for numbers of the call (a rate, the number of the step) and says which parameters get a
new value that is no gradient step. The numbers become arguments of the function only when a node
asks for them, so a network without such nodes is trained by the function it always had.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from graphc.ir.core import Function, IRBuilder, Operation, Value
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops.communication import ANY_NUMBER, all_reduce
from graphc.ops.constant import extent, full_like
from graphc.ops.elementwise import div, maximum, mul, stop_gradient, sub
from graphc.ops.movement import reshape
from graphc.ops.nodes.layout import display_name
from graphc.ops.nodes.leaves import PARAMETER
from graphc.ops.pooled_moments import can_pool, pooled
from graphc.ops.random import Shard
from graphc.ops.reduction import broadcast, reduce_sum
from graphc.support.diagnostics import DiagnosticSink
from graphc.support.member_place import SHARD, SHARDS

STEP = "step"
"""The hyperparameter that counts the training calls, from 0; i64, so exact for any training."""

DROPOUT_RATE = "dropout_rate"
"""The hyperparameter with the share of elements that Dropout sets to zero, in [0, 1)."""

MINIBATCH_SAMPLES = "minibatch_samples"
"""The hyperparameter with the samples of the minibatch of all members."""

SEED_LIMIT = 2**64
"""Seeds of a training are below this."""


@dataclass(eq=False)
class TrainingCall:
    """One training function while its nodes are expanded.

    function  gets the hyperparameters as arguments
    dtype     element type of the function's floating-point values
    samples   the number of samples of a call
    seed      of all that is random in training
    sink      for nodes that cannot be trained
    shards    parts that members compute a minibatch in, of which this call is one; `ANY_NUMBER`:
              as many as the call says
    sync      statistics of a minibatch are those of all shards' samples, not of this one's
    """

    function: Function
    dtype: DType
    samples: Symbol
    seed: int
    sink: DiagnosticSink
    shards: int = 1
    sync: bool = False
    updates: dict[Value, Value] = field(default_factory=dict[Value, Value])
    """New values by the parameter (an argument of the function) that they replace."""

    def hyperparameter(self, name: str, dtype: DType | None = None) -> Value:
        """The number `name` of this call, one element of rank 2; an argument from its first use."""
        found = self.function.argument(name)
        if found is not None and self.function.roles[found.index] == "hyperparameter":
            return found
        return self.function.add_argument(
            name, TensorType((1, 1), dtype or self.dtype), "hyperparameter"
        )

    @property
    def step(self) -> Value:
        """How many training calls came before this one, i64[1, 1]."""
        return self.hyperparameter(STEP, DType.I64)

    def moments(
        self, b: IRBuilder, x: Value, axes: Sequence[int], each: int
    ) -> tuple[Value, Value, Value]:
        """Mean and variance of a minibatch, and x less the mean.

        axes, each  those of samples and of places of a sample, and how many of the latter
        """
        is_pooled = self.sync and can_pool(self.dtype)
        # The slope of a variance is 0 where its mean moves, which need not be summed up again.
        center = stop_gradient if self.sync else lambda _, mean: mean
        average = self._mean_of_all if self.sync and not is_pooled else self._mean
        mean = average(b, reduce_sum(b, x, axes), each)
        centred = sub(b, x, broadcast(b, center(b, mean), x.tensor.dims))
        variance = average(b, reduce_sum(b, mul(b, centred, centred), axes), each)
        if is_pooled:
            own = extent(b, self.samples, TensorType((1, 1), self.dtype))
            whole = self.hyperparameter(MINIBATCH_SAMPLES)
            mean, variance = pooled(b, mean, variance, own, whole, self.shards)
        if self.sync:
            centred = sub(b, x, broadcast(b, mean, x.tensor.dims))
        return mean, variance, centred

    def _mean(self, b: IRBuilder, total: Value, each: int) -> Value:
        """The mean of numbers of which each sample of this call has as many, of their sum. With
        `sync` a call without samples has 0: columns between sequences have slopes, too."""
        count = extent(b, self.samples, self._one(total))
        if self.sync:
            count = maximum(b, count, full_like(b, 1.0, count))
        return self._divided(b, total, count, each)

    def _mean_of_all(self, b: IRBuilder, total: Value, each: int) -> Value:
        """That of all members' samples."""
        (total,) = all_reduce(b, [total], self.shards)
        count = reshape(b, self.hyperparameter(MINIBATCH_SAMPLES), self._one(total).dims)
        return self._divided(b, total, count, each)

    def _divided(self, b: IRBuilder, total: Value, count: Value, each: int) -> Value:
        count = mul(b, count, full_like(b, float(each), count))
        return div(b, total, broadcast(b, count, total.tensor.dims))

    def _one(self, like: Value) -> TensorType:
        return TensorType((1,) * like.tensor.rank, like.tensor.dtype)

    @property
    def shard(self) -> Shard | None:
        """Which part of a minibatch this is; None where it is all of it."""
        if self.shards == 1:
            return None
        number, count = self.hyperparameter(SHARD, DType.I64), self.shards
        is_known = count != ANY_NUMBER
        return Shard(number, count if is_known else self.hyperparameter(SHARDS, DType.I64))

    def stream(self, op: Operation) -> int:
        """A number in [0, 2^64) that tells the node from others in what is random.

        It comes from the name and not from the place, so an edit elsewhere does not change it.
        """
        name = (op.result.name or "").lower()
        digest = hashlib.blake2b(name.encode(), digest_size=8).digest()
        return int.from_bytes(digest, "little")

    def update(self, op: Operation, index: int, parameter: Value, new: Value) -> None:
        """From now on `parameter`, operand `index` of the node `op`, has the value `new`."""
        source = op.operands[index].op
        role = f"{display_name(op.opdef)} `{op.result.name}` updates its {op.opdef.operands[index]}"
        if source is None or source.opdef is not PARAMETER:
            name = source.result.name if source is not None else ""
            message = f"{role} in training: requires a LearnableParameter, got `{name}`"
            self.sink.error("argument-type", message, op.location)
        elif parameter in self.updates:
            message = f"{role} `{source.result.name}`, which another node updates too"
            self.sink.error("bad-value", message, op.location)
        else:
            self.updates[parameter] = new
