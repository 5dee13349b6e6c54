"""Scores of many samples by tasks of Ray, each of which runs a compiled program on a part of them.

    python examples/cluster/ray_score.py [--copies 100] [--block 10000]

The program is what `graphc compile --emit exe` makes of a trained network: it needs neither
graphc nor an interpreter where it runs, only a processor with the vectors that it was made for.
The digits are scored `--copies` times over, in blocks; rows come back in the order of the samples.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import ray

import graphc as gc

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent / "digits"
CLASSES = 10


def compiled(folder: Path) -> bytes:
    """The program of a network that was trained for a moment."""
    net = gc.load(DIGITS / "digits.ndl", seed=1)
    rows = np.loadtxt(DIGITS / "train.txt", dtype=np.float32)
    data = {
        "features": rows[:, :64],
        "labels": np.eye(10, dtype=np.float32)[rows[:, 64].astype(int)],
    }
    gc.train(net, data, learning_rate=1.0, epochs=3, minibatch=32)
    net.save(folder / "digits.safetensors")
    graphc = [sys.executable, "-c", "from graphc.cli.main import console; console()"]
    words = ["compile", "digits.safetensors", "-o", "digits", "--emit", "exe", "-q"]
    subprocess.run([*graphc, *words], cwd=folder, check=True)
    return (folder / "digits").read_bytes()


def score(program: bytes, samples: np.ndarray) -> np.ndarray:
    """f32[samples, classes], by the program."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program"
        file.write_bytes(program)
        file.chmod(0o700)
        words = [file, "--raw", "--format", "raw", "--threads", "1"]
        done = subprocess.run(words, input=samples.tobytes(), capture_output=True, check=True)
    return np.frombuffer(done.stdout, np.float32).reshape(len(samples), CLASSES)


def main(copies: int = 100, block: int = 10_000) -> int:
    """0 if tasks gave the scores that the program gives in one go."""
    rows = np.loadtxt(DIGITS / "test.txt", dtype=np.float32)
    samples = np.tile(rows[:, :64], (copies, 1))
    with tempfile.TemporaryDirectory() as folder:
        program = compiled(Path(folder))
    task, there = ray.remote(num_cpus=1)(score), ray.put(program)
    ray.get([task.remote(there, samples[:1]) for _ in range(4)])  # processes that have begun
    start = time.perf_counter()
    blocks = [samples[i : i + block] for i in range(0, len(samples), block)]
    found = np.concatenate(ray.get([task.remote(there, part) for part in blocks]))
    seconds = time.perf_counter() - start
    print(f"{len(samples):,} samples in {len(blocks)} tasks, {seconds:.2f} s")
    same = np.array_equal(found, score(program, samples))
    print(f"scores of the program in one go: {'the same bits' if same else 'others'}")
    return 0 if same else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--copies", type=int, default=100)
    parser.add_argument("--block", type=int, default=10_000)
    args = parser.parse_args()
    here = None if os.environ.get("RAY_ADDRESS") else os.cpu_count()
    ray.init(num_cpus=here, logging_level="ERROR", log_to_driver=False)
    sys.exit(main(args.copies, args.block))
