"""Files that commands write beside their result: refused before any work, written after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.commands import COLUMNS, Done, graphc, write_data, write_network


def command(folder: Path, name: str, *more: str | Path) -> Done:
    """A command on the network and data in the folder, with everything it needs."""
    model, data = write_network(folder), ("--data", write_data(folder), *COLUMNS)
    samples = folder / "x.txt"
    samples.write_text("1 2\n", encoding="utf-8")
    reference = ("--backend", "reference")
    rest: tuple[str | Path, ...] = {
        "train": (*data, "--learning-rate", "1", "-o", folder / "out.safetensors", *reference),
        "eval": (*data, *reference),
        "run": (samples, "-o", folder / "out.txt", *reference),
        "compile": ("-o", folder / "out.py", "--no-cache"),
        "bench": ("--minibatch", "2"),
    }[name]
    return graphc(name, model, *rest, *more)


@pytest.mark.parametrize(
    ("name", "option", "file"),
    [
        ("train", "--trace", "net.ndl"),
        ("train", "--profile-json", "data.txt"),
        ("train", "--time-json", "out.safetensors"),
        ("eval", "--time-json", "data.txt"),
        ("run", "--time-json", "x.txt"),
        ("run", "--trace", "out.txt"),
        ("compile", "--time-json", "net.ndl"),
        ("compile", "--time-json", "out.py"),
        ("bench", "--trace", "net.ndl"),
    ],
)
def test_a_report_replaces_no_other_file_of_the_command(
    tmp_path: Path, name: str, option: str, file: str
) -> None:
    done = command(tmp_path, name, option, tmp_path / file)
    assert done.code == 2
    assert f"{file} is used for something else" in " ".join(done.err.split())
    assert not list(tmp_path.glob("out.*"))


@pytest.mark.parametrize("name", ["train", "eval", "run", "compile"])
def test_a_report_without_a_folder_is_refused_before_any_work(tmp_path: Path, name: str) -> None:
    done = command(tmp_path, name, "--time-json", tmp_path / "none" / "t.json")
    assert (done.code, done.out) == (3, "")
    assert "none does not exist" in " ".join(done.err.split())
    assert not list(tmp_path.glob("out.*"))


def test_two_reports_need_two_files(tmp_path: Path) -> None:
    file = tmp_path / "t.json"
    done = command(tmp_path, "run", "--time-json", file, "--trace", file)
    assert done.code == 2
    assert "is used for something else" in done.err


def test_another_name_of_a_file_is_that_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "net.ndl")
    (tmp_path / "hard").hardlink_to(write_network(tmp_path))
    for name in ("link", "hard"):
        done = command(tmp_path, "run", "--time-json", tmp_path / name)
        assert done.code == 2


def test_a_dash_is_no_file_for_a_report(tmp_path: Path) -> None:
    done = command(tmp_path, "run", "--time-json", "-")
    assert done.code == 2
    assert "`-` is none" in done.err


def test_a_report_is_written_beside_the_result(tmp_path: Path) -> None:
    done = command(tmp_path, "run", "--time-json", tmp_path / "t.json")
    assert done.code == 0, done.err
    assert json.loads((tmp_path / "t.json").read_text())["phases"]
    assert (tmp_path / "out.txt").exists()
