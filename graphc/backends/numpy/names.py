"""Identifiers of emitted Python: the IR's names made safe, each given once.

Only ASCII letters, digits and `_` come out, never a keyword or a name that the module uses itself,
so text that a user wrote cannot become code.
"""

from __future__ import annotations

import keyword
import re

_UNSAFE = re.compile(r"[^A-Za-z0-9_]")
_MAX_LENGTH = 60


class Names:
    """Hands out identifiers that are free in one scope."""

    def __init__(self, taken: set[str] | None = None) -> None:
        self._taken = set(taken or ())

    def fresh(self, wish: str) -> str:
        """An identifier like `wish` that was not given before."""
        base = identifier(wish)
        name, count = base, 1
        while name in self._taken or keyword.iskeyword(name) or keyword.issoftkeyword(name):
            count += 1
            name = f"{base}_{count}"
        self._taken.add(name)
        return name


def identifier(wish: str) -> str:
    """`wish` with everything else replaced by `_`, and a letter in front."""
    text = _UNSAFE.sub("_", wish)[:_MAX_LENGTH].lstrip("_")
    return text if text and not text[0].isdigit() else f"v{text}"
