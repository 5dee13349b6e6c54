"""The values that loops are written with: typed, of one lane or many, names or constants.

Their text is LLVM's, which everyone reads; a writer of another language goes by `type`, `number`
and the name alone.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from graphc.ir.elements import element_bytes
from graphc.ir.types import DType
from graphc.support.short_types import SHORT_TYPES


class LaneType(NamedTuple):
    """`lanes` elements of one scalar type; one lane is the plain scalar."""

    element: str
    lanes: int
    text: str
    mangled: str


class Val(NamedTuple):
    """A typed value: a name, which has % before it inside a function and @ in a module, or a
    constant.

    number  of a constant: what every lane is, or one number for each; None for a name
    """

    ref: str
    type: LaneType
    number: Number | None = None

    def __str__(self) -> str:
        return f"{self.type.text} {self.ref}"


Number = float | int | tuple[int, ...]

_MANGLED = {"float": "f32", "double": "f64"}
FLOATS = frozenset(_MANGLED)
_ELEMENTS = {dtype: dtype.value for dtype in DType} | {DType.F32: "float", DType.F64: "double"}
ELEMENT_BYTES = {_ELEMENTS[dtype]: dtype.itemsize for dtype in DType}
BITS = {
    "u8": "i8",
    "u16": "i16",
    "u32": "i32",
    "u64": "i64",
    "f16": "i16",
    "bf16": "i16",
    **dict.fromkeys(SHORT_TYPES, "i8"),
}
"""Elements that are only moved and converted: the integers that have their bits."""


@lru_cache(maxsize=256)
def lane_type(element: str, lanes: int = 1) -> LaneType:
    """The type of `lanes` elements."""
    text = BITS.get(element, element)
    mangled = _MANGLED.get(element, text)
    if lanes == 1:
        return LaneType(element, 1, text, mangled)
    return LaneType(element, lanes, f"<{lanes} x {text}>", f"v{lanes}{mangled}")


def element_of(dtype: DType) -> str:
    """The name of an element type in a register."""
    return _ELEMENTS[dtype]


def memory_element(element: str) -> str:
    """The type of an element in memory: a truth value is one byte."""
    return "i8" if element == "i1" else element


I1 = lane_type("i1")
I32 = lane_type("i32")
I64 = lane_type("i64")
PTR = lane_type("ptr")
NULL = Val("null", PTR, 0)


def float_literal(value: float, element: str) -> str:
    """A float constant as hexadecimal bits, rounded to the element type first."""
    if element == "float":
        value = _to_f32(value)
    return f"0x{struct.unpack('<Q', struct.pack('<d', value))[0]:016X}"


def _to_f32(value: float) -> float:
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def constant(value: float | int, type_: LaneType) -> Val:
    """The same constant in every lane; for integers an exact int within the type."""
    if type_.element in _MANGLED:
        literal = float_literal(float(value), type_.element)
    elif type_.element == "i1":
        literal = "true" if value else "false"
    elif type_.element in BITS:
        content = element_bytes([value], DType(type_.element))
        value = int.from_bytes(content, "little", signed=True)
        literal = str(value)
    else:
        literal = str(int(value))
    if type_.lanes == 1:
        return Val(literal, type_, value)
    return Val(f"splat ({lane_type(type_.element).text} {literal})", type_, value)


def constant_lanes(values: Sequence[int], type_: LaneType) -> Val:
    """A vector of different integers or truth values."""
    literals = (constant(v, lane_type(type_.element)) for v in values)
    return Val(f"<{', '.join(map(str, literals))}>", type_, tuple(values))


def index(value: int) -> Val:
    """A constant of the type that counts and addresses."""
    return Val(str(value), I64, value)


def number_of(value: Val) -> int | None:
    """The integer of a constant, None for a value known at run time."""
    return value.number if isinstance(value.number, int) else None


def is_number(value: Val) -> bool:
    """Whether this is a constant that is not nan."""
    number = value.number
    return number is not None and not (isinstance(number, float) and math.isnan(number))
