"""Passes of other distributions, which these tests put on the path as pip would."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.support.commands import graphc

TEXT = """func @f(%x: tensor<2xf32> input) -> (y: tensor<2xf32>) {
  %a = neg %x : tensor<2xf32>
  %b = exp %a : tensor<2xf32>
  return %b
}
"""

MODULE = """
from dataclasses import dataclass
from typing import ClassVar

from graphc.passes.manager import Pass, PassOutcome


@dataclass(frozen=True)
class Shout(Pass):
    name: ClassVar[str] = "shout"
    summary: ClassVar[str] = "make names longer"
    suffix: str = "_loud"

    def run(self, module, context):
        for function in module.functions:
            for op in function.block:
                for value in op.results:
                    value.name += self.suffix
        return PassOutcome(True)


@dataclass(frozen=True)
class Fails(Pass):
    name: ClassVar[str] = "fails"
    summary: ClassVar[str] = "nothing good"

    def run(self, module, context):
        raise KeyError("oops")


@dataclass(frozen=True)
class BreaksIr(Pass):
    name: ClassVar[str] = "breaks-ir"
    summary: ClassVar[str] = "nothing good"

    def run(self, module, context):
        module.functions[0].block.last.set_operands([])
        return PassOutcome(True)


class Plain(Pass):
    name: ClassVar[str] = "plain"
    summary: ClassVar[str] = "no dataclass"


NUMBER = 3
"""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Puts a distribution of passes on the path; the folder for more of them."""
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.delitem(sys.modules, "shouting_passes", raising=False)
    write(
        tmp_path,
        "shouting",
        "shout = shouting_passes:Shout\nfails = shouting_passes:Fails\n"
        "breaks-ir = shouting_passes:BreaksIr\nplain = shouting_passes:Plain\n"
        "number = shouting_passes:NUMBER\nother = shouting_passes:Shout\n"
        "missing = shouting_passes:Absent\nnowhere = no_such_module:Shout\n"
        "cse = shouting_passes:Shout\n",
    )
    (tmp_path / "site" / "shouting_passes.py").write_text(MODULE, encoding="utf-8")
    (tmp_path / "case.gir").write_text(TEXT, encoding="utf-8")
    return tmp_path


def write(folder: Path, name: str, entries: str) -> None:
    """A distribution with these entry points."""
    info = folder / "site" / f"{name}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n", encoding="utf-8"
    )
    (info / "entry_points.txt").write_text(f"[graphc.passes]\n{entries}", encoding="utf-8")


def test_a_pass_of_another_distribution_runs_among_the_others(install: Path) -> None:
    done = graphc("opt", install / "case.gir", "-p", 'cse,shout{suffix = "_a"},dce')
    assert (done.code, done.err) == (0, "")
    assert "%b_a = exp %a_a" in done.out


def test_its_options_are_checked_and_its_name_is_suggested(install: Path) -> None:
    done = graphc("opt", install / "case.gir", "-p", "shout{sufix = 3}")
    assert done.code == 2
    assert "no parameter `sufix`" in done.err
    done = graphc("opt", install / "case.gir", "-p", "shuot")
    assert done.code == 2
    assert "did you mean `shout`" in done.err


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fails", "is broken: in `fails`: KeyError: 'oops'"),
        ("breaks-ir", "is broken: after `breaks-ir` the IR is not legal"),
        ("plain", "requires a frozen dataclass"),
        ("number", "requires a subclass of graphc.passes.manager.Pass, got int"),
        ("other", "requires name = 'other' as in its entry point, got 'shout'"),
        ("missing", "cannot be loaded: AttributeError"),
        ("nowhere", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_distribution(
    install: Path, name: str, message: str
) -> None:
    done = graphc("opt", install / "case.gir", "-p", name)
    assert done.code == 3
    assert message in done.err
    assert "error[plug-in]" in done.err
    assert f"`{name}` of shouting 1.5 (" in done.err
    assert done.out == ""


def test_two_distributions_with_one_name_are_both_named(install: Path) -> None:
    write(install, "whispering", "shout = shouting_passes:Shout\n")
    done = graphc("opt", install / "case.gir", "-p", "shout")
    assert done.code == 3
    shouting, whispering = (f"{d} 1.5 (shouting_passes:Shout)" for d in ("shouting", "whispering"))
    assert f"`shout` is {shouting} and {whispering}" in done.err


def test_the_list_says_where_plug_ins_come_from_and_what_is_wrong_with_them(install: Path) -> None:
    done = graphc("opt", "--list", "passes")
    assert done.code == 0
    lines = {line.split()[0]: line for line in done.out.splitlines()}
    assert "make names longer, from shouting 1.5 (shouting_passes:Shout)" in lines["shout"]
    assert "broken: " in lines["number"]
    assert "shouting" not in lines["cse"]
    rows = json.loads(graphc("opt", "--list", "passes", "--json").out)["passes"]
    (shout,) = [row for row in rows if row["name"] == "shout"]
    assert shout["options"] == ["suffix"]
    assert shout["origin"] == "shouting 1.5 (shouting_passes:Shout)"


def test_a_name_of_graphc_stays_that_of_graphc(install: Path) -> None:
    done = graphc("opt", install / "case.gir", "-p", "cse")
    assert (done.code, done.out) == (0, TEXT)
