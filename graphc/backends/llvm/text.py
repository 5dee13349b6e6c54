"""LLVM IR as text: types, values, the lines of one function, the parts of one module.

Knows LLVM's syntax and nothing of graphc's IR. Text is much faster to make than llvmlite's own
objects, and the same input always gives the same text.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple, TypeVar

from graphc.ir.types import DType

T = TypeVar("T")

CALLER = "noinline optnone"
"""Attributes of functions whose work is done by those that they call. LLVM writes their code
quickly: to improve it would take a fifth of a compilation and gains nothing."""


class LaneType(NamedTuple):
    """`lanes` elements of one LLVM scalar type; one lane is the plain scalar."""

    element: str
    lanes: int
    text: str
    mangled: str


class Val(NamedTuple):
    """A typed LLVM value: an SSA name or a constant."""

    ref: str
    type: LaneType

    def __str__(self) -> str:
        return f"{self.type.text} {self.ref}"


_MANGLED = {"float": "f32", "double": "f64"}
_ELEMENTS = {
    DType.F32: "float",
    DType.F64: "double",
    DType.I32: "i32",
    DType.I64: "i64",
    DType.I1: "i1",
}
ELEMENT_BYTES = {"float": 4, "double": 8, "i32": 4, "i64": 8, "i1": 1, "i8": 1}


@lru_cache(maxsize=256)
def lane_type(element: str, lanes: int = 1) -> LaneType:
    """The LLVM type of `lanes` elements."""
    mangled = _MANGLED.get(element, element)
    if lanes == 1:
        return LaneType(element, 1, element, mangled)
    return LaneType(element, lanes, f"<{lanes} x {element}>", f"v{lanes}{mangled}")


def element_of(dtype: DType) -> str:
    """LLVM's name of an element type in a register."""
    return _ELEMENTS[dtype]


def memory_element(element: str) -> str:
    """How an element lies in memory: a truth value is one byte."""
    return "i8" if element == "i1" else element


I1 = lane_type("i1")
I64 = lane_type("i64")
PTR = lane_type("ptr")


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
    else:
        literal = str(int(value))
    if type_.lanes == 1:
        return Val(literal, type_)
    return Val(f"splat ({type_.element} {literal})", type_)


def index(value: int) -> Val:
    """A constant of the type that counts and addresses."""
    return Val(str(value), I64)


class Module:
    """One LLVM module in the making: data, functions, declarations, in order of first use."""

    def __init__(self, triple: str) -> None:
        self.triple = triple
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._functions: list[str] = []
        self._internal: dict[str, str] = {}
        self._made: dict[Hashable, object] = {}

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """What `make` gives, called the first time that the key comes: what is written for equal
        operations is written once, which of a deep network are most."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]  # type: ignore[return-value]  # of a key always the same type

    def intrinsic(self, name: str, result: str, *arguments: str) -> str:
        """`@name`, declared once. `name` is complete with its type suffixes."""
        if name not in self._declarations:
            self._declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"
        return f"@{name}"

    def data(self, content: bytes, align: int) -> str:
        """`@name` of read-only bytes; the same bytes are laid down once."""
        literal = "\\" + content.hex("\\") if content else ""
        body = f'private unnamed_addr constant [{len(content)} x i8] c"{literal}", align {align}'
        name = self._globals.setdefault(body, f"graphc.data{len(self._globals)}")
        return f"@{name}"

    def add_global(self, name: str, body: str) -> None:
        """`@name` of memory that is seen from outside; `body` is what stands behind the `=`."""
        self._functions.append(f"@{name} = {body}\n")

    def add_function(self, header: str, code: Code) -> None:
        """`header` is everything before the opening brace."""
        self._functions.append(f"{header} {{\n{code.text()}\n}}\n")

    def add_internal(
        self,
        hint: str,
        parameters: str,
        code: Code,
        result: str = "void",
        attributes: str = "nounwind",
    ) -> str:
        """`@name` of a function seen only in this module; equal bodies share one function."""
        body = f"({parameters}) {attributes} {{\n{code.text()}\n}}\n"
        if body not in self._internal:
            name = f"graphc.{hint}{len(self._internal)}"
            self._internal[body] = name
            self._functions.append(f"define internal {result} @{name}{body}")
        return f"@{self._internal[body]}"

    def text(self) -> str:
        parts = [f'target triple = "{self.triple}"\n']
        parts.extend(f"@{name} = {body}" for body, name in self._globals.items())
        parts.extend(self._functions)
        parts.extend(self._declarations.values())
        return "\n".join(parts) + "\n"


class Code:
    """The body of one function: lines, fresh names, and the block now being written."""

    def __init__(self, module: Module, entry: str = "entry") -> None:
        self.module = module
        self.block = entry
        self._lines: list[str] = [f"{entry}:"]
        self._count = 0

    def value(self, type_: LaneType, text: str) -> Val:
        """A new value of `type_`, made by the instruction `text`."""
        self._count = n = self._count + 1
        self._lines.append(f"  %v{n} = {text}")
        return Val(f"%v{n}", type_)

    def binary(self, op: str, a: Val, b: Val) -> Val:
        return self.value(a.type, f"{op} {a.type.text} {a.ref}, {b.ref}")

    def call(self, type_: LaneType, function: str, arguments: Iterable[Val]) -> Val:
        """A call with these arguments; `function` includes the @."""
        listed = ", ".join([f"{a.type.text} {a.ref}" for a in arguments])
        return self.value(type_, f"call {type_.text} {function}({listed})")

    def negate(self, a: Val) -> Val:
        """Of floats; the sign of nan and 0 too."""
        return self.value(a.type, f"fneg {a}")

    def compare(self, order: str, a: Val, b: Val) -> Val:
        """Truth values, one per lane; `order` is eq, ne, slt, ult … of integers, oeq, une, olt …
        of floats."""
        word = "fcmp" if a.type.element in _MANGLED else "icmp"
        return self.value(lane_type("i1", a.type.lanes), f"{word} {order} {a}, {b.ref}")

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        """a where the condition holds, b elsewhere; one condition, or one for each lane."""
        return self.value(a.type, f"select {condition}, {a}, {b}")

    def convert(self, how: str, a: Val, type_: LaneType) -> Val:
        """To another type: sext, zext, trunc, bitcast, fpext, fptrunc, sitofp, uitofp."""
        return self.value(type_, f"{how} {a} to {type_.text}")

    def saturate(self, a: Val, type_: LaneType) -> Val:
        """Floats to integers: towards zero, the nearest integer where there is none, nan to 0."""
        name = f"llvm.fptosi.sat.{type_.mangled}.{a.type.mangled}"
        return self.call(type_, self.module.intrinsic(name, type_.text, a.type.text), (a,))

    def function(self, name: str, *arguments: Val) -> Val:
        """fabs, sqrt, copysign, fma, fshl: of arguments of one type, rounded once."""
        type_ = arguments[0].type
        texts = [type_.text] * len(arguments)
        full = f"llvm.{name}.{type_.mangled}"
        return self.call(type_, self.module.intrinsic(full, type_.text, *texts), arguments)

    def leading_zeros(self, a: Val) -> Val:
        """Of an i64; 64 for zero."""
        function = self.module.intrinsic("llvm.ctlz.i64", "i64", "i64", "i1")
        return self.value(I64, f"call i64 {function}({a}, i1 false)")

    def fold_truth(self, how: str, a: Val) -> Val:
        """All lanes of truth values to one, by `and` or `or`."""
        name = f"llvm.vector.reduce.{how}.{a.type.mangled}"
        return self.call(I1, self.module.intrinsic(name, "i1", a.type.text), (a,))

    # Lanes

    def splat(self, a: Val, lanes: int) -> Val:
        """A scalar in every lane."""
        target = lane_type(a.type.element, lanes)
        if not a.ref.startswith("%"):
            return Val(f"splat ({a})", target)
        one = self.value(target, f"insertelement {target.text} poison, {a}, i64 0")
        mask = f"<{lanes} x i32> zeroinitializer"
        return self.value(target, f"shufflevector {one}, {target.text} poison, {mask}")

    def gather(self, values: Sequence[Val]) -> Val:
        """One vector of several scalars."""
        type_ = lane_type(values[0].type.element, len(values))
        vector = Val("poison", type_)
        for i, value in enumerate(values):
            vector = self.value(type_, f"insertelement {vector}, {value}, i64 {i}")
        return vector

    def extract(self, a: Val, lane: int) -> Val:
        return self.value(lane_type(a.type.element), f"extractelement {a}, i64 {lane}")

    def shuffle(self, a: Val, b: Val | None, order: Sequence[int]) -> Val:
        """The lanes of a, then those of b, in this order."""
        listed = ", ".join(f"i32 {i}" for i in order)
        second = b or f"{a.type.text} poison"
        type_ = lane_type(a.type.element, len(order))
        return self.value(type_, f"shufflevector {a}, {second}, <{len(order)} x i32> <{listed}>")

    # Memory

    def offset(self, base: Val, element: str, position: Val, *, inside: bool = True) -> Val:
        """The address of an element of an array; not `inside`: it is never read."""
        bounds = "inbounds " if inside else ""
        return self.value(PTR, f"getelementptr {bounds}{element}, ptr {base.ref}, {position}")

    def load(self, type_: LaneType, address: Val, align: int) -> Val:
        return self.value(type_, f"load {type_.text}, ptr {address.ref}, align {align}")

    def store(self, value: Val, address: Val, align: int) -> None:
        self.do(f"store {value}, ptr {address.ref}, align {align}")

    def load_masked(self, type_: LaneType, address: Val, align: int, mask: Val) -> Val:
        """Zeros where the mask is false; nothing is read there."""
        name = f"llvm.masked.load.{type_.mangled}.p0"
        function = self.module.intrinsic(name, type_.text, "ptr", "i32", mask.type.text, type_.text)
        arguments = f"ptr {address.ref}, i32 {align}, {mask}, {type_.text} zeroinitializer"
        return self.value(type_, f"call {type_.text} {function}({arguments})")

    def store_masked(self, value: Val, address: Val, align: int, mask: Val) -> None:
        name = f"llvm.masked.store.{value.type.mangled}.p0"
        function = self.module.intrinsic(
            name, "void", value.type.text, "ptr", "i32", mask.type.text
        )
        self.do(f"call void {function}({value}, ptr {address.ref}, i32 {align}, {mask})")

    def prefetch(self, address: Val, *, writes: bool = False) -> None:
        """Asks for the line of an address: to the second level to be read, to the first to be
        written."""
        function = self.module.intrinsic("llvm.prefetch.p0", "void", "ptr", "i32", "i32", "i32")
        how = "i32 1, i32 3" if writes else "i32 0, i32 2"
        self.do(f"call void {function}({address}, {how}, i32 1)")

    def stack_array(self, element: str, count: int, align: int) -> Val:
        """In the entry block only."""
        return self.value(PTR, f"alloca [{count} x {element}], align {align}")

    # Calls

    def invoke(self, function: str | Val, arguments: Iterable[Val]) -> None:
        """A call without a result, of a function of the module or of one that was chosen."""
        name = function if isinstance(function, str) else function.ref
        self.do(f"call void {name}({', '.join(map(str, arguments))})")

    def leave(self) -> None:
        """The end of a function without a result."""
        self.do("ret void")

    def do(self, text: str) -> None:
        """An instruction without a result."""
        self._lines.append(f"  {text}")

    def fresh_label(self, hint: str) -> str:
        self._count += 1
        return f"{hint}{self._count}"

    def enter(self, label: str) -> None:
        """Starts a block; the one before must have ended."""
        self._lines.append(f"{label}:")
        self.block = label

    def hole(self) -> int:
        """A place for a line that is only known later, such as a phi of a loop."""
        self._lines.append("")
        return len(self._lines) - 1

    def fill(self, hole: int, line: str) -> None:
        self._lines[hole] = line

    def fresh(self, type_: LaneType) -> Val:
        """A name for a value that a later `fill` defines."""
        self._count += 1
        return Val(f"%v{self._count}", type_)

    def line_count(self) -> int:
        return len(self._lines)

    def text(self) -> str:
        return "\n".join(self._lines)
