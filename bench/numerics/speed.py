"""Time of the own mathematical functions next to numpy's and torch's, in ns an element, one thread.

    python -m bench.numerics.speed [--functions exp,log] [--dtypes f32] [--rounds 1000]
                                    [--json FILE]

Arrays of 32,768 ordinary numbers, so that they stay in a near cache; rounds in turn, the shortest
counts. The own ones take as many vectors a turn as kernels do. torch is left out where it is not
installed.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from graphc.backends.llvm.target import host_target
from graphc.ir.types import DType
from graphc.passes.analysis.nest_schedules import VECTORS
from tests.support.llvm_probe import probe_in_place
from tests.support.ulp import FUNCTIONS

SIZE = 32_768
TORCH_NAMES = {"power": "pow"}
RANGES = {"log": (0.1, 20.0), "log1p": (-0.9, 20.0), "power": (0.1, 5.0)}

Run = Callable[[], object]


def operands_of(name: str, dtype: DType) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    low, high = RANGES.get(name, (-5.0, 5.0))
    count = 2 if name == "power" else 1
    return [rng.uniform(low, high, SIZE).astype(dtype.numpy) for _ in range(count)]


def runs_of(name: str, dtype: DType) -> dict[str, Run]:
    """Who computes it, and how."""
    operands = operands_of(name, dtype)
    out = np.empty_like(operands[0])
    inputs = [dtype] * len(operands)
    target = host_target()
    lanes = VECTORS * target.machine.lanes(dtype)
    own = probe_in_place(target, lambda s, *v: getattr(s, name)(*v), inputs, dtype, lanes)
    runs: dict[str, Run] = {"own": own(*operands, out)}
    if hasattr(np, name):
        runs["numpy"] = partial(getattr(np, name), *operands, out)
    try:
        import torch
    except ImportError:
        return runs
    torch.set_num_threads(1)
    tensors: list[Any] = [torch.from_numpy(x) for x in operands]
    function = getattr(torch, TORCH_NAMES.get(name, name))
    runs["torch"] = partial(function, *tensors, out=torch.empty_like(tensors[0]))
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--dtypes", default="f32,f64")
    parser.add_argument("--rounds", type=int, default=1000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, object]] = []
    print(f"{'function':9} {'dtype':5} {'own':>7} {'numpy':>7} {'torch':>7}   ns an element")
    for dtype in map(DType, options.dtypes.split(",")):
        for name in options.functions.split(","):
            best = {who: float("inf") for who in ("own", "numpy", "torch")}
            runs = runs_of(name, dtype)
            for _ in range(options.rounds):
                for who, run in runs.items():
                    start = perf_counter_ns()
                    run()
                    best[who] = min(best[who], (perf_counter_ns() - start) / SIZE)
            rows.append({"function": name, "dtype": dtype.value, "ns": best})
            cells = " ".join(f"{v:7.2f}" if v < 1e9 else f"{'':7}" for v in best.values())
            print(f"{name:9} {dtype!s:5} {cells}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
