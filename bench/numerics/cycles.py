"""Cycles that the own functions take for an element, alone and in formulas of networks.

    python -m bench.numerics.cycles [--targets native,x86-64-v3] [--dtypes f32,f64] [--rounds 2000]

Arrays that stay in the first-level cache, as many vectors a turn as kernels take, one thread. The
time of 3,072 elements less that of 1,024, the shortest of all rounds, so that a call costs nothing.
The clock is that of a chain of multiplications and exclusive ors, of 3 cycles and 1 on the
processors of the last ten years. `slow` are the forms for machines that are slow with denormals.
"""

from __future__ import annotations

import argparse
import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from time import perf_counter_ns

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import Target, host_target, target_named
from graphc.backends.loops import mathfunctions
from graphc.backends.loops.scalars import LaneScalars
from graphc.backends.loops.values import Val
from graphc.ir.types import DType
from graphc.passes.analysis.nest_schedules import VECTORS
from tests.support.llvm_probe import Formula, probe_in_place

FEW, MANY = 1024, 3072
STEPS, STEP_CYCLES, CLOCK_ROUNDS = 4000, 12, 100

CLOCK = """
define i64 @clock(i64 %n) {
entry:
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %j, %loop ]
  %a = phi i64 [ 1, %entry ], [ %f, %loop ]
  %p = mul i64 %a, %n
  %b = xor i64 %p, %n
  %q = mul i64 %b, %n
  %d = xor i64 %q, %n
  %r = mul i64 %d, %n
  %f = xor i64 %r, %n
  %j = add i64 %i, 1
  %more = icmp ult i64 %j, %n
  br i1 %more, label %loop, label %done
done:
  ret i64 %f
}
"""


def exp_of_at_most_zero(s: LaneScalars, x: Val) -> Val:
    return mathfunctions.exp_of_at_most_zero(s, s.neg(s.abs(x)))


def chain(s: LaneScalars, x: Val, a: Val, b: Val, c: Val) -> Val:
    """That of the workload W8chain."""
    product = s.mul(s.tanh(s.add(s.mul(x, a), b)), s.sigmoid(s.sub(x, c)))
    return s.add(product, s.mul(x, x))


def gates(s: LaneScalars, i: Val, f: Val, o: Val, z: Val, state: Val) -> Val:
    """The output of an LSTM's cell."""
    kept = s.mul(s.sigmoid(f), state)
    new = s.add(kept, s.mul(s.sigmoid(i), s.tanh(z)))
    return s.mul(s.sigmoid(o), s.tanh(new))


@dataclass(frozen=True)
class Measured:
    """A formula and how many arrays it reads."""

    formula: Formula
    arrays: int = 1


FORMULAS: Mapping[str, Measured] = {
    "exp": Measured(LaneScalars.exp),
    "exp of -|x|": Measured(exp_of_at_most_zero),
    "expm1": Measured(LaneScalars.expm1),
    "log": Measured(lambda s, x: s.log(s.abs(x))),
    "log1p": Measured(lambda s, x: s.log1p(s.abs(x))),
    "sigmoid": Measured(LaneScalars.sigmoid),
    "tanh": Measured(LaneScalars.tanh),
    "erf": Measured(LaneScalars.erf),
    "chain": Measured(chain, 4),
    "gates": Measured(gates, 5),
}


def least(rounds: int, *calls: Callable[[], object]) -> list[int]:
    """The shortest time of each, in turns, in nanoseconds."""
    best = [1 << 62] * len(calls)
    for _ in range(rounds):
        for k, call in enumerate(calls):
            start = perf_counter_ns()
            call()
            best[k] = min(best[k], perf_counter_ns() - start)
    return best


def clock() -> float:
    """Cycles a nanosecond."""
    host = host_target()
    loaded = engine.load(engine.object_code(CLOCK, host), ["clock"], host)
    run = engine.function(loaded, "clock", ctypes.c_int64, ctypes.c_int64)
    few, many = least(CLOCK_ROUNDS, lambda: run(STEPS), lambda: run(2 * STEPS))
    assert loaded.keep
    return STEPS * STEP_CYCLES / (many - few)


def nanoseconds(what: Measured, target: Target, dtype: DType, rounds: int) -> float:
    """Of an element."""
    rng = np.random.default_rng(1)
    lanes = VECTORS * target.machine.lanes(dtype)
    run = probe_in_place(target, what.formula, [dtype] * what.arrays, dtype, lanes)
    arrays = [rng.uniform(-5, 5, MANY).astype(dtype.numpy) for _ in range(what.arrays)]
    out = np.empty_like(arrays[0])
    calls = [run(*(a[:n] for a in arrays), out[:n]) for n in (FEW, MANY)]
    few, many = least(rounds, *calls)
    return (many - few) / (MANY - FEW)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--targets", default="native,x86-64-v3")
    parser.add_argument("--dtypes", default="f32,f64")
    parser.add_argument("--rounds", type=int, default=2000)
    options = parser.parse_args()
    machines = [
        (f"{label} {'slow' if slow else 'quick'}", replace(target, machine=machine))
        for label in options.targets.split(",")
        for slow in (False, True)
        for target in [target_named(label)]
        for machine in [replace(target.machine, slow_denormals=slow)]
    ]
    print(f"{'':12} {'':5}", *(f"{label:>16}" for label, _ in machines), "  cycles an element")
    for dtype in map(DType, options.dtypes.split(",")):
        for name, what in FORMULAS.items():
            cells = [
                nanoseconds(what, target, dtype, options.rounds) * clock() for _, target in machines
            ]
            print(f"{name:12} {dtype!s:5}", *(f"{cell:16.2f}" for cell in cells))


if __name__ == "__main__":
    main()
