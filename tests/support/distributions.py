"""Distributions that a test puts on the path, as pip would install them."""

from __future__ import annotations

import atexit
import shutil
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from importlib.metadata import entry_points
from pathlib import Path

PROJECT = Path(__file__).parents[2] / "pyproject.toml"


def write_distribution(
    site: Path, name: str, entries: Mapping[str, str], modules: Mapping[str, str] | None = None
) -> None:
    """A distribution of version 1.5 with the lines of each group of entry points, and modules."""
    info = site / f"{name}-1.5.dist-info"
    info.mkdir(parents=True)
    metadata = f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.5\n"
    (info / "METADATA").write_text(metadata, encoding="utf-8")
    groups = [f"[{group}]\n{lines.strip()}\n" for group, lines in entries.items()]
    (info / "entry_points.txt").write_text("\n".join(groups), encoding="utf-8")
    for module, text in (modules or {}).items():
        (site / f"{module}.py").write_text(text, encoding="utf-8")


def add_new_entry_points() -> None:
    """Put entry points of this project on the path that the installed graphc does not have yet.

    pip writes them when it installs; a test run must not need that after every change.
    """
    groups = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]["entry-points"]
    missing = {
        group: "\n".join(f"{name} = {value}" for name, value in entries.items())
        for group, entries in groups.items()
        if not entry_points(group=group)
    }
    if missing:
        site = Path(tempfile.mkdtemp(prefix="graphc-entry-points-"))
        atexit.register(shutil.rmtree, site, ignore_errors=True)
        write_distribution(site, "graphc_new_entry_points", missing)
        sys.path.append(str(site))
