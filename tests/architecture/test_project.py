"""Facts of the project's frame that would otherwise go wrong in silence."""

from __future__ import annotations

import importlib
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")


def make(*arguments: str) -> str:
    program = shutil.which("make")
    if program is None:
        pytest.skip("make is not installed")
    # Under `make test` this is a make inside make, which would also print the folders it enters.
    command = [program, "--no-print-directory", *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.parametrize("requirement", PROJECT["project"]["dependencies"])
def test_every_dependency_has_a_lower_and_an_upper_bound(requirement: str) -> None:
    assert re.fullmatch(r"[\w-]+>=[\d.]+,<[\d.]+", requirement)


@pytest.mark.parametrize("requirement", PROJECT["project"]["dependencies"])
def test_every_dependency_says_why_it_is_needed(requirement: str) -> None:
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(rf'"{re.escape(requirement)}",\s+# \w', text)


def test_filecheck_is_pinned_to_one_version() -> None:
    (pin,) = [
        r for r in PROJECT["project"]["optional-dependencies"]["dev"] if r.startswith("filecheck")
    ]
    assert pin == "filecheck==1.0.6"


def test_the_console_script_exists() -> None:
    module, _, name = PROJECT["project"]["scripts"]["graphc"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize(
    "module",
    [
        module
        for group in ("graphc.frontends", "graphc.model_formats")
        for module in PROJECT["project"]["entry-points"][group].values()
    ],
)
def test_front_ends_named_as_entry_points_can_be_imported(module: str) -> None:
    assert importlib.import_module(module).__doc__


def test_make_without_a_target_lists_the_targets() -> None:
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    listed = [line.split()[0] for line in make().splitlines()]
    assert sorted(listed) == sorted(phony.group(1).split())


def test_the_tests_are_run_by_make_test_and_by_the_readme_and_by_ci() -> None:
    assert "-m pytest" in make("-n", "test")
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make test" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")


def test_the_licence_is_the_apache_licence_in_full() -> None:
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert text.lstrip().startswith("Apache License\n                           Version 2.0")
    assert "END OF TERMS AND CONDITIONS" in text
    assert PROJECT["project"]["license"] == "Apache-2.0"
