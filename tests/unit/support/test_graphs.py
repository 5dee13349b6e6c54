"""Graph algorithms, judged by networkx and by brute force."""

from __future__ import annotations

from itertools import pairwise

import networkx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from graphc.support.graphs import reachable, strongly_connected_components, topological_order

Graph = dict[int, list[int]]
DEEP = 100_000


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Any directed graph on up to 12 nodes: loops and repeated edges included."""
    nodes = draw(st.permutations(range(draw(st.integers(0, 12)))))
    if not nodes:
        return {}
    neighbours = st.lists(st.sampled_from(nodes), max_size=5)
    return {node: draw(neighbours) for node in nodes}


def as_networkx(graph: Graph) -> networkx.DiGraph:
    return networkx.DiGraph(graph)


@given(graphs())
def test_components_are_those_of_networkx(graph: Graph) -> None:
    ours = strongly_connected_components(graph, graph.__getitem__)
    judge = networkx.strongly_connected_components(as_networkx(graph))
    assert sorted(map(sorted, ours)) == sorted(map(sorted, judge))


@given(graphs())
def test_two_nodes_share_a_component_just_when_each_reaches_the_other(graph: Graph) -> None:
    component = {
        node: index
        for index, members in enumerate(strongly_connected_components(graph, graph.__getitem__))
        for node in members
    }
    reach = {node: set(reachable([node], graph.__getitem__)) for node in graph}
    for a in graph:
        for b in graph:
            assert (component[a] == component[b]) == (b in reach[a] and a in reach[b])


@given(graphs())
def test_components_come_after_the_components_they_lead_to(graph: Graph) -> None:
    done: set[int] = set()
    for members in strongly_connected_components(graph, graph.__getitem__):
        done.update(members)
        assert all(child in done for node in members for child in graph[node])


@given(graphs())
def test_an_order_exists_just_when_networkx_sees_no_cycle(graph: Graph) -> None:
    order = topological_order(graph, graph.__getitem__)
    assert (order is not None) == networkx.is_directed_acyclic_graph(as_networkx(graph))


@given(graphs())
def test_an_order_has_every_node_once_and_after_its_inputs(graph: Graph) -> None:
    order = topological_order(graph, graph.__getitem__)
    if order is None:
        return
    assert sorted(order) == sorted(graph)
    place = {node: i for i, node in enumerate(order)}
    assert all(place[source] < place[node] for node in graph for source in graph[node])


def test_nodes_without_edges_keep_their_order() -> None:
    assert topological_order("cab", lambda _: ()) == ["c", "a", "b"]


def test_inputs_that_are_not_asked_for_are_ignored() -> None:
    assert topological_order([1, 2], lambda n: [n + 1, 99]) == [2, 1]


def test_a_node_that_reads_itself_has_no_order() -> None:
    assert topological_order([1], lambda _: [1]) is None


@given(graphs())
def test_what_is_reachable_is_what_networkx_reaches(graph: Graph) -> None:
    for root in graph:
        judge = networkx.descendants(as_networkx(graph), root) | {root}
        assert set(reachable([root], graph.__getitem__)) == judge


def test_nothing_is_reachable_from_nowhere() -> None:
    assert reachable([], lambda _: [1]) == {}


def chain(node: int) -> list[int]:
    return [node + 1] if node + 1 < DEEP else []


def ring(node: int) -> list[int]:
    return [(node + 1) % DEEP]


def test_a_chain_of_100000_nodes_has_as_many_components() -> None:
    components = strongly_connected_components(range(DEEP), chain)
    assert len(components) == DEEP
    assert components[0] == [DEEP - 1]


def test_a_ring_of_100000_nodes_is_one_component() -> None:
    assert [len(c) for c in strongly_connected_components(range(DEEP), ring)] == [DEEP]


def test_a_chain_of_100000_nodes_is_ordered() -> None:
    order = topological_order(range(DEEP), chain)
    assert order is not None
    assert all(a == b + 1 for a, b in pairwise(order))


def test_a_ring_of_100000_nodes_has_no_order() -> None:
    assert topological_order(range(DEEP), ring) is None


def test_the_end_of_a_chain_of_100000_nodes_is_reachable() -> None:
    assert DEEP - 1 in reachable([0], chain)


@pytest.mark.parametrize("repeat", range(3))
def test_results_do_not_depend_on_hashes(repeat: int) -> None:
    names = ["w", "x", "b", "t", "z"]
    edges = {"z": ["t", "b"], "t": ["w", "x"], "w": [], "x": [], "b": []}
    assert topological_order(names, edges.__getitem__) == ["w", "x", "b", "t", "z"]
    assert [c for (c,) in strongly_connected_components(names, edges.__getitem__)] == names
