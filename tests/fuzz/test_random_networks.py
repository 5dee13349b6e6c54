"""Random networks: what each backend computes, values and gradients, against the references.

    python -m tests.fuzz.test_random_networks 1234          judge this seed again
"""

from __future__ import annotations

import sys

import pytest

from graphc.ir.types import DType
from tests.support.compiling import load_backend
from tests.support.network_judge import computed, expectations
from tests.support.random_networks import random_network

NETWORKS = 2000
CHUNKS = 20
BACKENDS = ("numpy", "llvm")
MOST_DISCARDED = 0.1


def judge(seed: int) -> str | None:
    """What is wrong with a seed's results, '' if nothing, None if the network is discarded."""
    network = random_network(seed)
    if network is None:
        return None
    dtype = DType.F32 if seed % 2 == 0 else DType.F64
    expected = expectations(network, dtype)
    if expected is None:
        return None
    problems: list[str] = []
    for backend in BACKENDS:
        if isinstance(load_backend(backend), str):
            continue
        results = computed(network, backend, dtype)
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
            f"{network.samples} samples, bound {network.batch}",
            str(network.builder),
        ]
    )


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_backends_compute_random_networks_as_the_references_do(chunk: int) -> None:
    seeds = range(chunk, NETWORKS, CHUNKS)
    found = [judge(seed) for seed in seeds]
    assert [problem for problem in found if problem] == []
    assert found.count(None) <= MOST_DISCARDED * len(seeds)


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
