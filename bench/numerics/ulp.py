"""Error of the own mathematical functions next to numpy's, in units in the last place.

    python -m bench.numerics.ulp [--exhaustive] [--stride 2571] [--targets x86-64,x86-64-v3]
                                  [--functions exp,log] [--dtypes f32,f64] [--json FILE]

f32 runs over every STRIDE-th bit pattern and is judged in f64; f64, and powers of either type, run
over a seeded sample, f64 judged in the 80-bit type. The judge is the machine's libm. --exhaustive
takes all 2^32 f32 operands of the functions of one operand, half a minute each, and judges them by
the own functions of f64 (sweep.py). Prints one table: max and mean error, and where the max is; the
JSON has the eight worst operands, each from another part of the range. Status 1 if an own function
is above its limit.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np

from bench.numerics.sweep import PATTERNS, sweep
from graphc.backends.llvm.target import target_named
from graphc.ir.types import DType
from tests.support.llvm_probe import probe
from tests.support.ulp import FUNCTIONS, exact, limit_of, samples, ulp_distance

CHUNK = 1 << 20
KEPT = 8
Operands = tuple[np.ndarray, ...]


@dataclass
class Tally:
    """What was seen so far of one function as `who` computes it; the worst operands first."""

    who: str
    total: float = 0.0
    count: int = 0
    worst: list[tuple[float, list[float]]] = field(default_factory=list[tuple[float, list[float]]])

    def add(self, worst: float, at: list[float], total: float, count: int) -> None:
        self.total += total
        self.count += count
        self.worst = sorted([*self.worst, (worst, at)], key=lambda found: -found[0])[:KEPT]

    def row(self, name: str, dtype: DType) -> dict[str, object]:
        return {
            "function": name,
            "dtype": dtype.value,
            "who": self.who,
            "count": self.count,
            "max": self.worst[0][0],
            "mean": self.total / self.count,
            "worst": self.worst,
        }


def numpy_function(name: str, *operands: np.ndarray) -> np.ndarray:
    """The function as numpy users write it, in the type of the operands."""
    with np.errstate(all="ignore"):
        if name == "sigmoid":
            (x,) = operands
            one = x.dtype.type(1)
            return one / (one + np.exp(-x))
        return getattr(np, name)(*operands)


def chunks(name: str, dtype: DType, stride: int) -> Iterator[Operands]:
    """The operands on which a function is judged, a part at a time."""
    if dtype is DType.F32 and name != "power":
        for start in range(0, PATTERNS, CHUNK * stride):
            end = min(start + CHUNK * stride, PATTERNS)
            yield (np.arange(start, end, stride, np.uint64).astype(np.uint32).view(np.float32),)
        return
    operands = samples(name, dtype, stride=max(stride, 257))
    for start in range(0, operands[0].size, CHUNK):
        yield tuple(x[start : start + CHUNK] for x in operands)


def swept(name: str, labels: Sequence[str], stride: int) -> list[Tally]:
    """All 2^32 operands, or each `stride`-th of them."""
    tallies: list[Tally] = []
    for label in labels:
        tally = Tally(f"own {label}")
        for part in sweep(lambda s, v: getattr(s, name)(v), target_named(label), stride):
            tally.add(part.worst, [part.at], part.total, part.size)
        tallies.append(tally)
    return tallies


def measured(name: str, dtype: DType, labels: Sequence[str], stride: int) -> list[Tally]:
    """A sample of the operands, numpy beside."""
    inputs = [dtype] * (2 if name == "power" else 1)
    runs: dict[str, Callable[..., np.ndarray]] = {
        f"own {label}": probe(
            target_named(label), lambda s, *v: getattr(s, name)(*v), inputs, dtype
        )
        for label in labels
    }
    if hasattr(np, name) or name == "sigmoid":
        runs["numpy"] = partial(numpy_function, name)
    tallies = {who: Tally(who) for who in runs}
    for operands in chunks(name, dtype, stride):
        wanted = exact(name, *operands)
        for who, run in runs.items():
            distance = ulp_distance(run(*operands), wanted)
            # A number against nan is as wrong as can be.
            distance[np.isnan(distance)] = np.inf
            k = int(np.argmax(distance))
            at = [float(x[k]) for x in operands]
            tallies[who].add(float(distance[k]), at, float(np.sum(distance)), distance.size)
    return list(tallies.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stride", type=int, help="every n-th f32 (default 2571; 1 if exhaustive)")
    parser.add_argument("--exhaustive", action="store_true", help="all f32 of one-operand words")
    parser.add_argument("--targets", default="x86-64,x86-64-v3")
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--dtypes", default="f32,f64")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    labels = options.targets.split(",")
    dtypes = [DType.F32] if options.exhaustive else map(DType, options.dtypes.split(","))
    rows: list[dict[str, object]] = []
    status = 0
    print(f"{'function':9} {'dtype':5} {'who':14} {'max ULP':>8} {'mean':>7}  worst at")
    for dtype in dtypes:
        for name in options.functions.split(","):
            if not options.exhaustive:
                tallies = measured(name, dtype, labels, options.stride or 2571)
            elif name != "power":
                tallies = swept(name, labels, options.stride or 1)
            else:
                continue
            for tally in tallies:
                rows.append(tally.row(name, dtype))
                worst, at = tally.worst[0]
                if tally.who != "numpy" and worst > limit_of(name, dtype):
                    status = 1
                mean = tally.total / tally.count
                print(f"{name:9} {dtype!s:5} {tally.who:14} {worst:8.4f} {mean:7.4f}  {at}")
            sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return status


if __name__ == "__main__":
    sys.exit(main())
