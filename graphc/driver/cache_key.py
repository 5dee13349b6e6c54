"""What decides compiled code, as the parts of a cache key, and where the cache is.

A part is text that people can read, so that `graphc cache why` can say what differs.
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np

from graphc.driver.cache import Cache, Entry, Key
from graphc.passes.manager import Pass
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import fail
from graphc.support.phases import Phases
from graphc.support.version import VERSION

PACKAGE = Path(__file__).parents[1]
YOUNG_SECONDS = 2.0
"""Sources that were changed less than this before they were looked at may change again unseen."""

SWITCH = "GRAPHC_CACHE"
FOLDER = "GRAPHC_CACHE_DIR"


def make_key(
    text: str, passes: Sequence[Pass], backend: str, versions: Mapping[str, str]
) -> Key | None:
    """The key of what `passes` and a backend make of a module; None while sources change.

    text      the module before the passes
    versions  further parts: what the backend adds (its tools, the processor), the options
    """
    if SOURCES is None:
        return None
    parts = {
        "network": text,
        "passes": "\n".join(map(str, passes)),
        "backend": backend,
        "graphc": f"{VERSION} {SOURCES}",
        "numpy": np.__version__,  # constants are folded by it
        "machine": f"{platform.system()} {platform.machine()}",
    }
    return Key({**parts, **versions})


def source_stamp() -> str | None:
    """A hash of graphc's own files: their names, sizes and times of change.

    None if there are no files, or if one has only just been changed: what this process has read
    of it may be older.
    """
    listed: list[tuple[str, int, int]] = []
    newest, folders = 0, [str(PACKAGE)]
    while folders:
        try:
            found = os.scandir(folders.pop())
        except OSError:
            return None
        with found:
            for item in found:
                if item.name.endswith((".py", ".cuh")):
                    status = item.stat()
                    newest = max(newest, status.st_mtime_ns)
                    listed.append((item.path, status.st_size, status.st_mtime_ns))
                elif item.is_dir() and item.name != "__pycache__":
                    folders.append(item.path)
    if time.time() - newest * 1e-9 < YOUNG_SECONDS:
        return None
    return hashlib.sha256(repr(sorted(listed)).encode("utf-8")).hexdigest()[:16]


SOURCES = source_stamp()
"""Of the files when this process read them, so taken now and not when it is needed: a process that
lives long would else give the name of newer sources to what older ones have made."""


def kept(
    cache: Cache, key: Key | None, signature: Signature, make: Callable[[], bytes], phases: Phases
) -> bytes:
    """The code of the key: from the cache, or made and then kept. Without a key it is made."""
    with phases.measure("cache"):
        entry = cache.lookup(key) if key is not None else None
    if entry is not None:
        return entry.code
    start = time.perf_counter()
    code = make()
    with phases.measure("cache"):
        if key is not None and sources_are_unchanged():
            cache.store(Entry(key, signature, code, time.perf_counter() - start))
    return code


def sources_are_unchanged() -> bool:
    """Whether graphc's files are still those that `SOURCES` is of: code is kept under the name of
    the sources that made it, also if some were read late."""
    return source_stamp() == SOURCES


def default_cache(environment: Mapping[str, str] | None = None) -> Cache | None:
    """The cache that the environment asks for: in GRAPHC_CACHE_DIR, else `graphc` in the user's
    folder for caches; none with GRAPHC_CACHE=off. GraphcError `bad-option` for other values."""
    environment = os.environ if environment is None else environment
    switch = environment.get(SWITCH, "") or "on"
    if switch not in ("on", "off"):
        raise fail("bad-option", f"{SWITCH} requires on or off, got `{switch}`")
    folder = cache_folder(environment)
    return None if switch == "off" or folder is None else Cache(folder)


def cache_folder(environment: Mapping[str, str]) -> Path | None:
    """Where the cache is, whether it is on or off; None for a user without a home.

    A relative path in XDG_CACHE_HOME or HOME counts as none: it would be another folder in each
    folder that a command is started in.
    """
    if given := environment.get(FOLDER, ""):
        return Path(given).absolute()
    base = Path(environment.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():
        home = environment.get("HOME")
        try:
            base = (Path.home() if home is None else Path(home)) / ".cache"
        except RuntimeError:
            return None
    return base / "graphc" if base.is_absolute() else None
