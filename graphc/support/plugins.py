"""What other distributions add to graphc, by entry points: found, loaded, and named when broken.

The lists of entry points are read here: `importlib.metadata` takes 30 ms to be imported and to read
those of all distributions, a tenth of a command's time, for what are a few lines of text.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from graphc.support.diagnostics import fail

LISTS = "entry_points.txt"
DESCRIPTIONS = ("METADATA", "PKG-INFO")
METADATA_FOLDERS = (".dist-info", ".egg-info")


@dataclass(frozen=True, slots=True)
class EntryPoint:
    """What a distribution offers under a name.

    value   `module` or `module:attribute`
    folder  the distribution's metadata
    """

    name: str
    value: str
    folder: Path

    def load(self) -> object:
        """What it names; any exception of importing that."""
        module, _, attributes = self.value.partition("[")[0].replace(" ", "").partition(":")
        found: object = import_module(module)
        for attribute in filter(None, attributes.split(".")):
            found = getattr(found, attribute)
        return found


@dataclass(frozen=True, slots=True)
class _Distribution:
    """A distribution that is installed: its name as pip compares it, and its entry points, each
    with its group."""

    name: str
    entries: tuple[tuple[str, EntryPoint], ...]


_READ: dict[str, tuple[int, tuple[_Distribution, ...]]] = {}
"""For a folder on the path when it last changed, and what was installed in it then."""

_SETTLED = 2_000_000_000
"""Nanoseconds. A folder that changed within them may change again and show the same time."""


def plugins(group: str) -> list[EntryPoint]:
    """The entry points of a group, by name, then by where they come from; none is loaded."""
    found = [entry for d in _distributions() for listed, entry in d.entries if listed == group]
    return sorted(found, key=lambda entry: (entry.name, entry.folder.name, entry.value))


def origin(entry: EntryPoint) -> str:
    """`my-passes 1.0 (my_passes:Rename)`: the distribution and what it names."""
    owner = _described(entry.folder)
    return f"{owner} ({entry.value})" if owner else f"({entry.value})"


def load(entry: EntryPoint) -> object:
    """What the entry point names; GraphcError `plug-in` if importing that fails, however."""
    try:
        return entry.load()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise fail(
            "plug-in", f"`{entry.name}` of {origin(entry)} cannot be loaded: {problem}"
        ) from error


def _distributions() -> Iterator[_Distribution]:
    """All distributions on the path; of two of one name the first, which is what is imported."""
    seen: set[str] = set()
    for place in dict.fromkeys(place or str(Path.cwd()) for place in sys.path):
        for distribution in _installed_in(place):
            if distribution.name not in seen:
                seen.add(distribution.name)
                yield distribution


def _installed_in(place: str) -> Sequence[_Distribution]:
    """The distributions in a folder, read again only when something was installed or removed."""
    try:
        changed = Path(place).stat().st_mtime_ns
    except OSError:
        return ()
    known = _READ.get(place)
    if known is not None and known[0] == changed:
        return known[1]
    found = tuple(_read(place))
    if time.time_ns() - changed > _SETTLED:
        _READ[place] = changed, found
    return found


def _read(place: str) -> Iterator[_Distribution]:
    try:
        with os.scandir(place) as items:
            folders = sorted(i.name for i in items if i.name.endswith(METADATA_FOLDERS))
    except OSError:  # a file, as an archive of modules
        return
    for folder in folders:
        name = folder.rpartition(".")[0].partition("-")[0].lower().replace(".", "_")
        yield _Distribution(name, tuple(_listed(Path(place, folder))))


def _listed(folder: Path) -> Iterator[tuple[str, EntryPoint]]:
    """The groups and entry points in one distribution's list: INI text."""
    try:
        text = (folder / LISTS).read_text(encoding="utf-8")
    except (OSError, ValueError):  # most distributions have none
        return
    group = ""
    for line in map(str.strip, text.splitlines()):
        name, equals, value = line.partition("=")
        if line.startswith("["):
            group = line.strip("[]").strip()
        elif equals and line[0] not in "#;":
            yield group, EntryPoint(name.strip(), value.strip(), folder)


def _described(folder: Path) -> str:
    """The distribution's name and version, as it states them; empty where it does not."""
    for file in DESCRIPTIONS:
        with suppress(OSError, ValueError):
            head = (folder / file).read_text(encoding="utf-8").partition("\n\n")[0]
            fields = [line.partition(": ") for line in head.splitlines()]
            return " ".join(v for field in ("Name", "Version") for n, _, v in fields if n == field)
    return ""
