"""The examples for clusters, with Ray on this machine."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

MISSING = [name for name in ("torch", "ray") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"needs {' and '.join(MISSING)}")
EXAMPLES = Path(__file__).parents[2] / "examples" / "cluster"


def printed(*words: str) -> str:
    done = subprocess.run(
        [sys.executable, EXAMPLES / words[0], *words[1:]],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_lost_actor_is_replaced_from_the_checkpoint_by_fewer() -> None:
    text = printed("ray_train.py", "--members", "4,2", "--lose")
    assert "start 1, 4 members: " in text
    assert "members of each start: 4, 2" in text
    assert "parameters of one undisturbed member: the same bits" in text


def test_tasks_score_as_the_program_does() -> None:
    text = printed("ray_score.py", "--copies", "3", "--block", "100")
    assert "1,080 samples in 11 tasks" in text
    assert "scores of the program in one go: the same bits" in text
