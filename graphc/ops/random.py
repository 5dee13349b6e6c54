"""Random numbers as a pure function of a place and a key, and the masks made of them.

Nothing is drawn from a state: the number of an element follows from its index in the tensor, the
step and the key alone. So a mask is the same on every backend, in f32 and f64, fused or not, for
any number of threads, and after a resume. The generator is Philox2x32-10; `support/randomness.py`
has the wider one that initial values and shuffles take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.codegen import Elementwise
from graphc.ir.core import Array, IRBuilder, NotDifferentiable, OpDef, Value
from graphc.ir.dims import size_product
from graphc.ir.params import NoParams, Params
from graphc.ir.scalar import scalar_op
from graphc.ir.types import Dim, DType, TensorType, Type
from graphc.ops.constant import constant, iota
from graphc.ops.elementwise import GREATER_EQUAL, add, cast, compare, mul
from graphc.ops.movement import reshape
from graphc.ops.reduction import broadcast, row_major, size_in
from graphc.ops.rules import same_types, tensor
from graphc.support.randomness import Purpose, random_words

MULTIPLIER = 0xD256D193
KEY_STEP = 0x9E3779B9
ROUNDS = 10
UNIT_BITS = 24

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


def philox(counter: Array, key: Array) -> Array:
    """The 64 bits (u64) of Philox2x32-10 for 64-bit counters and the low 32 bits of the keys."""
    counter, key = counter.astype(np.uint64), key.astype(np.uint64) & _LOW
    low, high = counter & _LOW, counter >> _HALF
    for _ in range(ROUNDS):
        product = low * np.uint64(MULTIPLIER)
        low, high = (product >> _HALF) ^ key ^ high, product & _LOW
        key = (key + np.uint64(KEY_STEP)) & _LOW
    return high << _HALF | low


def _infer_uniform(types: Sequence[Type], params: Params) -> Sequence[Type]:
    (type,) = same_types((DType.I64,))(types, params)
    return [tensor(type).with_dtype(DType.F32)]


def _uniform_reference(_p: NoParams, counter: Array, key: Array) -> Array:
    upper = philox(counter, key) >> np.uint64(64 - UNIT_BITS)
    return upper.astype(np.float32) * np.float32(2.0**-UNIT_BITS)


RANDOM_UNIFORM = OpDef(
    name="random_uniform",
    summary="a random number k / 2^24 in [0, 1), decided by the counter and the key alone",
    operands=("counter", "key"),
    infer=_infer_uniform,
    reference=_uniform_reference,
    codegen=Elementwise(scalar_op("random_uniform")),
    vjp=NotDifferentiable.ZERO,
    equation="u = (the upper 24 bits of Philox2x32-10(counter, key mod 2^32)) / 2^24",
    source="Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (2011)",
)


def random_uniform(b: IRBuilder, counter: Value, key: Value) -> Value:
    """f32 numbers in [0, 1) of i64 counters and keys of one type."""
    return b.emit_one(RANDOM_UNIFORM, counter, key)


@dataclass(frozen=True)
class Shard:
    """One of `count` parts of a minibatch, which has every so many-th place along an axis of it,
    from `number` on: i64, one element of any rank.

    count  the same for all calls, or as `number`
    whole  the places along that axis in the minibatch, as `number`; None for axis 0
    """

    number: Value
    count: int | Value
    axis: int = 0
    whole: Value | None = None


def uniform(
    b: IRBuilder,
    dims: Sequence[Dim],
    *,
    seed: int,
    stream: int,
    step: Value,
    shard: Shard | None = None,
) -> Value:
    """tensor<dims x f32> of random numbers k / 2^24 in [0, 1).

    seed    of the whole program, 0 to 2^64 - 1
    stream  tells the uses of one seed apart, 0 to 2^64 - 1
    step    i64, one element of any rank: each step has numbers of its own
    shard   what of a larger tensor this is: it has the numbers of its places there

    The counter is the row-major index of the element plus 2^32 times the step, so numbers repeat
    only where a tensor has over 2^32 elements or a run over 2^32 steps.
    """
    type = TensorType(tuple(dims), DType.I64)
    far = mul(b, step, constant(b, 2**32, step.tensor))
    counter = add(b, _places(b, type, shard), _spread(b, far, type))
    words = random_words(seed, Purpose.MASK, stream, 1)
    return random_uniform(b, counter, constant(b, int(words[0] & _LOW), type))


def _places(b: IRBuilder, type: TensorType, shard: Shard | None) -> Value:
    """The row-major index of each element, in the tensor that it is a shard of."""
    if shard is None:
        return row_major(b, type, range(type.rank))
    axis, behind = shard.axis, type.dims[shard.axis + 1 :]
    given = shard.count
    count = constant(b, given, type) if isinstance(given, int) else _spread(b, given, type)
    place = add(b, mul(b, iota(b, axis, type), count), _spread(b, shard.number, type))
    if shard.whole is not None:
        before = mul(b, row_major(b, type, range(axis)), _spread(b, shard.whole, type))
        place = add(b, before, place)
    size = size_in(b, size_product(behind), type)
    return add(b, mul(b, place, size), row_major(b, type, range(axis + 1, type.rank)))


def keep_mask(
    b: IRBuilder,
    dims: Sequence[Dim],
    rate: Value,
    *,
    seed: int,
    stream: int,
    step: Value,
    shard: Shard | None = None,
) -> Value:
    """tensor<dims x i1>, true with probability 1 - rate: where the uniform number is >= rate.

    `rate` is one float of any rank and type. It is compared in f32, so that the mask does not
    depend on its type. Rate 0 keeps every element, rate 1 none. The rest is as in `uniform`.
    """
    numbers = uniform(b, dims, seed=seed, stream=stream, step=step, shard=shard)
    threshold = _spread(b, cast(b, rate, DType.F32), numbers.tensor)
    return compare(b, GREATER_EQUAL, numbers, threshold)


def _spread(b: IRBuilder, x: Value, type: TensorType) -> Value:
    """One element in every place of `type`'s dims."""
    return broadcast(b, reshape(b, x, (1,) * type.rank), type.dims)


OPS = (RANDOM_UNIFORM,)
