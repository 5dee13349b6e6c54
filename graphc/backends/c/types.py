"""C's types of values, what of them a file has to define, and how constants are written.

Values are scalars of C and vectors of GCC's extension: `f32x8` has eight floats. Truth values in
lanes are vectors of integers that are -1 or 0, as comparisons give them. Memory is read and
written through types that may lie anywhere and may alias: `f32`, `f32x8_m`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from graphc.backends.llvm.target import Target
from graphc.backends.loops.values import BITS, ELEMENT_BYTES, FLOATS, LaneType, Number, lane_type

_INTEGERS = {"i8": "int8_t", "i16": "int16_t", "i32": "int32_t", "i64": "int64_t"}
SCALARS = {
    "float": "float",
    "double": "double",
    **_INTEGERS,
    **{element: _INTEGERS[bits] for element, bits in BITS.items()},
    "i128": "unsigned __int128",
    "i1": "_Bool",
    "ptr": "void *",
}
MASKS = {1: "i8", 4: "i32", 8: "i64"}
"""The integers of a vector of truth values, by their bytes."""

_SHORT = {"float": "f32", "double": "f64", **BITS, **{name: name for name in _INTEGERS}}
MEMORY_NAMES = frozenset(_SHORT.values())
"""Of the types of `Definitions.memory`, such as `i8`: no variable may be called so."""
_X86_BUILTINS = {16: "{}", 32: "{}256", 64: "{}512_mask"}


def unsigned(element: str) -> str:
    """The scalar type of the same size whose arithmetic wraps around."""
    return SCALARS[element] if element == "i128" else f"u{SCALARS[element]}"


def literal(value: float | int, element: str) -> str:
    """A constant of a scalar type."""
    if element in FLOATS:
        return _float_literal(float(value), element)
    if element == "i1":
        return "1" if value else "0"
    if element == "ptr":
        return "(void *)0"
    number = int(value)
    if element == "i64" and number == -(2**63):
        return "INT64_MIN"
    if element == "i32" and number == -(2**31):
        return "INT32_MIN"
    return f"{number}ull" if number >= 2**63 else str(number)


def _float_literal(value: float, element: str) -> str:
    suffix = "f" if element == "float" else ""
    if suffix:
        with np.errstate(over="ignore"):
            shown = str(np.float32(value))
    else:
        shown = repr(value)
    if math.isnan(value):
        return f'__builtin_nan{suffix}("")'
    if shown.endswith("inf"):
        return f"{shown.removesuffix('inf')}__builtin_inf{suffix}()"
    return shown + suffix


def unsigned_literal(value: int, element: str) -> str:
    """An integer constant of the unsigned type."""
    return f"{value % 256 ** ELEMENT_BYTES[element]}{'ull' if element == 'i64' else 'u'}"


class Definitions:
    """What a file defines before its functions, in order of first use."""

    def __init__(self, target: Target) -> None:
        self._is_arm = target.triple.startswith("aarch64")
        self._register = target.machine.vector_bits // 8
        self._texts: dict[str, str] = {}
        self._data: set[str] = set()

    def text(self) -> str:
        return "\n".join(self._texts.values())

    def _define(self, name: str, make: Callable[[], str]) -> str:
        if name not in self._texts:
            text = make()  # may define others, which come first
            self._texts[name] = text
        return name

    def note_data(self, name: str) -> None:
        """Says that a name is of bytes, and not of a function."""
        self._data.add(name)

    def is_data(self, name: str) -> bool:
        return name in self._data

    # --- types

    def given(self, type_: LaneType) -> str:
        """The type of parameters and results; truth values in lanes are as wide as f32."""
        if type_.element == "i1" and type_.lanes > 1:
            return self.vector(MASKS[4], type_.lanes)
        return self.value(type_)

    def value(self, type_: LaneType) -> str:
        """The type of a value that is no vector of truth values."""
        if type_.lanes == 1:
            return SCALARS[type_.element]
        return self.vector(type_.element, type_.lanes)

    def vector(self, element: str, lanes: int) -> str:
        size = ELEMENT_BYTES[element] * lanes
        name = f"{_SHORT[element]}x{lanes}"
        scalar = SCALARS[element]
        return self._define(
            name, lambda: f"typedef {scalar} {name} __attribute__((vector_size({size})));"
        )

    def unsigned(self, element: str, lanes: int) -> str:
        """The vector of integers whose arithmetic wraps around."""
        size = ELEMENT_BYTES[element] * lanes
        name = f"u{_SHORT[element].removeprefix('i')}x{lanes}"
        scalar = unsigned(element)
        return self._define(
            name, lambda: f"typedef {scalar} {name} __attribute__((vector_size({size})));"
        )

    def pattern(self, type_: LaneType) -> str:
        """The vector of integers as large as these elements."""
        return self.vector(MASKS[ELEMENT_BYTES[type_.element]], type_.lanes)

    def memory(self, element: str, lanes: int = 1) -> str:
        """The type by which memory is read and written."""
        if element == "ptr":
            return self._define("ptr", lambda: "typedef void *__attribute__((may_alias)) ptr;")
        if lanes == 1:
            name = _SHORT[element]
            return self._define(
                name, lambda: f"typedef {SCALARS[element]} {name} __attribute__((may_alias));"
            )
        return self._define(
            f"{_SHORT[element]}x{lanes}_m", lambda: self._memory_vector(element, lanes)
        )

    def _memory_vector(self, element: str, lanes: int) -> str:
        vector, align = self.vector(element, lanes), ELEMENT_BYTES[element]
        return f"typedef {vector} {vector}_m __attribute__((aligned({align}), may_alias));"

    def results(self, types: Sequence[str]) -> str:
        """The structure of several values."""
        name = "results_" + "_".join(t.replace(" ", "").replace("*", "p") for t in types)
        members = " ".join(f"{t} v{i};" for i, t in enumerate(types))
        return self._define(name, lambda: f"typedef struct {{ {members} }} {name};")

    # --- constants

    def constant(self, number: Number, element: str, lanes: int) -> str:
        """A constant that is no vector of truth values."""
        if lanes == 1 and not isinstance(number, tuple):
            return literal(number, element)
        if isinstance(number, tuple):
            listed = ", ".join(literal(n, element) for n in number)
            return f"({self.vector(element, lanes)}){{{listed}}}"
        if literal(number, element) in ("0", "0.0", "0.0f"):
            return f"({self.vector(element, lanes)}){{0}}"
        return self.splat(literal(number, element), element, lanes)

    def mask(self, number: Number, size: int, lanes: int) -> str:
        """A constant vector of truth values with that many bytes each."""
        if isinstance(number, tuple):
            return self.constant(tuple(-bool(n) for n in number), MASKS[size], lanes)
        return self.constant(-bool(number), MASKS[size], lanes)

    # --- what is written once and used often

    def splat(self, value: str, element: str, lanes: int) -> str:
        """A scalar in every lane."""
        vector = self.vector(element, lanes)
        listed = ", ".join(["x"] * lanes)
        name = f"{vector}_all"
        self._define(name, lambda: f"#define {name}(x) (({vector}){{{listed}}})")
        return f"{name}({value})"

    def select(self, type_: LaneType, mask: str, a: str, b: str) -> str:
        """a where the mask is -1, b where it is 0; the mask is as wide as the elements."""
        vector, pattern = self.value(type_), self.pattern(type_)
        name = f"{vector}_select"
        text = f"(({vector})(((m) & ({pattern})(a)) | (~(m) & ({pattern})(b))))"
        self._define(name, lambda: f"#define {name}(m, a, b) {text}")
        return f"{name}({mask}, {a}, {b})"

    def bits(self, target: str, source: str, value: str) -> str:
        """The same bits as another scalar type."""
        to, from_ = SCALARS[target], SCALARS[source]
        name = f"bits_{_SHORT[source]}_to_{_SHORT[target]}"
        text = f"(((union {{ {from_} from; {to} to; }}){{x}}).to)"
        self._define(name, lambda: f"#define {name}(x) {text}")
        return f"{name}({value})"

    def sign_function(self, name: str, type_: LaneType, arguments: Sequence[str]) -> str:
        """fabs and copysign."""
        suffix = "f" if type_.element == "float" else ""
        if type_.lanes == 1:
            return f"__builtin_{name}{suffix}({', '.join(arguments)})"
        vector, pattern = self.value(type_), self.pattern(type_)
        integer = MASKS[ELEMENT_BYTES[type_.element]]
        most = (1 << (8 * ELEMENT_BYTES[type_.element] - 1)) - 1
        macro, size = f"{vector}_{name}", literal(most, integer)
        of_x = f"(({pattern})(x) & {size})"
        if name == "fabs":
            self._define(macro, lambda: f"#define {macro}(x) (({vector}){of_x})")
        else:
            of_y = f"(({pattern})(y) & ~{size})"
            self._define(macro, lambda: f"#define {macro}(x, y) (({vector})({of_x} | {of_y}))")
        return f"{macro}({', '.join(arguments)})"

    def rounded_function(self, name: str, type_: LaneType, arguments: Sequence[str]) -> str:
        """fma and sqrt: the processor's instruction, of a vector where the compiler has a builtin
        for it, else lane by lane."""
        if type_.lanes == 1 and name == "fma":
            suffix = "f" if type_.element == "float" else ""
            return f"__builtin_fma{suffix}({', '.join(arguments)})"
        one = _SHORT[type_.element]
        macro = f"{self.value(type_) if type_.lanes > 1 else one}_{name}"
        self._define(macro, lambda: self._rounded_macro(macro, name, type_))
        return f"{macro}({', '.join(arguments)})"

    def _rounded_macro(self, macro: str, name: str, type_: LaneType) -> str:
        names = "abc" if name == "fma" else "a"
        listed = ", ".join(names)
        head = f"#define {macro}({listed})"
        builtin = self._builtin(name, type_, listed)
        if not builtin:
            return f"{head} {self._by_parts(name, type_, names)}"
        return "\n".join(
            [
                "#ifdef __clang__",
                f"{head} __builtin_elementwise_{name}({listed})",
                "#else",
                f"{head} {builtin}",
                "#endif",
            ]
        )

    def _by_parts(self, name: str, type_: LaneType, names: str) -> str:
        """The function of both halves of a vector wider than a register, or of each lane."""
        lanes = type_.lanes
        if ELEMENT_BYTES[type_.element] * lanes > self._register:
            half = lane_type(type_.element, lanes // 2)
            parts = [range(lanes // 2), range(lanes // 2, lanes)]
            orders = [", ".join(map(str, part)) for part in parts]
            halves = [
                [f"__builtin_shufflevector(({n}), ({n}), {o})" for n in names] for o in orders
            ]
            made = [self.rounded_function(name, half, h) for h in halves]
            joined = ", ".join(map(str, range(lanes)))
            return f"__builtin_shufflevector({made[0]}, {made[1]}, {joined})"
        one = lane_type(type_.element)
        each = [
            self.rounded_function(name, one, [f"({n})[{i}]" for n in names]) for i in range(lanes)
        ]
        return f"(({self.value(type_)}){{{', '.join(each)}}})"

    def _scalar_sqrt(self, type_: LaneType) -> str:
        """Of the first lane of a vector: GCC's builtin of a scalar may call the C library to note
        an error."""
        element = type_.element
        if self._is_arm:
            lanes = 2
            builtin = {"float": "aarch64_sqrtv2sf", "double": "aarch64_sqrtv2df"}[element]
        else:
            lanes = 16 // ELEMENT_BYTES[element]
            builtin = {"float": "ia32_sqrtss", "double": "ia32_sqrtsd"}[element]
        return f"(__builtin_{builtin}({self.splat('a', element, lanes)})[0])"

    def _builtin(self, name: str, type_: LaneType, listed: str) -> str:
        """GCC's builtin of one instruction for a whole vector."""
        size = ELEMENT_BYTES[type_.element] * type_.lanes
        if type_.lanes == 1:
            return self._scalar_sqrt(type_)
        if size > self._register:
            return ""
        if self._is_arm:
            mode = {"float": "v4sf", "double": "v2df"}[type_.element]
            return f"__builtin_aarch64_{name}{mode}({listed})" if size == 16 else ""
        if size not in _X86_BUILTINS:
            return ""
        kind = "ps" if type_.element == "float" else "pd"
        word = _X86_BUILTINS[size].format(f"vfmadd{kind}" if name == "fma" else f"sqrt{kind}")
        if size < 64:
            return f"__builtin_ia32_{word}({listed})"
        before = "" if name == "fma" else ", (a)"
        mask = "(uint16_t)-1" if kind == "ps" else "(uint8_t)-1"
        return f"__builtin_ia32_{word}({listed}{before}, {mask}, 4)"
