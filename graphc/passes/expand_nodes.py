"""Turns the network into one SSA function of tensor operations that computes chosen nodes.

    graph @network {
      %x = node.input {rows = 64, …} : matrix<64x*>
      %W = node.parameter {rows = 10, cols = 64} : matrix<10x64>
      %z = node.times %W, %x : matrix<10x*>
    }
becomes, for `expand-nodes{outputs = ["z"], precision = f32, batch = 256}`,
    dim N <= 256
    func @main(%x: tensor<Nx64xf32> input, %W: … parameter) -> (z: tensor<Nx10xf32>) {
      %z = matmul %x, %W {transpose_b = true} : tensor<Nx10xf32>
      return %z
    }

Only what the outputs need is expanded, inputs before their readers. Inputs, parameters and computed
statistics become arguments, in the order of the network. A cycle is an error that names its nodes.
O(nodes + edges).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, RegionKind, ResultInfo, Value
from graphc.ir.types import DType, Symbol
from graphc.ops.control import RETURN
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import display_name, find_node, node_type, tensor_type
from graphc.ops.nodes.leaves import INPUT, PARAMETER
from graphc.ops.nodes.statistics import STATISTICS, StatisticParams
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import DiagnosticSink, Note, suggestion
from graphc.support.graphs import reachable, strongly_connected_components, topological_order

MAIN = "main"


def inputs_of(op: Operation) -> list[Operation]:
    """The nodes it reads; a computed statistic reads nothing any more."""
    if op.opdef in STATISTICS and isinstance(op.params, StatisticParams) and op.params.computed:
        return []
    return [v.op for v in op.operands if v.op is not None]


def expand_nodes(
    graph: Function, outputs: Sequence[str], dtype: DType, samples: Symbol, sink: DiagnosticSink
) -> Function | None:
    """The function that computes the named nodes; None after errors, which are in the sink."""
    roots = _find_outputs(graph, outputs, sink)
    needed = reachable(roots, inputs_of)
    in_order = [op for op in graph.block if op in needed]
    if not _is_computable(in_order, sink) or sink.has_errors:
        return None
    order = topological_order(in_order, inputs_of)
    assert order is not None
    function = Function(MAIN, RegionKind.SSA, location=graph.location)
    values: dict[Operation, Value] = {}
    for role in ("input", "parameter"):
        for op in in_order:
            if _argument_role(op) == role:
                type = tensor_type(node_type(op), samples, dtype)
                values[op] = function.add_argument(op.result.name or "", type, role)
    builder = IRBuilder(function.block)
    for op in order:
        if op not in values:
            values[op] = _expand(builder, op, values, dtype)
    builder.emit(RETURN, [values[op] for op in roots])
    function.results = [ResultInfo(op.result.name or "") for op in roots]
    return function


def _find_outputs(graph: Function, names: Sequence[str], sink: DiagnosticSink) -> list[Operation]:
    roots: dict[Operation, None] = {}
    for name in names:
        op = find_node(graph, name)
        if op is None:
            near = suggestion(name, [o.result.name or "" for o in graph.block])
            sink.error("missing-node", f"the network has no node `{name}`{near}", graph.location)
        else:
            roots[op] = None
    if not names:
        sink.error("missing-node", "no output is asked for", graph.location)
    return list(roots)


def _argument_role(op: Operation) -> str | None:
    if op.opdef is INPUT:
        return "input"
    is_statistic = op.opdef in STATISTICS and isinstance(op.params, StatisticParams)
    return "parameter" if op.opdef is PARAMETER or is_statistic else None


def _expand(
    builder: IRBuilder, op: Operation, values: dict[Operation, Value], dtype: DType
) -> Value:
    assert op.opdef.expand is not None
    operands = [values[v.op] for v in op.operands if v.op is not None]
    with builder.at(op.location):
        value = op.opdef.expand(builder, op, operands, dtype)
    if value.name is None:
        value.name = op.result.name
    return value


def _is_computable(nodes: Sequence[Operation], sink: DiagnosticSink) -> bool:
    """Whether every node can be expanded; says what stands in the way."""
    fine = True
    in_cycle: set[Operation] = set()
    for component in strongly_connected_components(nodes, inputs_of):
        if len(component) > 1 or component[0] in inputs_of(component[0]):
            in_cycle.update(component)
            _report_cycle(component, sink)
            fine = False
    for op in nodes:
        if op.opdef in DELAYS and op not in in_cycle:
            fine = False
            name = display_name(op.opdef)
            sink.error(
                "not-supported",
                f"{name} cannot be compiled yet: loops are not lowered",
                op.location,
            )
        elif _argument_role(op) == "parameter" and op.opdef in STATISTICS and inputs_of(op):
            fine = False
            message = f"`{op.result.name}` has no value yet; run precompute over the data set first"
            sink.error("not-precomputed", message, op.location)
    return fine


def _report_cycle(component: list[Operation], sink: DiagnosticSink) -> None:
    path = _walk_cycle(component)
    names = " -> ".join(f"`{op.result.name}`" for op in [*path, path[0]])
    notes = [
        Note(f"`{op.result.name}` is a {display_name(op.opdef)}", op.location.span) for op in path
    ]
    delay = next((op for op in path if op.opdef in DELAYS), None)
    if delay is None and not any(op.opdef in DELAYS for op in component):
        message = f"a cycle needs a PastValue or FutureValue: {names}"
        sink.error("cycle", message, path[0].location, notes=notes)
        return
    message = f"loops are not lowered yet, so this cycle cannot be compiled: {names}"
    sink.error("not-supported", message, (delay or path[0]).location, notes=notes)


def _walk_cycle(component: list[Operation]) -> list[Operation]:
    """A cycle through the component's first node, following inputs."""
    members = set(component)
    start = component[0]
    parent: dict[Operation, Operation] = {}
    work = [start]
    while work:
        op = work.pop(0)
        for source in inputs_of(op):
            if source is start:
                path = [op]
                while path[-1] is not start:
                    path.append(parent[path[-1]])
                return path
            if source in members and source not in parent:
                parent[source] = op
                work.append(source)
    return [start]


@dataclass(frozen=True)
class ExpandNodes(Pass):
    """`outputs`: node names; `batch`: the bound on the number of samples in a call."""

    name: ClassVar[str] = "expand-nodes"
    summary: ClassVar[str] = "replace the network by tensor operations that compute the outputs"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SHAPED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    outputs: tuple[str, ...]
    precision: DType = DType.F32
    batch: int = 256

    def run(self, module: Module, context: Context) -> PassOutcome:
        graphs = [f for f in module.functions if f.kind is RegionKind.GRAPH]
        if len(graphs) != 1:
            context.sink.error(
                "empty-module", f"expand-nodes requires one graph, got {len(graphs)}"
            )
            return PassOutcome(False)
        if not self.precision.is_float or self.batch < 1:
            context.sink.error(
                "bad-option", "expand-nodes requires a float precision and batch >= 1"
            )
            return PassOutcome(False)
        samples = Symbol("N", self.batch)
        function = expand_nodes(graphs[0], self.outputs, self.precision, samples, context.sink)
        if function is None:
            return PassOutcome(False)
        module.functions = [f for f in module.functions if f is not graphs[0]] + [function]
        module.dims = [d for d in module.dims if d.name != samples.name] + [samples]
        return PassOutcome(True, {"operations": len(function.block)})
