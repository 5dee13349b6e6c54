"""Compile time of the digits example's training step, by pass and backend stage.

    python -m bench.compile_time.training_step [--rounds 9] [--json FILE]

There is no rival here: the table says where the time goes. Statistics are set to constants, so
that only the step is compiled. The first round, which also imports llvmlite, is shown apart.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

import numpy as np

import graphc as gc
from graphc.backends import BACKENDS as LOADERS
from graphc.driver.compile import lower
from graphc.driver.options import CompileOptions
from graphc.learn.step import training_passes
from graphc.model.model import Model

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.ndl"
BACKENDS = ("numpy", "llvm")


def digits() -> Model:
    """The example's network with its statistics given."""
    model = gc.load(DIGITS).model
    for name in ("featNorm.xMean", "featNorm.xInvStdDev"):
        model.set_statistic(name, np.ones((64, 1), np.float32))
    return model


def compile_once(model: Model, backend: str) -> dict[str, float]:
    """Milliseconds by stage."""
    options = CompileOptions(backend=backend, batch=32)
    learner = gc.SGD(learning_rate=1.0, momentum=0.9)
    start = time.perf_counter()
    _, passes = training_passes(model, learner, options)
    lowered = lower(model, passes, options)
    lowering = time.perf_counter() - start
    start = time.perf_counter()
    LOADERS[backend]().compile(lowered.function, lowered.signature)
    code = time.perf_counter() - start
    stages: dict[str, float] = {}
    for record in lowered.records:
        stages[record.name] = stages.get(record.name, 0.0) + record.seconds * 1e3
    stages["everything else before the backend"] = lowering * 1e3 - sum(stages.values())
    stages[f"{backend} backend"] = code * 1e3
    stages["total"] = (lowering + code) * 1e3
    return stages


def table(backend: str, first: Mapping[str, float], rounds: list[dict[str, float]]) -> None:
    print(f"\n{backend}: milliseconds over {len(rounds)} rounds")
    print(f"{'stage':40} {'first':>8} {'median':>8} {'min':>8} {'max':>8}")
    for stage in rounds[0]:
        times = [r[stage] for r in rounds]
        print(
            f"{stage:40} {first.get(stage, 0):8.2f} {statistics.median(times):8.2f} "
            f"{min(times):8.2f} {max(times):8.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    model = digits()
    rows: list[dict[str, object]] = []
    for backend in BACKENDS:
        first = compile_once(model, backend)
        rounds = [compile_once(model, backend) for _ in range(given.rounds)]
        table(backend, first, rounds)
        rows.extend(
            {
                "backend": backend,
                "stage": stage,
                "first_ms": first[stage],
                "median_ms": statistics.median([r[stage] for r in rounds]),
            }
            for stage in first
        )
    if given.json:
        record = {
            "schema": 1,
            "bench": "compile_time.training_step",
            "machine": platform.processor() or platform.machine(),
            "versions": {name: version(name) for name in ("graphc", "numpy", "llvmlite")},
            "rows": rows,
        }
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
