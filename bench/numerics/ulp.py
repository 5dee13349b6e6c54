"""Error of the own exp, log, tanh and sigmoid next to numpy's, in units in the last place.

    python -m bench.numerics.ulp [--stride 257] [--targets x86-64,native] [--json FILE]

f32 runs over every STRIDE-th bit pattern and is judged in float64; f64 over a seeded sample, judged
in the 80-bit type. Prints one table: max and mean error, and the x of the max.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from graphc.backends.llvm.target import Target, target_named
from graphc.ir.types import DType
from tests.support.llvm_probe import probe
from tests.support.ulp import FUNCTIONS, exact, sample, ulp_distance

CHUNK = 1 << 20
Row = dict[str, object]


def numpy_function(name: str, x: np.ndarray) -> np.ndarray:
    """The function as numpy users write it, in the type of x."""
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            one = x.dtype.type(1)
            return one / (one + np.exp(-x))
        return getattr(np, name)(x)


def measured(name: str, dtype: DType, who: str, target: Target | None, x: np.ndarray) -> Row:
    run = target and probe(target, lambda s, v: getattr(s, name)(v), [dtype], dtype)
    worst, at, total = -1.0, 0.0, 0.0
    for start in range(0, x.size, CHUNK):
        part = x[start : start + CHUNK]
        got = run(part) if run else numpy_function(name, part)
        distance = ulp_distance(got, exact(name, part))
        total += float(np.nansum(distance))
        k = int(np.nanargmax(distance))
        if distance[k] > worst:
            worst, at = float(distance[k]), float(part[k])
    mean = total / x.size
    return {
        "function": name,
        "dtype": dtype.value,
        "who": who,
        "max": worst,
        "mean": mean,
        "at": at,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--stride", type=int, default=257, help="every n-th f32 (default 257)")
    parser.add_argument("--targets", default="x86-64,native")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    targets = [(name, target_named(name)) for name in options.targets.split(",")]
    rows: list[Row] = []
    print(f"{'function':9} {'dtype':5} {'who':14} {'max ULP':>8} {'mean':>7}  worst at")
    for dtype in (DType.F32, DType.F64):
        x = sample(dtype, stride=options.stride)
        for name in FUNCTIONS:
            judged = [*((f"own {label}", t) for label, t in targets), ("numpy", None)]
            for who, target in judged:
                row = measured(name, dtype, who, target, x)
                rows.append(row)
                numbers = f"{row['max']:8.2f} {row['mean']:7.3f}  {row['at']!r}"
                print(f"{name:9} {dtype!s:5} {who:14} {numbers}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
