"""What is common to the files of peers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
COMPILES = """
import sys
from bench.peers.graphc import case
from bench.workloads import workload

works = [workload(name, small=True) for name in ("W1epoch", "W4", "W7a", "W8norm")]
before = set(sys.modules)
for work in works:
    for variant in ("llvm", "numpy"):
        case(work, 1, variant).run()
new = set(sys.modules) - before
ours = ("graphc", "graphc_frontends", "llvmlite", "numpy")
print(*sorted(n for n in new if n.split(".")[0] in ours))
"""


def test_graphc_is_imported_before_it_is_timed() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "GRAPHC_CACHE": "off"}
    command = [sys.executable, "-c", COMPILES]
    done = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == ""
