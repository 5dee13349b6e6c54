"""Networks and their training steps give the same bits as a graph, as a grid and as one block."""

from __future__ import annotations

from functools import cache

import pytest

from bench.gpu.planned import Recorded, recorded
from graphc.backends.cuda.ways import WAYS
from graphc.ir.clone import clone_function
from tests.support.cuda.building import missing
from tests.support.cuda.emulator import emulated_machine
from tests.support.cuda.functions import CheckedFunction, compile_together

NAMES = ("W1", "W4", "W5class", "W7a", "W9encoder1")
"""A training step of products, two of sequences, one of images; attention."""

CALLS = 3
"""Each runs threads in another order, on another number of blocks."""

pytestmark = pytest.mark.skipif(missing() != "", reason=missing() or "it is there")


@cache
def calls() -> dict[str, Recorded]:
    machine = emulated_machine("sm_90")
    return {name: recorded(name, machine, small=True) for name in NAMES}


@cache
def functions() -> dict[tuple[str, str], CheckedFunction]:
    made = []
    for call in calls().values():
        for way in WAYS:
            function = clone_function(call.function)
            function.launch = way
            made.append((function, call.signature))
    names = [(name, way) for name in NAMES for way in WAYS]
    return dict(zip(names, compile_together(made), strict=True))


@pytest.mark.parametrize("name", NAMES)
def test_every_way_gives_the_same_bits(name: str) -> None:
    call = calls()[name]
    found = [call.call(functions()[name, way]) for way in WAYS for _ in range(CALLS)]
    assert all(other == found[0] for other in found)
    assert found[0] != call.before()
