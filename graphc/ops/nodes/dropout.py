"""Dropout: random elements are zero while the network is trained, and only then."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.ir.core import IRBuilder, Operation, Value
from graphc.ir.types import DType
from graphc.ops.constant import full_like
from graphc.ops.elementwise import div, mul, select, sub
from graphc.ops.nodes.layout import node_def, node_type, tensor_type, unary
from graphc.ops.nodes.training import DROPOUT_RATE, TrainingCall
from graphc.ops.random import keep_mask
from graphc.ops.reduction import broadcast


def _expand(_b: IRBuilder, _op: Operation, operands: Sequence[Value], _dtype: DType) -> Value:
    return operands[0]


def _expand_training(
    b: IRBuilder, _op: Operation, operands: Sequence[Value], _call: TrainingCall
) -> Value:
    x, factor = operands
    return mul(b, x, factor)


def _draw(b: IRBuilder, op: Operation, call: TrainingCall) -> Value:
    """0 for the elements that are set to zero, 1 / (1 - rate) for the others."""
    dims = tensor_type(node_type(op), call.samples, call.dtype).dims
    rate = call.hyperparameter(DROPOUT_RATE)
    one = full_like(b, 1.0, rate)
    kept = broadcast(b, div(b, one, sub(b, one, rate)), dims)
    shard = call.shard  # what has no samples is the same for all members
    keep = keep_mask(
        *(b, dims, rate),
        seed=call.seed,
        stream=call.stream(op),
        step=call.step,
        shard=shard if node_type(op).has_samples else None,
    )
    return select(b, keep, kept, full_like(b, 0.0, kept))


DROPOUT = node_def(
    "dropout",
    "in training, random elements set to zero and the others scaled up; otherwise the operand",
    ("x",),
    infer=unary,
    reference=lambda _p, x: x.copy(),
    expand=_expand,
    expand_training=_expand_training,
    draw=_draw,
    constraints=(
        "C1 in training an element is zero with the probability `dropout_rate` of the call, and "
        "is divided by 1 - `dropout_rate` otherwise",
        "C2 which elements are zero depends on the seed, the node's name, the number of the "
        "training call and the place in the minibatch of all members, and on nothing else",
    ),
    equation="V = M ∘ X in training, M = 0 or 1 / (1 - rate); V = X otherwise",
    source="book 2.4.2, equations 2.95 to 2.97",
    ndl=("Dropout",),
)

OPS = (DROPOUT,)
