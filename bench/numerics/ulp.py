"""Error of the own mathematical functions next to numpy's, in units in the last place.

    python -m bench.numerics.ulp [--exhaustive | --stride 2571] [--targets x86-64,x86-64-v3]
                                  [--functions exp,log] [--dtypes f32,f64] [--json FILE]

f32 runs over every STRIDE-th bit pattern and is judged in f64; --exhaustive takes all 2^32, some
minutes a function, and no f64. f64, and powers of either type, run over a seeded sample, f64 judged
in the 80-bit type. The judge is the machine's libm. Prints one table: max and mean error, and where
the max is; the JSON has the eight worst operands, each from another part of the range.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from graphc.backends.llvm.scalars import LlvmScalars
from graphc.backends.llvm.target import host_target, target_named
from graphc.backends.llvm.text import Val
from graphc.ir.types import DType
from tests.support.llvm_probe import probe
from tests.support.ulp import FUNCTIONS, exact, samples, ulp_distance

CHUNK = 1 << 21
PATTERNS = 2**32
KEPT = 8
Operands = tuple[np.ndarray, ...]
Judge = Callable[[np.ndarray, np.ndarray], np.ndarray]


@dataclass
class Tally:
    """What was seen so far of one function as `who` computes it."""

    who: str
    run: Callable[..., np.ndarray]
    total: float = 0.0
    count: int = 0
    worst: list[tuple[float, list[float]]] = field(default_factory=list[tuple[float, list[float]]])

    def take(self, operands: Operands, wanted: np.ndarray, judge: Judge) -> None:
        distance = judge(self.run(*operands), wanted)
        # A number against nan is as wrong as can be.
        distance[np.isnan(distance)] = np.inf
        self.total += float(np.sum(distance))
        self.count += distance.size
        k = int(np.argmax(distance))
        self.worst.append((float(distance[k]), [float(x[k]) for x in operands]))
        self.worst = sorted(self.worst, key=lambda found: -found[0])[:KEPT]


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


def judge_of(dtype: DType) -> Judge:
    """`ulp_distance`; compiled for f32, where there may be 2^32 numbers to judge."""
    if dtype is not DType.F32:
        return ulp_distance
    return probe(host_target(), _narrow_distance, [DType.F32, DType.F64], DType.F64, 4)


def _narrow_distance(s: LlvmScalars, got: Val, wanted: Val) -> Val:
    """abs(got - wanted) in units of the rounded result's last place; beyond f32 is 2^128."""
    rounded = s.cast(wanted, DType.F32)
    size = s.bits(s.cast(s.abs(rounded), DType.F64))
    exponent = s.code.binary("and", size, s.const(0x7FF << 52, size))
    unit = s.bits(s.sub(exponent, s.const(23 << 52, exponent)))
    unit = s.maximum(s.minimum(unit, s.const(2.0**104, unit)), s.const(2.0**-149, unit))
    top = s.const(2.0**128, unit)
    ends = [
        s.maximum(s.minimum(v, top), s.neg(top))
        for v in (s.cast(got, DType.F64), s.convert("fpext", rounded, wanted.type))
    ]
    inside = s.maximum(s.minimum(wanted, top), s.neg(top))
    distance = s.div(s.abs(s.sub(ends[0], inside)), unit)
    same = s.logical_or(
        s.logical_and(s.compare("uno", got, got), s.compare("uno", wanted, wanted)),
        s.logical_and(s.equal(ends[0], ends[1]), s.equal(s.abs(ends[0]), top)),
    )
    return s.select(same, s.const(0.0, distance), distance)


def measured(name: str, dtype: DType, targets: list[str], stride: int) -> list[dict[str, object]]:
    tallies: list[Tally] = []
    count = 2 if name == "power" else 1
    for label in targets:
        run = probe(target_named(label), lambda s, *v: getattr(s, name)(*v), [dtype] * count, dtype)
        tallies.append(Tally(f"own {label}", run))
    if hasattr(np, name) or name == "sigmoid":
        tallies.append(Tally("numpy", lambda *x: numpy_function(name, *x)))
    judge = judge_of(dtype)
    for operands in chunks(name, dtype, stride):
        wanted = exact(name, *operands)
        for tally in tallies:
            tally.take(operands, wanted, judge)
    return [
        {
            "function": name,
            "dtype": dtype.value,
            "who": t.who,
            "count": t.count,
            "max": t.worst[0][0],
            "mean": t.total / t.count,
            "worst": t.worst,
        }
        for t in tallies
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--stride", type=int, default=2571, help="every n-th f32 (default 2571)")
    parser.add_argument("--exhaustive", action="store_true", help="all f32 of one-operand words")
    parser.add_argument("--targets", default="x86-64,x86-64-v3")
    parser.add_argument("--functions", default=",".join(FUNCTIONS))
    parser.add_argument("--dtypes", default="f32,f64")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    names = options.functions.split(",")
    dtypes = [DType(d) for d in options.dtypes.split(",")]
    stride = options.stride
    if options.exhaustive:
        stride, dtypes = 1, [DType.F32]
        names = [n for n in names if n != "power"]
    rows: list[dict[str, object]] = []
    print(f"{'function':9} {'dtype':5} {'who':14} {'max ULP':>8} {'mean':>7}  worst at")
    for dtype in dtypes:
        for name in names:
            for row in measured(name, dtype, options.targets.split(","), stride):
                rows.append(row)
                numbers = f"{row['max']:8.4f} {row['mean']:7.4f}  {row['worst'][0][1]}"
                print(f"{name:9} {dtype!s:5} {row['who']:14} {numbers}")
                sys.stdout.flush()
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
