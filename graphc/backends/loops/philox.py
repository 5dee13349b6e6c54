"""Random numbers from counters: Philox2x32-10 in 64-bit lanes, which hold whole 32x32-bit products.

The same bits as `graphc.ops.random`'s reference; nothing rounds but the last, exact, conversion.
"""

from __future__ import annotations

from graphc.backends.loops.arithmetic import Arithmetic
from graphc.backends.loops.values import Val
from graphc.ir.types import DType

_MULTIPLIER = 0xD256D193
_KEY_STEP = 0x9E3779B9
_ROUNDS = 10
_MASK = 0xFFFFFFFF


def uniform(s: Arithmetic, counter: Val, key: Val) -> Val:
    """f32 numbers k / 2^24 in [0, 1) of i64 counters and the low halves of i64 keys."""
    _, high = words(s, counter, key)
    # The upper 24 bits of the second word: small enough for i32 and exact in f32.
    k = s.cast(s.code.binary("lshr", high, s.const(8, high)), DType.I32)
    number = s.cast(k, DType.F32)
    return s.mul(number, s.const(2.0**-24, number))


def words(s: Arithmetic, counter: Val, key: Val) -> tuple[Val, Val]:
    """The two 32-bit words, each in the low half of an i64."""
    mask, half = s.const(_MASK, counter), s.const(32, counter)

    def low_half(x: Val) -> Val:
        return s.code.binary("and", x, mask)

    low, high = low_half(counter), s.code.binary("lshr", counter, half)
    for turn in range(_ROUNDS):
        round_key = low_half(s.add(key, s.const(turn * _KEY_STEP, key)))
        product = s.mul(low, s.const(_MULTIPLIER, low))
        mixed = s.code.binary("xor", s.code.binary("lshr", product, half), round_key)
        low, high = s.code.binary("xor", mixed, high), low_half(product)
    return low, high
