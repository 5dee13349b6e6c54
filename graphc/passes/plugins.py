"""Passes of other distributions: entry points of the group `graphc.passes`.

    [project.entry-points."graphc.passes"]
    count-operations = "my_passes:CountOperations"

The key is the pass's name. `graphc opt` runs them like its own; the driver runs none. A plug-in is
loaded when it is named, so a broken one is in nobody's way.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass

from graphc.passes.manager import Pass
from graphc.support.diagnostics import fail
from graphc.support.plugins import load, origin, plugins

GROUP = "graphc.passes"


class PassTable(Mapping[str, type[Pass]]):
    """graphc's own passes and those of plug-ins by name; `[]` loads a plug-in.

    GraphcError `plug-in` for one that is broken, or that two distributions have.
    """

    def __init__(self, own: Mapping[str, type[Pass]]) -> None:
        self._own = own

    def __getitem__(self, name: str) -> type[Pass]:
        return self._own[name] if name in self._own else plugged(name)

    def __iter__(self) -> Iterator[str]:
        yield from self._own
        yield from plugged_names(self._own)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def plugged_names(own: Mapping[str, type[Pass]]) -> list[str]:
    """The names of plug-ins that are not passes of graphc's own."""
    return list(dict.fromkeys(e.name for e in plugins(GROUP) if e.name not in own))


def origin_of(name: str) -> str:
    """The distributions that have this pass."""
    return " and ".join(origin(e) for e in plugins(GROUP) if e.name == name)


def plugged(name: str) -> type[Pass]:
    """The pass of this name, from a plug-in; KeyError if none has it."""
    found = [entry for entry in plugins(GROUP) if entry.name == name]
    if not found:
        raise KeyError(name)
    where = origin_of(name)
    if len(found) > 1:
        raise fail("plug-in", f"a pass is required to have a name of its own, `{name}` is {where}")
    made = load(found[0])
    problem = _problem(made, name)
    if problem:
        raise fail("plug-in", f"the pass `{name}` of {where} {problem}")
    assert isinstance(made, type)
    assert issubclass(made, Pass)
    made.origin = where
    return made


def _problem(made: object, name: str) -> str:
    """Why this cannot be run as the pass `name`, or ''."""
    if not isinstance(made, type) or not issubclass(made, Pass):
        what = f"the class {made.__name__}" if isinstance(made, type) else type(made).__name__
        return f"requires a subclass of graphc.passes.manager.Pass, got {what}"
    if "__dataclass_fields__" not in vars(made) or not is_dataclass(made):
        return "requires a frozen dataclass: put @dataclass(frozen=True) before the class"
    if made.name != name:
        return f"requires name = {name!r} as in its entry point, got {made.name!r}"
    return ""
