"""A function of tensor operations as the message of an ONNX model, but for its parameters' values.

Inputs, states and hyperparameters are inputs of the graph, in order; parameters are names that
initializers give values to. A function of sequences takes their lengths in place of the tables that
it goes by, and its results are 0 behind the end of a sequence, as a call gives them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.artifacts.onnx.graph import Attribute, Body, File, Graph, Node, Port, used_nodes
from graphc.artifacts.onnx.walk import report_unwritable, write_block
from graphc.ir.core import Function, Value
from graphc.ir.declared_dims import dims_of
from graphc.ir.dims import size_product, size_text
from graphc.ir.traversal import walk
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.runtime.signature import SequenceTables
from graphc.support.diagnostics import DiagnosticSink
from graphc.support.onnx_package import BOUNDS, onnx_package

if TYPE_CHECKING:
    from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, ValueInfoProto

OPSET = 18
"""Of the operators that are written: the first in which all reductions take their axes as an input,
and scatters add."""

IR_VERSION = 8
"""Of the message: the one that this opset came with."""

ELEMENT_TYPES = {
    "f32": "FLOAT",
    "f64": "DOUBLE",
    "i32": "INT32",
    "i64": "INT64",
    "i1": "BOOL",
    "f16": "FLOAT16",
    "bf16": "BFLOAT16",
    "i8": "INT8",
    "i16": "INT16",
    "u8": "UINT8",
    "u16": "UINT16",
    "u32": "UINT32",
    "u64": "UINT64",
}
"""What ONNX calls the element types."""

LENGTHS = "lengths"


def make_model(
    function: Function,
    parameters: Sequence[str],
    sequences: SequenceTables | None = None,
    version: str = "",
) -> ModelProto:
    """The model whose parameters are still to be given values.

    parameters  the names of arguments that are no inputs
    sequences   of a function of sequences: the two inputs that say how they lie
    version     of graphc, written into the file

    GraphcError with every operation that ONNX has nothing for, each with its place, and for a size
    that is not one of an input; `toolchain` without the onnx package.
    """
    onnx = onnx_package()
    inputs = _inputs(function, parameters, sequences)
    sources: dict[Dim, tuple[str, int]] = {}
    for port in inputs:
        for axis, dim in enumerate(port.dims):
            if isinstance(dim, Symbol):
                sources.setdefault(dim, (port.name, axis))
    sink = DiagnosticSink()
    report_unwritable(function, sink)
    _report_unknown_elements(function, sink)
    told = sources.keys() | ({_table(function, sequences).dims[0]} if sequences else set())
    _report_unknown_sizes(function, told, sink)
    sink.raise_if_errors()
    graph, outputs, renamed = _written(function, inputs, sources, sequences)
    messages = _Messages(onnx, renamed)
    made = {name: given for given, name in renamed.items()}
    wanted = [made[port.name] for port in outputs]
    nodes = used_nodes([*graph.file.head, *graph.nodes], wanted)
    model: ModelProto = onnx.helper.make_model(
        messages.graph(function.name, nodes, inputs, outputs),
        opset_imports=[onnx.helper.make_opsetid("", OPSET)],
        ir_version=IR_VERSION,
        producer_name="graphc",
        producer_version=version,
    )
    open_sizes = dict.fromkeys(d for port in inputs for d in port.dims if isinstance(d, Symbol))
    if open_sizes:
        bounds = ",".join(f"{size_text(d)}={d.bound}{_step(d)}" for d in open_sizes)
        onnx.helper.set_model_props(model, {BOUNDS: bounds})
    return model


def _step(dim: Symbol) -> str:
    return f"/{dim.step}" if dim.step != 1 else ""


# --- inputs, and the sizes that they decide ------------------------------------------------------


def _inputs(
    function: Function, parameters: Sequence[str], sequences: SequenceTables | None
) -> list[Port]:
    """What a call gives: of sequences their lengths instead of the tables, and the numbers of a
    sparse input by step and sequence, as of any other."""
    hidden = {*parameters} if sequences is None else {*parameters, sequences.begin, sequences.end}
    given = [a for a in function.arguments if a.name not in hidden]
    ports = [Port(a.name or "", a.tensor.dtype, _given_dims(a, function, sequences)) for a in given]
    if sequences is not None:
        taken = {a.name for a in function.arguments}
        name = LENGTHS if LENGTHS not in taken else f"sequence.{LENGTHS}"
        ports.append(Port(name, DType.I64, _table(function, sequences).dims[1:]))
    return ports


def _given_dims(
    argument: Value, function: Function, sequences: SequenceTables | None
) -> tuple[Dim, ...]:
    """The dims as the file takes them: what has a row for each column of the tables [T, S]."""
    dims = argument.tensor.dims
    if sequences is None:
        return dims
    table = _table(function, sequences).dims
    return (*table, *dims[1:]) if dims[:1] == (size_product(table),) else dims


def _table(function: Function, sequences: SequenceTables) -> TensorType:
    """The type of the tables that say how sequences lie: [T, S]."""
    begin = function.argument(sequences.begin)
    assert begin is not None
    return begin.tensor


def _report_unknown_sizes(function: Function, told: Set[Dim], sink: DiagnosticSink) -> None:
    unknown = [d for d in dims_of(function) if d not in told and not d.is_made]
    if unknown:
        listed = ", ".join(map(str, unknown))
        message = f"a size in ONNX is that of an input, and none of this function's has {listed}"
        sink.error("not-supported", message, function.location)


def _report_unknown_elements(function: Function, sink: DiagnosticSink) -> None:
    values = [*function.arguments, *(r for op in walk(function) for r in op.results)]
    for dtype in sorted({v.tensor.dtype.value for v in values} - {*ELEMENT_TYPES}):
        message = f"ONNX's operators of version {OPSET} have no elements of {dtype}"
        sink.error("not-supported", message, function.location)


# --- the graph -----------------------------------------------------------------------------------


def _written(
    function: Function,
    inputs: Sequence[Port],
    sources: Mapping[Dim, tuple[str, int]],
    sequences: SequenceTables | None,
) -> tuple[Graph, list[Port], dict[str, str]]:
    """The graph of the function, its outputs, and what nodes are called in the end instead."""
    graph = Graph(File(sources))
    given = [a.name or "" for a in function.arguments]
    for name in dict.fromkeys([*given, *(port.name for port in inputs)]):
        graph.file.fresh(name)
    ports = {port.name: port.dims for port in inputs}
    for argument, name in zip(function.arguments, given, strict=True):
        as_given = ports.get(name, argument.tensor.dims) == argument.tensor.dims
        graph.called = name
        graph.hold(argument, name if as_given else graph.reshape(name, argument.tensor.dims))
    taken = {*given}
    names = [
        graph.file.fresh(f"{r.name}.result" if r.name in taken else r.name)
        for r in function.results
    ]
    real = ""
    if sequences is not None:
        real = _declare_tables(graph, function, inputs[-1].name, sequences)
    write_block(graph, function.block)
    outputs: list[Port] = []
    renamed: dict[str, str] = {}
    for name, value in zip(names, function.returned, strict=True):
        graph.called = name
        made = graph.whole(value)
        if sequences is not None and _goes_by(value, sequences):
            rank = value.tensor.rank
            mask = graph.reshape(real, [*value.tensor.dims[:2], *[1] * (rank - 2)])
            made = graph.node("Where", mask, made, graph.number(0, value.tensor.dtype))
        own = {output for node in graph.nodes for output in node.outputs} - renamed.keys()
        if made not in own:
            made = graph.node("Identity", made)
        renamed[made] = name
        outputs.append(Port(name, value.tensor.dtype, value.tensor.dims))
    return graph, outputs, renamed


def _goes_by(value: Value, sequences: SequenceTables) -> bool:
    """Whether it has one element, or more, for each step."""
    return [str(d) for d in value.tensor.dims[:2]] == [sequences.time, sequences.slots]


def _declare_tables(g: Graph, function: Function, lengths: str, sequences: SequenceTables) -> str:
    """Make the tables [T, S] of one sequence in each slot; where steps are, i1[T, S]."""
    begin, end = function.argument(sequences.begin), function.argument(sequences.end)
    assert begin is not None
    assert end is not None
    time, slots = begin.tensor.dims
    if time not in g.file.sources:
        _declare_time(g.file, time, lengths)
    g.called = LENGTHS
    counts = g.reshape(g.cast(lengths, DType.I32), [1, slots])
    steps = g.cast(g.reshape(g.positions(time), [time, 1]), DType.I32)
    real, zero = g.node("Less", steps, counts), g.number(0, DType.I32)
    g.hold(begin, g.node("Where", real, zero, g.cast(g.file.size(time), DType.I32)))
    g.hold(end, g.node("Where", real, counts, zero))
    g.file.tables, g.file.lengths = (begin, end), g.cast(lengths, DType.I32)
    return real


def _declare_time(file: File, time: Dim, lengths: str) -> None:
    """The number of steps where no input has it: the largest length."""
    counts = file.node("Concat", file.size(0), lengths, axis=0)
    file.give(time, file.node("ReduceMax", counts, keepdims=1))


# --- messages ------------------------------------------------------------------------------------


class _Messages:
    """Makes the package's messages; `renamed` is what arrays are called there instead."""

    def __init__(self, onnx: Any, renamed: Mapping[str, str]) -> None:
        self._onnx = onnx
        self._renamed = renamed

    def graph(
        self, name: str, nodes: Iterable[Node], inputs: Iterable[Port], outputs: Iterable[Port]
    ) -> GraphProto:
        return self._onnx.helper.make_graph(
            [self._node(node) for node in nodes],
            name,
            [self._port(port) for port in inputs],
            [self._port(port) for port in outputs],
        )

    def _node(self, node: Node) -> NodeProto:
        inputs, outputs = (self._names(names) for names in (node.inputs, node.outputs))
        made: NodeProto = self._onnx.helper.make_node(node.op, inputs, outputs, name=outputs[0])
        made.attribute.extend(self._attribute(k, v) for k, v in sorted(node.attributes.items()))
        return made

    def _names(self, names: Iterable[str]) -> list[str]:
        return [self._renamed.get(name, name) for name in names]

    def _attribute(self, name: str, value: Attribute) -> AttributeProto:
        helper = self._onnx.helper
        if name == "to":
            return helper.make_attribute(name, self._kind(str(value)))
        if isinstance(value, Body):
            return helper.make_attribute(
                name, self.graph(name, value.nodes, value.inputs, value.outputs)
            )
        if isinstance(value, np.ndarray):
            return helper.make_attribute(name, self._onnx.numpy_helper.from_array(value))
        return helper.make_attribute(name, value)

    def _port(self, port: Port) -> ValueInfoProto:
        dims = [size_text(d) if isinstance(d, Symbol) else d for d in port.dims]
        kind = self._kind(port.dtype.value)
        return self._onnx.helper.make_tensor_value_info(*self._names([port.name]), kind, dims)

    def _kind(self, dtype: str) -> int:
        return getattr(self._onnx.TensorProto, ELEMENT_TYPES[dtype])
