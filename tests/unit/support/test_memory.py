"""The peak of resident memory: read from the kernel, and it rises with what is touched."""

from __future__ import annotations

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
    assert memory.peak_in(status) == peak


def test_without_the_file_the_system_is_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "STATUS", tmp_path / "none")
    peak = memory.peak_resident_bytes()
    assert peak is not None and peak > 1 << 20
