"""One example of each operation, as `docs/ops.md` shows it: a use out of the test tables, compiled.

A tensor operation is shown in a function with its result and, if it has one, its gradient by its
own rule; a node as the network and the tensor operations that it becomes. So the shapes and the
gradients in the documents are what the compiler says, not what somebody wrote down.
"""

from __future__ import annotations

from graphc.builder import GraphBuilder
from graphc.driver.prepare import prepare
from graphc.ir.clone import clone_module
from graphc.ir.core import Level, Module, NotDifferentiable, OpDef, RegionKind
from graphc.ir.printer import print_module
from graphc.ir.types import DType
from graphc.model.model import Model
from graphc.ops import default_context
from graphc.ops.nodes.pointwise import OF_OPERATIONS
from graphc.passes import pipeline
from graphc.passes.expand_nodes import ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import PassManager
from tests.conformance.node_table import ROWS as NODE_ROWS
from tests.conformance.node_table import Use
from tests.support.compiling import one_op_module
from tests.support.differentiate import vjp_function
from tests.support.op_table import ROWS, Case, N, Row

CLEAN = "simplify,fold-constants,simplify,cse,dce"
LEAVES = ("input", "sparse_input", "parameter")
"""Nodes that are their own operand in the table."""
MAX_OPERATIONS = 32
"""Longer expansions are left out: they are to be read with `graphc dump`."""


def example(op: OpDef) -> str:
    """IR text; empty for an operation that no table has, and for a node that is an operation."""
    if op.level is Level.TENSOR:
        row = next((r for r in ROWS if r.op is op), None)
        return _tensor_example(row) if row is not None else ""
    if op.level is Level.NODE and op not in OF_OPERATIONS:
        node = next((r for r in NODE_ROWS if f"node.{r.op}" == op.name), None)
        if node is not None and node.kind == "plain":
            return _node_example(node.op, _typical(node.uses))
    return ""


def _tensor_example(row: Row) -> str:
    dtype = DType.F32 if DType.F32 in row.dtypes else row.dtypes[0]
    case = min(row.cases(dtype), key=_oddness)
    functions = list(one_op_module(row.op, case.params, case.types, case.types, [N]).functions)
    if not isinstance(row.op.vjp, NotDifferentiable):
        functions.append(vjp_function(row.op, case.params, case.types))
    module = Module(functions, [N] if _has_symbol(case) else [])
    if len(functions) > 1:
        gradient = Module([functions[1]], module.dims)
        PassManager(pipeline("dce"), verify=True).run(gradient, default_context())
    return print_module(module).strip()


def _oddness(case: Case) -> tuple[bool, int, int]:
    """Small for a case that shows the shapes: no size of 0 or 1, few dims, few elements."""
    sizes = [d for t in case.types for d in t.dims if isinstance(d, int)]
    plain = case.given is None and all(d > 1 for d in sizes) and bool(sizes or not case.types)
    rank = max((t.rank for t in case.types), default=2)
    return not plain, abs(rank - 2), sum(t.bound_elements for t in case.types)


def _has_symbol(case: Case) -> bool:
    return any(t.symbols() for t in case.types)


def _typical(uses: tuple[Use, ...]) -> Use:
    """The smallest use of several rows, over samples if there is one."""

    def key(use: Use) -> tuple[bool, bool, int]:
        small = any(leaf.rows < 2 for leaf in use.leaves)
        return not use.has_samples, small, sum(leaf.rows for leaf in use.leaves)

    return min(uses, key=key)


def _node_example(op: str, use: Use) -> str:
    builder = GraphBuilder(Model())
    if op in LEAVES:
        use = Use((), use.leaves[0].arguments)
    leaves = [
        builder.apply(leaf.op, (), leaf.arguments, name=name)
        for leaf, name in zip(use.leaves, "abcde", strict=False)
    ]
    builder.apply(op, leaves, use.settings, name="v")
    builder.sink.raise_if_errors()
    prepare(builder.model)
    graph = builder.model.module
    expanded = clone_module(graph)
    passes = [InferShapes(), ExpandNodes(("v",), DType.F32, 256), *pipeline(CLEAN)]
    PassManager(passes, verify=True).run(expanded, default_context())
    (function,) = [f for f in expanded.functions if f.kind is RegionKind.SSA]
    if len(function.block) > MAX_OPERATIONS:
        text = print_module(graph).strip()
        return f"{text}\n// becomes {len(function.block)} tensor operations"
    return print_module(Module([*graph.functions, function], expanded.dims)).strip()
