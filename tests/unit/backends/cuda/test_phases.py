"""Phases: launches of one touch nothing of each other's; all find what they find in order."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from bench.gpu.planned import recorded
from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.phases import Phase, PhasedTurns, phases_of, walk_phases
from graphc.backends.cuda.program import write_program
from graphc.backends.cuda.steps import (
    Either,
    Launch,
    Number,
    Part,
    Place,
    Step,
    Turns,
    Where,
    run_order,
)
from graphc.ir.machine import GPUS
from graphc.passes.analysis.loopnest import Size
from tests.support.cuda.replayed import groups_in_call, meetings, replay

SIZES = {"T": 3, "S": 2}
ROW = Size(4, ("S",))
"""Elements of a step of a sequence."""

SEQUENCE = 3 * 2 * 4 * 4
"""Bytes of a sequence at these sizes, which are the bounds."""


class Chooser:
    """Random steps over a few arrays, which often overlap."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._launches = 0

    def steps(self, loops: int = 0) -> tuple[Step, ...]:
        choose = self._random
        steps: list[Step] = []
        for _ in range(choose.randint(2, 7)):
            if loops < 2 and choose.random() < 0.35:
                count = Number(Size(1, ("T",)), plus=choose.choice([-1, 0]))
                steps.append(Turns(loops, count, self.steps(loops + 1)))
            else:
                steps.append(self.launch(loops))
        return tuple(steps)

    def launch(self, loops: int) -> Launch:
        choose = self._random
        self._launches += 1
        pointers = tuple(self.where(loops) for _ in range(choose.randint(1, 4)))
        writes = frozenset(i for i in range(len(pointers)) if choose.random() < 0.4)
        return Launch("k", pointers, f"launch {self._launches}", writes)

    def where(self, loops: int) -> Where:
        choose = self._random
        if loops and choose.random() < 0.6:
            loop = choose.randrange(loops)
            whole = Place("arena", choose.choice([0, 0, 64, 192]), SEQUENCE)
            step = choose.choice([Number(Size(0), 1, loop), Number(Size(1, ("T",)), -1, loop, -1)])
            part = Part(whole, step, ROW, 4)
            if choose.random() < 0.5:
                return part
            earlier = Number(step.size, step.sign, loop, step.plus - step.sign)
            before = Part(whole, earlier, ROW, 4)
            return Either(Number(Size(0), 1, loop), before, self.place())
        if choose.random() < 0.2:
            return Part(Place("arena", 0, SEQUENCE), Number(Size(choose.randint(0, 2))), ROW, 4)
        return self.place()

    def place(self) -> Place:
        choose = self._random
        if choose.random() < 0.3:
            return Place("buffer", choose.randint(0, 3), 64)
        base = "scratch" if choose.random() < 0.2 else "arena"
        return Place(base, 64 * choose.randint(0, 16), choose.choice([0, 64, 128]))


@pytest.mark.parametrize("seed", range(60))
def test_every_launch_finds_what_it_finds_in_order(seed: int) -> None:
    steps = Chooser(seed).steps()
    phases = phases_of(steps)
    groups = list(groups_in_call(phases, SIZES))
    assert [m for group in groups for m in meetings(group, SIZES)] == []
    backwards = [(launch, turns) for launches, turns in groups for launch in reversed(launches)]
    assert replay(backwards, SIZES) == replay(run_order(steps, SIZES), SIZES)


@pytest.mark.parametrize("seed", range(60))
def test_no_phase_could_be_one_with_the_phase_before(seed: int) -> None:
    chooser = Chooser(seed)
    steps = [
        Launch("k", (chooser.place(), chooser.place()), str(i), frozenset({1})) for i in range(9)
    ]
    phases = phases_of(steps)
    for before, after in pairwise(phases):
        assert isinstance(before, Phase) and isinstance(after, Phase)
        for launch in after.launches:
            assert meetings(((*before.launches, launch), ()), SIZES)


def test_what_waits_for_nothing_moves_up() -> None:
    x, a, b, c = (Place("buffer", i, 64) for i in range(4))
    first = Launch("k", (x, a), "first", frozenset({1}))
    second = Launch("k", (a, b), "second", frozenset({1}))
    independent = Launch("k", (x, c), "independent", frozenset({1}))
    found = phases_of([first, second, independent])
    assert found == (Phase((first, independent)), Phase((second,)))


NOW, BEFORE = (
    Part(Place("arena", 0, SEQUENCE), Number(Size(0), 1, 0, plus), ROW, 4) for plus in (0, -1)
)
"""This turn's element of a sequence, and that of the turn before."""

EVERY = Number(Size(1, ("T",)))


def test_elements_of_two_turns_are_apart() -> None:
    read, write = Launch("k", (BEFORE,), "read"), Launch("k", (NOW,), "write", frozenset({0}))
    assert phases_of([Turns(0, EVERY, (read, write))]) == (
        PhasedTurns(0, EVERY, (Phase((read, write)),)),
    )


def test_parts_of_other_lengths_are_not_apart() -> None:
    """Part 1 of two rows is parts 2 and 3 of one row."""
    long = Part(Place("arena", 0, SEQUENCE), Number(Size(1)), ROW * Size(2), 4)
    short = Part(Place("arena", 0, SEQUENCE), Number(Size(1), plus=1), ROW, 4)
    write, read = Launch("k", (long,), "write", frozenset({0})), Launch("k", (short,), "read")
    assert len(phases_of([write, read])) == 2


def test_behind_a_loop_its_sequences_are_one_array() -> None:
    """Also for another loop, in which turns have the same number."""
    given = Place("buffer", 0, 64)
    first = Launch("k", (given,), "first", frozenset({0}))
    write = Turns(0, EVERY, (Launch("k", (given, NOW), "write", frozenset({1})),))
    read = Turns(0, EVERY, (Launch("k", (BEFORE,), "read"),))
    found = phases_of([first, write, read])
    assert [p.launches[0].remark for p in walk_phases(found)] == ["first", "write", "read"]
    assert [type(p) for p in found] == [Phase, PhasedTurns, PhasedTurns]


@pytest.mark.parametrize("name", ["W1", "W4", "W5class", "W7a", "W9resnet", "W9encoder1"])
def test_networks_find_in_phases_what_they_find_in_order(name: str) -> None:
    """Whole programs of kernels, with the memory plan that they share."""
    call = recorded(name, GPUS["sm_90"], small=True)
    program = write_program(CudaModule(GPUS["sm_90"]), call.function, call.signature, GPUS["sm_90"])
    steps = _numbered(program.steps, iter(range(1000)))
    groups = list(groups_in_call(phases_of(steps), call.sizes))
    assert len(groups) < sum(1 for _ in run_order(steps, call.sizes))
    assert [m for group in groups for m in meetings(group, call.sizes)] == []
    backwards = [(launch, turns) for launches, turns in groups for launch in reversed(launches)]
    assert replay(backwards, call.sizes) == replay(run_order(steps, call.sizes), call.sizes)


def _numbered(steps: Sequence[Step], numbers: Iterator[int]) -> tuple[Step, ...]:
    """With remarks that tell launches apart."""
    return tuple(
        replace(step, remark=f"{next(numbers)} {step.remark}")
        if isinstance(step, Launch)
        else replace(step, steps=_numbered(step.steps, numbers))
        for step in steps
    )
