"""Random networks: what each backend computes, values and gradients, against the references.

python -m tests.fuzz.test_random_networks 1234          judge this seed again
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence

import pytest

from graphc.builder import Node
from graphc.ir.core import Operation
from graphc.ir.types import DType
from graphc.ops import default_context
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import node_type
from graphc.passes.expand_nodes import inputs_of
from graphc.support.graphs import strongly_connected_components
from tests.support.compiling import load_backend
from tests.support.network_judge import computed, expectations, gradient_problem
from tests.support.random_networks import SAMPLE_COUNTS, RandomNetwork, random_network
from tests.support.seed_runs import judged

NETWORKS = 60  # judged on every backend in every run; more with `python -m tests.fuzz`
CHUNKS = 20
BACKENDS = ("numpy", "llvm")
MOST_DISCARDED = 0.1


def judge(seed: int, backends: Sequence[str] = BACKENDS) -> str | None:
    """What is wrong with a seed's results, '' if nothing, None if the network is discarded."""
    network = random_network(seed)
    if network is None:
        return None
    dtype = DType.F32 if seed % 2 == 0 else DType.F64
    expected = expectations(network, dtype)
    if expected is None:
        return None
    problems: list[str] = []
    if problem := gradient_problem(network, expected):
        problems.append(problem)
    for backend in backends:
        if isinstance(load_backend(backend), str):
            continue
        try:
            results = computed(network, backend, dtype)
        except Exception as error:  # whatever it is, the seed has to be named
            problems.append(f"{backend} {dtype}: {type(error).__name__}: {error}")
            continue
        if results.keys() != expected.keys():
            problems.append(f"{backend} computes {list(results)}, not {list(expected)}")
            continue
        for name, value in results.items():
            problem = expected[name].problem(value)
            if problem:
                problems.append(f"{backend} {dtype}, `{name}`: {problem}")
    if not problems:
        return ""
    return "\n".join(
        [
            *problems,
            f"repeat with: python -m tests.fuzz.test_random_networks {seed}",
            f"outputs {network.outputs}, gradients {network.wrt}, "
            f"{network.samples} samples, bound {network.batch}, "
            f"sequences {network.lengths} in {network.slots} slots",
            str(network.builder),
        ]
    )


def test_the_networks_have_every_operation_and_every_kind_of_size() -> None:
    networks = [n for n in map(random_network, range(300)) if n is not None]
    nodes = [node for network in networks for node in network.builder.nodes]
    known = {name.removeprefix("node.") for name in default_context().ops if "node." in name}
    assert {node.op for node in nodes} == known
    assert {network.samples for network in networks} == set(SAMPLE_COUNTS)
    assert any(not network.with_samples for network in networks)
    assert {len(network.wrt) for network in networks} == {1, 2, 3}
    assert all(3 <= len(network.builder.nodes) <= 50 for network in networks)
    forms = {form for node in nodes for form in _broadcasting(node)}
    assert forms >= {
        f"{op} {form}"
        for op in ("plus", "minus")
        for form in ("equal", "row", "column", "tiled column", "number", "flipped")
    }
    assert "plus fewer columns" in forms


def test_many_of_the_networks_with_samples_have_cycles() -> None:
    networks = [n for n in map(random_network, range(300)) if n is not None]
    sampled = [n for n in networks if n.with_samples]
    loops = {n.seed: [k for k in map(_direction, _components(n)) if k] for n in sampled}
    assert sum(map(bool, loops.values())) >= len(sampled) / 3
    assert any({"past_value", "future_value"} <= set(found) for found in loops.values())
    lengths = [n.lengths for n in sampled if n.lengths]
    assert any(len(set(each)) > 1 for each in lengths)
    assert {n.slots for n in sampled if n.lengths} == {1, 2, 3}


def _components(network: RandomNetwork) -> list[list[Operation]]:
    return strongly_connected_components(network.builder.model.graph.block, inputs_of)


def _direction(component: list[Operation]) -> str:
    """The kind of delay of a cycle; '' for a node that is in none."""
    delays = [op for op in component if len(component) > 1 and op.opdef in DELAYS]
    return delays[0].opdef.name.removeprefix("node.") if delays else ""


def _broadcasting(node: Node) -> list[str]:
    """The forms that a sum or difference has."""
    if node.op not in ("plus", "minus"):
        return []
    big, a, b = map(node_type, (node.operation, *(v.op for v in node.operation.operands)))  # type: ignore[arg-type]
    small = b if a == big else a
    forms = ["equal"] if a == b else ["flipped"] if b == big else []
    if small != big:
        if small.rows == small.cols == 1:
            forms.append("number")
        elif small.cols == 1:
            forms.append("column" if small.rows == big.rows else "tiled column")
        elif small.rows == 1 and small.cols == big.cols:
            forms.append("row")
        else:
            forms.append("fewer columns")
    return [f"{node.op} {form}" for form in forms]


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_backends_compute_random_networks_as_the_references_do(chunk: int) -> None:
    seeds = range(chunk, NETWORKS, CHUNKS)
    found = list(judged(__name__, seeds, BACKENDS))
    assert [verdict for verdict in found if verdict.problem] == []
    discarded = sum(verdict.problem is None for verdict in found)
    assert discarded <= math.ceil(MOST_DISCARDED * len(seeds))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
