"""Kinds of readers and writers by name: graphc's own, and those that other distributions add by
entry points. A plug-in is loaded when it is named, so a broken one is in nobody's way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from graphc.support.diagnostics import fail, suggestion
from graphc.support.plugins import load, origin, plugins

Factory = TypeVar("Factory", bound=Callable[..., object])


class KindTable(Generic[Factory]):
    """Factories by the name of their kind, in any case.

    what   "reader" or "writer", for messages
    group  of the entry points
    later  names of the toolkit that graphc does not have
    called_with  the arguments of a factory, for messages
    """

    def __init__(
        self,
        what: str,
        group: str,
        own: Mapping[str, Factory],
        later: Sequence[str] = (),
        called_with: str = "(settings, options)",
    ) -> None:
        self.what = what
        self.group = group
        self.called_with = called_with
        self._own = {name.lower(): (name, factory) for name, factory in own.items()}
        self._later = {name.lower() for name in later}

    def names(self) -> list[str]:
        """graphc's own, then those of plug-ins."""
        return [*(name for name, _ in self._own.values()), *self.plugged_names()]

    def plugged_names(self) -> list[str]:
        """Those of plug-ins; none is loaded."""
        plugged = [e.name for e in plugins(self.group) if e.name.lower() not in self._own]
        return list(dict.fromkeys(plugged))

    def __getitem__(self, name: str) -> Callable[..., object]:
        """GraphcError `undefined-name` for an unknown kind, `not-supported` for one of the toolkit
        that graphc does not have, `plug-in` for one that is broken or that two distributions have.
        """
        if name.lower() in self._own:
            return self._own[name.lower()][1]
        found = [e for e in plugins(self.group) if e.name.lower() == name.lower()]
        if not found:
            known = self.names()
            if name.lower() in self._later:
                message = f"the {self.what} `{name}` is not there yet; there are"
                raise fail("not-supported", f"{message} {', '.join(known)}")
            near = suggestion(name, known) or f"; there are {', '.join(known)}"
            raise fail("undefined-name", f"there is no {self.what} `{name}`{near}")
        where = " and ".join(origin(entry) for entry in found)
        if len(found) > 1:
            message = f"a {self.what} is required to have a name of its own, `{name}` is {where}"
            raise fail("plug-in", message)
        made = load(found[0])
        if not callable(made):
            message = f"the {self.what} `{name}` of {where} requires a function"
            raise fail("plug-in", f"{message} {self.called_with}, got {type(made).__name__}")
        return made

    def origin_of(self, name: str) -> str:
        """The distributions that have this kind; "" for one of graphc's own."""
        if name.lower() in self._own:
            return ""
        found = [e for e in plugins(self.group) if e.name.lower() == name.lower()]
        return " and ".join(origin(entry) for entry in found)
