"""What a node that computes something else while it is trained is given to expand with.

`OpDef.expand_training` gets a `TrainingCall` where `expand` gets the element type. Through it a
node asks for numbers of the call (a rate, the number of the step) and says which parameters get a
new value that is no gradient step. The numbers become arguments of the function only when a node
asks for them, so a network without such nodes is trained by the function it always had.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from graphc.ir.core import Function, IRBuilder, Operation, Value
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops.communication import ANY_NUMBER, all_reduce
from graphc.ops.constant import extent, full_like
from graphc.ops.elementwise import div, mul
from graphc.ops.movement import reshape
from graphc.ops.nodes.layout import display_name
from graphc.ops.nodes.leaves import PARAMETER
from graphc.ops.random import Shard
from graphc.ops.reduction import broadcast
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

    def mean(self, b: IRBuilder, total: Value, each: int) -> Value:
        """The mean of numbers of the minibatch, of which each sample has as many.

        total  their sum over the samples of this call
        """
        one = TensorType((1,) * total.tensor.rank, total.tensor.dtype)
        if self.sync:
            (total,) = all_reduce(b, [total], self.shards)
            count = reshape(b, self.hyperparameter(MINIBATCH_SAMPLES), one.dims)
        else:
            count = extent(b, self.samples, one)
        count = mul(b, count, full_like(b, float(each), count))
        return div(b, total, broadcast(b, count, total.tensor.dims))

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
