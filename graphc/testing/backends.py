"""Which backends a judge can ask here."""

from __future__ import annotations

from collections.abc import Sequence

from graphc.backends import BACKENDS
from graphc.support import arguments
from graphc.support.diagnostics import BackendUnavailable, fail, suggestion


def usable(names: Sequence[str]) -> tuple[list[str], dict[str, str]]:
    """Those of these backends (of none: of all) that can be used here, and of the others why not.

    GraphcError `bad-option` for a name that no backend has.
    """
    found: list[str] = []
    left_out: dict[str, str] = {}
    for name in arguments.texts(names, "backends") or BACKENDS:
        if name not in BACKENDS:
            known = ", ".join(BACKENDS)
            near = suggestion(name, BACKENDS)
            raise fail("bad-option", f"one of {known} is required, got `{name}`{near}")
        try:
            BACKENDS[name]().require_here()
        except BackendUnavailable as missing:
            left_out[name] = missing.diagnostics[0].message
        else:
            found.append(name)
    return found, left_out
