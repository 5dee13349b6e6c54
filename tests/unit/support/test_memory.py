"""The peak of resident memory: read from the kernel, and it rises with what is touched."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from graphc.support import memory


def test_the_peak_rises_with_memory_that_is_written_and_stays() -> None:
    before = memory.peak_resident_bytes()
    assert before is not None
    room = np.ones(1 << 24)
    assert room[-1] == 1
    del room
    after = memory.peak_resident_bytes()
    assert after is not None
    assert after >= max(before, 1 << 27)


@pytest.mark.parametrize(
    ("status", "peak"),
    [
        ("Name:\tpython\nVmHWM:\t    2048 kB\nVmRSS:\t 12 kB\n", 2 << 20),
        ("Name:\tVmHWM: 3 kB\n", None),
        ("VmHWM:\n", None),
        ("VmHWM: many kB\n", None),
        ("VmHWM: 3 pages\n", None),
        ("", None),
    ],
)
def test_the_line_of_the_kernel_is_read(status: str, peak: int | None) -> None:
    assert memory.counted(status, "VmHWM") == peak


def test_without_the_file_the_system_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "STATUS", tmp_path / "none")
    peak = memory.peak_resident_bytes()
    assert peak is not None and peak > 1 << 20


LEFT = """
import resource, sys
from graphc.support.memory import bytes_left, soft_limit
limit, unlimited = sys.argv[1], (resource.RLIM_INFINITY,) * 2
for name in ("RLIMIT_AS", "RLIMIT_DATA"):
    resource.setrlimit(getattr(resource, name), unlimited)
assert bytes_left() is soft_limit(limit) is None
resource.setrlimit(getattr(resource, limit), (1 << 30, resource.RLIM_INFINITY))
assert soft_limit(limit) == 1 << 30
first = bytes_left()
held = bytearray(100 << 20)
assert 90 << 20 < first - bytes_left() < 110 << 20, (first, bytes_left())
resource.setrlimit(getattr(resource, limit), (1 << 20, resource.RLIM_INFINITY))
assert bytes_left() == 0
"""


@pytest.mark.parametrize("limit", ["RLIMIT_AS", "RLIMIT_DATA"])
def test_what_a_limit_leaves_shrinks_with_what_is_taken(limit: str) -> None:
    root = Path(__file__).parents[3]
    command = [sys.executable, "-c", LEFT, limit]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
