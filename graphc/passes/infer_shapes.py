"""Finds rows and columns of every node, and the sizes of parameters that were given as 0.

    %W = node.parameter {rows = 10, cols = 0} : matrix<10x?>
    %h = node.times %W, %x : matrix<?x?>                  with %x : matrix<64x*>
becomes
    %W = node.parameter {rows = 10, cols = 64} : matrix<10x64>
    %h = node.times %W, %x : matrix<10x*>

What the columns are images of, if they are, is found with the sizes: `matrix<784x* image 28x28x1>`.

Sizes flow forward by the type rules, and from a node back to a parameter that feeds it by the
`refine` rules; nothing else is inferred backwards (the toolkit's rule, book 4.1.4). Sums speak
last, since several sizes would fit them and one of any other node does. Cycles through delays are
fine: a worklist runs until nothing changes. O(edges) rule calls, as each of a node's two sizes, and
its image, becomes known once. Every mismatch is reported with the places of both operands.

A mismatch among nodes that no result needs (no output, criterion or evaluation node) is a warning:
these nodes, and what reads them, stay without a size.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from graphc.ir.clone import clone_function
from graphc.ir.context import Context
from graphc.ir.core import Function, Module, Operation, RegionKind
from graphc.ir.types import MatrixType, TypeRuleError
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import display_name, merged, node_type, operand_types
from graphc.ops.nodes.leaves import PARAMETER, ParameterParams, parameter_type
from graphc.ops.nodes.pointwise import repeats_operands
from graphc.passes.analysis.cycles import closed_walk, described, report_without_delay
from graphc.passes.analysis.needed import needed_nodes
from graphc.passes.invariants import Invariant
from graphc.passes.manager import Pass, PassOutcome
from graphc.support.diagnostics import DiagnosticSink, Note, Severity
from graphc.support.graphs import reachable


def infer_shapes(function: Function, sink: DiagnosticSink) -> int:
    """Set the type of every node of a graph; the number of types that changed."""
    nodes = list(function.block)
    needed = needed_nodes(function)
    # What nobody needs has no say about parameters that others read too, unless nobody else has.
    changed = _find_sizes([op for op in nodes if op in needed], needed)
    changed += _find_sizes([op for op in nodes if op not in needed], nodes)
    errors = len(sink.diagnostics)
    report_sizes([op for op in nodes if op in needed], sink)
    if len(sink.diagnostics) == errors:
        _leave_out([op for op in nodes if op not in needed], sink)
    return changed


def with_sizes_so_far(function: Function) -> Function:
    """A copy of a graph in which every node has the type that is told by now; reports nothing."""
    copy = clone_function(function)
    nodes = list(copy.block)
    for op in nodes:
        if op.operands:
            op.result.type = MatrixType(None, None)
    _find_sizes(nodes, nodes)
    return copy


def _find_sizes(nodes: Sequence[Operation], among: Collection[Operation]) -> int:
    """Apply the rules of these nodes, and of the readers `among` those given, until nothing
    changes; the number of types that did."""
    changed = 0
    among = dict.fromkeys(among)
    work: dict[Operation, None] = dict.fromkeys(reversed(nodes))
    waiting: dict[Operation, None] = {}
    while work or waiting:
        if work:
            op, _ = work.popitem()
            if repeats_operands(op.opdef) and any(not t.is_known for t in operand_types(op)):
                waiting[op] = None
                continue
        else:
            op = next(iter(waiting))
            del waiting[op]
        for touched in _visit(op):
            changed += 1
            work.update(dict.fromkeys(u for u in touched.result.users() if u in among))
            work[touched] = None
    return changed


def _leave_out(nodes: Sequence[Operation], sink: DiagnosticSink) -> None:
    """Warn of what is wrong with nodes that nobody needs; they lose their sizes, and so do their
    readers."""
    found = DiagnosticSink()
    report_sizes(nodes, found)
    note = Note("no output, criterion or evaluation node needs it, so it is left out")
    for mistake in found.diagnostics:
        sink.extend([replace(mistake, severity=Severity.WARNING, notes=(*mistake.notes, note))])
    counted = [op for op in nodes if op.opdef.accepts_count(len(op.operands))]
    broken = [op for op in counted if not node_type(op).is_known or _mistake(op) is not None]
    for op in reachable(broken, lambda op: op.result.users()):
        if node_type(op).is_known:
            op.result.type = MatrixType(None, None)


def _mistake(op: Operation) -> TypeRuleError | None:
    """What the node's rule says against its operands."""
    try:
        op.opdef.infer(operand_types(op), op.params)
    except TypeRuleError as problem:
        return problem
    return None


def _visit(op: Operation) -> list[Operation]:
    """Apply the node's rules; the nodes whose type changed."""
    if not op.opdef.accepts_count(len(op.operands)):
        return []
    types = operand_types(op)  # a node may read itself: what its rule says comes after them
    try:
        (inferred,) = op.opdef.infer(types, op.params)
    except TypeRuleError:
        return []  # reported at the end, when all sizes are known that can be
    assert isinstance(inferred, MatrixType)
    found = merged(node_type(op), inferred)
    touched: list[Operation] = []
    if found != op.result.type:
        op.result.type = found
        touched.append(op)
    return touched + _refine_parameters(op, types)


def _refine_parameters(op: Operation, types: Sequence[MatrixType]) -> list[Operation]:
    """Give parameters of unknown size what this node says about them, of operands of these types,
    which its rule accepts."""
    if op.opdef.refine is None or all(t.is_known for t in types):
        return []
    refined: Sequence[MatrixType] = op.opdef.refine(types, op.params)
    touched: list[Operation] = []
    for value, type in zip(op.operands, refined, strict=True):
        source = value.op
        if source is None or source.opdef is not PARAMETER or node_type(source).is_known:
            continue
        cols = 1 if type.has_samples else type.cols
        params = source.params_as(ParameterParams)
        # What the parameter declares comes first: it may not have been visited yet.
        try:
            declared = parameter_type(params)
        except TypeRuleError:
            continue  # reported where the parameter stands
        new = merged(merged(declared, node_type(source)), MatrixType(type.rows, cols))
        if new == source.result.type:
            continue
        source.result.type = new
        source.params = replace(
            params, rows=new.rows or 0, cols=new.cols if isinstance(new.cols, int) else 0
        )
        touched.append(source)
    return touched


def report_sizes(nodes: Sequence[Operation], sink: DiagnosticSink) -> None:
    """Errors of the rules with all known sizes; without any, nodes whose size stayed unknown.

    What reads a node in error, however far away, is not reported: its errors may only follow.
    """
    errors: dict[Operation, TypeRuleError | None] = {}
    for op in nodes:
        if not op.opdef.accepts_count(len(op.operands)):
            errors[op] = None  # the verifier's to report
        elif (problem := _mistake(op)) is not None:
            errors[op] = problem
    readers = reachable(
        [user for op in errors for user in op.result.users()], lambda op: op.result.users()
    )
    for op, problem in errors.items():
        if problem is not None and (op not in readers or _is_in_cycle(op, errors)):
            _report_rule(op, problem, sink)
    unknown = [op for op in nodes if not node_type(op).is_known]
    if errors or not unknown:
        return
    if report_without_delay(nodes, _inputs, sink):
        return  # each of its nodes waits for another one's size
    roots = [op for op in unknown if all(t.is_known for t in operand_types(op))]
    for op in roots or unknown[:1]:  # in a cycle every node waits for another one
        sink.error(
            "shape-mismatch",
            f"the size of `{op.result.name}` cannot be inferred, it is {op.result.type}",
            op.location,
            label="give its rows and columns",
        )


def _is_in_cycle(op: Operation, errors: Mapping[Operation, TypeRuleError | None]) -> bool:
    """Whether the only errors that `op` follows from follow from `op` themselves."""
    after = reachable(op.result.users(), lambda o: o.result.users())
    before = [e for e in errors if op in reachable(e.result.users(), lambda o: o.result.users())]
    return all(e in after for e in before)


def _report_rule(op: Operation, problem: TypeRuleError, sink: DiagnosticSink) -> None:
    notes = [
        Note(f"{op.opdef.operand_name(i)} is `{v.name}`, {v.type}", v.op.location.span)
        for i, v in enumerate(op.operands)
        if v.op is not None
    ]
    label = ""
    if problem.operand is not None and problem.operand < len(op.operands):
        blamed = op.operands[problem.operand]
        label = f"`{blamed.name}` is {blamed.type}"
    message = f"{display_name(op.opdef)} {problem.message}"
    if op.opdef in DELAYS and op in reachable(op.result.users(), lambda o: o.result.users()):
        names, stands = described(closed_walk(_component(op), _inputs, [op]))
        message, notes = f"{message}; the cycle is {names}", stands
    sink.error(problem.slug, message, op.location, label=label, notes=notes)


def _component(op: Operation) -> list[Operation]:
    """The nodes of all cycles through `op`."""
    after = reachable([op], lambda o: o.result.users())
    before = reachable([op], _inputs)
    return [o for o in after if o in before]


def _inputs(op: Operation) -> list[Operation]:
    return [v.op for v in op.operands if v.op is not None]


@dataclass(frozen=True)
class InferShapes(Pass):
    name: ClassVar[str] = "infer-shapes"
    summary: ClassVar[str] = "find the size of every node and parameter"
    establishes: ClassVar[frozenset[Invariant]] = frozenset({Invariant.SHAPED})

    def run(self, module: Module, context: Context) -> PassOutcome:
        graphs = [f for f in module.functions if f.kind is RegionKind.GRAPH]
        changed = sum(infer_shapes(f, context.sink) for f in graphs)
        return PassOutcome(changed > 0, {"sizes": changed})
