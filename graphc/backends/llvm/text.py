"""LLVM IR as text: the lines of one function, the parts of one module. The writer of loops in LLVM.

Knows LLVM's syntax and nothing of graphc's IR. Text is much faster to make than llvmlite's own
objects, and the same input always gives the same text.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from graphc.backends.loops.values import (
    BITS,
    ELEMENT_BYTES,
    FLOATS,
    I1,
    I64,
    PTR,
    LaneType,
    Val,
    index,
    lane_type,
    number_of,
)
from graphc.backends.loops.writer import ModuleWriter, Turn, Writer

_LEAST_DOT = 4
"""Lanes of the shortest instructions on numbers of bf16."""

CALLER = "noinline optnone"
"""Attributes of functions that only call others. Optimising them would take a fifth of the
compilation and gain nothing."""


def _only_first(mask: Val) -> bool:
    """Whether this constant mask lets the first lane through and no other."""
    return isinstance(mask.number, tuple) and bool(mask.number[0]) and not any(mask.number[1:])


class Module(ModuleWriter):
    """One LLVM module in the making: data, functions, declarations, in order of first use."""

    def __init__(self, triple: str) -> None:
        super().__init__()
        self.triple = triple
        self._declarations: dict[str, str] = {}
        self._globals: dict[str, str] = {}
        self._functions: list[str] = []
        self._internal: dict[str, str] = {}

    def body(self) -> Code:
        return Code(self)

    def intrinsic(self, name: str, result: str, *arguments: str) -> str:
        """`@name`, declared once. `name` is complete with its type suffixes."""
        if name not in self._declarations:
            self._declarations[name] = f"declare {result} @{name}({', '.join(arguments)})"
        return f"@{name}"

    def data(self, content: bytes, align: int) -> str:
        """`@name` of read-only bytes; equal bytes are emitted once."""
        literal = "\\" + content.hex("\\") if content else ""
        body = f'private unnamed_addr constant [{len(content)} x i8] c"{literal}", align {align}'
        name = self._globals.setdefault(body, f"graphc.data{len(self._globals)}")
        return f"@{name}"

    def add_global(self, name: str, body: str) -> None:
        """`@name` of an external global; `body` is the text after the `=`."""
        self._functions.append(f"@{name} = {body}\n")

    def add_function(self, header: str, code: Code) -> None:
        """`header` is everything before the opening brace."""
        self._functions.append(f"{header} {{\n{code.text()}\n}}\n")

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
        assert isinstance(body, Code)
        attributes = "nounwind" + ' "probe-stack"="inline-asm"' * long_stack
        attributes += f" {CALLER}" * only_calls
        listed = ", ".join(map(str, parameters))
        text = f"({listed}) {attributes} {{\n{body.text()}\n}}\n"
        if text not in self._internal:
            name = f"graphc.{hint}{len(self._internal)}"
            self._internal[text] = name
            self._functions.append(f"define internal {_structure(results)} @{name}{text}")
        return f"@{self._internal[text]}"

    def parallel_for(self) -> str:
        code = Code(self)
        pool, task, context = (Val(f"%{name}", PTR) for name in ("pool", "task", "context"))
        count = Val("%count", I64)
        several = code.compare("sgt", count, index(1))
        given = code.value(I1, f"icmp ne {pool}, null")
        both = code.binary("and", several, given)
        code.do(f"br {both}, label %ask, label %alone")
        code.enter("ask")
        # The child of a fork has no workers: `run` of an inherited pool is null.
        run = code.load(PTR, pool, 8)
        lives = code.value(I1, f"icmp ne {run}, null")
        code.do(f"br {lives}, label %shared, label %alone")
        code.enter("shared")
        code.invoke(run, (pool, task, context, count))
        code.leave()
        code.enter("alone")
        with code.guarded_loop(index(0), count, 1, ()) as turn:
            code.invoke(task, (context, turn.index))
        code.leave()
        return self.add("parallel_for", (pool, task, context, count), code, only_calls=True)

    def text(self, before: str = "") -> str:
        """The module's text, to be followed by another, whose declarations are not repeated."""
        parts = [f'target triple = "{self.triple}"\n']
        parts.extend(f"@{name} = {body}" for body, name in self._globals.items())
        parts.extend(self._functions)
        parts.extend(line for line in self._declarations.values() if line not in before)
        return "\n".join(parts) + "\n" + before


def _structure(types: Sequence[LaneType]) -> str:
    """What a function gives: nothing, one value or several."""
    texts = [t.text for t in types]
    return f"{{ {', '.join(texts)} }}" if len(texts) > 1 else (*texts, "void")[0]


class Code(Writer):
    """The body of one function: lines, fresh names, and the block now being written."""

    def __init__(self, module: Module, entry: str = "entry") -> None:
        self._module = module
        self.block = entry
        self._lines: list[str] = [f"{entry}:"]
        self._count = 0

    @property
    def module(self) -> Module:
        return self._module

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
        word = "fcmp" if a.type.element in FLOATS else "icmp"
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

    def scale(self, a: Val, exponent: Val) -> Val:
        """a 2^exponent, by pieces of 512 bits."""
        lanes = 64 // ELEMENT_BYTES[a.type.element]
        piece = lane_type(a.type.element, lanes)
        kind, mask = "ps" if a.type.element == "float" else "pd", f"i{lanes}"
        types = [piece.text] * 3
        name = f"llvm.x86.avx512.mask.scalef.{kind}.512"
        function = self.module.intrinsic(name, piece.text, *types, mask, "i32")
        pieces = zip(self._pieces(a, lanes), self._pieces(exponent, lanes), strict=True)
        end = f"{piece.text} poison, {mask} -1, i32 4"
        made = [
            self.value(piece, f"call {piece.text} {function}({x}, {n}, {end})") for x, n in pieces
        ]
        while len(made) > 1:
            both = range(2 * made[0].type.lanes)
            made = [self.shuffle(x, y, both) for x, y in zip(made[::2], made[1::2], strict=True)]
        return made[0]

    def _pieces(self, a: Val, lanes: int) -> list[Val]:
        """A vector in parts of so many lanes."""
        starts = range(0, a.type.lanes, lanes)
        return [self.shuffle(a, None, range(i, i + lanes)) for i in starts] if starts[1:] else [a]

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
        if a.number is not None:
            return Val(f"splat ({a})", target, a.number)
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

    # Numbers of bf16

    def to_bf16(self, a: Val, b: Val) -> Val:
        lanes = a.type.lanes
        wide, low, high = max(lanes, _LEAST_DOT), *(self._widened(v) for v in (a, b))
        made, x = lane_type("bfloat", 2 * wide), low.type.text
        name = f"llvm.x86.avx512bf16.cvtne2ps2bf16.{32 * wide}"
        both = self.call(made, self.module.intrinsic(name, made.text, x, x), (high, low))
        words = self.convert("bitcast", both, lane_type("i16", 2 * wide))
        if lanes == wide:
            return words
        return self.shuffle(words, None, [*range(lanes), *range(wide, wide + lanes)])

    def dot_bf16(self, sums: Val, a: Val, b: Val) -> Val:
        lanes = sums.type.lanes
        wide = max(lanes, _LEAST_DOT)
        given = [self._widened(v) for v in (sums, a, b)]
        pairs = lane_type("bfloat", 2 * wide)
        given[1:] = [self.convert("bitcast", v, pairs) for v in given[1:]]
        name = f"llvm.x86.avx512bf16.dpbf16ps.{32 * wide}"
        function = self.module.intrinsic(name, given[0].type.text, *(v.type.text for v in given))
        total = self.call(given[0].type, function, given)
        if lanes == 1:
            return self.extract(total, 0)
        return total if lanes == wide else self.shuffle(total, None, range(lanes))

    # Registers of AMX

    def amx_permission(self) -> Val:
        # Once a process would do, but there is no memory to keep that in: it takes 0.1 us.
        call = "call i64 (i64, ...) @syscall(i64 158, i64 4131, i64 18)"
        self.module.intrinsic("syscall", "i64", "i64", "...")
        return self.compare("eq", self.value(I64, call), index(0))

    def amx_configure(self, address: Val) -> None:
        self._amx("ldtilecfg", address)

    def amx_release(self) -> None:
        self._amx("tilerelease")

    def amx_zero(self, number: int) -> None:
        self._amx("tilezero", number)

    def amx_load(self, number: int, address: Val, pitch: Val) -> None:
        self._amx("tileloadd64", number, address, pitch)

    def amx_store(self, number: int, address: Val, pitch: Val) -> None:
        self._amx("tilestored64", number, address, pitch)

    def amx_dot(self, sums: int, a: int, b: int) -> None:
        self._amx("tdpbf16ps", sums, a, b)

    def _amx(self, name: str, *arguments: int | Val) -> None:
        types = ["i8" if isinstance(a, int) else a.type.text for a in arguments]
        function = self.module.intrinsic(f"llvm.x86.{name}", "void", *types)
        given = ", ".join(f"i8 {a}" if isinstance(a, int) else str(a) for a in arguments)
        self.do(f"call void {function}({given})")

    def _widened(self, a: Val) -> Val:
        """With as many lanes as an instruction takes at least; what the others hold is unused."""
        if a.type.lanes >= _LEAST_DOT:
            return a
        if a.type.lanes == 1:
            target = lane_type(a.type.element, _LEAST_DOT)
            return self.value(target, f"insertelement {target.text} zeroinitializer, {a}, i64 0")
        return self.shuffle(a, None, [i % a.type.lanes for i in range(_LEAST_DOT)])

    # Memory

    def offset(self, base: Val, element: str, position: Val, *, inside: bool = True) -> Val:
        """The address of an element of an array; not `inside`: it is never read."""
        bounds = "inbounds " if inside else ""
        return self.value(
            PTR, f"getelementptr {bounds}{BITS.get(element, element)}, ptr {base.ref}, {position}"
        )

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
        if _only_first(mask) and value.type.element not in FLOATS:
            # LLVM 22.1 makes one store of it, and of a value cut from wider integers a wide one.
            self.store(self.extract(value, 0), address, align)
            return
        name = f"llvm.masked.store.{value.type.mangled}.p0"
        function = self.module.intrinsic(
            name, "void", value.type.text, "ptr", "i32", mask.type.text
        )
        self.do(f"call void {function}({value}, ptr {address.ref}, i32 {align}, {mask})")

    def prefetch(self, address: Val, *, writes: bool = False, level: int = 2) -> None:
        function = self.module.intrinsic("llvm.prefetch.p0", "void", "ptr", "i32", "i32", "i32")
        how = "i32 1, i32 3" if writes else f"i32 0, i32 {4 - level}"
        self.do(f"call void {function}({address}, {how}, i32 1)")

    def in_register(self, address: Val) -> Val:
        """LLVM's strength reduction does not look behind this intrinsic, which is no code."""
        function = self.module.intrinsic("llvm.launder.invariant.group.p0", "ptr", "ptr")
        return self.value(PTR, f"call ptr {function}({address})")

    def stack_array(self, element: str, count: int, align: int) -> Val:
        """In the entry block only."""
        return self.value(PTR, f"alloca [{count} x {BITS.get(element, element)}], align {align}")

    def stack_words(self) -> tuple[Val, Callable[[int], None]]:
        address, place = self.fresh(PTR), self.hole()

        def reserve(count: int) -> None:
            if count:
                self.fill(place, f"  {address.ref} = alloca [{count} x i64], align 16")

        return address, reserve

    # Calls

    def remark(self, text: str) -> None:
        """Nothing: LLVM's text is read by LLVM."""

    def invoke(self, function: str | Val, arguments: Iterable[Val]) -> None:
        name = function if isinstance(function, str) else function.ref
        self.do(f"call void {name}({', '.join(map(str, arguments))})")

    def invoke_for(
        self, function: str | Val, arguments: Iterable[Val], types: Sequence[LaneType]
    ) -> list[Val]:
        function = function if isinstance(function, str) else function.ref
        if len(types) == 1:
            return [self.call(types[0], function, arguments)]
        listed, together = ", ".join(map(str, arguments)), _structure(types)
        made = self.value(LaneType("", 1, together, ""), f"call {together} {function}({listed})")
        return [self.value(t, f"extractvalue {made}, {i}") for i, t in enumerate(types)]

    def leave(self, results: Sequence[Val] = ()) -> None:
        if len(results) < 2:
            self.do(f"ret {(*results, 'void')[0]}")
            return
        text = _structure([v.type for v in results])
        together = Val("poison", LaneType("", 1, text, ""))
        for i, part in enumerate(results):
            together = self.value(together.type, f"insertvalue {together}, {part}, {i}")
        self.do(f"ret {together}")

    # Control

    @contextmanager
    def guarded_loop(
        self, start: Val, stop: Val, step: int, carried: Sequence[Val]
    ) -> Generator[Turn]:
        """Tested at the bottom, and before unless it is known to run; carried values are phis."""
        is_guarded = number_of(start) is None or number_of(stop) is None
        before, head, done = self.block, self.fresh_label("loop"), self.fresh_label("done")
        if is_guarded:
            self._branch(self.compare("slt", start, stop), head, done)
        else:
            self.do(f"br label %{head}")
        self.enter(head)
        holes = [self.hole() for _ in range(len(carried) + 1)]
        counter = self.fresh(I64)
        phis = [self.fresh(v.type) for v in carried]
        turn = Turn(counter, list(phis))
        yield turn

        following = self.binary("add nsw", counter, index(step))
        more = self.compare("slt", following, stop)
        latch = self.block
        ends = [(counter, start, following), *zip(phis, carried, turn.carried, strict=True)]
        for hole, (phi, initial, next_value) in zip(holes, ends, strict=True):
            pairs = f"[ {initial.ref}, %{before} ], [ {next_value.ref}, %{latch} ]"
            self.fill(hole, f"  {phi.ref} = phi {phi.type.text} {pairs}")
        self._branch(more, head, done)
        self.enter(done)
        if is_guarded:
            ends = zip(carried, turn.carried, strict=True)
            turn.carried = [self._either(before, i, latch, v) for i, v in ends]

    @contextmanager
    def when(self, condition: Val, carried: list[Val]) -> Generator[list[Val]]:
        before, inside, done = self.block, self.fresh_label("then"), self.fresh_label("end")
        self._branch(condition, inside, done)
        self.enter(inside)
        values = list(carried)
        yield values
        end = self.block
        self.do(f"br label %{done}")
        self.enter(done)
        ends = zip(carried, values, strict=True)
        carried[:] = [self._either(before, i, end, v) for i, v in ends]

    def _branch(self, condition: Val, some: str, other: str) -> None:
        self.do(f"br {condition}, label %{some}, label %{other}")

    def _either(self, before: str, initial: Val, end: str, value: Val) -> Val:
        """The value of a block that two others lead to."""
        pairs = f"[ {initial.ref}, %{before} ], [ {value.ref}, %{end} ]"
        return self.value(value.type, f"phi {value.type.text} {pairs}")

    # Lines

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
