"""From the start of a process to the first minibatches, in seconds: `graphc train` on the digits.

    python -m bench.startup [--rounds 11] [--tree FOLDER …]

Cold: nothing is in the cache of compiled code. Warm: the same command has run before. The time ends
where the command prints the head of its table, after the first call of the training step. With
several trees (checkouts of graphc) their runs are taken in turn. Python's byte code is kept, as it
is after an installation.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parents[1]
DIGITS = HERE / "examples" / "digits"
START = "import sys; from graphc.cli.main import console; sys.argv[0] = 'graphc'; console()"
HEAD = b"epoch "


@dataclass(frozen=True)
class Run:
    """Seconds until the first minibatches and until the end, and of the processor in all."""

    first: float
    whole: float
    processor: float


def train(tree: Path, folder: Path) -> Run:
    """One run with the cache in `folder`."""
    arguments = [str(DIGITS / "digits.ndl"), "--data", str(DIGITS / "train.txt")]
    arguments += ["--features", "0:64", "--labels", "64", "--classes", "10", "--epochs", "1"]
    arguments += ["--learning-rate", "0.5", "-o", str(folder / "model.safetensors")]
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    environment |= {
        "PYTHONPATH": os.pathsep.join([str(tree), str(tree / "frontends")]),
        "PYTHONPYCACHEPREFIX": str(folder.parent / "byte-code"),
        "GRAPHC_CACHE_DIR": str(folder / "cache"),
    }
    before = os.times()
    start = time.perf_counter()
    command = [sys.executable, "-c", START, "train", *arguments]
    child = subprocess.Popen(
        command, env=environment, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    assert child.stderr is not None
    first = 0.0
    for line in child.stderr:
        if not first and line.startswith(HEAD):
            first = time.perf_counter() - start
    if child.wait() or not first:
        raise SystemExit(f"graphc train in {tree} failed")
    whole, after = time.perf_counter() - start, os.times()
    used = after.children_user + after.children_system
    return Run(first, whole, used - before.children_user - before.children_system)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--tree", type=Path, nargs="+", default=[HERE], metavar="FOLDER")
    options = parser.parse_args()
    runs: dict[tuple[Path, str], list[Run]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        for tree in options.tree:  # byte code
            folder = Path(tempfile.mkdtemp(dir=scratch))
            train(tree, folder)
        time.sleep(2)  # code of sources as young as those just written would not be kept
        for _ in range(options.rounds):
            for tree in options.tree:
                folder = Path(tempfile.mkdtemp(dir=scratch))
                for state in ("cold", "warm"):
                    runs.setdefault((tree, state), []).append(train(tree, folder))
    print(f"{'':6}{'first minibatches':>26}{'end':>8}{'processor':>11}")
    for (tree, state), found in runs.items():
        first = [run.first for run in found]
        whole = statistics.median(run.whole for run in found)
        processor = statistics.median(run.processor for run in found)
        extent = f"{statistics.median(first):.3f} ({min(first):.3f} to {max(first):.3f})"
        print(f"{state:6}{extent:>26}{whole:8.3f}{processor:11.3f}  {tree.name}")


if __name__ == "__main__":
    main()
