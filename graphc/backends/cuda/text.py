"""CUDA C as text: what one thread computes of single values, an instruction a line.

The same writer protocol as of the loops on processors, with one lane, so that whatever is written
over it (arithmetic, mathematical functions) gives the same bits on a GPU. Loops, memory and threads
are not here: kernels write them as lines around these.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import NoReturn

from graphc.backends.cuda.module import C_TYPES, CudaModule
from graphc.backends.loops.values import (
    FLOATS,
    I64,
    PTR,
    LaneType,
    Val,
    element_of,
    lane_type,
)
from graphc.backends.loops.writer import ModuleWriter, Writer
from graphc.ir.types import DType
from graphc.support.diagnostics import InternalError

INDENT = "    "

_TYPES = {element_of(dtype): ctype for dtype, ctype in C_TYPES.items()} | {"i128": "u128"}
_UNSIGNED = {"i32": "u32", "i64": "u64", "i128": "u128"}
_FLOAT = {"fadd": "+", "fsub": "-", "fmul": "*", "fdiv": "/"}
_SIGNED = {"sdiv": "/", "add nsw": "+", "sub nsw": "-", "mul nsw": "*"}
_PLAIN = {**_FLOAT, **_SIGNED, "and": "&", "or": "|", "xor": "^"}
_WRAPPING = {"add": "+", "sub": "-", "mul": "*", "shl": "<<", "lshr": ">>", "udiv": "/"}
_ORDERS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def indented(lines: Iterable[str], by: int = 1) -> list[str]:
    """Lines so many steps further in; remarks of the preprocessor stay where they are."""
    return [INDENT * by + line if line else line for line in lines]


def literal(value: float | int, dtype: DType) -> str:
    """A constant of a type."""
    return number_text(value, lane_type(element_of(dtype)))


def number_text(value: float | int, type_: LaneType) -> str:
    element = type_.element
    if element in FLOATS:
        return _float_text(float(value), element)
    if element == "i1":
        return "true" if value else "false"
    number = int(value)
    if element == "i32":
        return "(-2147483647 - 1)" if number == -(2**31) else str(number)
    if number == -(2**63):
        return "(-9223372036854775807LL - 1)"
    return f"0x{number:x}ull" if number >= 2**63 else f"{number}LL"


def _float_text(value: float, element: str) -> str:
    if element == "float":
        try:
            (bits,) = struct.unpack("<i", struct.pack("<f", value))
        except OverflowError:
            bits = 0x7F800000 if value > 0 else -0x800000
        (value,) = struct.unpack("<f", struct.pack("<i", bits))
        shown = f"{value:.9g}"
    else:
        shown = repr(value)
    if not math.isfinite(value):
        is_narrow = element == "float"
        bits = struct.pack("<f" if is_narrow else "<d", value)
        number = int.from_bytes(bits, "little")
        return f"{'float' if is_narrow else 'double'}_of(0x{number:x})"
    if "." not in shown and "e" not in shown:
        shown += ".0"
    return shown + ("f" if element == "float" else "")


class CudaCode(Writer):
    """Statements of C, in `lines`."""

    def __init__(self, module: CudaModule) -> None:
        self._module = CudaFunctions(module)
        self.lines: list[str] = []
        self._count = 0

    @property
    def module(self) -> CudaFunctions:
        return self._module

    # --- values as text

    def value(self, type_: LaneType, text: str) -> Val:
        """A new value."""
        name = f"x{self._count}"
        self._count += 1
        self.lines.append(f"const {_TYPES[type_.element]} {name} = {text};")
        return Val(name, type_)

    @staticmethod
    def use(a: Val) -> str:
        """The text of an operand."""
        if a.number is None:
            return a.ref
        if isinstance(a.number, tuple):
            raise InternalError("a thread has no lanes")
        return number_text(a.number, a.type)

    def taken(self) -> list[str]:
        """The lines so far; those that follow are others."""
        lines, self.lines = self.lines, []
        return lines

    # --- elements

    def binary(self, op: str, a: Val, b: Val) -> Val:
        x, y, element = self.use(a), self.use(b), a.type.element
        if op in _PLAIN:
            text = f"{x} {_PLAIN[op]} {y}"
            return self.value(a.type, f"({text}) != 0" if element == "i1" else text)
        if op == "ashr":
            return self.value(a.type, f"{x} >> {y}")
        if op not in _WRAPPING:
            raise InternalError(f"a thread has no {op}")
        wide = _UNSIGNED[element]
        text = f"({_TYPES[element]})(({wide}){x} {_WRAPPING[op]} ({wide}){y})"
        return self.value(a.type, text)

    def negate(self, a: Val) -> Val:
        x = self.use(a)
        return self.value(a.type, f"-({x})" if x.startswith("-") else f"-{x}")

    def compare(self, order: str, a: Val, b: Val) -> Val:
        x, y = self.use(a), self.use(b)
        truth = lane_type("i1")
        if order == "uno":
            text = f"{x} != {x}" if x == y else f"{x} != {x} || {y} != {y}"
            return self.value(truth, text)
        if order[0] == "u" and a.type.element in _UNSIGNED and order != "une":
            wide = _UNSIGNED[a.type.element]
            x, y = f"({wide}){x}", f"({wide}){y}"
        sign = _ORDERS[order if order in _ORDERS else order[1:]]
        return self.value(truth, f"{x} {sign} {y}")

    def select(self, condition: Val, a: Val, b: Val) -> Val:
        return self.value(a.type, f"{self.use(condition)} ? {self.use(a)} : {self.use(b)}")

    def convert(self, how: str, a: Val, type_: LaneType) -> Val:
        x, source, target = self.use(a), a.type.element, type_.element
        if how == "bitcast" and (source in FLOATS or target in FLOATS):
            return self.value(type_, f"{_TYPES[target]}_of({x})")
        if source == "i1" and how == "sext":
            return self.value(type_, f"-({_TYPES[target]}){x}")
        if target == "i1":
            return self.value(type_, f"({x} & 1) != 0")
        if how in ("zext", "uitofp") and source in _UNSIGNED:
            x = f"({_UNSIGNED[source]}){x}"
        return self.value(type_, f"({_TYPES[target]}){x}")

    def saturate(self, a: Val, type_: LaneType) -> Val:
        return self.value(type_, f"saturated_{_TYPES[type_.element]}({self.use(a)})")

    def function(self, name: str, *arguments: Val) -> Val:
        type_, given = arguments[0].type, [self.use(a) for a in arguments]
        if name == "fshl":
            return self.value(type_, f"shifted_pair({', '.join(given)})")
        suffix = "f" if type_.element == "float" else ""
        return self.value(type_, f"{name}{suffix}({', '.join(given)})")

    def leading_zeros(self, a: Val) -> Val:
        return self.value(I64, f"leading_zeros({self.use(a)})")

    # --- constants in memory

    def offset(self, base: Val, element: str, position: Val, *, inside: bool = True) -> Val:
        return Val(f"{base.ref}[{self.use(position)}]", PTR)

    def load(self, type_: LaneType, address: Val, align: int) -> Val:
        return self.value(type_, address.ref)

    # --- control and calls

    @contextmanager
    def when(self, condition: Val, carried: list[Val]) -> Generator[list[Val]]:
        """An `if`; what changes in it are variables."""
        states = [self._state(v) for v in carried]
        outer, self.lines, values = self.lines, [], list(carried)
        yield values
        pairs = zip(states, values, strict=True)
        inside = [*self.lines, *(f"{s.ref} = {self.use(v)};" for s, v in pairs)]
        self.lines = [*outer, f"if ({self.use(condition)}) {{", *indented(inside), "}"]
        carried[:] = states

    def _state(self, initial: Val) -> Val:
        made = self.value(initial.type, self.use(initial))
        self.lines[-1] = self.lines[-1].removeprefix("const ")
        return made

    def call(self, name: str, arguments: Iterable[Val], type_: LaneType) -> Val:
        """What a function of the module gives."""
        return self.value(type_, f"{name}({', '.join(map(self.use, arguments))})")

    def invoke_for(
        self, function: str | Val, arguments: Iterable[Val], types: Sequence[LaneType]
    ) -> list[Val]:
        if not isinstance(function, str):
            self._refuse()
        given = ", ".join(map(self.use, arguments))
        name = f"x{self._count}"
        self._count += 1
        self.lines.append(f"const {_struct_name(function)} {name} = {function}({given});")
        return [self.value(type_, f"{name}.v{i}") for i, type_ in enumerate(types)]

    def leave(self, results: Sequence[Val] = ()) -> None:
        given = ", ".join(map(self.use, results))
        self.lines.append(f"return {given};" if len(results) == 1 else f"return {{{given}}};")

    # --- what one thread has no use for

    def _refuse(self, *_arguments: object, **_named: object) -> NoReturn:
        raise InternalError("a thread computes single values")

    scale = fold_truth = splat = gather = extract = shuffle = _refuse
    store = load_masked = store_masked = prefetch = in_register = stack_array = _refuse
    stack_words = _refuse
    guarded_loop = remark = invoke = _refuse


class CudaFunctions(ModuleWriter):
    """Device functions of values, in a module."""

    def __init__(self, module: CudaModule) -> None:
        super().__init__()
        self.cuda = module

    def body(self) -> CudaCode:
        return CudaCode(self.cuda)

    def data(self, content: bytes, align: int) -> str:
        return self.cuda.data(content, {4: DType.I32, 8: DType.I64}[align])

    def add(
        self,
        hint: str,
        parameters: Sequence[Val],
        body: Writer,
        *,
        results: Sequence[LaneType] = (),
        long_stack: bool = False,
        only_calls: bool = False,
    ) -> str:
        """Functions are found by their text."""
        assert isinstance(body, CudaCode)
        key = tuple(body.lines)
        return self.cuda.function(key, hint, lambda name: text_of(name, parameters, body, results))

    def parallel_for(self) -> NoReturn:
        raise InternalError("a thread computes single values")


def text_of(
    name: str, parameters: Sequence[Val], body: CudaCode, results: Sequence[LaneType]
) -> str:
    """A function of values. One of several values is called, not put in: it rarely happens."""
    listed = ", ".join(f"{_TYPES[p.type.element]} {p.ref.lstrip('%')}" for p in parameters)
    lines = "\n".join(indented(body.lines)).replace("%", "")
    if len(results) == 1:
        head = f"__device__ inline {_TYPES[results[0].element]} {name}"
        return f"{head}({listed})\n{{\n{lines}\n}}\n"
    members = " ".join(f"{_TYPES[t.element]} v{i};" for i, t in enumerate(results))
    head = f"__device__ __attribute__((noinline)) {_struct_name(name)} {name}"
    struct_text = f"struct {_struct_name(name)} {{ {members} }};\n"
    return f"{struct_text}{head}({listed})\n{{\n{lines}\n}}\n"


def _struct_name(function: str) -> str:
    return f"{function}_results"
