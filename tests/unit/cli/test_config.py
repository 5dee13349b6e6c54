"""`graphc config`: what it prints, and how it fails."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.commands import graphc

CONFIG = "root=here\ntrain=[\n  modelPath=$root$/m\n  SGD=[maxEpochs=3]\n]\n"


def test_the_places_of_values_are_printed(tmp_path: Path) -> None:
    file = tmp_path / "a.config"
    file.write_text(CONFIG, encoding="utf-8")
    done = graphc("config", file, "train=[SGD=[maxEpochs=4]]")
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert ["modelPath=$root$/m", "#", f"{file}:3:3"] in lines
    assert ["maxEpochs=4", "#", "<command", "line>:2:13"] in lines
    assert "modelPath=here/m" in graphc("config", file, "--resolve").out


def test_it_is_data_too(tmp_path: Path) -> None:
    file = tmp_path / "a.config"
    file.write_text(CONFIG, encoding="utf-8")
    record = json.loads(graphc("config", file, "--resolve", "--json").out)
    train = record["entries"][1]
    assert (train["key"], train["line"], train["column"]) == ("train", 2, 1)
    assert train["entries"][0]["value"] == "here/m"
    assert train["entries"][1]["entries"][0]["key"] == "maxEpochs"


def test_a_mistake_is_shown_at_its_place(tmp_path: Path) -> None:
    file = tmp_path / "a.config"
    file.write_text("a=1\nb=[c=2\n", encoding="utf-8")
    done = graphc("config", file)
    assert done.code == 3
    assert f"{file}:2:3" in done.err
    assert graphc("config", tmp_path / "none.config").code == 3
