"""Instructions on values as text of C: arithmetic, order, conversions, lanes.

Floats are never contracted or reordered, integers wrap around in unsigned types. Truth values in
lanes are vectors of -1 and 0 as wide as what they were compared from; where two widths meet, one
is converted.
"""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends.c.lines import ANY, ATOM, PRODUCT, SUM, UNARY, Line, Lines, Variable
from graphc.backends.c.types import MASKS, SCALARS, Definitions, unsigned, unsigned_literal
from graphc.backends.loops.values import (
    ELEMENT_BYTES,
    FLOATS,
    I1,
    I64,
    PTR,
    LaneType,
    Val,
    lane_type,
)
from graphc.backends.loops.writer import Writer
from graphc.support.diagnostics import InternalError

_SIGNED = {"add nsw": "+", "sub nsw": "-", "mul nsw": "*", "sdiv": "/"}
_WRAPPING = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "udiv": "/",
    "urem": "%",
    "shl": "<<",
    "lshr": ">>",
}
_FLOAT = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
_PATTERNS = {"and": "&", "or": "|", "xor": "^", "ashr": ">>"}
_BINDINGS = {"+": SUM, "-": SUM, "*": PRODUCT, "/": PRODUCT, "%": PRODUCT}
_ORDERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_PREFIXES = {"i64": "n", "ptr": "p", "i1": "is", "float": "x", "double": "x"}


class Operations(Writer):
    """The instructions of a function that compute values from values."""

    def __init__(self, definitions: Definitions) -> None:
        self._types = definitions
        self._lines = Lines()
        self._mask_sizes: dict[str, int] = {}

    # --- values as text

    def _value(
        self, type_: LaneType, text: str, binding: int = -1, *, mask: int = 4, prefix: str = ""
    ) -> Val:
        """A new value; `mask` are the bytes of each truth value in lanes."""
        ctype, is_mask = SCALARS.get(type_.element, ""), type_.element == "i1" and type_.lanes > 1
        if is_mask:
            ctype = self._types.vector(MASKS[mask], type_.lanes)
        elif type_.lanes > 1:
            ctype = self._types.value(type_)
        prefix = prefix or ("is" if is_mask else _PREFIXES.get(type_.element, "q"))
        if type_.lanes > 1 and not is_mask:
            prefix = "v"
        number = self._lines.new(Variable(ctype, prefix, binding))
        self._lines.lines.append(Line(text, made=number))
        made = Val(f"${number}", type_)
        if is_mask:
            self._mask_sizes[made.ref] = mask
        return made

    def _do(self, text: str, indent: int = 0) -> None:
        self._lines.lines.append(Line(text, needed=True, indent=indent))

    def _use(self, a: Val, binding: int = ATOM) -> str:
        """The text of an operand; the mask of truth values in lanes as it is."""
        if a.number is not None:
            if a.type.element == "i1" and a.type.lanes > 1:
                return self._types.mask(a.number, self._mask_size(a), a.type.lanes)
            text = self._types.constant(a.number, a.type.element, a.type.lanes)
            return f"({text})" if text.startswith("-") and binding > UNARY else text
        if a.ref.startswith("$"):
            return f"{a.ref}:{binding}"
        if a.ref.startswith("%"):
            return a.ref.removeprefix("%")
        return f"(void *){a.ref}" if self._types.is_data(a.ref) else a.ref

    def _variable(self, a: Val) -> Variable | None:
        return self._lines.variables[int(a.ref[1:])] if a.ref.startswith("$") else None

    def _mask_size(self, a: Val) -> int:
        return self._mask_sizes.get(a.ref, 4)

    def _as_mask(self, a: Val, size: int) -> str:
        """Truth values in lanes of that many bytes."""
        if a.number is not None:
            return self._types.mask(a.number, size, a.type.lanes)
        if self._mask_size(a) == size:
            return self._use(a)
        return f"__builtin_convertvector({self._use(a)}, {self._mask_type(size, a.type.lanes)})"

    def _mask_type(self, size: int, lanes: int) -> str:
        return self._types.vector(MASKS[size], lanes)

    def _common_mask(self, *values: Val) -> int:
        """The bytes of the truth values of the first that is no constant."""
        return next((self._mask_size(v) for v in values if v.number is None), 4)

    # --- elements

    def binary(self, op: str, a: Val, b: Val) -> Val:
        type_ = a.type
        if type_.element == "i1":
            return self._truth(op, a, b)
        if op in _FLOAT:
            sign = _FLOAT[op]
            return self._value(type_, f"{self._one(a, b)} {sign} {self._other(a, b)}")
        if op in _SIGNED and type_.lanes == 1:
            sign = _SIGNED[op]
            binding = _BINDINGS[sign]
            if a.number is not None and b.number is not None:
                return self._value(type_, f"(int64_t){self._use(a)} {sign} {self._use(b)}")
            left, right = self._use(a, binding), self._use(b, binding + 1)
            return self._value(type_, f"{left} {sign} {right}", binding)
        if op in _PATTERNS or op == "sdiv":
            sign = _PATTERNS.get(op, "/")
            inside = ANY if type_ == I64 else -1
            return self._value(type_, f"{self._one(a, b)} {sign} {self._other(a, b)}", inside)
        return self._wrapping(_WRAPPING[op.removesuffix(" nsw")], a, b)

    def _wrapping(self, sign: str, a: Val, b: Val) -> Val:
        """Arithmetic in the unsigned type."""
        type_ = a.type
        if type_.element == "i128":
            return self._value(type_, f"{self._use(a)} {sign} {self._use(b)}")
        if type_.lanes > 1:
            wide, back = self._types.unsigned(type_.element, type_.lanes), self._types.value(type_)
        else:
            wide, back = unsigned(type_.element), SCALARS[type_.element]
        left, right = (self._as_unsigned(v, wide, other) for v, other in ((a, b), (b, a)))
        inside = UNARY if type_ == I64 else -1
        return self._value(type_, f"({back})({left} {sign} {right})", inside)

    def _as_unsigned(self, a: Val, wide: str, other: Val) -> str:
        number = a.number
        if number is None or isinstance(number, tuple) or other.number is not None:
            return f"({wide}){self._use(a, UNARY)}"
        return unsigned_literal(int(number), a.type.element)

    def _one(self, a: Val, b: Val) -> str:
        """The left operand; a vector of one constant may be written as that where the other is
        no constant."""
        if a.type.lanes > 1 and b.number is None and isinstance(a.number, float | int):
            return self._types.constant(a.number, a.type.element, 1)
        return self._use(a)

    def _other(self, a: Val, b: Val) -> str:
        return self._one(b, a)

    def _truth(self, op: str, a: Val, b: Val) -> Val:
        sign = _PATTERNS[op]
        if a.type.lanes == 1:
            return self._value(I1, f"{self._use(a)} {sign} {self._use(b)}", ANY)
        size = self._common_mask(a, b)
        text = f"{self._as_mask(a, size)} {sign} {self._as_mask(b, size)}"
        return self._value(a.type, text, mask=size)

    def negate(self, a: Val) -> Val:
        return self._value(a.type, f"-{self._use(a)}")

    def compare(self, order: str, a: Val, b: Val) -> Val:
        lanes, element = a.type.lanes, a.type.element
        result = lane_type("i1", lanes)
        size = self._common_mask(a, b) if element == "i1" else ELEMENT_BYTES.get(element, 8)
        if a.ref == b.ref and element not in FLOATS and a.number is None:
            return Val("", result, order in ("eq", "sle", "sge", "ule", "uge"))
        if order == "uno":
            x, y = self._use(a), self._use(b)
            text = f"({x} != {x}) | ({y} != {y})" if x != y else f"{x} != {x}"
            return self._value(result, text, mask=size)
        inside = ANY if lanes == 1 and element not in FLOATS else -1
        sign = _ORDERS[order.lstrip("osu") if order[0] in "osu" else order]
        if element == "i1" and lanes > 1:
            wide = self._types.unsigned(MASKS[size], lanes)
            x, y = (f"({wide}){self._as_mask(v, size)}" for v in (a, b))
        elif order in ("ult", "ule", "ugt", "uge") and element != "i1":
            wide = unsigned(element) if lanes == 1 else self._types.unsigned(element, lanes)
            x, y = (f"({wide}){self._use(v, UNARY)}" for v in (a, b))
        elif lanes == 1:
            x, y = self._use(a, SUM), self._use(b, SUM)
        else:
            x, y = self._one(a, b), self._other(a, b)
        return self._value(result, f"{x} {sign} {y}", inside, mask=size)

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        type_ = a.type
        is_mask = type_.element == "i1" and type_.lanes > 1
        if condition.type.lanes == 1:
            return self._select_whole(condition, a, b)
        if is_mask:
            size = self._common_mask(a, b, condition)
            m, x, y = (self._as_mask(v, size) for v in (condition, a, b))
            masks = lane_type(MASKS[size], type_.lanes)
            return self._value(type_, self._types.select(masks, m, x, y), mask=size)
        m = self._as_mask(condition, ELEMENT_BYTES[type_.element])
        return self._value(type_, self._types.select(type_, m, self._use(a), self._use(b)))

    def _select_whole(self, condition: Val, a: Val, b: Val) -> Val:
        """One condition for all lanes."""
        type_ = a.type
        if type_.element == "i1" and type_.lanes > 1:
            size = self._common_mask(a, b)
            x, y = (self._as_mask(v, size) for v in (a, b))
            return self._value(type_, f"{self._use(condition)} ? {x} : {y}", mask=size)
        x, y = self._use(a), self._use(b)
        if type_ == PTR:
            x, y = f"(void *){x}", f"(void *){y}"
        inside = ANY if type_ == I64 else -1
        return self._value(type_, f"{self._use(condition)} ? {x} : {y}", inside)

    def convert(self, how: str, a: Val, type_: LaneType) -> Val:
        if a.type.lanes > 1:
            return self._convert_lanes(how, a, type_)
        source, target = a.type.element, type_.element
        x = self._use(a, UNARY)
        if how == "bitcast":
            return self._value(type_, self._types.bits(target, source, self._use(a, ANY)))
        if source == "i1" and how == "sext":
            return self._value(type_, f"-({SCALARS[target]}){x}")
        if target == "i1":
            return self._value(type_, f"({x} & 1) != 0")
        if how in ("zext", "uitofp") and source not in ("i1", "i128"):
            x = f"({unsigned(source)}){x}"
        inside = UNARY if type_ == I64 else -1
        return self._value(type_, f"({SCALARS[target]}){x}", inside)

    def _convert_lanes(self, how: str, a: Val, type_: LaneType) -> Val:
        source, lanes = a.type.element, a.type.lanes
        if source == "i1":
            size = ELEMENT_BYTES[type_.element]
            mask = self._as_mask(a, size)
            if how == "sext":
                return self._value(type_, mask)
            if type_.element in FLOATS:
                one = self._types.constant(1.0, type_.element, lanes)
                bits = f"{mask} & ({self._types.pattern(type_)}){one}"
                return self._value(type_, f"({self._types.value(type_)})({bits})")
            return self._value(type_, f"{mask} & 1")
        target = self._types.value(type_)
        x = self._use(a)
        if how == "bitcast":
            return self._value(type_, f"({target}){x}")
        if type_.element == "i1":
            return self._value(type_, f"({x} & 1) != 0", mask=ELEMENT_BYTES[source])
        if how in ("zext", "uitofp"):
            x = f"({self._types.unsigned(source, lanes)}){x}"
        return self._value(type_, f"__builtin_convertvector({x}, {target})")

    def saturate(self, a: Val, type_: LaneType) -> Val:
        """What is out of the range is converted as 0 and replaced."""
        limit = float(2 ** (8 * ELEMENT_BYTES[type_.element] - 1))
        low, high = _like(-limit, a), _like(limit, a)
        is_high = self.compare("oge", a, high)
        is_low = self.compare("olt", a, low)
        inside = self.binary("and", self.compare("oge", a, low), self.compare("olt", a, high))
        safe = self.select(inside, a, _like(0.0, a))
        x = self._use(safe)
        if a.type.lanes > 1:
            text = f"__builtin_convertvector({x}, {self._types.value(type_)})"
        else:
            text = f"({SCALARS[type_.element]}){x}"
        whole = self._value(type_, text)
        most, least = (_number(n, type_) for n in (int(limit) - 1, -int(limit)))
        return self.select(is_low, least, self.select(is_high, most, whole))

    def function(self, name: str, *arguments: Val) -> Val:
        type_ = arguments[0].type
        given = [self._use(a) for a in arguments]
        if name == "fshl":
            return self._funnel(*arguments)
        if name in ("fabs", "copysign"):
            return self._value(type_, self._types.sign_function(name, type_, given))
        return self._value(type_, self._types.rounded_function(name, type_, given))

    def _funnel(self, high: Val, low: Val, places: Val) -> Val:
        element = high.type.element
        if high.type.lanes > 1:
            raise InternalError("pairs are shifted one by one in C")
        most = 8 * ELEMENT_BYTES[element] - 1
        x, y, n = (f"({unsigned(element)}){self._use(v, UNARY)}" for v in (high, low, places))
        text = f"({x} << ({n} & {most})) | (({y} >> 1) >> ({most} - ({n} & {most})))"
        return self._value(high.type, f"({SCALARS[element]})({text})")

    def scale(self, a: Val, exponent: Val) -> Val:
        raise InternalError("the machine of a C file has no instruction for powers of two")

    def leading_zeros(self, a: Val) -> Val:
        x = self._use(a)
        return self._value(I64, f"{x} ? __builtin_clzll((unsigned long long){x}) : 64")

    def fold_truth(self, how: str, a: Val) -> Val:
        size, lanes = self._mask_size(a), a.type.lanes
        words = size * lanes // 8
        x, sign = self._use(a), "&" if how == "and" else "|"
        if words < 1:
            listed = f" {sign} ".join(f"{x}[{i}]" for i in range(lanes))
            return self._value(I1, f"({listed}) != 0")
        whole = lane_type("i64", words)
        if words == 1:
            text = f"(({self._types.vector('i64', 1)}){x})[0]"
            return self._value(I1, f"{text} {'== -1' if how == 'and' else '!= 0'}")
        together = self._value(whole, f"({self._types.value(whole)}){x}")
        y = self._use(together)
        listed = f" {sign} ".join(f"{y}[{i}]" for i in range(words))
        return self._value(I1, f"({listed}) {'== -1' if how == 'and' else '!= 0'}")

    # --- lanes

    def splat(self, a: Val, lanes: int) -> Val:
        type_ = lane_type(a.type.element, lanes)
        if a.number is not None:
            return Val(a.ref, type_, a.number)
        if a.type.element == "i1":
            text = self._types.splat(f"-(int32_t){self._use(a)}", MASKS[4], lanes)
            return self._value(type_, text)
        return self._value(type_, self._types.splat(self._use(a, ANY), a.type.element, lanes), ATOM)

    def gather(self, values: Sequence[Val]) -> Val:
        type_ = lane_type(values[0].type.element, len(values))
        if type_.element == "i1":
            listed = ", ".join(f"-(int32_t){self._use(v)}" for v in values)
        else:
            listed = ", ".join(self._use(v, ANY) for v in values)
        return self._value(type_, f"({self._types.given(type_)}){{{listed}}}")

    def extract(self, a: Val, lane: int) -> Val:
        text = f"{self._use(a)}[{lane}]"
        if a.type.element == "i1":
            return self._value(I1, f"{text} != 0", ANY)
        return self._value(lane_type(a.type.element), text)

    def shuffle(self, a: Val, b: Val | None, order: Sequence[int]) -> Val:
        type_ = lane_type(a.type.element, len(order))
        listed, size = ", ".join(map(str, order)), 4
        if type_.element == "i1":
            size = self._common_mask(*(v for v in (a, b) if v is not None))
            x, y = self._as_mask(a, size), self._as_mask(b or a, size)
        else:
            x, y = self._use(a), self._use(b or a)
        return self._value(type_, f"__builtin_shufflevector({x}, {y}, {listed})", mask=size)


def _like(value: float, like: Val) -> Val:
    return Val("", like.type, value)


def _number(value: int, type_: LaneType) -> Val:
    return Val("", type_, value)
