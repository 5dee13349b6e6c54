"""An ONNX model as a program: its inputs, the sizes that a call decides, parameters, results."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.support import arguments
from graphc.support.diagnostics import fail, suggestion
from graphc.support.element_types import lacking_name
from graphc.support.onnx_package import BOUNDS
from graphc.support.source import Location
from graphc.tensor.program_builder import DEFAULT_BATCH, Program, ProgramBuilder, Symbol, dim
from graphc.tensor.tracing import is_one_number
from graphc_frontends.onnx.arrays import Arrays
from graphc_frontends.onnx.graph import Reader, Scope, opsets_of
from graphc_frontends.onnx.listing import Listing
from graphc_frontends.onnx.reading import element_type, read_model
from graphc_frontends.onnx.values import (
    Dim,
    Weight,
    dtype_of,
    has_sizes,
    is_float,
    with_numbers,
)

if TYPE_CHECKING:
    from onnx import ModelProto, TypeProto, ValueInfoProto

MAX_WRITTEN = 64
"""Elements up to which an array that a node gives is written into the function."""

STEP = "random.step"
"""The input of a program that draws random numbers which says, in each call, which ones."""

ELEMENT_TYPES = {
    np.dtype(np.float32): "f32",
    np.dtype(np.float64): "f64",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.bool_): "i1",
    np.dtype(np.float16): "f16",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.uint8): "u8",
    np.dtype(np.uint16): "u16",
    np.dtype(np.uint32): "u32",
    np.dtype(np.uint64): "u64",
}
"""And those whose type in numpy a package brings."""


def element_name(dtype: np.dtype[Any]) -> str | None:
    """graphc's name of an element type; None for one that it does not have."""
    return lacking_name(dtype) or ELEMENT_TYPES.get(dtype)


def load_program(
    path: Path,
    *,
    bounds: Mapping[str, int] | None = None,
    multiples: Mapping[str, int] | None = None,
    sizes: Mapping[str, int | str] | None = None,
    values: Mapping[str, object] | None = None,
) -> Program:
    """The program in an ONNX file.

    bounds     the largest size of a dim without compiling again, by the name in the file
    multiples  a number that every size of a dim is a multiple of, by the same names
    sizes      sizes that every call has, or another dim's name, by the same names
    values     inputs that every call has, arrays by name

    Raises GraphcError with the node, its operator and what was required.
    """
    model = read_model(path)
    dims = _checked_dims(bounds or {}, multiples or {}, sizes or {})
    return program_of(model, str(path), dims, arguments.table(values or {}, "values", "arrays"))


@dataclass(frozen=True)
class GivenDims:
    """What the user says of open sizes, by their names in the file: `load_program`."""

    bounds: Mapping[str, int] = field(default_factory=dict[str, int])
    multiples: Mapping[str, int] = field(default_factory=dict[str, int])
    sizes: Mapping[str, int | str] = field(default_factory=dict[str, "int | str"])

    @property
    def numbers(self) -> dict[str, int]:
        """The sizes that are numbers."""
        return {n: s for n, s in self.sizes.items() if not isinstance(s, str)}


def _checked_dims(bounds: object, multiples: object, sizes: object) -> GivenDims:
    """GraphcError for what is no table of whole numbers, and for a dim that is said twice."""
    given = arguments.table(sizes, "sizes", "whole numbers or names")
    names = {name: size for name, size in given.items() if isinstance(size, str)}
    numbers = _whole_numbers({n: size for n, size in given.items() if n not in names}, "sizes")
    dims = GivenDims(
        _whole_numbers(bounds, "bounds"), _whole_numbers(multiples, "multiples"), numbers | names
    )
    for name in given:
        if name in dims.bounds or name in dims.multiples:
            message = f"sizes says what `{name}` is, so that it has no bounds or multiples"
            raise fail("bad-option", message)
    return dims


def _whole_numbers(given: object, what: str) -> dict[str, int]:
    return {
        name: arguments.whole(number, f"{what} of `{name}`")
        for name, number in arguments.table(given, what, "whole numbers").items()
    }


def program_of(
    model: ModelProto,
    file: str,
    dims: GivenDims | None = None,
    values: Mapping[str, object] | None = None,
) -> Program:
    """The program of a model's message; `file` is what errors call it."""
    dims, values = dims or GivenDims(), values or {}
    builder = ProgramBuilder()
    reader = Reader(model, builder, Listing(file, model.graph), Arrays(Path(file)), dims.numbers)
    reader.check_operators()
    scope = Scope(opsets_of(model.opset_import))
    _Inputs(reader, file, dims, values).declare(scope)
    with builder.open(Location()):
        _declare_parameters(reader, scope)
    graph = model.graph
    try:
        reader.run_nodes(graph.node, scope, reader.listing.place)
        with builder.open(Location()):
            results = {output.name: _typed(reader, output, scope) for output in graph.output}
            return builder.finish(_ports(results), drop_unread=True)
    finally:
        builder.close()


# --- inputs --------------------------------------------------------------------------------------


class _Inputs:
    """Declares the graph's inputs, with a dim for every size that the file leaves open."""

    def __init__(
        self,
        reader: Reader,
        file: str,
        given: GivenDims,
        values: Mapping[str, object],
    ) -> None:
        self._reader = reader
        self._file = file
        self._given = given
        self._values = values
        self._told = _told_bounds(reader.model)
        self._dims: dict[str, Dim] = {}
        self._unbounded: list[str] = []

    def declare(self, scope: Scope) -> None:
        graph = self._reader.model.graph
        weights = {tensor.name for tensor in graph.initializer}
        inputs = [given for given in graph.input if given.name not in weights]
        steps = [STEP] if self._reader.draws() else []
        self._check_names("values", [*self._values], [*(given.name for given in inputs), *steps])
        for given in inputs:
            if given.name in self._values:
                scope.values[given.name] = self._fixed(given.type, self._values[given.name])
            else:
                scope.values[given.name] = self._input(given.name, given.type)
        if STEP in steps:
            if STEP in self._values:
                self._reader.step = np.asarray(self._values[STEP], np.int64)
            else:
                self._reader.step = self._reader.builder.input(STEP, (), "i64", drop_unread=True)
        known = [*self._dims]
        self._check_names("sizes", [*self._given.sizes], [*known, *self._reader.counts()])
        self._check_names("bounds", [*self._given.bounds], known)
        self._check_names("multiples", [*self._given.multiples], known)
        if self._unbounded:
            listed = ", ".join(f"`{name}`" for name in self._unbounded)
            message = (
                f"{self._file} leaves the sizes {listed} open: say how large they can be, "
                f"`--dim {self._unbounded[0]}=…`, or what they are, `--dim {self._unbounded[0]}=…!`"
            )
            raise fail("input", message)

    def _fixed(self, type: TypeProto, value: object) -> object:
        """A value that every call has; of a sequence a list, None for an optional that is none."""
        if type.HasField("optional_type"):
            return None if value is None else self._fixed(type.optional_type.elem_type, value)
        if type.HasField("sequence_type"):
            assert isinstance(value, list)
            return [self._fixed(type.sequence_type.elem_type, part) for part in value]
        kind = type.tensor_type.elem_type
        return np.asarray(value, self._reader.onnx.helper.tensor_dtype_to_np_dtype(kind))

    def _input(self, name: str, type: TypeProto) -> object:
        kind = type.WhichOneof("value")
        if kind == "sequence_type":
            message = f"{self._file}: the input `{name}` is a sequence, whose length is not known"
            raise fail("not-supported", message)
        if kind == "optional_type":
            return self._input(name, type.optional_type.elem_type)
        if kind != "tensor_type":
            raise fail("not-supported", f"{self._file}: the input `{name}` is a {kind}")
        tensor = type.tensor_type
        if tensor.elem_type == self._reader.onnx.TensorProto.STRING:
            message = f"{self._file}: the input `{name}` is of texts, which are not computed with"
            raise fail("not-supported", message)
        element = element_name(element_type(tensor.elem_type, f"{self._file}: the input `{name}`"))
        assert element is not None  # `element_type` knows no others
        if not tensor.HasField("shape"):
            message = f"{self._file} does not say how many axes the input `{name}` has"
            raise fail("not-supported", message)
        shape = [self._size(name, axis, d) for axis, d in enumerate(tensor.shape.dim)]
        return self._reader.builder.input(name, shape, element)

    def _size(self, input: str, axis: int, given: Any) -> Dim:
        if given.HasField("dim_value"):
            if given.dim_value < 0:
                message = f"{self._file}: axis {axis} of `{input}` has the size {given.dim_value}"
                raise fail("bad-model-file", message)
            return int(given.dim_value)
        name = given.dim_param or f"{input}.{axis}"
        if name not in self._dims:
            self._dims[name] = self._dim(name, axis)
        return self._dims[name]

    def _dim(self, name: str, axis: int) -> Dim:
        size = self._given.sizes.get(name)
        if isinstance(size, str):
            return self._same(name, size, axis)
        if size is not None:
            return size
        taken = {str(d) for d in self._dims.values()}
        told, told_multiple = self._told.get(name, (None, 1))
        bound = self._given.bounds.get(name, told)
        if bound is None and axis > 0:
            self._unbounded.append(name)
        multiple = self._given.multiples.get(name, told_multiple)
        if bound is None:
            bound = -(-DEFAULT_BATCH // max(multiple, 1)) * max(multiple, 1)
        try:
            return dim(_dim_name(name, taken), bound, multiple)
        except ValueError as problem:
            raise fail("bad-value", f"the dim `{name}` {problem}") from None

    def _same(self, name: str, other: str, axis: int) -> Dim:
        """The dim of another name that this one is equal to."""
        open_ones = {d.dim_param for i in self._reader.model.graph.input for d in _dims_of(i)}
        if other not in open_ones or isinstance(self._given.sizes.get(other), str):
            listed = ", ".join(sorted(n for n in open_ones if n and n != name)) or "none"
            message = f"sizes: `{name}` is to be that of `{other}`; {self._file} has {listed}"
            raise fail("bad-option", message)
        if other not in self._dims:
            self._dims[other] = self._dim(other, axis)
        return self._dims[other]

    def _check_names(self, what: str, given: list[str], known: list[str]) -> None:
        for name in given:
            if name not in known:
                listed = ", ".join(known) or "none"
                message = f"{what}: {self._file} has no `{name}`; it has {listed}"
                raise fail("bad-option", f"{message}{suggestion(name, known)}")


def _dims_of(port: ValueInfoProto) -> Any:
    """The sizes of an input, as the file has them."""
    return port.type.tensor_type.shape.dim


def _told_bounds(model: ModelProto) -> dict[str, tuple[int, int]]:
    """The bounds that graphc wrote into a file of its own, and what sizes are multiples of."""
    told = "".join(p.value for p in model.metadata_props if p.key == BOUNDS)
    number = r"([1-9][0-9]{0,8})"
    found = (re.fullmatch(rf"([^=]+)={number}(?:/{number})?", part) for part in told.split(","))
    return {m[1]: (int(m[2]), int(m[3] or 1)) for m in found if m is not None}


def _dim_name(name: str, taken: set[str]) -> str:
    """The file's name of a size in the letters that names of dims have, and no other's."""
    letters = re.sub(r"[^A-Z0-9]", "", name.upper())
    base = letters if letters[:1].isalpha() else f"D{letters}"
    free, count = base, 1
    while free in taken:
        count += 1
        free = f"{base}{count}"
    return free


# --- parameters and results ----------------------------------------------------------------------


def _declare_parameters(reader: Reader, scope: Scope) -> None:
    """Arrays of floats of the file are parameters, those of other types are known, as are those of
    one number that nodes give, which a function has no memory for."""
    given = {t.name: t for t in reader.model.graph.initializer}
    for name, tensor in {**given, **_large_constants(reader)}.items():
        array = reader.array(tensor)  # one at a time: all of them are as large as the file
        if is_float(array) and (name in given or not is_one_number(array)):
            own = np.require(array, requirements=["C", "W", "O"])  # written to, as parameters are
            made = reader.builder.parameter(name, own)
            scope.values[name] = Weight(made.trace, made.value, own)
        else:
            scope.values[name] = array


def _large_constants(reader: Reader) -> dict[str, Any]:
    """Tensors that nodes give and that are too large to be written into the function."""
    found: dict[str, Any] = {}
    for node in reader.model.graph.node:
        if node.op_type == "Constant" and node.attribute and node.attribute[0].name == "value":
            tensor = node.attribute[0].t
            if math.prod(tensor.dims) > MAX_WRITTEN:
                found[node.output[0]] = tensor
    return found


def _typed(reader: Reader, output: ValueInfoProto, scope: Scope) -> object:
    """A result; of sizes that calls decide as numbers of the type that the file says."""
    made = scope.find(output.name)
    if not has_sizes(made):
        return made
    kind = output.type.tensor_type.elem_type
    dtype = reader.onnx.helper.tensor_dtype_to_np_dtype(kind) if kind else np.dtype(np.int64)
    return with_numbers(made, dtype=dtype)[0]


def _ports(results: Mapping[str, object]) -> dict[str, object]:
    """What each result is outside: of a sequence one for each element, `name.0`, `name.1`, …"""
    ports: dict[str, object] = {}
    for name, made in results.items():
        if isinstance(made, list):
            ports |= _ports({f"{name}.{i}": part for i, part in enumerate(made)})
        elif made is None:
            raise fail("not-supported", f"the result `{name}` has no value")
        else:
            ports[name] = _port(name, made)
    return ports


def _port(name: str, made: Any) -> object:
    if not isinstance(made, Symbol) and element_name(dtype_of(made)) is None:
        message = f"the result `{name}` has elements of {made.dtype}, which is not supported"
        raise fail("not-supported", message)
    return made
