"""Native code that is the same for all networks, kept like that of networks."""

from __future__ import annotations

from collections.abc import Callable

from graphc.backends import BACKENDS
from graphc.driver.cache import Cache
from graphc.driver.cache_key import kept, make_key
from graphc.runtime.signature import Signature
from graphc.support.phases import Phases

BACKEND = "llvm"
"""What makes all of it."""


def shared_code(what: str, make: Callable[[], bytes], cache: Cache | None) -> bytes:
    """The code, from the cache if there is one; else made. `what` says in words what it does."""
    halves = BACKENDS[BACKEND]().code
    if cache is None or halves is None:
        return make()
    key = make_key(what, (), BACKEND, halves.versions("native"))
    return kept(cache, key, Signature(what, (), (), (), 0), make, Phases())
