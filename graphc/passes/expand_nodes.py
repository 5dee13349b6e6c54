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

A sparse input `x` of 1000 rows becomes two arguments, the places of its numbers and the numbers,

    dim K <= 256
    func @main(%x.indices: tensor<NxKxi32> input, %x.values: tensor<NxKxf32> input, …
      %x = put_add %x.values, %x.indices {size = 1000} : tensor<Nx1000xf32>

whose products `simplify` turns into lookups. Only what the outputs need is expanded, inputs before
their readers. Inputs, parameters and computed statistics become arguments, in the order of the
network. A cycle is an error that names its nodes. With `training = true` the nodes that compute
something else in training do so: the numbers that they need of a call are further arguments, and
the new values of the parameters that they move are results with `updates`. O(nodes + edges).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import Function, IRBuilder, Module, Operation, RegionKind, ResultInfo, Value
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops.control import RETURN
from graphc.ops.indexed import put_add
from graphc.ops.movement import RESHAPE, ReshapeParams
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import (
    display_name,
    find_node,
    node_type,
    tensor_dims,
    tensor_type,
)
from graphc.ops.nodes.leaves import INPUT, PARAMETER, SPARSE_INPUT
from graphc.ops.nodes.statistics import STATISTICS, StatisticParams
from graphc.ops.nodes.training import SEED_LIMIT, TrainingCall
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import DiagnosticSink, Note, suggestion
from graphc.support.graphs import reachable, strongly_connected_components, topological_order

MAIN = "main"
SAMPLES_DIM = "N"
ENTRIES_DIM = "K"
"""The dim of a sparse input's entries; that of the second one is `K2`, and so on."""
DEFAULT_ENTRIES = 256


def inputs_of(op: Operation) -> list[Operation]:
    """The nodes it reads; a computed statistic reads nothing any more."""
    if op.opdef in STATISTICS and isinstance(op.params, StatisticParams) and op.params.computed:
        return []
    return [v.op for v in op.operands if v.op is not None]


def expand_nodes(
    graph: Function,
    outputs: Sequence[str],
    dtype: DType,
    samples: Symbol,
    sink: DiagnosticSink,
    training_seed: int | None = None,
    entries: int = DEFAULT_ENTRIES,
) -> Function | None:
    """The function that computes the named nodes; None after errors, which are in the sink.

    entries        the bound on the numbers that a sample of a sparse input has
    training_seed  compute them as in training, with this seed of all that is random
    """
    roots = _find_outputs(graph, outputs, sink)
    needed = reachable(roots, inputs_of)
    in_order = [op for op in graph.block if op in needed]
    if not _is_computable(in_order, sink) or sink.has_errors:
        return None
    order = topological_order(in_order, inputs_of)
    assert order is not None
    function = Function(MAIN, RegionKind.SSA, location=graph.location)
    values: dict[Operation, Value] = {}
    sparse: dict[Operation, tuple[Value, Value]] = {}
    for role in ("input", "parameter"):
        for op in in_order:
            if _argument_role(op) != role:
                continue
            type = tensor_type(node_type(op), samples, dtype)
            if op.opdef is SPARSE_INPUT:
                dim = Symbol(_entries_dim(len(sparse)), entries)
                sparse[op] = _sparse_arguments(function, op, type, dim)
                _require_free_names(graph, op, sparse[op], sink)
            else:
                values[op] = function.add_argument(op.result.name or "", type, role)
    call = None
    if training_seed is not None:
        call = TrainingCall(function, dtype, samples, training_seed, sink)
    builder = IRBuilder(function.block)
    for op, (indices, numbers) in sparse.items():
        with builder.at(op.location):
            values[op] = put_add(builder, numbers, indices, node_type(op).rows or 0)
        values[op].name = op.result.name
    for op in order:
        if op not in values:
            values[op] = _expand(builder, op, values, dtype, call)
    updates = call.updates if call is not None else {}
    builder.emit(RETURN, [*(values[op] for op in roots), *updates.values()])
    function.results = [ResultInfo(op.result.name or "") for op in roots]
    function.results += [ResultInfo(p.name or "", p.name) for p in updates]
    return None if sink.has_errors else function


def _entries_dim(place: int) -> str:
    return f"{ENTRIES_DIM}{place + 1}" if place else ENTRIES_DIM


def _sparse_arguments(
    function: Function, op: Operation, type: TensorType, dim: Symbol
) -> tuple[Value, Value]:
    """Indices and values [N, K] of a sparse input; K is a dim of its own."""
    entries = TensorType((type.dims[0], dim), type.dtype)
    name = op.result.name or ""
    indices = function.add_argument(f"{name}.indices", entries.with_dtype(DType.I32), "input")
    return indices, function.add_argument(f"{name}.values", entries, "input")


def _require_free_names(
    graph: Function, op: Operation, arguments: Sequence[Value], sink: DiagnosticSink
) -> None:
    for argument in arguments:
        taken = find_node(graph, argument.name or "")
        if taken is not None:
            message = (
                f"the sparse input `{op.result.name}` is handed over as `{argument.name}`, "
                "which another node is called"
            )
            notes = [Note(f"`{taken.result.name}` is defined here", taken.location.span)]
            sink.error("duplicate-name", message, op.location, notes=notes)


def _symbols(function: Function) -> list[Symbol]:
    """The dims of the arguments, each once."""
    types = [a.type for a in function.arguments]
    found = [d for t in types if isinstance(t, TensorType) for d in t.symbols()]
    return list(dict.fromkeys(found))


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
    if op.opdef in (INPUT, SPARSE_INPUT):
        return "input"
    is_statistic = op.opdef in STATISTICS and isinstance(op.params, StatisticParams)
    return "parameter" if op.opdef is PARAMETER or is_statistic else None


def _expand(
    builder: IRBuilder,
    op: Operation,
    values: dict[Operation, Value],
    dtype: DType,
    call: TrainingCall | None,
) -> Value:
    operands = [values[v.op] for v in op.operands if v.op is not None]
    with builder.at(op.location):
        if call is not None and op.opdef.expand_training is not None:
            value = op.opdef.expand_training(builder, op, operands, call)
        else:
            assert op.opdef.expand is not None
            value = op.opdef.expand(builder, op, operands, dtype)
        if value in operands:  # a value of its own, for whoever asks for the node by its name
            params = ReshapeParams(tensor_dims(value))
            value = builder.emit_one(RESHAPE, value, params=params)
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
    """`outputs`: node names; `batch`: the bound on the number of samples in a call.

    training  as the nodes are computed in training; `seed` of what is random there
    entries   the bound on the numbers that a sample of a sparse input has
    """

    name: ClassVar[str] = "expand-nodes"
    summary: ClassVar[str] = "replace the network by tensor operations that compute the outputs"
    requires: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SHAPED})
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SSA})

    outputs: tuple[str, ...]
    precision: DType = DType.F32
    batch: int = 256
    training: bool = False
    seed: int = 0
    entries: int = DEFAULT_ENTRIES

    def run(self, module: Module, context: Context) -> PassOutcome:
        graphs = [f for f in module.functions if f.kind is RegionKind.GRAPH]
        if len(graphs) != 1:
            context.sink.error(
                "empty-module", f"expand-nodes requires one graph, got {len(graphs)}"
            )
            return PassOutcome(False)
        if not self.precision.is_float or self.batch < 1 or self.entries < 1:
            context.sink.error(
                "bad-option", "expand-nodes requires a float precision, batch and entries >= 1"
            )
            return PassOutcome(False)
        if not 0 <= self.seed < SEED_LIMIT:
            context.sink.error(
                "bad-option", f"expand-nodes requires a seed from 0 to 2^64 - 1, got {self.seed}"
            )
            return PassOutcome(False)
        samples = Symbol(SAMPLES_DIM, self.batch)
        seed = self.seed if self.training else None
        function = expand_nodes(
            graphs[0], self.outputs, self.precision, samples, context.sink, seed, self.entries
        )
        if function is None:
            return PassOutcome(False)
        module.functions = [f for f in module.functions if f is not graphs[0]] + [function]
        dims = list(dict.fromkeys([samples, *_symbols(function)]))
        names = {d.name for d in dims}
        module.dims = [d for d in module.dims if d.name not in names] + dims
        return PassOutcome(True, {"operations": len(function.block)})
