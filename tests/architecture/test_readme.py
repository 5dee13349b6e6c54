"""What the README tells people to type works as it stands there."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.commands import graphc

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands() -> list[list[str]]:
    """The lines after `$ ` of all console blocks, split into words."""
    lines = "".join(blocks("console")).splitlines()
    return [shlex.split(line[2:]) for line in lines if line.startswith("$ ")]


@pytest.fixture
def digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the example, as the current folder."""
    folder = tmp_path / "digits"
    shutil.copytree(ROOT / "examples" / "digits", folder, ignore=shutil.ignore_patterns("out"))
    monkeypatch.chdir(folder)
    return folder


@pytest.mark.llvm
@pytest.mark.slow
def test_the_commands_run_one_after_the_other(digits: Path) -> None:
    enter, make_folder, *rest = commands()
    assert (enter, make_folder) == (["cd", "examples/digits"], ["mkdir", "-p", "out"])
    (digits / "out").mkdir()
    for program, *arguments in rest:
        if program == "graphc":
            done = graphc(*arguments)
            assert done.code == 0, done.err
        else:
            subprocess.run([digits / program, *arguments], check=True, capture_output=True)
    assert sorted(p.name for p in (digits / "out").iterdir()) == [
        "digits",
        "digits.h",
        "digits.safetensors",
        "digits.so",
    ]


@pytest.mark.llvm
def test_the_python_examples_run(digits: Path) -> None:
    outputs: list[str] = []
    for example in blocks("python"):
        done = subprocess.run(
            [sys.executable, "-c", example], cwd=digits, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        outputs.append(done.stdout)
    criterion, classes = outputs[0].splitlines()
    assert float(criterion) < 0.5
    assert re.fullmatch(r"\[\d \d \d \d \d\]", classes)


def test_every_link_of_the_documents_leads_somewhere() -> None:
    for document in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"):
        text = (ROOT / document).read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if not target.startswith("http"):
                assert (ROOT / target).exists(), f"{document}: {target}"


def test_the_functions_that_the_readme_lists_are_those_with_a_node() -> None:
    from frontends.ndl.functions import FUNCTIONS

    block = re.search(r"^    Inputs  .*?\n\n", README, re.MULTILINE | re.DOTALL)
    assert block is not None
    listed = [name for line in block.group().splitlines() for name in line[20:].split()]
    known = {f.names[0] for f in FUNCTIONS if f.op is not None}
    spellings = {name: f.names[0] for f in FUNCTIONS for name in f.names}
    assert {spellings[name] for name in listed} == known
