"""`graphc edit`: what it prints, writes and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

import graphc as gc
from tests.support.commands import graphc
from tests.support.mel import MACROS, network

ADD_LAYER = """
m1 = LoadModel($Old$)
L2 = Layer(L1.S, 5, 5)
SetInput(CE.T, 1, L2.S)
DumpModel(m1, list.txt)
SaveModel(new/two.dnn)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    network().save("one.dnn")
    (tmp_path / "layers.ndl").write_text(MACROS, encoding="utf-8")
    (tmp_path / "add.mel").write_text(ADD_LAYER, encoding="utf-8")
    return tmp_path


def test_the_files_written_are_listed(folder: Path) -> None:
    done = graphc("edit", "add.mel", "--macros", "layers.ndl", "-D", "Old=one.dnn")
    assert (done.code, done.out, done.err) == (0, "list.txt\nnew/two.dnn\n", "")
    assert gc.load("new/two.dnn").find("L2.S") is not None
    assert "CE.T=Times(CE.W,L2.S)" in (folder / "list.txt").read_text()


def test_a_check_writes_nothing(folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = graphc("edit", "--check", "add.mel", "--macros", "layers.ndl", "-D", "Old=none.dnn")
    assert (done.code, done.out, done.err) == (0, "", "add.mel: no mistakes found\n")
    assert sorted(folder.iterdir()) == before


def test_a_mistake_is_told_with_its_line_and_nothing_is_written(folder: Path) -> None:
    before = sorted(folder.iterdir())
    done = graphc("edit", "add.mel", "-D", "Old=one.dnn")
    assert (done.code, done.out) == (3, "")
    assert "error[unknown-function]: `Layer` is no function, no macro" in done.err
    assert "--> add.mel:3:6" in done.err
    assert sorted(folder.iterdir()) == before


def test_a_script_that_saves_nothing_says_so(folder: Path) -> None:
    (folder / "none.mel").write_text("m = LoadModel(one.dnn)\nRename(L1.*, K.*)\n")
    done = graphc("edit", "none.mel")
    assert (done.code, done.err) == (0, "none.mel writes no file: SaveModel saves a model\n")


def test_another_suffix_is_refused(folder: Path) -> None:
    done = graphc("edit", "layers.ndl")
    assert done.code == 3
    assert "edits require one of the suffixes .mel, got `.ndl`" in done.err


def test_a_place_that_cannot_be_written_leaves_all_files_as_they_were(folder: Path) -> None:
    (folder / "bad.mel").write_text(
        "m = LoadModel(one.dnn)\nRename(L1.*, K.*)\nSaveModel(one.dnn)\nSaveModel(add.mel/x.dnn)\n"
    )
    before = (folder / "one.dnn").read_bytes()
    done = graphc("edit", "bad.mel")
    assert done.code == 3
    assert "bad.mel:4:1" in done.err
    assert (folder / "one.dnn").read_bytes() == before
