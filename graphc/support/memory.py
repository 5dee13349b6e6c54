"""How much memory this process took at most, as the system counts it."""

from __future__ import annotations

import sys
from pathlib import Path

STATUS = Path("/proc/self/status")


def peak_resident_bytes() -> int | None:
    """The most memory that was resident at once since the program started; None where unknown.

    On Linux the kernel's VmHWM. `getrusage`, asked elsewhere, would count a parent process there.
    """
    try:
        status = STATUS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return _from_rusage()
    return peak_in(status) or _from_rusage()


def peak_in(status: str) -> int | None:
    """The peak in the text of a Linux process's status file."""
    for line in status.splitlines():
        name, _, value = line.partition(":")
        number, *unit = value.split() or ("",)
        if name == "VmHWM" and unit == ["kB"] and number.isdecimal():
            return int(number) * 1024
    return None


def _from_rusage() -> int | None:
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
