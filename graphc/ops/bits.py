"""Operations on the bits of whole numbers, which are two's complements, and of floats as patterns.

A shift by a count outside of the type's bits, a negative one too, moves every bit out: 0 is left,
and of a negative number that is shifted to the right -1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from graphc.ir.codegen import Elementwise
from graphc.ir.core import Array, IRBuilder, NotDifferentiable, OpDef, Trait, Value
from graphc.ir.params import Params
from graphc.ir.scalar import ScalarRule, Scalars, scalar_op
from graphc.ir.types import DType, Type, TypeRuleError
from graphc.ops.rules import NUMBERS, require_dtype, same_types, tensor

S = TypeVar("S")

INTEGERS = (DType.I32, DType.I64)


def bitcast(b: IRBuilder, x: Value, dtype: DType) -> Value:
    return b.emit_one(BITCAST, x, params=BitcastParams(dtype))


def _of_bits(
    name: str,
    summary: str,
    equation: str,
    reference: Callable[..., Array],
    rule: ScalarRule | None = None,
    *,
    operands: tuple[str, ...] = ("x", "y"),
    commutative: bool = False,
) -> OpDef:
    traits = {Trait.PURE, Trait.COMMUTATIVE} if commutative else {Trait.PURE}
    return OpDef(
        name=name,
        summary=summary,
        operands=operands,
        infer=same_types(INTEGERS),
        reference=lambda _p, *xs: reference(*xs),
        codegen=Elementwise(rule or scalar_op(name)),
        vjp=NotDifferentiable.ZERO,
        traits=frozenset(traits),
        equation=equation,
        array=name,
    )


def _not_rule(s: Scalars[S], _params: Params, /, *args: S) -> S:
    (x,) = args
    return s.bitwise_xor(x, s.literal(-1, x))


def _shifted(shift: Callable[[Array, Array], Array], x: Array, y: Array, beyond: Array) -> Array:
    """By counts within the bits of x; `beyond` elsewhere."""
    inside = (y >= 0) & (y < 8 * x.dtype.itemsize)
    return np.where(inside, shift(x, np.where(inside, y, 0).astype(x.dtype)), beyond)


BITWISE_AND = _of_bits(
    "bitwise_and", "the bits that both have", "z = x & y", np.bitwise_and, commutative=True
)
BITWISE_OR = _of_bits(
    "bitwise_or", "the bits that at least one has", "z = x | y", np.bitwise_or, commutative=True
)
BITWISE_XOR = _of_bits(
    "bitwise_xor", "the bits that one has", "z = x ^ y", np.bitwise_xor, commutative=True
)
BITWISE_NOT = _of_bits(
    "bitwise_not",
    "the bits that it does not have",
    "y = -1 - x",
    np.bitwise_not,
    _not_rule,
    operands=("x",),
)
LEFT_SHIFT = _of_bits(
    "left_shift",
    "bits moved to higher places; 0 for a count outside of the type's bits",
    "z = x 2^y",
    lambda x, y: _shifted(np.left_shift, x, y, np.zeros_like(x)),
)
RIGHT_SHIFT = _of_bits(
    "right_shift",
    "bits moved to lower places, the sign's kept; 0 or -1 for a count outside of the type's bits",
    "z = ⌊x / 2^y⌋",
    lambda x, y: _shifted(np.right_shift, x, y, np.where(x < 0, -1, 0).astype(x.dtype)),
)


@dataclass(frozen=True)
class BitcastParams(Params):
    dtype: DType


def _infer_bitcast(types: Sequence[Type], params: BitcastParams) -> Sequence[Type]:
    given = tensor(types[0])
    require_dtype(given, NUMBERS)
    if params.dtype not in NUMBERS or params.dtype.numpy.itemsize != given.dtype.numpy.itemsize:
        raise TypeRuleError(f"requires a type of as many bits, got {given} and {params.dtype}")
    return [given.with_dtype(params.dtype)]


def _bitcast_rule(s: Scalars[S], params: Params, /, *args: S) -> S:
    assert isinstance(params, BitcastParams)
    return s.bitcast(args[0], params.dtype)


BITCAST = OpDef(
    name="bitcast",
    summary="the number of another type that has the same bits, of as many",
    operands=("x",),
    params=BitcastParams,
    infer=_infer_bitcast,
    reference=lambda p, x: np.ascontiguousarray(x).view(p.dtype.numpy).reshape(x.shape),
    codegen=Elementwise(_bitcast_rule),
    vjp=NotDifferentiable.ZERO,
)

OPS = (
    BITWISE_AND,
    BITWISE_OR,
    BITWISE_XOR,
    BITWISE_NOT,
    LEFT_SHIFT,
    RIGHT_SHIFT,
    BITCAST,
)
