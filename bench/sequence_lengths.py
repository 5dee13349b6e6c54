"""What the length of sequences costs: time and memory of an LSTM's training step for T up to 2000.

    python -m bench.sequence_lengths [--rounds 7] [--json FILE]

One compilation for the longest serves them all; the second number says what compiling for each T
takes. Then time and memory of each way to get the values that gradients need: saved, or computed
again. There is no rival here; those are in `python -m bench W4 W6`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc
from bench.versions import version_of
from bench.workloads.record import MOMENTUM, Values
from graphc.driver.options import RECOMPUTE, Recompute
from graphc.learn.step import TrainingStep

Row = dict[str, Any]

MACROS = Path(__file__).parents[1] / "examples" / "lstm.ndl"
LENGTHS = (1, 10, 100, 1000, 2000)
SAVED_LENGTHS = (100, 2000)
SEQUENCES = 10
LAYER = """
x = Input(32, tag=feature)
t = Input(8, tag=label)
h = LSTM(x, 32, 64)
V = Parameter(8, 64)
z = Times(V, h)
CE = CrossEntropyWithSoftmax(t, z, tag=criterion)
"""


def layer_step(steps: int, recompute: Recompute = "auto") -> TrainingStep:
    """A training step of one LSTM of 64 over ten sequences, compiled for so many steps."""
    net = gc.loads(LAYER, macros=[MACROS.read_text(encoding="utf-8")], seed=1)
    learner = gc.SGD(learning_rate=0.01, momentum=MOMENTUM)
    return gc.compile_training(
        net, learner=learner, time=steps, sequences=SEQUENCES, recompute=recompute
    )


def layer_data(steps: int) -> Values:
    rng = np.random.default_rng(0)
    return {
        "x": rng.normal(size=(steps, SEQUENCES, 32)).astype(np.float32),
        "t": np.eye(8, dtype=np.float32)[rng.integers(0, 8, (steps, SEQUENCES))],
    }


def seconds(run: Callable[[], object], repeats: int) -> float:
    """Of one call, on average."""
    start = time.perf_counter()
    for _ in range(repeats):
        run()
    return (time.perf_counter() - start) / repeats


def along_time(rounds: int) -> list[Row]:
    """One compilation for 2000 steps, called with fewer; and what compiling for each takes."""
    longest = layer_step(LENGTHS[-1])
    rows: list[Row] = []
    for steps in LENGTHS:
        start = time.perf_counter()
        arena = layer_step(steps).signature.arena_bytes
        compiling = time.perf_counter() - start
        data = layer_data(steps)
        longest(**data)
        found = [seconds(lambda d=data: longest(**d), max(1, 100 // steps)) for _ in range(rounds)]
        rows.append(
            {
                "T": steps,
                "us_per_step": statistics.median(found) / steps * 1e6,
                "min_us_per_step": min(found) / steps * 1e6,
                "arena_kB": arena / 1e3,
                "arena_kB_per_step": arena / 1e3 / steps,
                "compile_ms": compiling * 1e3,
            }
        )
    return rows


def memory(rounds: int) -> list[Row]:
    """Memory and time of each way to get the values that gradients need: saved or computed again;
    rounds in turn, times as ratios to those of `none`."""
    rows: list[Row] = []
    for steps in SAVED_LENGTHS:
        data = layer_data(steps)
        modes = sorted(RECOMPUTE, key=lambda mode: mode != "none")
        made = {mode: layer_step(steps, mode) for mode in modes}
        times: dict[str, list[float]] = {mode: [] for mode in modes}
        for step in made.values():
            step(**data)
        for _ in range(rounds):
            for mode, step in made.items():
                times[mode].append(seconds(lambda s=step, d=data: s(**d), max(1, 200 // steps)))
        for mode, step in made.items():
            ratios = [a / b for a, b in zip(times[mode], times["none"], strict=True)]
            rows.append(
                {
                    "T": steps,
                    "recompute": mode,
                    "arena_kB": step.signature.arena_bytes / 1e3,
                    "median_ms": statistics.median(times[mode]) * 1e3,
                    "ratio": statistics.median(ratios),
                }
            )
    return rows


def show_time(rows: Sequence[Row]) -> None:
    print("LSTM of 64, 10 sequences, training: one compilation for 2000 steps, called with T")
    print(
        f"{'T':>5} {'us a step':>10} {'min':>9} {'arena kB':>10} {'a step':>8} {'compile ms':>11}"
    )
    for row in rows:
        print(
            f"{row['T']:5} {row['us_per_step']:10.1f} {row['min_us_per_step']:9.1f} "
            f"{row['arena_kB']:10.1f} {row['arena_kB_per_step']:8.2f} {row['compile_ms']:11.0f}",
            flush=True,
        )


def show_memory(rows: Sequence[Row]) -> None:
    print("\nthe same, by what the gradient computes again; time as a ratio to `none`")
    print(f"{'T':>5} {'recompute':>10} {'arena kB':>10} {'median ms':>10} {'ratio':>8}")
    for row in rows:
        print(
            f"{row['T']:5} {row['recompute']:>10} {row['arena_kB']:10.1f} "
            f"{row['median_ms']:10.2f} {row['ratio']:8.2f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    steps = along_time(given.rounds)
    show_time(steps)
    saved = memory(given.rounds)
    show_memory(saved)
    if given.json:
        record = {
            "schema": 1,
            "bench": "sequence_lengths",
            "machine": platform.processor() or platform.machine(),
            "versions": {name: version_of(name) for name in ("graphc", "numpy", "llvmlite")},
            "rows": [*steps, *saved],
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
