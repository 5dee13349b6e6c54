"""What other distributions add to graphc, by entry points: found, loaded, and named when broken."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from graphc.support.diagnostics import fail


def plugins(group: str) -> list[EntryPoint]:
    """The entry points of a group, by name, then by where they come from; none is loaded."""
    return sorted(entry_points(group=group), key=lambda entry: (entry.name, origin(entry)))


def origin(entry: EntryPoint) -> str:
    """`my-passes 1.0 (my_passes:Rename)`: the distribution and what it names."""
    owner = f"{entry.dist.name} {entry.dist.version} " if entry.dist is not None else ""
    return f"{owner}({entry.value})"


def load(entry: EntryPoint) -> object:
    """What the entry point names; GraphcError `plug-in` if importing that fails, however."""
    try:
        return entry.load()
    except Exception as error:
        problem = f"{type(error).__name__}: {error}"
        raise fail(
            "plug-in", f"`{entry.name}` of {origin(entry)} cannot be loaded: {problem}"
        ) from error
