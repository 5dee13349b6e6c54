"""Arithmetic on elements that are only stored: computed in another type, and stored again.

f16 and bf16 are computed in f32 and rounded once for each function; integers of 8 and 16 bits in
i32, u32 and u64 in i64, of which the low bits are kept: they wrap around. The order of u64 is that
of i64 with the highest bit turned over.
"""

from __future__ import annotations

from graphc.ir.core import IRBuilder, Value
from graphc.ir.types import DType
from graphc.ops.bits import BITWISE_AND, RIGHT_SHIFT, bitcast
from graphc.ops.constant import full_like
from graphc.ops.elementwise import (
    EQUAL,
    GREATER_EQUAL,
    LESS,
    add,
    cast,
    compare,
    div,
    mul,
    select,
    sub,
)
from graphc.tensor.numeric import broadcast_all

LOWEST = -(2**63)


def as_computed(b: IRBuilder, x: Value, *, is_ordered: bool = False) -> Value:
    """The elements as they are computed with; `is_ordered`: they keep their order."""
    dtype = x.tensor.dtype
    if dtype is dtype.computed:
        return x
    made = cast(b, x, dtype.computed)
    return _turned(b, made) if is_ordered and dtype is DType.U64 else made


def as_stored(b: IRBuilder, made: Value, dtype: DType, *, is_ordered: bool = False) -> Value:
    """What was computed of elements of `dtype`, as elements of it; truth values and places stay."""
    if dtype is dtype.computed or made.tensor.dtype is not dtype.computed:
        return made
    return cast(b, _turned(b, made) if is_ordered and dtype is DType.U64 else made, dtype)


def _turned(b: IRBuilder, bits: Value) -> Value:
    """The highest bit turned over: what is not negative lies behind what is."""
    return add(b, bits, full_like(b, LOWEST, bits))


def quotient_of_u64(b: IRBuilder, x: Value, y: Value) -> Value:
    """x / y of the bits of u64, 0 for y = 0.

    Twice the quotient of half of x, which is not negative, is right or one too small. A divisor
    from 2^63 on goes in once or not at all. (H. Warren, Hacker's Delight, section 9-3)
    """
    x, y = broadcast_all(b, [x, y])
    zero, one, two = (full_like(b, n, x) for n in (0, 1, 2))
    upper = full_like(b, 2**62, x)
    is_large = compare(b, LESS, x, zero)
    half = select(b, is_large, add(b, upper, div(b, _turned(b, x), two)), div(b, x, two))
    near = mul(b, div(b, half, y), two)
    near = select(b, compare(b, LESS, y, zero), zero, near)
    rest = sub(b, x, mul(b, near, y))
    fits = compare(b, GREATER_EQUAL, _turned(b, rest), _turned(b, y))
    found = add(b, near, select(b, fits, one, zero))
    return select(b, compare(b, EQUAL, y, zero), zero, found)


def right_shift_of_u64(b: IRBuilder, x: Value, y: Value) -> Value:
    """x 2^-y of the bits of u64: the first place without the sign that i64 would repeat."""
    x, y = broadcast_all(b, [x, y])
    zero, one, rest = (full_like(b, n, x) for n in (0, 1, 2**63 - 1))
    half = b.emit_one(BITWISE_AND, b.emit_one(RIGHT_SHIFT, x, one), rest)
    shifted = b.emit_one(RIGHT_SHIFT, half, sub(b, y, one))
    return select(b, compare(b, EQUAL, y, zero), x, shifted)


_SIGNED = {DType.U32: DType.I32, DType.U64: DType.I64}


def bitcast_stored(b: IRBuilder, x: Value, dtype: DType) -> Value:
    """The number of type `dtype` with the same bits; integers of one width convert by them."""
    source = x.tensor.dtype
    if source is DType.I1 and dtype in (DType.I8, DType.U8):
        return cast(b, x, dtype)  # a byte that is 0 or 1
    is_whole = not (source.is_float or dtype.is_float or DType.I1 in (source, dtype))
    if is_whole and source.bits == dtype.bits:
        return cast(b, x, dtype)
    signed = cast(b, x, _SIGNED[source]) if source in _SIGNED else x
    made = bitcast(b, signed, _SIGNED.get(dtype, dtype))
    return cast(b, made, dtype) if dtype in _SIGNED else made
