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
      %x = scatter_add %x.values, %x.indices {size = 1000} : tensor<Nx1000xf32>

whose products `simplify` turns into lookups. An input `t` of 10 rows, `numbered` in the options, is
given as class numbers, whose one-hot rows its readers see:

    func @main(%t: tensor<Nxi64> input, …
      %t = cast … equal (iota, broadcast %t) … : tensor<Nx10xf32>

Only what the outputs need is expanded, inputs before
their readers. Inputs, parameters and computed statistics become arguments, in the order of the
network. With `training = true` the nodes that compute something else in training do so: the numbers
that they need of a call are further arguments, and the new values of the parameters that they move
are results with `updates`. O(nodes + edges).

With `time` the samples are the steps of sequences (`sequence_columns.py`): N = T * S columns, of
which inputs and results are [T, S, rows]; cycles become loops (`form_loops.py`), and what folds
columns leaves out gaps. Without it, a node that looks along time is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from graphc.ir.context import Context
from graphc.ir.core import (
    Block,
    Function,
    IRBuilder,
    Module,
    Operation,
    RegionKind,
    ResultInfo,
    Trait,
    Value,
)
from graphc.ir.types import DType, Symbol, TensorType
from graphc.ops import composites
from graphc.ops.control import RETURN
from graphc.ops.indexed import scatter_add
from graphc.ops.movement import RESHAPE, ReshapeParams
from graphc.ops.nodes.delays import DELAYS, DelayParams
from graphc.ops.nodes.layout import (
    display_name,
    find_node,
    node_type,
    place_of,
    tensor_type,
)
from graphc.ops.nodes.leaves import INPUT, SPARSE_INPUT, ParameterParams
from graphc.ops.nodes.normalisation import normalises_by_minibatch
from graphc.ops.nodes.sequence_columns import BEGIN, END, SequenceColumns, left_behind_name
from graphc.ops.nodes.statistics import StatisticParams
from graphc.ops.nodes.training import SEED_LIMIT, TrainingCall
from graphc.passes.analysis.cycles import closed_walk, is_cycle, report_cycle
from graphc.passes.form_loops import (
    Cycle,
    expand_cycle,
    find_cycle,
    is_masked,
    replaced_in_gaps,
)
from graphc.passes.infer_shapes import report_sizes
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import DiagnosticSink, Note, suggestion
from graphc.support.graphs import reachable, strongly_connected_components

MAIN = "main"
SAMPLES_DIM = "N"
ENTRIES_DIM = "K"
"""The dim of a sparse input's entries; that of the second one is `K2`, and so on."""
NO_ENTRY = -1
"""An index of a sparse input that points at nothing."""
DEFAULT_ENTRIES = 256


@dataclass(frozen=True)
class Minibatch:
    """Bounds on the steps of sequences and on their number side by side.

    carry  they go on from one call to the next: what delays look at is handed on
    segment  if not 0, loops go through as many steps at a time
    """

    time: int
    sequences: int
    carry: bool = False
    segment: int = 0


def inputs_of(op: Operation) -> list[Operation]:
    """The nodes it reads; a computed statistic reads nothing any more."""
    if isinstance(op.params, StatisticParams) and op.params.computed:
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
    sequences: Minibatch | None = None,
    shards: int = 1,
    numbered: Sequence[str] = (),
    *,
    sync: bool = False,
) -> Function | None:
    """The function that computes the named nodes; None after errors, which are in the sink.

    entries        the bound on the numbers that a sample of a sparse input has
    training_seed  compute them as in training, with this seed of all that is random
    sequences      the samples are the columns of such minibatches of sequences, not `samples`
    shards         parts that members compute a minibatch in, of which a call is one; 0: any number
    sync           statistics of a minibatch are those of all its parts
    numbered       inputs of one-hot rows that calls give as class numbers
    """
    roots = _find_outputs(graph, outputs, sink)
    needed = reachable(roots, inputs_of)
    nodes = [op for op in graph.block if op in needed]
    if not all(node_type(op).is_known for op in nodes):
        _refuse_without_sizes(nodes, sink)
        return None
    components = strongly_connected_components(nodes, inputs_of)
    steps = [_computed_together(c, sequences, sink) for c in components]
    if sequences is not None:
        _refuse_other_columns(nodes, sink)
        _refuse_taken_names(graph, nodes, sequences, sink)
    if sequences is not None and sequences.carry:
        _refuse_whole_sequences(nodes, sink)
    if not _is_computable(nodes, sink) or sink.has_errors:
        return None
    expansion = _Expansion(graph, dtype, samples, entries, sequences, sink)
    if training_seed is not None:
        expansion.train(training_seed, shards, sync=sync)
    expansion.add_leaves(nodes, numbered)
    outside = _read_outside(components, roots)
    for step in steps:
        assert step is not None
        expansion.expand(step, outside)
    return None if sink.has_errors else expansion.finish(roots)


def _refuse_without_sizes(nodes: Sequence[Operation], sink: DiagnosticSink) -> None:
    """Errors for what is wrong with nodes that are needed after all, in place of the warnings of
    `infer-shapes`, which goes by tags alone."""
    mistakes = DiagnosticSink()
    report_sizes(nodes, mistakes)
    found = {(d.message, d.span) for d in mistakes.diagnostics}
    others = [d for d in sink.diagnostics if (d.message, d.span) not in found]
    sink.diagnostics = [*others, *mistakes.diagnostics]


def _computed_together(
    component: list[Operation], sequences: Minibatch | None, sink: DiagnosticSink
) -> Operation | Cycle | None:
    """A component as a node or a cycle; None after an error.

    A delay outside of cycles that hands something on is one too: a loop in which nothing is
    computed.
    """
    cycle = None
    carries = sequences is not None and sequences.carry and component[0].opdef in DELAYS
    if is_cycle(component, inputs_of) or carries:
        cycle = find_cycle(component, inputs_of, sink)
        if cycle is None:
            return None
    op = cycle.delays[0] if cycle is not None else component[0]
    if op.opdef in DELAYS and sequences is None:
        message = (
            f"{display_name(op.opdef)} looks along time, which this function does not have: "
            "compile it for sequences (`time=`)"
        )
        sink.error("bad-option", message, op.location)
        return None
    return cycle or op


def _refuse_other_columns(nodes: Sequence[Operation], sink: DiagnosticSink) -> None:
    """Report nodes whose columns are no steps of sequences any more."""
    for op in nodes:
        type = node_type(op)
        if type.has_samples and not type.is_per_sample:
            message = (
                "columns that are steps of sequences stay as many, which Reshape to another "
                f"number of rows does not keep, got `{op.result.name}`, {type}"
            )
            sink.error("not-supported", message, op.location)
            return


def _refuse_taken_names(
    graph: Function, nodes: Sequence[Operation], sequences: Minibatch, sink: DiagnosticSink
) -> None:
    """Report nodes that are called as what a function of sequences takes besides its inputs."""
    names = [BEGIN, END]
    for op in nodes if sequences.carry else ():
        if isinstance(op.params, DelayParams):
            source = op.operands[0].name or ""
            names += [left_behind_name(source, k + 1) for k in range(op.params.time_step)]
    for name in dict.fromkeys(names):
        op = find_node(graph, name)
        if op is not None:
            message = f"a function of sequences takes an argument `{name}`: rename the node"
            sink.error("duplicate-name", message, op.location)


def _refuse_whole_sequences(nodes: Sequence[Operation], sink: DiagnosticSink) -> None:
    """Report the nodes whose value depends on steps that are still to come."""
    for op in nodes:
        if op.opdef.has(Trait.LOOKS_AHEAD):
            message = (
                "sequences that go on from one call to the next require nodes that look back, "
                f"got {display_name(op.opdef)} `{op.result.name}`, which needs the steps to come"
            )
            sink.error("bad-option", message, op.location)


def _read_outside(
    components: Sequence[list[Operation]], roots: Sequence[Operation]
) -> set[Operation]:
    """The nodes that are asked for, or read by a node of another component."""
    component_of = {op: i for i, c in enumerate(components) for op in c}
    found = set(roots)
    for op, index in component_of.items():
        found.update(i for i in inputs_of(op) if component_of[i] != index)
    return found


class _Expansion:
    """One function in the making, and where the value of each node is in it."""

    def __init__(
        self,
        graph: Function,
        dtype: DType,
        samples: Symbol,
        entries: int,
        sequences: Minibatch | None,
        sink: DiagnosticSink,
    ) -> None:
        self._graph = graph
        self._dtype = dtype
        self._entries = entries
        self._sink = sink
        self._function = Function(MAIN, RegionKind.SSA, location=graph.location)
        self._builder = IRBuilder(self._function.block)
        self._values: dict[Operation, Value] = {}
        self._columns = _columns(self._function, sequences) if sequences is not None else None
        self._samples = self._columns.columns if self._columns is not None else samples
        self._call: TrainingCall | None = None

    def train(self, seed: int, shards: int, *, sync: bool) -> None:
        """Expand nodes as they are computed in training."""
        self._call = TrainingCall(
            self._function, self._dtype, self._samples, seed, self._sink, shards, sync
        )

    def add_leaves(self, nodes: Sequence[Operation], numbered: Sequence[str]) -> None:
        """Make arguments of the inputs, some of them class numbers, then of the parameters."""
        sparse: dict[Operation, tuple[Value, Value]] = {}
        dense: dict[Operation, Value] = {}
        for role in ("input", "parameter"):
            for op in nodes:
                if _argument_role(op) != role:
                    continue
                if op.opdef is SPARSE_INPUT:
                    type = tensor_type(node_type(op), self._samples, self._dtype)
                    dim = Symbol(_entries_dim(len(sparse)), self._entries)
                    sparse[op] = _sparse_arguments(self._function, op, type, dim)
                    _require_free_names(self._graph, op, sparse[op], self._sink)
                else:
                    name = op.result.name or ""
                    type = self._outer_type(op)
                    if name in numbered:
                        type = TensorType(type.dims[:-1], DType.I64)
                    dense[op] = self._function.add_argument(name, type, role)
        for op, value in dense.items():
            with self._builder.at(place_of(op)):
                if op.result.name in numbered:
                    self._values[op] = self._one_hot(op, value)
                else:
                    self._values[op] = self._inside(value) if node_type(op).has_samples else value
        for op, (indices, numbers) in sparse.items():
            with self._builder.at(place_of(op)):
                rows = node_type(op).rows or 0
                if self._columns is not None:  # not the numbers: a gap looks nothing up
                    indices = self._columns.masked(self._builder, indices, NO_ENTRY)
                self._values[op] = scatter_add(self._builder, numbers, indices, rows)
            self._values[op].name = op.result.name

    def _one_hot(self, op: Operation, numbers: Value) -> Value:
        """The rows of class numbers; in the gaps between sequences rows of zeros."""
        rows = tensor_type(node_type(op), self._samples, self._dtype)
        if self._columns is not None:
            numbers = self._columns.as_columns(self._builder, numbers)
            numbers = self._columns.masked(self._builder, numbers, composites.NO_CLASS)
        return composites.one_hot(self._builder, numbers, rows)

    def expand(self, step: Operation | Cycle, outside: set[Operation]) -> None:
        """Emit a node, or a cycle of them, of which those in `outside` are read elsewhere."""
        if isinstance(step, Cycle):
            assert self._columns is not None
            self._refuse_statistics(step)
            wanted = [op for op in step.order if op in outside]
            expand_cycle(
                self._builder,
                step,
                inputs_of,
                self._values,
                wanted,
                self._columns,
                self._dtype,
                self._expand,
                self._draw(step.order),
            )
        elif step not in self._values:
            last = self._function.block.last
            drawn = self._draw([step]).values()
            with self._builder.at(place_of(step)):
                operands = [*self._operands(step), *drawn]
                self._values[step] = self._expand(self._builder, step, operands)
            if self._columns is not None:
                made = list(_behind(last, self._function.block))
                self._columns.mask_reductions(made)
                if is_masked(step):
                    self._values[step] = self._columns.masked(self._builder, self._values[step])
            value = self._values[step]
            value.name = value.name or step.result.name

    def _operands(self, op: Operation) -> list[Value]:
        """What a node reads; of sequences without what could overflow in the gaps."""
        operands = [self._values[i] for i in inputs_of(op)]
        if self._columns is not None:
            for i, gap in replaced_in_gaps(op, inputs_of):
                operands[i] = self._columns.masked(self._builder, operands[i], gap)
        return operands

    def _refuse_statistics(self, cycle: Cycle) -> None:
        """Training cannot normalise by the minibatch where only one step of it is there."""
        for op in cycle.order if self._call is not None else ():
            if normalises_by_minibatch(op):
                name = f"BatchNormalization `{op.result.name}`"
                message = (
                    "training computes a cycle step by step, which requires `eval=true` of "
                    f"BatchNormalization, got {name}, which needs all columns of the minibatch"
                )
                walk = closed_walk(cycle.order, inputs_of, [op])
                report_cycle("cycle", message, walk, op, self._sink)

    def _draw(self, nodes: Sequence[Operation]) -> dict[Operation, Value]:
        """The random numbers of those nodes that are random in this function."""
        drawn: dict[Operation, Value] = {}
        for op in nodes:
            if self._call is not None and op.opdef.draw is not None:
                with self._builder.at(place_of(op)):
                    drawn[op] = op.opdef.draw(self._builder, op, self._call)
        return drawn

    def _expand(self, b: IRBuilder, op: Operation, operands: Sequence[Value]) -> Value:
        if self._columns is not None and op.opdef.expand_sequences is not None:
            value = op.opdef.expand_sequences(b, op, operands, self._columns)
        elif self._call is not None and op.opdef.expand_training is not None:
            value = op.opdef.expand_training(b, op, operands, self._call)
        else:
            assert op.opdef.expand is not None
            value = op.opdef.expand(b, op, operands, self._dtype)
        if value in operands:  # a value of its own, for whoever asks for the node by its name
            params = ReshapeParams(value.tensor.dims)
            value = b.emit_one(RESHAPE, value, params=params)
        return value

    def finish(self, roots: Sequence[Operation]) -> Function:
        """The function, which returns the values of `roots` and what training updates."""
        function, updates = self._function, self._call.updates if self._call is not None else {}
        results = [self._outside(self._values[op], op) for op in roots]
        carried = self._columns.carried if self._columns is not None else {}
        self._builder.emit(RETURN, [*results, *carried.values(), *updates.values()])
        function.results = [ResultInfo(op.result.name or "") for op in roots]
        function.results += [ResultInfo(name) for name in carried]
        function.results += [ResultInfo(p.name or "", p.name) for p in updates]
        return function

    def _outer_type(self, op: Operation) -> TensorType:
        """The type that callers see: of a node with a column per step, [T, S, rows]."""
        type = tensor_type(node_type(op), self._samples, self._dtype)
        if self._columns is None or not node_type(op).has_samples:
            return type
        return type.with_dims((self._columns.time, self._columns.sequences, *type.dims[1:]))

    def _inside(self, value: Value) -> Value:
        """What callers hand over, as nodes read it: without what they left in the gaps."""
        if self._columns is None:
            return value
        return self._columns.masked(self._builder, self._columns.as_columns(self._builder, value))

    def _outside(self, value: Value, op: Operation) -> Value:
        if self._columns is None or not node_type(op).has_samples:
            return value
        with self._builder.at(self._builder.location.within(op.result.name or "")):
            return self._columns.over_time(self._builder, value)


def _columns(function: Function, sequences: Minibatch) -> SequenceColumns:
    return SequenceColumns(
        function,
        sequences.time,
        sequences.sequences,
        carry=sequences.carry,
        segment=sequences.segment,
    )


def _behind(op: Operation | None, block: Block) -> Iterator[Operation]:
    """The operations after `op`, all of the block for None."""
    current = block.first if op is None else op.next
    while current is not None:
        yield current
        current = current.next


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
    types += [v.type for op in function.block for v in op.results]
    found = [d for t in types if isinstance(t, TensorType) for d in t.symbols()]
    parts = [f for d in found for f in d.parts]
    return list(dict.fromkeys([*parts, *found]))


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
    return "parameter" if isinstance(op.params, ParameterParams | StatisticParams) else None


def _is_computable(nodes: Sequence[Operation], sink: DiagnosticSink) -> bool:
    """Whether every statistic that is needed has its value; says which do not."""
    missing = [op for op in nodes if isinstance(op.params, StatisticParams) and inputs_of(op)]
    for op in missing:
        by = "`graphc train`, `gc.train` or `net.precompute`"
        message = f"`{op.result.name}` has no value yet: {by} computes it over data"
        sink.error("not-precomputed", message, op.location)
    return not missing


def _are_inputs(graph: Function, names: Sequence[str], sink: DiagnosticSink) -> bool:
    """Whether dense inputs have these names; says which have not."""
    inputs = {op.result.name for op in graph.block if op.opdef is INPUT}
    wrong = [name for name in names if name not in inputs]
    for name in wrong:
        message = f"class numbers are given for inputs, `{name}` is none"
        sink.error("bad-option", message, graph.location)
    return not wrong


@dataclass(frozen=True)
class ExpandNodes(Pass):
    """`outputs`: node names; `batch`: the bound on the number of samples in a call.

    training  as the nodes are computed in training; `seed` of what is random there
    shards    parts that members compute a minibatch in, of which a call is one; 0: any number
    sync      statistics of a minibatch are those of all its parts
    entries   the bound on the numbers that a sample of a sparse input has
    time      the bound on the steps of a sequence, 0 where samples are not steps of sequences
    sequences the bound on the number of sequences side by side
    carry     the last steps' values that delays look at are results, and arguments of the next call
    segment   if not 0, loops go through as many steps at a time, and T is a multiple of it
    numbered  the inputs that are given as class numbers, where the outputs need them
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
    time: int = 0
    sequences: int = 1
    carry: bool = False
    segment: int = 0
    shards: int = 1
    sync: bool = False
    numbered: tuple[str, ...] = ()

    def run(self, module: Module, context: Context) -> PassOutcome:
        graphs = [f for f in module.functions if f.kind is RegionKind.GRAPH]
        if len(graphs) != 1:
            context.sink.error(
                "empty-module", f"expand-nodes requires one graph, got {len(graphs)}"
            )
            return PassOutcome(False)
        counts = (self.batch, self.entries, self.time + 1, self.sequences, self.segment + 1)
        if not self.precision.is_float or min(counts) < 1 or self.shards < 0:
            context.sink.error(
                "bad-option",
                "expand-nodes requires a float precision, batch, entries and sequences >= 1, "
                "and time, segment and shards >= 0",
            )
            return PassOutcome(False)
        if not 0 <= self.seed < SEED_LIMIT:
            context.sink.error(
                "bad-option", f"expand-nodes requires a seed from 0 to 2^64 - 1, got {self.seed}"
            )
            return PassOutcome(False)
        if not _are_inputs(graphs[0], self.numbered, context.sink):
            return PassOutcome(False)
        samples = Symbol(SAMPLES_DIM, self.batch)
        seed = self.seed if self.training else None
        sequences = None
        if self.time:
            sequences = Minibatch(self.time, self.sequences, self.carry, self.segment)
        function = expand_nodes(
            *(graphs[0], self.outputs, self.precision, samples, context.sink, seed),
            *(self.entries, sequences, self.shards, self.numbered),
            sync=self.sync,
        )
        if function is None:
            return PassOutcome(False)
        module.functions = [f for f in module.functions if f is not graphs[0]] + [function]
        dims = _symbols(function)
        if sequences is None:
            dims = list(dict.fromkeys([samples, *dims]))
        names = {d.name for d in dims}
        module.dims = [d for d in module.dims if d.name not in names] + dims
        return PassOutcome(True, {"operations": len(function.block)})
