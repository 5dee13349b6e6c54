"""Graphs for networkx, judged by what networkx finds in them."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import graphc as gc
from graphc.ir.parser import parse_module
from graphc.ir.verifier import verify_module
from graphc.ops import default_context

TWO_LOOPS = """
x = Input(3, tag=feature)
V = Parameter(3, 3)
t = Times(V, p)
h = Plus(x, t)
p = PastValue(3, h)
g = Plus(h, f)
f = FutureValue(3, g)
z = Tanh(g, tag=output)
"""


def chain(length: int) -> str:
    nodes = "".join(f"h{i + 1} = Tanh(h{i})\n" for i in range(length))
    return f"h0 = Input(2, tag=feature)\n{nodes}OutputNodes = (h{length})\n"


def cycles(graph: nx.MultiDiGraph) -> list[set[str]]:
    found = nx.strongly_connected_components(graph)
    return sorted((c for c in found if len(c) > 1), key=min)


def ops(graph: nx.MultiDiGraph) -> list[str]:
    return [op for _, op in graph.nodes(data="op")]


def test_the_components_that_networkx_finds_are_the_loops_that_graphc_makes() -> None:
    net = gc.loads(TWO_LOOPS)
    assert cycles(gc.to_networkx(net)) == [{"f", "g"}, {"h", "p", "t"}]
    for stage in ("tensor", "kernels"):
        later = gc.to_networkx(net, stage=stage)
        assert cycles(later) == []
        assert ops(later).count("loop") == 2


@pytest.mark.parametrize("length", [0, 1, 60])
def test_the_longest_path_goes_through_the_whole_chain(length: int) -> None:
    graph = gc.to_networkx(gc.loads(chain(length)))
    assert nx.dag_longest_path(graph) == [f"h{i}" for i in range(length + 1)]
    tensor = gc.to_networkx(gc.loads(chain(length)), stage="tensor")
    found = nx.dag_longest_path(tensor)
    assert [tensor.nodes[n]["op"] for n in found] == ["argument", *["tanh"] * length, "return"]


def test_nodes_carry_what_was_written_and_what_was_inferred() -> None:
    graph = gc.to_networkx(gc.loads(TWO_LOOPS))
    assert list(graph) == ["x", "V", "t", "h", "p", "g", "f", "z"]
    assert graph.nodes["x"] == {
        "op": "Input",
        "name": "x",
        "tags": ("feature",),
        "rows": 3,
        "cols": "*",
        "params": {"rows": 3, "width": 0, "height": 0, "channels": 0},
        "types": ("matrix<3x*>",),
        "location": "<text>:2:5",
    }
    assert (graph.nodes["V"]["rows"], graph.nodes["V"]["cols"]) == (3, 3)
    assert graph.nodes["p"]["params"]["time_step"] == 1


def test_each_operand_is_an_edge() -> None:
    net = gc.loads("x = Input(2)\nW = Parameter(2, 2)\nt = Times(W, x)\ny = ElementTimes(t, t)\n")
    graph = gc.to_networkx(net)
    read = [
        (a, b, d["operand"], d["operand_name"], d["type"]) for a, b, d in graph.edges(data=True)
    ]
    assert read == [
        ("x", "t", 1, "B", "matrix<2x*>"),
        ("W", "t", 0, "A", "matrix<2x2>"),
        ("t", "y", 0, "a", "matrix<2x*>"),
        ("t", "y", 1, "b", "matrix<2x*>"),
    ]


def test_later_stages_show_types_places_and_bodies() -> None:
    graph = gc.to_networkx(gc.loads(TWO_LOOPS), stage="kernels", time=8, sequences=2)
    assert graph.graph["stage"] == "kernels"
    assert graph.graph["results"] == ["z"]
    assert graph.graph["dims"] == {"T": 8, "S": 2, "N": 16}
    assert graph.graph["arena"] > 0
    assert graph.nodes["V"]["role"] == "parameter"
    loop = "h.last"
    assert graph.nodes[loop]["op"] == "loop"
    found = graph.nodes[loop]
    assert found["params"]["count"] == "T"
    assert len(found["types"]) == len(found["placement"]) > 0
    body = found["body"]
    assert nx.is_directed_acyclic_graph(body)
    assert list(body.nodes(data="op"))[-1] == ("yield", "yield")
    arguments = [n for n, op in body.nodes(data="op") if op == "argument"]
    assert len(arguments) == graph.in_degree(loop)


def test_a_training_step_is_a_graph_too_and_nothing_of_the_network_changes() -> None:
    net = gc.loads(
        "x = Input(2, tag=feature)\nl = Input(2, tag=label)\nm = Mean(x)\nd = Minus(x, m)\n"
        "W = Parameter(2, 2)\nz = Times(W, d)\nc = SquareError(l, z, tag=criterion)\n"
    )
    before, values = str(net.model.module), dict(net.model.values)
    graph = gc.to_networkx(net, stage="tensor", training=True, precision="f64", batch=4)
    assert graph.nodes["W"] == {
        "op": "argument",
        "name": "W",
        "role": "parameter",
        "types": ("tensor<2x2xf64>",),
    }
    assert {"W", "c"} <= set(graph.graph["results"])
    assert str(net.model.module) == before
    assert net.model.values == values


def test_a_function_of_arrays_is_traced_for_its_arguments() -> None:
    @gc.function
    def energy(x: gc.Tensor, w: gc.Tensor) -> gc.Tensor:
        return gc.sum(gc.tanh(x @ w))

    x, w = np.ones((3, 2)), np.ones((2, 2))
    graph = gc.to_networkx(energy, x, w)
    assert "matmul" in ops(graph)
    assert graph.nodes["x0"]["types"] == ("tensor<3x2xf64>",)
    kernels = gc.to_networkx(gc.grad(energy), x, w, stage="kernels")
    assert "gemm" in {op.partition(".")[0] for op in ops(kernels)}


def test_a_function_of_the_ir_is_shown_as_it_is() -> None:
    text = """
func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {
  %"0" = neg %x : tensor<2xf32>
  %a = exp %"0" : tensor<2xf32>
  %1 = neg %a : tensor<2xf32>
  %"größe 1" = neg %1 : tensor<2xf32>
  return %"größe 1"
}
"""
    context = default_context()
    module = parse_module(text, context)
    verify_module(module, context.sink)
    context.sink.raise_if_errors()
    graph = gc.to_networkx(module.functions[0])
    assert len(graph) == 6
    assert "größe 1" in graph
    (path,) = nx.all_simple_paths(graph, "x", "return")
    assert [graph.nodes[n]["op"] for n in path] == [
        "argument",
        "neg",
        "exp",
        "neg",
        "neg",
        "return",
    ]


def test_what_cannot_be_shown_is_refused() -> None:
    net = gc.loads(TWO_LOOPS)
    with pytest.raises(gc.GraphcError, match="stage requires one of nodes, tensor, kernels"):
        gc.to_networkx(net, stage="kernel")  # type: ignore[arg-type]
    with pytest.raises(gc.GraphcError, match="a network takes no arguments"):
        gc.to_networkx(net, np.ones(3))
    with pytest.raises(gc.GraphcError, match="need the stage tensor or kernels"):
        gc.to_networkx(net, outputs="z")
    with pytest.raises(gc.GraphcError, match="leave out outputs="):
        gc.to_networkx(net, stage="tensor", outputs="z", training=True)
    with pytest.raises(gc.GraphcError, match="no node `zz`"):
        gc.to_networkx(net, stage="tensor", outputs="zz")
    with pytest.raises(gc.GraphcError, match="a function of arrays has no stage"):
        gc.to_networkx(gc.function(gc.tanh), np.ones(3), stage="nodes")
    with pytest.raises(gc.GraphcError, match="a network is required, got str"):
        gc.to_networkx("net.ndl")  # type: ignore[arg-type]
