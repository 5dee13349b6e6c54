"""Native code that reads text tables, for readers of data, which know of no backend.

Compiled once, then found in the cache of compiled code. Where there is no LLVM, or too little
memory for it, there is none, and data are read by numpy.
"""

from __future__ import annotations

from functools import lru_cache, partial

from graphc.backends import BACKENDS
from graphc.data.plain_rows import NativeRows, ReadRows
from graphc.driver.cache import Cache
from graphc.driver.shared_code import BACKEND, shared_code
from graphc.support.diagnostics import GraphcError

WHAT = "reads rows of text tables"

WORTH_LOADING = 1 << 20
WORTH_COMPILING = 1 << 24
"""Bytes of text that numpy reads in about the time that loading and compiling the code take."""


def native_rows(cache: Cache | None) -> NativeRows:
    """Native code for `graphc.data.uci.read_uci`, from the cache if there is one."""
    least = WORTH_LOADING if cache is not None else WORTH_COMPILING
    return NativeRows(partial(_load, cache), least)


@lru_cache  # so that a process that reads many texts loads it once
def _load(cache: Cache | None) -> ReadRows | None:
    try:
        found = BACKENDS[BACKEND]().table_rows
        return None if found is None else found.load(shared_code(WHAT, found.make, cache))
    except GraphcError:  # also BackendUnavailable: slower is better than not at all
        return None
