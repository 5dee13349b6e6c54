"""Text larger than the memory that a process may take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

LIMIT = 64 << 20
LINES = 800_000
CHILD = """
import resource, sys
from pathlib import Path
import numpy as np
from graphc.data.order import Order
from graphc.data.reader import EpochRequest
from graphc.data.uci import Columns, FeatureBlock, read_uci
from graphc.data.uci_reader import uci
from graphc.support.memory import counted

randomize, keep, limit = eval(sys.argv[2]), sys.argv[3] == "keep", int(sys.argv[4])
with open("/proc/self/status") as status:
    limit += counted(status.read(), "VmData")
resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
blocks = [FeatureBlock("x", Columns(0, 65))]
if sys.argv[3] == "whole":
    read_uci(Path(sys.argv[1]), blocks)
reader = uci(sys.argv[1], blocks, order=Order(randomize), keep=keep, block_bytes=1 << 22)
for epoch in range(2):
    count = total = 0
    for block in reader.blocks(EpochRequest(epoch, minibatch=128)):
        count += len(block["x"])
        total += int(block["x"].sum(dtype=np.float64))
    print(count, total)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text of 104 MB, of which float32 numbers are 208 MB."""
    path = tmp_path_factory.mktemp("large") / "data.txt"
    thousand = b"".join(b"%d" % (i % 10) + b" 1" * 64 + b"\n" for i in range(1000))
    with path.open("wb") as stream:
        for _ in range(LINES // 1000):
            stream.write(thousand)
    assert path.stat().st_size > 1.5 * LIMIT
    return path


def run_child(path: Path, randomize: str, keep: str) -> subprocess.CompletedProcess[str]:
    arguments = [str(path), randomize, keep, str(LIMIT)]
    command = [sys.executable, "-c", CHILD, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are as Linux has them")
@pytest.mark.parametrize(
    ("randomize", "keep"),
    [('"auto"', "keep"), ("10000", "keep"), ("None", "keep"), ("10000", ""), ("None", "")],
)
def test_a_text_larger_than_memory_is_read_within_a_limit(
    large: Path, randomize: str, keep: str
) -> None:
    done = run_child(large, randomize, keep)
    each = f"{LINES} {LINES * 64 + LINES // 10 * 45}"
    assert (done.stdout.split("\n"), done.stderr) == ([each, each, ""], "")


@pytest.mark.skipif(sys.platform != "linux", reason="limits on memory are as Linux has them")
def test_the_limit_is_one_that_all_of_the_text_does_not_fit_in(large: Path) -> None:
    done = run_child(large, "None", "whole")
    assert done.returncode != 0
    assert "there is not enough memory" in done.stderr
