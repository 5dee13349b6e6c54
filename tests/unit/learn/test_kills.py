"""Kills at random moments lose nothing; `python -m tests.support.kills --kills 200` does more."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
KILLS = 30


def counts(folder: Path, *options: str) -> dict[str, int]:
    """What was counted, in a process that may fork: this one may have threads."""
    command = [sys.executable, "-W", "error", "-m", "tests.support.kills", str(folder)]
    done = subprocess.run(
        [*command, "--kills", str(KILLS), *options], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_training_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    found = counts(tmp_path)
    assert found["kills"] == KILLS
    assert found["unreadable"] == found["lost"] == found["other bits"] == 0
    assert found["finished"] > 0, "no training came to its end"
    assert found["inside of an epoch"] > 0, "no kill came inside of an epoch"


def test_a_plain_writer_is_found_out(tmp_path: Path) -> None:
    found = counts(tmp_path, "--plain")
    assert found["unreadable"] + found["lost"] > 0
