"""A program: a function of arrays in the IR with the values of its parameters.

It is what is compiled beside a network (`model.py`): a traced Python function, an edited `.gir`
file, or what a model file holds of one. Arguments are arrays of any rank; a size that a call
decides is a bounded dim of the module.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from graphc.ir.core import Function, Module, RegionKind, Value
from graphc.ir.parser import parse_module
from graphc.ir.printer import dim_text, print_module
from graphc.ir.types import DType
from graphc.ir.verifier import verify_module
from graphc.model.container import IN_BYTES, KIND, PROGRAM, container_writer, read_container
from graphc.model.model import TRAINING, TRAINING_ARRAY
from graphc.ops import default_context
from graphc.runtime.residency import come_home
from graphc.support.diagnostics import fail, suggestion
from graphc.support.element_types import as_numbers, as_type
from graphc.support.files import write_atomically


@dataclass(frozen=True, eq=False)
class Program:
    """A function and the values of its parameters, by name.

    module      one function, below the level of nodes
    values      live: what is compiled reads them at every call unless it is frozen. While a GPU
                trains them they are away there: `parameters`, `frozen` and `save` bring them home
    is_written  somebody wrote the IR, as in a `.gir` file: what is there of schedules and memory is
                kept, and nothing is simplified
    classes     inputs that are class numbers, and how many classes there are: calls with others are
                refused
    """

    module: Module
    values: Mapping[str, np.ndarray] = field(default_factory=dict[str, np.ndarray])
    is_written: bool = False
    classes: Mapping[str, int] = field(default_factory=dict[str, int])

    @property
    def function(self) -> Function:
        (function,) = self.module.functions
        return function

    @property
    def precision(self) -> DType:
        """The type that it computes floating-point values in, by its first argument or result of
        one."""
        found = [v.tensor.dtype for v in (*self.function.arguments, *self.function.returned)]
        return next((dtype.computed for dtype in found if dtype.is_float), DType.F32)

    @property
    def parameters(self) -> Parameters:
        """The values by name: reading gives the live array, assigning copies into it."""
        return Parameters(self.values)

    def find(self, name: str) -> Value | None:
        """The argument of that name."""
        return self.function.argument(name)

    def values_in(self, _dtype: DType) -> Mapping[str, np.ndarray]:
        """The values, for a function of the program's own element type."""
        return self.values

    def frozen(self) -> Program:
        """This program with its values as they are now."""
        come_home(self.values.values())
        return replace(self, values={name: array.copy() for name, array in self.values.items()})

    def with_bounds(self, bounds: Mapping[str, int]) -> Program:
        """This program for calls of up to these sizes, by the names of dims."""
        if not bounds:
            return self
        text = print_module(self.module, locations=True)
        for dim in (d for d in self.module.dims if not d.is_made):
            wider = replace(dim, bound=bounds.get(dim.name, dim.bound))
            text = text.replace(f"{dim_text(dim)}\n", f"{dim_text(wider)}\n", 1)
        return replace(self, module=_parsed(text, "the program"))

    def save(self, path: Path | str) -> None:
        """Write a model file (safetensors; `docs/model-file.md`), atomically."""
        path = Path(path)
        come_home(self.values.values())
        metadata = {"ir": print_module(self.module, locations=True), KIND: PROGRAM}
        write_atomically(path, container_writer(self.values, metadata, str(path)))

    def __reduce__(self) -> tuple[object, ...]:
        """For `pickle` and `copy.deepcopy`: the function goes as text."""
        come_home(self.values.values())
        text = print_module(self.module, locations=True)
        return _unpickled, (text, dict(self.values), self.is_written, dict(self.classes))

    def _repr_svg_(self) -> str | None:
        """The picture that notebooks show."""
        from graphc.model.picture import function_drawing, shown_svg  # only notebooks draw

        return shown_svg(function_drawing(self.function))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{a.name}: {a.tensor}" for a in self.function.arguments)
        results = zip(self.function.results, self.function.returned, strict=True)
        return f"Program({arguments}) -> {', '.join(f'{r.name}: {v.tensor}' for r, v in results)}"


class Parameters(MutableMapping[str, np.ndarray]):
    """The values of a program's parameters: assigning copies, after checking the shape."""

    def __init__(self, values: Mapping[str, np.ndarray]) -> None:
        self._values = values

    def __getitem__(self, name: str) -> np.ndarray:
        if name not in self._values:
            near = suggestion(name, self._values)
            raise KeyError(f"the program has no parameter `{name}`{near}")
        come_home((self._values[name],))
        return self._values[name]

    def __setitem__(self, name: str, value: object) -> None:
        array = self[name]
        try:
            new = np.asarray(value)
        except ValueError as problem:
            raise fail("input", f"parameter `{name}` requires an array: {problem}") from None
        new = as_numbers(new)
        if new.dtype.kind not in "fiub" or new.shape != array.shape:
            raise fail(
                "input",
                f"parameter `{name}` requires numbers of shape {array.shape}, "
                f"got {new.dtype}{list(new.shape)}",
            )
        array[...] = as_type(new, array.dtype)  # too large for f32 is infinite, as in any input

    def __delitem__(self, name: str) -> None:
        raise TypeError("parameters cannot be removed from a program")

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


def _unpickled(
    text: str, values: dict[str, np.ndarray], is_written: bool, classes: dict[str, int]
) -> Program:
    """The program of `Program.__reduce__`."""
    return Program(_parsed(text, "a pickled program"), values, is_written, classes)


def read_program(path: Path) -> Program:
    """The program of a model file; nothing in it is executed.

    GraphcError `bad-model-file` if it holds none, is damaged, or values do not fit the text.
    """
    container = read_container(path)
    if container.metadata.get(KIND) != PROGRAM:
        message = f"{path} holds a network, a program is required: gc.load reads networks"
        raise fail("bad-model-file", message)
    module = _parsed(container.metadata["ir"], f"{path} (program)")
    if len(module.functions) != 1 or module.functions[0].kind is not RegionKind.SSA:
        raise fail("bad-model-file", f"{path}: a program is one function of arrays")
    values = container.tensors
    if TRAINING in container.metadata:
        values = {n: a for n, a in values.items() if not n.startswith(TRAINING_ARRAY)}
    program = Program(module, _of_bytes(module.functions[0], values))
    _check_values(program, path)
    return program


def _of_bytes(function: Function, values: Mapping[str, np.ndarray]) -> Mapping[str, np.ndarray]:
    """The values with elements of the types that only the text knows."""
    types = {a.name: a.tensor.dtype for a in function.arguments}
    return {
        name: array.view(types[name].numpy)
        if name in types and types[name].value in IN_BYTES and array.dtype == np.uint8
        else array
        for name, array in values.items()
    }


def _check_values(program: Program, path: Path) -> None:
    function = program.function
    roles = zip(function.arguments, function.roles, strict=True)
    expected = {a.name or "": a.tensor for a, role in roles if role == "parameter"}
    for name in sorted({*expected} ^ {*program.values}):
        what = "has no value in the file" if name in expected else "is no parameter of the program"
        raise fail("bad-model-file", f"{path}: `{name}` {what}")
    for name, type in expected.items():
        found = program.values[name]
        if found.dtype != type.dtype.numpy or found.shape != type.dims:
            came = f"{found.dtype}{list(found.shape)}"
            raise fail("bad-model-file", f"{path}: `{name}` is {type}, its value is {came}")


def _parsed(text: str, file: str) -> Module:
    """The module of a text, verified. Raises GraphcError."""
    context = default_context()
    module = parse_module(text, context, file=file)
    verify_module(module, context.sink)
    context.sink.raise_if_errors()
    return module
