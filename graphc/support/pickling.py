"""For objects that `pickle` and `copy` cannot carry: one clear error that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from graphc.support.diagnostics import fail


def refused(what: str, instead: str) -> Callable[..., NoReturn]:
    """A `__reduce__` that raises GraphcError `not-supported`."""

    def reduce(_of: object) -> NoReturn:
        raise fail("not-supported", f"{what} cannot be pickled or copied: {instead}")

    return reduce
