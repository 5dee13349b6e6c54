"""A file that one process writes for a while, and a second one that wants to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from graphc.support.diagnostics import GraphcError
from graphc.support.locks import sole_writer

HOLD = """
import sys
from pathlib import Path
from graphc.support.locks import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("holds", flush=True)
    sys.stdin.read()
"""


def holder(path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", HOLD, str(path)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None and process.stdout.readline() == "holds\n"
    return process


@pytest.mark.parametrize("is_killed", [False, True], ids=["ends", "is killed"])
def test_a_second_writer_is_told_who_the_first_one_is(tmp_path: Path, is_killed: bool) -> None:
    path = tmp_path / "net.safetensors"
    first = holder(path)
    with pytest.raises(GraphcError) as raised, sole_writer(path):
        pass
    assert f"{path} is being written by process {first.pid}" in str(raised.value)
    assert [d.slug for d in raised.value.diagnostics] == ["file"]
    with sole_writer(tmp_path / "other.safetensors"):
        pass
    if is_killed:
        first.kill()
    first.communicate()
    with sole_writer(path):
        assert (tmp_path / ".net.safetensors.lock").read_text() == f"{os.getpid()}\n"
    assert list(tmp_path.iterdir()) == []


def test_a_link_is_locked_where_it_leads_to(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "file")
    with sole_writer(tmp_path / "link"), pytest.raises(GraphcError), sole_writer(tmp_path / "file"):
        pass


def test_where_nothing_can_be_locked_nobody_is_told(tmp_path: Path) -> None:
    with sole_writer(tmp_path / "absent" / "file"):
        pass
