"""Graph algorithms over plain adjacency: strongly connected components and topological order.

Every walk has an explicit stack, so a chain of 100,000 nodes is fine. Nodes are any hashable
values; results follow the order in which nodes and successors are given, so they are the same in
every run. (Why not networkx here: `docs/decisions/002-own-tarjan.md`; it judges these in tests.)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

N = TypeVar("N", bound=Hashable)


def strongly_connected_components(
    nodes: Iterable[N], successors: Callable[[N], Iterable[N]]
) -> list[list[N]]:
    """Tarjan's algorithm (1972), O(nodes + edges). Components come out successors first."""
    index: dict[N, int] = {}
    low: dict[N, int] = {}
    on_stack: set[N] = set()
    stack: list[N] = []
    components: list[list[N]] = []
    for root in nodes:
        if root in index:
            continue
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        work = [(root, iter(successors(root)))]
        while work:
            node, rest = work[-1]
            for child in rest:
                if child not in index:
                    index[child] = low[child] = len(index)
                    stack.append(child)
                    on_stack.add(child)
                    work.append((child, iter(successors(child))))
                    break
                if child in on_stack:
                    low[node] = min(low[node], index[child])
            else:
                work.pop()
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == index[node]:
                    components.append(_pop_component(stack, on_stack, node))
    return components


def _pop_component(stack: list[N], on_stack: set[N], root: N) -> list[N]:
    component: list[N] = []
    while True:
        member = stack.pop()
        on_stack.discard(member)
        component.append(member)
        if member == root:
            component.reverse()
            return component


def topological_order(nodes: Iterable[N], inputs: Callable[[N], Iterable[N]]) -> list[N] | None:
    """The nodes with every node after its inputs, otherwise in the given order; None if cyclic.

    Inputs that are not among `nodes` are ignored. O(nodes + edges).
    """
    given = list(nodes)
    wanted = set(given)
    state: dict[N, int] = {}  # 1: inputs being placed, 2: placed
    order: list[N] = []
    for root in given:
        if root in state:
            continue
        state[root] = 1
        work = [(root, iter(inputs(root)))]
        while work:
            node, rest = work[-1]
            for child in rest:
                if child not in wanted or state.get(child) == 2:
                    continue
                if state.get(child) == 1:
                    return None
                state[child] = 1
                work.append((child, iter(inputs(child))))
                break
            else:
                work.pop()
                state[node] = 2
                order.append(node)
    return order


def reachable(roots: Iterable[N], successors: Callable[[N], Iterable[N]]) -> dict[N, None]:
    """The roots and everything that can be reached from them, in order of discovery."""
    seen: dict[N, None] = dict.fromkeys(roots)
    work = list(seen)
    while work:
        for child in successors(work.pop()):
            if child not in seen:
                seen[child] = None
                work.append(child)
    return seen
