"""Both parts of a function with frozen parameters begin with the same passes, run once."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import pytest

import graphc as gc
from graphc.driver.begun import Begun, shared_passes
from graphc.driver.compile import evaluation_passes, passed
from graphc.driver.options import CompileOptions, Part
from graphc.ir.context import Context
from graphc.ir.core import Module
from graphc.ir.printer import print_module
from graphc.model.model import Model
from graphc.passes.manager import Pass, PassOutcome

TEXT = """
x = Input(3)
W = Parameter(2, 3)
s = Parameter(2, 1)
y = Plus(Times(W, x), Exp(s), tag=output)
"""


@dataclass(frozen=True)
class Counted(Pass):
    """Changes nothing, and counts how often it is run."""

    name: ClassVar[str] = "counted"
    summary: ClassVar[str] = "count"
    runs: ClassVar[list[str]] = []

    def run(self, module: Module, context: Context) -> PassOutcome:
        self.runs.append("run")
        return PassOutcome(changed=False)


def part_of(model: Model, part: Part, begun: Begun | None, **more: bool) -> str:
    """The text of one part of the function."""
    options = replace(CompileOptions(freeze=True, part=part, **more), begun=begun)
    passes = [Counted(), *evaluation_passes(model, ["y"], (), options)]
    assert shared_passes(passes) > 1
    return print_module(passed(model.module, passes, options)[0])


@pytest.fixture
def model() -> Model:
    Counted.runs.clear()
    return gc.loads(TEXT).model


def test_both_parts_are_what_they_are_alone_and_what_they_share_is_run_once(model: Model) -> None:
    alone = [part_of(model, part, None) for part in ("rest", "frozen")]
    assert Counted.runs == ["run", "run"]
    Counted.runs.clear()
    begun = Begun()
    assert [part_of(model, part, begun) for part in ("rest", "frozen")] == alone
    assert Counted.runs == ["run"]
    assert "early." in alone[0]
    assert "exp" in alone[1]
    assert "exp" not in alone[0]


def test_what_was_taken_is_made_anew(model: Model) -> None:
    begun = Begun()
    texts = [part_of(model, "frozen", begun) for _ in range(3)]
    assert texts[0] == texts[1] == texts[2]
    assert len(Counted.runs) == 2


def test_another_network_has_passes_of_its_own(model: Model) -> None:
    begun = Begun()
    part_of(model, "rest", begun)
    other = gc.loads(TEXT.replace("Exp", "Tanh")).model
    assert "tanh" in part_of(other, "frozen", begun)
    assert len(Counted.runs) == 2


def test_every_pass_is_run_where_each_is_verified(model: Model) -> None:
    begun = Begun()
    part_of(model, "rest", begun, verify=True)
    part_of(model, "frozen", begun, verify=True)
    assert len(Counted.runs) == 2
