"""C as text: the functions of one file. The writer of loops in C.

C11 with vectors as GCC and Clang have them, without a C library. Floats are never contracted or
reordered, integers wrap around in unsigned types, and memory is read through types that may alias.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager

from graphc.artifacts.interface import comment_text
from graphc.backends.c.lines import (
    ANY,
    PRODUCT,
    SUM,
    THERE,
    UNARY,
    Line,
    Variable,
    declared,
    mark,
)
from graphc.backends.c.operations import Operations
from graphc.backends.c.types import MEMORY_NAMES, Definitions
from graphc.backends.llvm.target import Target
from graphc.backends.loops.values import (
    ELEMENT_BYTES,
    I64,
    PTR,
    LaneType,
    Val,
)
from graphc.backends.loops.writer import ModuleWriter, Turn, Writer
from graphc.support.diagnostics import InternalError

TASK = "void (*task)(void *, int64_t)"

_SHARE = f"""\
/* Has the parts of an operation computed: by the pool, if there is one and there is more than one
   part, else here, one after the other. */
static void parallel_for(void *pool, {TASK}, void *context, int64_t count)
{{
    void (*run)(void *, {TASK}, void *, int64_t);
    if (pool && count > 1) {{
        /* The child of a fork finds nothing left of a pool. */
        __builtin_memcpy(&run, pool, sizeof run);
        if (run) {{
            run(pool, task, context, count);
            return;
        }}
    }}
    for (int64_t i = 0; i < count; i++) {{
        task(context, i);
    }}
}}
"""


class Module(ModuleWriter):
    """One file in the making: definitions, constants, functions, in order of first use.

    about  what the functions that are written now are for
    """

    def __init__(self, target: Target) -> None:
        super().__init__()
        self.definitions = Definitions(target)
        self.register = target.machine.vector_bits // 8
        self.about = ""
        self._data: dict[tuple[bytes, int], str] = {}
        self._functions: list[str] = []
        self._bodies: dict[str, str] = {}

    def body(self) -> Code:
        return Code(self)

    def data(self, content: bytes, align: int) -> str:
        name = self._data.setdefault((content, align), f"data{len(self._data)}")
        self.definitions.note_data(name)
        return name

    def parallel_for(self) -> str:
        def write() -> str:
            self._functions.append(_SHARE)
            return "parallel_for"

        return self.once("parallel_for", write)

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
        types = [self.definitions.given(t) for t in results]
        given = self.definitions.results(types) if len(types) > 1 else (*types, "void")[0]
        text = body.function_text(parameters)
        key = f"{given}{text}"
        if key not in self._bodies:
            name = self._bodies[key] = f"{hint}{len(self._bodies)}"
            self.add_function(declared(f"static {given}", name), text, self.about)
        return self._bodies[key]

    def add_function(self, head: str, text: str, about: str = "") -> None:
        """`head` is everything before the parameters, which `text` begins with."""
        comment = f"/* {comment_text(about)} */\n" if about else ""
        self._functions.append(f"{comment}{head}{text}")

    def text(self) -> str:
        arrays = [_array_text(name, *what) for what, name in self._data.items()]
        return "\n".join([self.definitions.text(), "", *arrays, *self._functions])


def _array_text(name: str, content: bytes, align: int) -> str:
    rows = [", ".join(map(str, content[i : i + 20])) for i in range(0, len(content), 20)] or ["0"]
    listed = ",\n    ".join(rows)
    return f"static const _Alignas({align}) uint8_t {name}[] = {{\n    {listed}}};\n"


class Code(Operations):
    """The body of one function."""

    def __init__(self, module: Module) -> None:
        super().__init__(module.definitions)
        self._module = module
        self._pointees: dict[str, str] = {}

    @property
    def module(self) -> Module:
        return self._module

    # --- memory

    def _pointer(self, base: Val, memory: str, binding: int) -> str:
        """An address as one of such elements. A parameter becomes of the type of its first use."""
        if base.ref.startswith("%"):
            self._pointees.setdefault(base.ref, memory)
        if self._pointees.get(base.ref) == memory:
            return self._use(base, binding)
        return f"({memory} *){self._use(base, UNARY)}"

    def offset(self, base: Val, element: str, position: Val, *, inside: bool = True) -> Val:
        memory = self._types.memory(element)
        if not inside:
            step = ELEMENT_BYTES[element]
            where = f"(uintptr_t){self._use(base, UNARY)} + {step} * (uintptr_t)"
            made = self._value(PTR, f"(void *)({where}{self._use(position, UNARY)})", UNARY)
        else:
            start = self._pointer(base, memory, SUM)
            made = self._value(PTR, f"{start} + {self._use(position, PRODUCT)}", SUM)
            variable = self._variable(made)
            assert variable is not None
            array = f"({start})" if start.startswith("(") else start.split(":", 1)[0]
            variable.element = (array, self._use(position, ANY))
            variable.ctype = f"{memory} *"
            self._pointees[made.ref] = memory
        return made

    def _place(self, address: Val, type_: LaneType) -> str:
        """What lies at an address."""
        memory = self._types.memory(type_.element, type_.lanes)
        if type_.lanes > 1:
            if address.ref.startswith("%"):
                self._pointees.setdefault(address.ref, self._types.memory(type_.element))
            return f"*({memory} *){self._use(address, UNARY)}"
        pointer = self._pointer(address, memory, THERE)
        return pointer if pointer.startswith("$") else f"*{pointer}"

    def load(self, type_: LaneType, address: Val, align: int) -> Val:
        return self._value(type_, self._place(address, type_))

    def store(self, value: Val, address: Val, align: int) -> None:
        place = self._place(address, value.type)
        self._do(f"{place} = {self._use(value, ANY)};")

    def load_masked(self, type_: LaneType, address: Val, align: int, mask: Val) -> Val:
        raise InternalError("the machine of a C file has no masked loads")

    def store_masked(self, value: Val, address: Val, align: int, mask: Val) -> None:
        raise InternalError("the machine of a C file has no masked stores")

    def prefetch(self, address: Val, *, writes: bool = False, level: int = 2) -> None:
        how = "1, 3" if writes else f"0, {4 - level}"
        self._do(f"__builtin_prefetch({self._use(address, ANY)}, {how});")

    def in_register(self, address: Val) -> Val:
        return address  # gcc does so by itself

    def stack_array(self, element: str, count: int, align: int) -> Val:
        return self._array(element, count, align)[0]

    def _array(self, element: str, count: int, align: int) -> tuple[Val, Variable]:
        memory = self._types.memory(element)
        variable = Variable(_array_type(memory, count, align), "room")
        number = self._lines.new(variable)
        self._lines.lines.append(Line("", made=number))
        self._pointees[f"${number}"] = memory
        return Val(f"${number}", PTR), variable

    def stack_words(self) -> tuple[Val, Callable[[int], None]]:
        address, variable = self._array("i64", 1, 16)
        memory = self._types.memory("i64")

        def reserve(count: int) -> None:
            variable.ctype = _array_type(memory, max(count, 1), 16)

        return address, reserve

    # --- control

    @contextmanager
    def guarded_loop(
        self, start: Val, stop: Val, step: int, carried: Sequence[Val]
    ) -> Generator[Turn]:
        """A `for`; what is carried are variables."""
        states = [self._state(v) for v in carried]
        counter = Val(f"${self._lines.new(Variable('int64_t', 'i'))}", I64)
        i = self._use(counter)
        first, last = self._use(start, ANY), self._use(stop, SUM)
        following = f"{i}++" if step == 1 else f"{i} += {step}"
        self._do(f"for (int64_t {i} = {first}; {i} < {last}; {following}) {{", 1)
        turn = Turn(counter, list(states))
        yield turn
        self._set(states, turn.carried)
        self._do("}", -1)
        turn.carried = states

    @contextmanager
    def when(self, condition: Val, carried: list[Val]) -> Generator[list[Val]]:
        """An `if`; what changes in it are variables."""
        place, values = len(self._lines.lines), list(carried)
        self._do(f"if ({self._use(condition, ANY)}) {{", 1)
        yield values
        states = list(carried)
        for i, (before, after) in enumerate(zip(carried, values, strict=True)):
            if before != after:
                states[i] = self._state(before, place)
        self._set(states, values)
        self._do("}", -1)
        carried[:] = states

    def _state(self, initial: Val, place: int | None = None) -> Val:
        """A variable that will change; it is declared before the line `place`."""
        made = self._value(initial.type, "", mask=self._mask_size(initial), prefix="s")
        line = self._lines.lines.pop()
        line.text = self._stated(made, initial)
        self._lines.lines.insert(len(self._lines.lines) if place is None else place, line)
        return made

    def _stated(self, state: Val, value: Val) -> str:
        if state.type.element == "i1" and state.type.lanes > 1:
            return self._as_mask(value, self._mask_size(state))
        return self._use(value, ANY)

    def _set(self, states: Sequence[Val], values: Sequence[Val]) -> None:
        """All variables get their new values at once."""
        changing = {s.ref for s, v in zip(states, values, strict=True) if s.ref != v.ref}
        pairs: list[tuple[Val, str]] = []
        for state, value in zip(states, values, strict=True):
            if state.ref == value.ref:
                continue
            if value.ref in changing and value.ref != state.ref:
                value = self._state(value)  # as it was
            pairs.append((state, self._stated(state, value)))
        for state, text in pairs:
            line = f"{self._use(state)} = {text};"
            self._lines.lines.append(Line(line, sets=int(state.ref[1:])))

    # --- calls

    def invoke(self, function: str | Val, arguments: Iterable[Val]) -> None:
        given = list(arguments)
        self._do(f"{self._called(function, given, 'void')}({self._listed(given)});")

    def _called(self, function: str | Val, given: Sequence[Val], result: str) -> str:
        """A function by its name, or through a pointer, with the types of what it is given."""
        if isinstance(function, str):
            return function
        types = ", ".join(self._types.given(a.type) for a in given)
        return f"(({result} (*)({types})){self._use(function, UNARY)})"

    def invoke_for(
        self, function: str | Val, arguments: Iterable[Val], types: Sequence[LaneType]
    ) -> list[Val]:
        given, result = list(arguments), self._types.given(types[0])
        call = f"{self._called(function, given, result)}({self._listed(given)})"
        if len(types) == 1:
            made = self._value(types[0], call)
            self._lines.lines[-1].needed = True
            return [made]
        ctype = self._types.results([self._types.given(t) for t in types])
        number = self._lines.new(Variable(ctype, "r"))
        self._lines.lines.append(Line(call, made=number))
        return [self._value(t, f"{mark(number)}.v{i}") for i, t in enumerate(types)]

    def _listed(self, arguments: Iterable[Val]) -> str:
        return ", ".join(self._stated(Val("", a.type), a) for a in arguments)

    def leave(self, results: Sequence[Val] = ()) -> None:
        if not results:
            return
        listed = self._listed(results)
        if len(results) > 1:
            ctype = self._types.results([self._types.given(v.type) for v in results])
            listed = f"({ctype}){{{listed}}}"
        self._do(f"return {listed};")

    # --- text

    def remark(self, text: str) -> None:
        self._module.about = text
        self._do(f"/* {comment_text(text)} */")

    def function_text(self, parameters: Sequence[Val]) -> str:
        """The parameters and the body."""
        names = [p.ref.removeprefix("%") for p in parameters]
        given: list[str] = []
        first: list[str] = []
        body = self._lines.render([*names, *(f"{n}_" for n in names), *MEMORY_NAMES])
        read = set(_WORD.findall("\n".join(x for x in body if not x.lstrip().startswith("/*"))))
        for name, parameter in zip(names, parameters, strict=True):
            memory = self._pointees.get(parameter.ref)
            if memory is not None and name in read:
                given.append(f"void *{name}_")
                first.append(f"    {memory} *{name} = {name}_;")
                continue
            given.append(declared(self._types.given(parameter.type), name))
            if name not in read:
                first.append(f"    (void){name};")
        text = "\n".join([*first, *body])
        return f"({wrapped(given)})\n{{\n{text}\n}}\n"


_WORD = re.compile(r"[A-Za-z_]\w*")


def wrapped(parameters: Sequence[str]) -> str:
    """Parameters in lines."""
    listed = ", ".join(parameters) or "void"
    return listed if len(listed) < 70 else "\n    " + ",\n    ".join(parameters)


def _array_type(memory: str, count: int, align: int) -> str:
    return f"_Alignas({align}) {memory} @[{count}];"
