"""How many threads a call is computed by: what is asked for, `GRAPHC_NUM_THREADS`, or the cores.

A choice of each call, not of the compilation: results have the same bits for any number. So is what
work sleeping threads are woken for: what `GRAPHC_GRAIN` says, or what was measured on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from graphc.support.diagnostics import fail

MAX_THREADS = 1024
VARIABLE = "GRAPHC_NUM_THREADS"
GRAIN = "GRAPHC_GRAIN"
MOST_GRAIN_US = 1_000_000

_PROCESSORS = Path("/sys/devices/system/cpu")
_QUOTA = Path("/sys/fs/cgroup/cpu.max")


def thread_count(asked: int | None = None, environment: Mapping[str, str] | None = None) -> int:
    """The number asked for, else that of `GRAPHC_NUM_THREADS`, else one for each core.

    `environment` defaults to that of the process. GraphcError `bad-option` for a number that is
    none, below 1 or above `MAX_THREADS`.
    """
    if asked is not None:
        return checked_threads(asked)
    environment = os.environ if environment is None else environment
    text = environment.get(VARIABLE, "").strip()
    if not text:
        return usable_cores()
    return checked_threads(int(text) if text.isascii() and text.isdigit() else text, VARIABLE)


def checked_threads(threads: object, what: str = "threads") -> int:
    """The number; GraphcError `bad-option` for what is no number of threads."""
    if isinstance(threads, int) and not isinstance(threads, bool) and 1 <= threads <= MAX_THREADS:
        return threads
    message = f"{what} requires a whole number from 1 to {MAX_THREADS}, got {threads!r}"
    raise fail("bad-option", message)


def said_grain(environment: Mapping[str, str] | None = None) -> int | None:
    """Nanoseconds of work that `GRAPHC_GRAIN` says in microseconds; None where it says nothing.

    0 wakes threads for any work. GraphcError `bad-option` for what is no such number.
    """
    text = (os.environ if environment is None else environment).get(GRAIN, "").strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and int(text) <= MOST_GRAIN_US):
        message = f"{GRAIN} requires whole microseconds from 0 to {MOST_GRAIN_US}, got {text!r}"
        raise fail("bad-option", message)
    return int(text) * 1000


def usable_cores(processors: Path = _PROCESSORS, quota: Path = _QUOTA) -> int:
    """The cores that this process may use: of its affinity mask and within its group's quota.

    Two processors of one core count once: they share its arithmetic units.
    """
    if hasattr(os, "sched_getaffinity"):
        mine = os.sched_getaffinity(0)
    else:
        mine = set(range(os.cpu_count() or 1))
    cores = {_read(processors / f"cpu{n}/topology/thread_siblings_list") or str(n) for n in mine}
    allowed = _read(quota).split()
    if len(allowed) == 2 and all(part.isdigit() for part in allowed) and int(allowed[1]):
        limit = max(-(-int(allowed[0]) // int(allowed[1])), 1)
        return min(len(cores), limit, MAX_THREADS)
    return min(len(cores), MAX_THREADS)


def _read(path: Path) -> str:
    """The text of a small system file, nothing where there is none."""
    try:
        return path.read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
