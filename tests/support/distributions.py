"""Distributions that a test puts on the path, as pip would install them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


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
