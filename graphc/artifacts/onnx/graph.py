"""Nodes of ONNX in the making: names, constants, sizes, and arrays as the file has them.

The IR repeats extents of 1 in operations of their own; ONNX does so wherever elements meet. So an
array in the file (`Held`) may be smaller than its value: what `broadcast`, `constant` and `iota`
make is only repeated where an operation needs all of it.

Constants, and the sizes that a call decides, stand at the head of the file: graphs of loops see
them there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from graphc.ir.core import Operation, Value
from graphc.ir.elements import DTYPES, as_numbers, converted
from graphc.ir.types import Dim, DType, Symbol
from graphc.support.diagnostics import InternalError

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a graph."""

    name: str
    dtype: DType
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Body:
    """A graph inside of a node: it also sees what stands around it."""

    nodes: list[Node]
    inputs: list[Port]
    outputs: list[Port]


Attribute = int | float | str | Sequence[int] | Sequence[str] | Array | Body


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of ONNX; the first output is its name too."""

    op: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True, slots=True)
class Held:
    """What the file has of a value: an array of these dims.

    They are the value's own, or 1 where it repeats one element along an axis; none at all for one
    number in every place.
    """

    name: str
    dims: tuple[Dim, ...]


@dataclass
class File:
    """What all graphs of a file share.

    sources  where a call's size of a dim is read: an input, and which of its axes
    lengths  of a function of sequences: how many steps each has, i32[S]
    tables   its arguments that say where sequences begin and end
    """

    sources: Mapping[Dim, tuple[str, int]]
    lengths: str = ""
    tables: tuple[Value, Value] | None = None
    head: list[Node] = field(default_factory=list[Node])
    _names: set[str] = field(default_factory=set[str])
    _constants: dict[tuple[str, tuple[int, ...], bytes], str] = field(
        default_factory=dict[tuple[str, tuple[int, ...], bytes], str]
    )
    _sizes: dict[Dim, str] = field(default_factory=dict[Dim, str])

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has, in any graph."""
        name, count = wanted, 0
        while name in self._names:
            count += 1
            name = f"{wanted}_{count}"
        self._names.add(name)
        return name

    def array(self, value: Array) -> str:
        """A constant."""
        key = (value.dtype.str, value.shape, value.tobytes())
        if key not in self._constants:
            name = self.fresh("constant")
            self.head.append(Node("Constant", (), (name,), {"value": value}))
            self._constants[key] = name
        return self._constants[key]

    def size(self, dim: Dim) -> str:
        """The size in this call, [1] i64."""
        if not isinstance(dim, Symbol):
            return self.array(np.array([dim], np.int64))
        if dim not in self._sizes:
            self._sizes[dim] = self._read(dim) if dim in self.sources else self._made(dim)
        return self._sizes[dim]

    def give(self, dim: Dim, name: str) -> None:
        """Where a size is that no input has."""
        self._sizes[dim] = name

    def node(self, op: str, *inputs: str, **attributes: Attribute) -> str:
        """The only output of a new node at the head."""
        name = self.fresh("size")
        self.head.append(Node(op, inputs, (name,), attributes))
        return name

    def _read(self, dim: Symbol) -> str:
        source, axis = self.sources[dim]
        return self.node("Shape", source, start=axis, end=axis + 1)

    def _made(self, dim: Symbol) -> str:
        """⌊(Σ terms + constant) / divisor⌋; no call has a sum below 0."""
        if not dim.terms:
            raise InternalError(f"no input of the file has the size {dim}")
        total = ""
        for term in dim.terms:
            product = self.size(term.factors[0])
            for factor in term.factors[1:]:
                product = self.node("Mul", product, self.size(factor))
            if term.times != 1:
                product = self.node("Mul", product, self.size(term.times))
            total = self.node("Add", total, product) if total else product
        if dim.constant:
            total = self.node("Add", total, self.size(dim.constant))
        return self.node("Div", total, self.size(dim.divisor)) if dim.divisor != 1 else total


class Graph:
    """One graph in the making: its nodes in order, and where the values of the IR are."""

    def __init__(self, file: File, around: Graph | None = None) -> None:
        self.file = file
        self.nodes: list[Node] = []
        self.called = "value"
        """What the next nodes are named by."""
        self._around = around
        self._held: dict[Value, Held] = {}

    # --- nodes -----------------------------------------------------------------------------------

    def node(self, op: str, *inputs: str, **attributes: Attribute) -> str:
        """The only output of a new node."""
        return self.several(op, inputs, 1, **attributes)[0]

    def several(
        self, op: str, inputs: Iterable[str], count: int, **attributes: Attribute
    ) -> tuple[str, ...]:
        """The outputs of a new node."""
        outputs = tuple(self.file.fresh(self.called) for _ in range(count))
        self.nodes.append(Node(op, tuple(inputs), outputs, attributes))
        return outputs

    def inner(self) -> Graph:
        """A graph in a node of this one."""
        return Graph(self.file, self)

    # --- constants and sizes ---------------------------------------------------------------------

    def number(self, value: float, dtype: DType) -> str:
        """One number, without axes."""
        return self.array(np.asarray(converted(np.array(value), dtype)))

    def array(self, value: Array) -> str:
        """A constant. numpy has no bf16: that is made of f32."""
        if DTYPES.get(value.dtype) is DType.BF16:
            return self.node("Cast", self.file.array(as_numbers(value)), to=DType.BF16.value)
        return self.file.array(value)

    def sizes(self, dims: Sequence[Dim]) -> str:
        """A vector of sizes, i64."""
        known = [d for d in dims if isinstance(d, int)]
        if len(known) == len(dims):
            return self.file.array(np.array(known, np.int64))
        return self.node("Concat", *(self.file.size(d) for d in dims), axis=0)

    # --- values ----------------------------------------------------------------------------------

    def hold(self, value: Value, name: str, dims: Sequence[Dim] | None = None) -> None:
        """The value is this array, of all its dims if none are given."""
        self._held[value] = Held(name, value.tensor.dims if dims is None else tuple(dims))

    def held(self, value: Value) -> Held:
        """The array that there is of a value, here or around."""
        graph: Graph | None = self
        while graph is not None:
            if value in graph._held:
                return graph._held[value]
            graph = graph._around
        raise InternalError(f"`{value.called}` is read before it is made")

    def whole(self, value: Value) -> str:
        """The value with every element, repeated where the file has it once."""
        held, dims = self.held(value), value.tensor.dims
        if held.dims != dims:
            known = [d for d in dims if isinstance(d, int)]
            if 0 in dims and len(known) == len(dims):  # ONNX Runtime leaves such an Expand out
                name = self.array(np.zeros(known, value.tensor.dtype.numpy))
            else:
                name = self.node("Expand", held.name, self.sizes(dims))
            held = Held(name, dims)
            self._held[value] = held
        return held.name

    # --- what several operations are made of -----------------------------------------------------

    def cast(self, name: str, dtype: DType) -> str:
        return self.node("Cast", name, to=dtype.value)

    def reshape(self, name: str, dims: Sequence[Dim]) -> str:
        """The same elements under other dims, as many."""
        symbols = [d for d in dims if isinstance(d, Symbol)]
        if len(symbols) == 1 and 0 not in dims:  # what is left over is that size
            shape = self.sizes([-1 if isinstance(d, Symbol) else d for d in dims])
            return self.node("Reshape", name, shape)
        if not symbols and 0 not in dims:
            return self.node("Reshape", name, self.sizes(dims))
        return self.node("Reshape", name, self.sizes(dims), allowzero=1)

    def transpose(self, name: str, order: Sequence[int]) -> str:
        if list(order) == sorted(order):
            return name
        return self.node("Transpose", name, perm=list(order))

    def cut(self, name: str, axis: int, start: Dim, stop: Dim) -> str:
        """The elements from start to stop along one axis."""
        axes = self.sizes([axis])
        return self.node("Slice", name, self.file.size(start), self.file.size(stop), axes)

    def full(self, number: str, dims: Sequence[Dim]) -> str:
        """One number everywhere."""
        return self.node("Expand", number, self.sizes(dims))

    def positions(self, size: Dim) -> str:
        """0, 1, … below a size, i64."""
        if isinstance(size, int):
            return self.file.array(np.arange(size, dtype=np.int64))
        zero, one = (self.number(n, DType.I64) for n in (0, 1))
        limit = self.node("Squeeze", self.file.size(size), self.sizes([0]))
        return self.node("Range", zero, limit, one)


def used_nodes(nodes: Sequence[Node], wanted: Iterable[str]) -> list[Node]:
    """Those of the nodes that the wanted arrays are computed of, in order."""
    needed, found = {*wanted}, list[Node]()
    for node in reversed(nodes):
        if not needed.isdisjoint(node.outputs):
            needed |= _read_by(node)
            found.append(node)
    return found[::-1]


def _read_by(node: Node) -> set[str]:
    """The arrays that a node and the graphs in it read."""
    read, pending = set[str](), [node]
    while pending:
        node = pending.pop()
        read |= {*node.inputs}
        for attribute in node.attributes.values():
            if isinstance(attribute, Body):
                read |= {port.name for port in attribute.outputs}
                pending += attribute.nodes
    return read


Writer = Callable[[Graph, Operation], None]
"""Writes an operation: appends nodes, and holds its results."""
