"""Small networks for tests of node operations: built, sized, expanded, computed, differentiated.

Matrices are given and returned as the book writes them, rows x columns, one column per sample; the
layout in memory is what is tested and appears only in `stored` and `shown`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from graphc.ir.core import Array, Function, Module, Operation
from graphc.ir.evaluate import evaluate, evaluate_graph
from graphc.ir.printer import print_module
from graphc.ir.types import DType, MatrixType, Symbol
from graphc.ir.verifier import verify_module
from graphc.ops.nodes.layout import node_type
from graphc.passes.expand_nodes import expand_nodes
from graphc.passes.infer_shapes import infer_shapes
from graphc.passes.synthesize_gradient import synthesize_gradient
from graphc.support.diagnostics import Diagnostic, DiagnosticSink, render
from tests.support.text_form import parsed


@dataclass(frozen=True)
class Network:
    """A graph with all sizes inferred."""

    module: Module

    @property
    def graph(self) -> Function:
        return self.module.functions[0]

    def node(self, name: str) -> Operation:
        return next(op for op in self.graph.block if op.result.name == name)

    def type(self, name: str) -> MatrixType:
        return node_type(self.node(name))


def graph_text(nodes: Mapping[str, str]) -> str:
    """The text of a graph from `name: op and operands and settings`, without types."""
    lines = [f"  %{name} = {text} : matrix<?x?>" for name, text in nodes.items()]
    return "graph @network {\n" + "\n".join(lines) + "\n}\n"


def sized(nodes: Mapping[str, str]) -> tuple[Network, list[Diagnostic]]:
    """The network after infer-shapes, and what that reports."""
    module = parsed(graph_text(nodes))
    sink = DiagnosticSink()
    infer_shapes(module.functions[0], sink)
    return Network(module), sink.diagnostics


def network(nodes: Mapping[str, str]) -> Network:
    """A network without mistakes."""
    made, problems = sized(nodes)
    assert not problems, render(problems)
    return made


def complaint(nodes: Mapping[str, str]) -> str:
    """The only mistake of a network: `slug: message`."""
    _, problems = sized(nodes)
    assert len(problems) == 1, render(problems)
    return f"{problems[0].slug}: {problems[0].message}"


def stored(matrix: Array, type: MatrixType) -> Array:
    """A node's matrix as it lies in memory."""
    return np.ascontiguousarray(matrix.T if type.has_samples else matrix)


def shown(array: Array, type: MatrixType) -> Array:
    """A node's matrix out of memory, rows x columns."""
    return array.T if type.has_samples else array


def expanded(net: Network, outputs: Sequence[str], dtype: DType = DType.F64) -> Module:
    """The function that computes nodes; it is legal."""
    sink = DiagnosticSink()
    samples = Symbol("N", 64)
    function = expand_nodes(net.graph, outputs, dtype, samples, sink)
    assert function is not None, render(sink.diagnostics)
    module = Module([function], [samples])
    verify_module(module, sink)
    assert not sink.diagnostics, f"{render(sink.diagnostics)}\n{print_module(module)}"
    return module


def computed(
    net: Network, output: str, leaves: Mapping[str, Array], samples: int, dtype: DType = DType.F64
) -> Array:
    """A node's matrix by its expansion, of the element type `dtype`."""
    module = expanded(net, [output], dtype)
    return shown(_run(net, module, leaves, samples)[output], net.type(output))


def judged(net: Network, output: str, leaves: Mapping[str, Array]) -> Array:
    """A node's matrix by the nodes' own references."""
    return evaluate_graph(net.graph, leaves)[output]


def gradients(
    net: Network, output: str, leaves: Mapping[str, Array], samples: int, wrt: Sequence[str]
) -> dict[str, Array]:
    """The gradient of the sum of a node's elements, in f64, by synthesize-gradient."""
    module = expanded(net, [output])
    sink = DiagnosticSink()
    assert synthesize_gradient(module.functions[0], output, wrt, sink), render(sink.diagnostics)
    verify_module(module, sink)
    assert not sink.diagnostics, render(sink.diagnostics)
    found = _run(net, module, leaves, samples)
    return {name: shown(found[f"gradient.{name}"], net.type(name)) for name in wrt}


def difference_quotients(
    net: Network, output: str, leaves: Mapping[str, Array], name: str, step: float = 1e-5
) -> Array:
    """Central differences of the sum of a node's elements in each element of the leaf `name`."""
    point = np.array(leaves[name], np.float64)
    slope = np.zeros_like(point)
    for index in np.ndindex(point.shape):
        sums: list[float] = []
        for sign in (1.0, -1.0):
            moved = point.copy()
            moved[index] += sign * step
            sums.append(float(np.sum(judged(net, output, {**leaves, name: moved}))))
        slope[index] = (sums[0] - sums[1]) / (2 * step)
    return slope


def _run(
    net: Network, module: Module, leaves: Mapping[str, Array], samples: int
) -> dict[str, Array]:
    function = module.functions[0]
    dtype = next((a.type.dtype for a in function.arguments), DType.F64)  # type: ignore[union-attr]
    arguments = {
        a.name or "": stored(leaves[a.name or ""], net.type(a.name or "")).astype(dtype.numpy)
        for a in function.arguments
    }
    return evaluate(function, arguments, {"N": samples})
