"""Parts of a run in processes of their own: one that faults or hangs takes nothing else with it.

After a fault in a kernel CUDA refuses everything in that process, and a kernel whose blocks wait
for each other in vain never ends. A part writes what it has found into a file as it goes; what is
in the file counts, however the process ends.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

LOOK = 0.1
"""Seconds between two looks at a process."""


def run_apart(arguments: Sequence[str], file: Path, seconds: float, patience: float) -> str:
    """`python -m …` until it ends; "" if it ended well, else what happened to it.

    seconds   that it has in all
    patience  seconds in which it has to write to `file` again
    """
    # Its process group, so that what it has started ends with it.
    process = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", *arguments],
        stdout=subprocess.DEVNULL,
        start_new_session=True,
        cwd=Path(__file__).parents[2],
    )
    start = seen = time.monotonic()
    written = _written(file)
    try:
        while (code := process.poll()) is None:
            time.sleep(LOOK)
            now = time.monotonic()
            if (at := _written(file)) != written:
                written, seen = at, now
            if now - start > seconds:
                return f"it was ended after {seconds:.0f} seconds"
            if now - seen > patience:
                return f"it was ended after {patience:.0f} seconds without progress"
    finally:
        if process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if code < 0:
        return f"it ended by signal {-code}"
    return f"it ended with code {code}" if code else ""


def put(file: Path, found: object) -> None:
    """Write all of `found` in place of what is there."""
    beside = file.with_suffix(".new")
    beside.write_text(json.dumps(found), encoding="utf-8")
    beside.replace(file)


def got(file: Path) -> Any:  # as JSON
    """What was written last; None if nothing was."""
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None


def _written(file: Path) -> int:
    return file.stat().st_mtime_ns if file.exists() else 0
