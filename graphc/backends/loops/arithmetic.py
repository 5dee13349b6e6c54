"""The scalar vocabulary over a writer, without its functions: arithmetic, order, truth, types.

All operands of a scalar op have the same number of lanes; whoever writes a loop splats what is the
same for every lane. No fast-math flags: each scalar op is one rounding, so vector bodies and scalar
tails agree exactly. `fma` is the one private scalar op, for the mathematical functions and sums of
products.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.loops.values import (
    ELEMENT_BYTES,
    FLOATS,
    LaneType,
    Val,
    constant,
    element_of,
    is_number,
    lane_type,
)
from graphc.backends.loops.writer import Conversion, FunctionName, Order, Writer
from graphc.ir.types import DType


class Arithmetic:
    """The scalar ops that are a few instructions each, and the private layer below them.

    slow_denormals  functions avoid instructions that take or give denormals; the bits are the same
    has_scalef      functions may use `Writer.scale` of whole vectors; the bits are the same
    """

    def __init__(
        self,
        code: Writer,
        *,
        has_fma: bool,
        slow_denormals: bool = False,
        has_scalef: bool = False,
    ) -> None:
        self.code = code
        self.has_fma = has_fma
        self.slow_denormals = slow_denormals
        self.has_scalef = has_scalef

    # Arithmetic

    def add(self, a: Val, b: Val) -> Val:
        return self.code.binary("fadd" if is_float(a) else "add", a, b)

    def sub(self, a: Val, b: Val) -> Val:
        return self.code.binary("fsub" if is_float(a) else "sub", a, b)

    def mul(self, a: Val, b: Val) -> Val:
        return self.code.binary("fmul" if is_float(a) else "mul", a, b)

    def div(self, a: Val, b: Val) -> Val:
        """Integers: towards zero; x / 0 is 0 and the smallest number / -1 wraps."""
        return self.code.binary("fdiv", a, b) if is_float(a) else self._integer_div(a, b)

    def neg(self, a: Val) -> Val:
        if is_float(a):
            return self.code.negate(a)
        return self.code.binary("sub", self.const(0, a), a)

    def abs(self, a: Val) -> Val:
        if is_float(a):
            return self.intrinsic("fabs", a)
        return self.select(self.compare("slt", a, self.const(0, a)), self.neg(a), a)

    def sqrt(self, a: Val) -> Val:
        return self.intrinsic("sqrt", a)

    def floor(self, a: Val) -> Val:
        """Without the instruction for it, which the oldest targets lack."""
        whole = self.const(2.0**23 if a.type.element == "float" else 2.0**52, a)
        size = self.abs(a)
        nearest = self.sub(self.add(size, whole), whole)
        rounded = self.intrinsic("copysign", nearest, a)
        below = self.select(
            self.greater(rounded, a), self.sub(rounded, self.const(1.0, a)), rounded
        )
        return self.select(self.less(size, whole), below, a)

    def round_bf16(self, a: Val) -> Val:
        """Numbers of one sign are ordered as their bits are, with infinity behind the largest: half
        of the lowest bit that stays is added, but for the last place of it where that bit is 0."""
        bits = self.bits(a)
        lowest = self.logical_and(
            self.code.binary("lshr", bits, self.const(16, bits)), self.const(1, bits)
        )
        raised = self.add(bits, self.add(lowest, self.const(0x7FFF, bits)))
        rounded = self.logical_and(raised, self.const(-0x10000, bits))
        return self.select(self.compare("uno", a, a), a, self.bits(rounded))

    def fma(self, a: Val, b: Val, c: Val) -> Val:
        """a * b + c, rounded once where the machine can and twice where it cannot."""
        if self.has_fma:
            return self.intrinsic("fma", a, b, c)
        return self.add(self.mul(a, b), c)

    # Order

    def maximum(self, a: Val, b: Val) -> Val:
        return self._extreme("ogt", "sgt", a, b)

    def minimum(self, a: Val, b: Val) -> Val:
        return self._extreme("olt", "slt", a, b)

    def _extreme(self, float_order: Order, integer_order: Order, a: Val, b: Val) -> Val:
        """nan wins. `a > b ? a : b` gives b on any nan, so only a nan in a needs a second look."""
        if a.type.element == "i1":
            return self.code.binary("or" if float_order == "ogt" else "and", a, b)
        if not is_float(a):
            return self.select(self.compare(integer_order, a, b), a, b)
        if is_number(a):
            return self.select(self.compare(float_order, a, b), a, b)
        if is_number(b):
            return self.select(self.compare(float_order, b, a), b, a)
        winner = self.select(self.compare(float_order, a, b), a, b)
        return self.select(self.compare("uno", a, a), a, winner)

    def equal(self, a: Val, b: Val) -> Val:
        return self.compare("oeq" if is_float(a) else "eq", a, b)

    def not_equal(self, a: Val, b: Val) -> Val:
        return self.compare("une" if is_float(a) else "ne", a, b)

    def less(self, a: Val, b: Val) -> Val:
        return self.compare(_ordered(a, "less"), a, b)

    def less_equal(self, a: Val, b: Val) -> Val:
        return self.compare(_ordered(a, "less_equal"), a, b)

    def greater(self, a: Val, b: Val) -> Val:
        return self.compare(_ordered(a, "greater"), a, b)

    def greater_equal(self, a: Val, b: Val) -> Val:
        return self.compare(_ordered(a, "greater_equal"), a, b)

    def compare(self, order: Order, a: Val, b: Val) -> Val:
        """`order` as `Writer.compare` has it; truth values, one per lane."""
        return self.code.compare(order, a, b)

    # Truth values

    def logical_and(self, a: Val, b: Val) -> Val:
        return self.code.binary("and", a, b)

    def logical_or(self, a: Val, b: Val) -> Val:
        return self.code.binary("or", a, b)

    def logical_not(self, a: Val) -> Val:
        return self.code.binary("xor", a, self.const(1, a))

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        return self.code.select(condition, a, b)

    # Bits

    def bitwise_and(self, a: Val, b: Val) -> Val:
        return self.code.binary("and", a, b)

    def bitwise_or(self, a: Val, b: Val) -> Val:
        return self.code.binary("or", a, b)

    def bitwise_xor(self, a: Val, b: Val) -> Val:
        return self.code.binary("xor", a, b)

    def left_shift(self, a: Val, b: Val) -> Val:
        """A processor shifts by the count's low bits alone, so other counts are taken out first."""
        inside, zero = self._is_within(a, b), self.const(0, a)
        shifted = self.code.binary("shl", a, self.select(inside, b, zero))
        return self.select(inside, shifted, zero)

    def right_shift(self, a: Val, b: Val) -> Val:
        """The largest count leaves the sign in every bit, as those beyond would."""
        last = self.const(8 * ELEMENT_BYTES[a.type.element] - 1, a)
        return self.code.binary("ashr", a, self.select(self._is_within(a, b), b, last))

    def _is_within(self, a: Val, count: Val) -> Val:
        return self.compare("ult", count, self.const(8 * ELEMENT_BYTES[a.type.element], a))

    # Types

    def bitcast(self, a: Val, dtype: DType) -> Val:
        return a if element_of(dtype) == a.type.element else self.bits(a)

    def cast(self, a: Val, dtype: DType) -> Val:
        """To an integer: towards zero, saturating, nan to 0. To i1: whether it is not zero."""
        target = lane_type(element_of(dtype), a.type.lanes)
        if target == a.type:
            return a
        if dtype is DType.I1:
            return self.not_equal(a, self.const(0, a))
        if is_float(a) and not dtype.is_float:
            return self.code.saturate(a, target)
        return self.convert(_conversion(a.type, target), a, target)

    def literal(self, value: float, like: Val) -> Val:
        return self.const(value, like)

    def const(self, value: float | int, like: Val | LaneType) -> Val:
        """`value` in the type of `like`, in every lane."""
        return constant(value, like.type if isinstance(like, Val) else like)

    def splat(self, a: Val, lanes: int) -> Val:
        """A scalar repeated in every lane; what has lanes already stays as it is."""
        if lanes == 1 or a.type.lanes != 1:
            return a
        return self.code.splat(a, lanes)

    def gathered(self, values: Sequence[Val]) -> Val:
        """One vector of these scalars."""
        return values[0] if len(values) == 1 else self.code.gather(values)

    # The private layer below the scalar ops

    def convert(self, op: Conversion, a: Val, target: LaneType) -> Val:
        return self.code.convert(op, a, target)

    def bits(self, a: Val) -> Val:
        """The bit pattern of a float as an integer of the same size, and back."""
        return self.convert("bitcast", a, lane_type(_BITS[a.type.element], a.type.lanes))

    def intrinsic(self, name: FunctionName, *arguments: Val) -> Val:
        """A function of the processor whose arguments and result have one type."""
        return self.code.function(name, *arguments)

    def _integer_div(self, a: Val, b: Val) -> Val:
        """sdiv traps on both bad cases, so they are taken out first."""
        zero, minus_one = self.const(0, a), self.const(-1, a)
        is_zero = self.equal(b, zero)
        is_minus_one = self.equal(b, minus_one)
        safe = self.select(self.logical_or(is_zero, is_minus_one), self.const(1, a), b)
        quotient = self.code.binary("sdiv", a, safe)
        wrapped = self.select(is_minus_one, self.neg(a), quotient)
        return self.select(is_zero, zero, wrapped)


_BITS = {"float": "i32", "double": "i64", "i32": "float", "i64": "double"}


def is_float(a: Val) -> bool:
    return a.type.element in FLOATS


_ORDERS: dict[str, tuple[Order, Order, Order]] = {
    "less": ("olt", "slt", "ult"),
    "less_equal": ("ole", "sle", "ule"),
    "greater": ("ogt", "sgt", "ugt"),
    "greater_equal": ("oge", "sge", "uge"),
}
"""Of floats, of integers, of truth values."""


def _ordered(a: Val, word: str) -> Order:
    floats, integers, truths = _ORDERS[word]
    return floats if is_float(a) else integers if a.type.element != "i1" else truths


def _conversion(source: LaneType, target: LaneType) -> Conversion:
    """The conversion between two different types, target not i1."""
    to_float = target.element in FLOATS
    if source.element == "i1":
        return "uitofp" if to_float else "zext"
    if source.element in FLOATS:
        return "fpext" if target.element == "double" else "fptrunc"
    if to_float:
        return "sitofp"
    return "sext" if ELEMENT_BYTES[target.element] > ELEMENT_BYTES[source.element] else "trunc"
