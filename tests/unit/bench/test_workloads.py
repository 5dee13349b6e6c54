"""Every workload's graphc form, at a small size: it compiles, and is what its reference says."""

from __future__ import annotations

import numpy as np
import pytest

from bench.check import BF16_SLACK, difference, results
from bench.peers.graphc import case
from bench.workloads import BF16_WORKLOADS, IN_BF16, WORKLOADS, workload
from bench.workloads.drawn import drawn_names
from bench.workloads.record import Values


def run(name: str, variant: str) -> Values:
    work = workload(name, small=True)
    made = case(work, 1, variant)
    return results(work, made, made.run())


@pytest.mark.parametrize("name", [*WORKLOADS, *drawn_names(11, 6)])
def test_a_small_form_of_the_workload_is_what_its_reference_says(name: str) -> None:
    assert difference(run(name, "llvm"), run(name, "reference")) == ""


@pytest.mark.parametrize("name", BF16_WORKLOADS)
def test_workloads_in_bf16_are_near_their_reference_and_round(name: str) -> None:
    found, expected = run(name, "llvm"), run(name, "reference")
    assert difference(found, expected, BF16_SLACK) == ""
    in_f32 = run(name.removesuffix(IN_BF16), "llvm")
    assert all((found[key] != in_f32[key]).any() for key in found)


@pytest.mark.parametrize("name", [n for n in WORKLOADS if workload(n, small=True).trains])
def test_every_parameter_of_a_training_workload_moves(name: str) -> None:
    work = workload(name, small=True)
    moved = run(name, "reference")
    assert {n for n in work.parameters if not moved[n].any()} == set()


@pytest.mark.parametrize("name", [*WORKLOADS, *drawn_names(11, 6)])
def test_the_arrays_of_a_workload_are_the_same_in_every_process_and_no_zeros(name: str) -> None:
    one, other = workload(name, small=True), workload(name, small=True)
    for key, array in (one.inputs | one.parameters | one.constants).items():
        again = (other.inputs | other.parameters | other.constants)[key]
        assert np.array_equal(array, again)
        assert array.any()


def test_networks_are_drawn_by_the_seed() -> None:
    titles = {workload(name).title for seed in (1, 2) for name in drawn_names(seed, 30)}
    assert len(titles) == 60


@pytest.mark.parametrize("name", WORKLOADS)
def test_the_bound_of_a_workload_is_stated(name: str) -> None:
    cost = workload(name, small=True).cost
    assert cost.flops > 0
    assert cost.bytes > 0
    assert cost.working_set > 0
