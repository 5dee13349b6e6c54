"""Error of the own mathematical functions next to numpy's, in units in the last place.

    python -m bench.numerics.ulp [--stride 257] [--targets x86-64,native]
                                  [--functions exp,log] [--json FILE]

f32 runs over every STRIDE-th bit pattern and is judged in float64; f64, and powers of either type,
over a seeded sample, f64 judged in the 80-bit type. Prints one table: max and mean error, and where
the max is.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from graphc.backends.llvm.target import Target, target_named
from graphc.ir.types import DType
from tests.support.llvm_probe import probe
from tests.support.ulp import FUNCTIONS, exact, samples, ulp_distance

CHUNK = 1 << 20
Row = dict[str, object]


def numpy_function(name: str, *operands: np.ndarray) -> np.ndarray:
    """The function as numpy users write it, in the type of the operands."""
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            (x,) = operands
            one = x.dtype.type(1)
            return one / (one + np.exp(-x))
        return getattr(np, name)(*operands)


def measured(
    name: str, dtype: DType, who: str, target: Target | None, operands: tuple[np.ndarray, ...]
) -> Row:
    inputs = [dtype] * len(operands)
    run = target and probe(target, lambda s, *v: getattr(s, name)(*v), inputs, dtype)
    worst, at, total, size = -1.0, [0.0], 0.0, operands[0].size
    for start in range(0, size, CHUNK):
        part = [x[start : start + CHUNK] for x in operands]
        got = run(*part) if run else numpy_function(name, *part)
        distance = ulp_distance(got, exact(name, *part))
        total += float(np.nansum(distance))
        k = int(np.nanargmax(distance))
        if distance[k] > worst:
            worst, at = float(distance[k]), [float(x[k]) for x in part]
    return {
        "function": name,
        "dtype": dtype.value,
        "who": who,
        "max": worst,
        "mean": total / size,
        "at": at,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stride", type=int, default=257, help="every n-th f32 (default 257)")
    parser.add_argument("--targets", default="x86-64,native")
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    targets = [(name, target_named(name)) for name in options.targets.split(",")]
    rows: list[Row] = []
    print(f"{'function':9} {'dtype':5} {'who':14} {'max ULP':>8} {'mean':>7}  worst at")
    for dtype in (DType.F32, DType.F64):
        for name in options.functions.split(","):
            operands = samples(name, dtype, stride=options.stride)
            judged = [*((f"own {label}", t) for label, t in targets), ("numpy", None)]
            for who, target in judged:
                row = measured(name, dtype, who, target, operands)
                rows.append(row)
                numbers = f"{row['max']:8.2f} {row['mean']:7.3f}  {row['at']}"
                print(f"{name:9} {dtype!s:5} {who:14} {numbers}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
