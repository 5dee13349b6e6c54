"""Who may import whom: the contracts of `pyproject.toml`, and what a light command may load."""

from __future__ import annotations

import logging.config
import subprocess
import sys
from pathlib import Path

import pytest
from importlinter.cli import lint_imports

ROOT = Path(__file__).parents[2]

LOADED = """
import io, sys
from graphc.cli.main import main
code = main({argv!r}, io.StringIO(), io.StringIO(), io.StringIO())
assert code == 0, code
print(*sorted({{name.partition(".")[0] for name in sys.modules}}))
"""


def loaded_packages(*argv: str) -> set[str]:
    """Top-level packages that a fresh interpreter has imported after this command."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED.format(argv=argv)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_the_import_contracts_hold(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the linter puts its working folder there
    monkeypatch.setattr(logging.config, "dictConfig", lambda _: None)  # it silences all loggers
    code = lint_imports(no_cache=True, no_logo=True)
    assert code == 0, capsys.readouterr().out


@pytest.mark.parametrize("argv", [(), ("--help",), ("--version",)])
def test_help_and_version_load_nothing_heavy(argv: tuple[str, ...]) -> None:
    heavy = {"llvmlite", "networkx", "numpy", "rich", "safetensors", "graphc_frontends"}
    assert loaded_packages(*argv) & heavy == set()


@pytest.mark.parametrize(
    "command", ["train", "eval", "run", "compile", "edit", "dump", "diff", "opt"]
)
def test_help_of_a_command_loads_neither_llvm_nor_networkx(command: str) -> None:
    assert loaded_packages(command, "--help") & {"llvmlite", "networkx", "cupy"} == set()


@pytest.mark.parametrize("stage", ["nodes", "kernels"])
def test_only_what_gives_graphs_and_drawings_loads_networkx(stage: str, tmp_path: Path) -> None:
    network = tmp_path / "net.ndl"
    network.write_text("x = Input(2)\nz = Tanh(x, tag=output)\n", encoding="utf-8")
    assert "networkx" not in loaded_packages("dump", str(network), "--stage", stage)
