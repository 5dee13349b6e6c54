"""The benchmarks' networks on an emulated GPU, whole training steps, in every way of running."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest

from bench.check import difference, results
from bench.peers.graphc import case
from bench.workloads import WORKLOADS, workload
from bench.workloads.record import Values
from graphc.backends.cuda import source
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.platform import using
from graphc.backends.cuda.program import Program
from graphc.backends.cuda.ways import WAYS, Way, run_by_its_way
from graphc.ir.core import Function
from tests.support.cuda.building import missing
from tests.support.cuda.emulator import ORDERS, EmulatedDevice, Running, emulated_platform

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

# Each in one way and one order; those of a kind are neighbours, so each kind comes in every way.
FORCED = list(zip(WORKLOADS, itertools.cycle(WAYS), itertools.cycle((*ORDERS, "forwards"))))


def computed(name: str, variant: str) -> Values:
    work = workload(name, small=True)
    made = case(work, 1, variant)
    return results(work, made, made.run())


@pytest.mark.parametrize(("name", "way", "order"), FORCED)
def test_a_network_gives_what_the_reference_gives(
    name: str, way: Way, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forced(
        module: CudaModule, program: Program, function: Function, bounds: Mapping[str, int]
    ) -> Program:
        function.launch = way
        return run_by_its_way(module, program, function, bounds)

    monkeypatch.setattr(source, "run_by_its_way", forced)
    assert order in ORDERS
    device = EmulatedDevice(running=Running(order))
    with using(emulated_platform(device)):
        found = computed(name, "cuda")
    assert device.launches > 0
    assert difference(found, computed(name, "reference")) == ""
