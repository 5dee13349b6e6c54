"""`ProgramBuilder`: a program in the making, by `gc.program` and by front ends that read programs.

Inputs and parameters are declared first; what is then computed of them with the functions of
arrays, inside `open()`, belongs to the program.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice

from graphc.driver.options import DEFAULT_BATCH, MOST_SAMPLES
from graphc.ir.core import Function, Module, ResultInfo, Value
from graphc.ir.declared_dims import dims_of, require_names
from graphc.ir.types import DIM_NAME, Dim, DType, Symbol, TensorType
from graphc.ir.verifier import verify_module
from graphc.model.program import Program
from graphc.support.diagnostics import DiagnosticSink, fail
from graphc.support.source import UNKNOWN, Location
from graphc.tensor.caller import at
from graphc.tensor.function import FUNCTION, lifted_result
from graphc.tensor.promotion import Array, element_type, named_type
from graphc.tensor.tensor import Tensor
from graphc.tensor.tracing import PROGRAM, Held, Trace, Traced

CAPTURED = "captured"

NameHeld = Callable[[Sequence[tuple[object, Held]]], Sequence[str]]
"""Names for the user's own objects and what was made of them."""


class ProgramBuilder:
    """The function of a program, and the values of its parameters.

    default   element type of plain floats where no array decides
    location  where the program is written
    """

    def __init__(self, default: DType = DType.F32, location: Location = UNKNOWN) -> None:
        self.location = location
        self._trace = Trace(FUNCTION, default, None, location)
        self._values: dict[str, Array] = {}
        self._droppable: set[Value] = set()

    def input(
        self, name: str, shape: Sequence[Dim], dtype: object, *, drop_unread: bool = False
    ) -> Tensor:
        """An array that each call gives. Sizes are numbers or what `dim` gave.

        drop_unread  it is left out where nothing reads it
        """
        type = TensorType(tuple(shape), named_type(dtype))
        value = self._trace.argument(name, type)
        if drop_unread:
            self._droppable.add(value)
        return Tensor(self._trace, value)

    def parameter(self, name: str, value: Array) -> Tensor:
        """An array that the program holds; it is not copied. TypeRuleError for what is none."""
        type = TensorType(value.shape, element_type(value.dtype))
        self._values[name] = value.view(type.dtype.numpy) if type.dtype.numpy.names else value
        return Tensor(self._trace, self._trace.argument(name, type, "parameter"))

    def hold(self, value: Array) -> Tensor:
        """An array as one that is computed with: small ones are written into the function."""
        return Tensor(self._trace, self._trace.lift_one(value))

    @contextmanager
    def open(self, place: Location | None = None) -> Generator[None]:
        """What is computed inside belongs to the program, and comes from `place`: None for the
        caller's own line."""
        token = PROGRAM.set(self._trace)
        try:
            with at(place):
                yield
        finally:
            PROGRAM.reset(token)

    def inputs_behind(self, value: Tensor) -> list[str]:
        """The names of the inputs that a value is computed from."""
        seen: set[Value] = set()
        waiting = [value.value]
        while waiting:
            here = waiting.pop()
            if here in seen:
                continue
            seen.add(here)
            if here.op is not None:
                waiting += here.op.operands
        roles = zip(self._trace.function.arguments, self._trace.function.roles, strict=True)
        return [a.name or "" for a, role in roles if role == "input" and a in seen]

    def _free_names(self, count: int) -> list[str]:
        """Names for arrays that the program was made with, which no argument has."""
        taken = {a.name for a in self._trace.function.arguments}
        names = (f"{CAPTURED}{i}" for i in range(len(taken) + count))
        return [*islice((name for name in names if name not in taken), count)]

    def close(self) -> None:
        """Nothing is added any more."""
        self._trace.is_open = False

    def finish(
        self,
        results: Mapping[str, object],
        name_held: NameHeld | None = None,
        *,
        drop_unread: bool = False,
    ) -> Program:
        """The program that gives these results.

        name_held    gives names to what is used and was not declared, parameters too
        drop_unread  parameters that nothing reads are left out

        Raises GraphcError for a result that is no
        array, or a name of a dim that means two things.
        """
        trace = self._trace
        values = [lifted_result(made, trace, self.location) for made in results.values()]
        self.close()
        function = trace.finish(values)
        function.results = [ResultInfo(name) for name in results]
        arguments = function.arguments[len(function.arguments) - len(trace.held) :]
        pairs = [*zip(trace.sources, trace.held, strict=True)]
        names = name_held(pairs) if name_held else self._free_names(len(pairs))
        for argument, name, array in zip(arguments, names, trace.held, strict=True):
            if isinstance(array, Traced):
                message = "a program cannot be made of values of a function that is being traced"
                raise fail("input", message, self.location)
            argument.name = name
            self._values[name] = array
        dropped = set(self._droppable)
        if drop_unread:
            roles = zip(function.arguments, function.roles, strict=True)
            dropped |= {a for a, role in roles if role == "parameter"}
        function.drop_unread(dropped)
        module = Module([function], _dims(function, self.location))
        sink = DiagnosticSink()
        verify_module(module, sink)
        sink.raise_if_errors()
        read = {a.name for a in function.arguments}
        return Program(module, {name: v for name, v in self._values.items() if name in read})


def dim(name: str, bound: int = DEFAULT_BATCH, step: int = 1) -> Symbol:
    """A size that each call decides, a multiple of `step`, up to `bound` without compiling again.

    ValueError for a name, a bound or a step that it cannot have.
    """
    if not DIM_NAME.fullmatch(name):
        raise ValueError(f"requires names of dims in capital letters, got {name!r}")
    if not 1 <= bound <= MOST_SAMPLES:
        raise ValueError(f"requires a whole number from 1 to {MOST_SAMPLES}, got {bound!r}")
    if step < 1 or bound % step:
        raise ValueError(f"requires a bound that is a multiple of {step}, got {bound!r}")
    return Symbol(name, bound, step=step)


def _dims(function: Function, location: Location) -> list[Symbol]:
    """All dims of the function's values, those that a call decides first."""
    dims = dims_of(function)
    require_names(dims, location)
    return sorted(dims, key=lambda one: one.is_made)
