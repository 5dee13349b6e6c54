"""How much memory this process took at most, and may still take, as the system counts it."""

from __future__ import annotations

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_resident_bytes() -> int | None:
    """The most memory that was resident at once since the program started; None where unknown.

    On Linux the kernel's VmHWM. `getrusage`, asked elsewhere, would count a parent process there.
    """
    return counted(_status(), "VmHWM") or _from_rusage()


def bytes_left() -> int | None:
    """What the limits on this process (`ulimit -v`, `ulimit -d`) let it still take; None without
    limits, and where it is unknown."""
    limits = {"VmSize": soft_limit("RLIMIT_AS"), "VmData": soft_limit("RLIMIT_DATA")}
    if set(limits.values()) == {None}:
        return None
    taken = _status()
    left: list[int] = []
    for counter, allowed in limits.items():
        size = counted(taken, counter)
        if allowed is not None and size is not None:
            left.append(max(allowed - size, 0))
    return min(left, default=None)


def soft_limit(name: str) -> int | None:
    """A limit on this process in bytes, by its name in `resource`; None where there is none."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    allowed, _ = resource.getrlimit(getattr(resource, name))
    return None if allowed == resource.RLIM_INFINITY else allowed


def counted(status: str, counter: str) -> int | None:
    """A counter in the text of a Linux process's status file, in bytes."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        number, *unit = value.split() or ("",)
        if name == counter and unit == ["kB"] and number.isdecimal():
            return int(number) * 1024
    return None


def _status() -> str:
    try:
        return STATUS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def _from_rusage() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
