"""What the machine can do: its description, its peak, and the bandwidth of every level of memory.

    python -m bench.machine [--threads 1,2] [--seconds 0.3]

The peak is a loop of independent multiply-adds on registers, the bandwidth a loop that reads and
one that copies; both are LLVM text, compiled by graphc's engine for this machine. Several threads
run the same loop on memory of their own. Every number is the best of many short runs: what the
machine can do, not what it was doing.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import platform
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import Target, cache_bytes, host_target
from graphc.ir.types import DType

ACCUMULATORS = 12
"""Enough for two multiply-adds a cycle of a latency of up to six cycles."""
SPIN = 500_000
"""Turns of that loop in a call: some milliseconds, next to which starting threads is nothing."""
PASSED = 64 << 20
"""Bytes that a call moves at least, for the same reason."""
MEMORY = "memory"
ASSUMED = {"L1": 32 << 10, "L2": 1 << 20, "L3": 32 << 20}
"""Where the system does not tell its caches."""


@dataclass(frozen=True)
class Level:
    """A cache, or memory: bytes of it, and bytes a second that one or more threads move there."""

    name: str
    bytes: int
    read: float
    copy: float

    @property
    def best(self) -> float:
        return max(self.read, self.copy)


@dataclass(frozen=True)
class Limits:
    """Of so many threads together. peak: flops a second, f32."""

    threads: int
    peak: float
    levels: tuple[Level, ...]

    def bound(self, flops: float, moved: float, working_set: float) -> float:
        """Seconds that nobody can save, by the peak and by the nearest memory that holds it all."""
        level = next((x for x in self.levels if working_set <= x.bytes), self.levels[-1])
        return max(flops / self.peak, moved / level.best)


@dataclass(frozen=True)
class Machine:
    processor: str
    cores: int
    isa: str
    caches: dict[str, int]
    memory: int
    system: str
    python: str


def describe() -> Machine:
    target = host_target()
    return Machine(
        processor=_processor(),
        cores=len(os.sched_getaffinity(0)),
        isa=f"{target.isa} ({target.cpu})",
        caches=caches(),
        memory=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        system=f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
        python=platform.python_version(),
    )


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    named = (x.partition(":")[2].strip() for x in lines if x.startswith("model name"))
    return next(named, platform.machine())


def caches() -> dict[str, int]:
    """Bytes of the caches that hold data, by level."""
    found = {f"L{level}": cache_bytes(level) for level in (1, 2, 3, 4)}
    return {name: size for name, size in found.items() if size} or ASSUMED


# --- the loops -----------------------------------------------------------------------------------


def fma_text(target: Target) -> str:
    """`peak(ptr out, i64 turns)`: a turn is one multiply-add of a vector for every accumulator."""
    lanes = target.machine.lanes(DType.F32)
    vector = f"<{lanes} x float>"
    names = [f"%a{i}" for i in range(ACCUMULATORS)]
    half, one = "splat (float 0x3FE0000000000000)", "splat (float 0x3FF0000000000000)"
    lines = [
        "define void @peak(ptr %out, i64 %turns) {",
        "entry:",
        "  br label %loop",
        "loop:",
        "  %i = phi i64 [0, %entry], [%next, %loop]",
    ]
    lines += [f"  {a} = phi {vector} [{one}, %entry], [{a}n, %loop]" for a in names]
    for a in names:
        if target.machine.has_fma:
            lines.append(
                f"  {a}n = call {vector} @llvm.fma.v{lanes}f32({vector} {a}, {vector} {half}, "
                f"{vector} {half})"
            )
        else:
            lines.append(f"  {a}m = fmul {vector} {a}, {half}")
            lines.append(f"  {a}n = fadd {vector} {a}m, {half}")
    lines += [
        "  %next = add i64 %i, 1",
        "  %more = icmp slt i64 %next, %turns",
        "  br i1 %more, label %loop, label %done",
        "done:",
    ]
    for i, a in enumerate(names):
        lines.append(f"  %p{i} = getelementptr {vector}, ptr %out, i64 {i}")
        lines.append(f"  store {vector} {a}n, ptr %p{i}, align 4")
    lines += ["  ret void", "}"]
    if target.machine.has_fma:
        lines.append(f"declare {vector} @llvm.fma.v{lanes}f32({vector}, {vector}, {vector})")
    return "\n".join(lines) + "\n"


def memory_text(target: Target) -> str:
    """`read(ptr from, ptr to, i64 vectors, i64 times)` and `copy`: eight vectors a turn."""
    vector = f"<{target.machine.lanes(DType.F32)} x i32>"
    return _read(vector) + _copy(vector)


def _loop(name: str, body: list[str], carried: list[str], after: list[str]) -> str:
    return "\n".join(
        [
            f"define void @{name}(ptr %from, ptr %to, i64 %vectors, i64 %times) {{",
            "entry:",
            "  br label %again",
            "again:",
            "  %turn = phi i64 [0, %entry], [%turns, %end]",
            "  br label %loop",
            "loop:",
            "  %i = phi i64 [0, %again], [%next, %loop]",
            *carried,
            *body,
            "  %next = add i64 %i, 8",
            "  %more = icmp slt i64 %next, %vectors",
            "  br i1 %more, label %loop, label %end",
            "end:",
            "  %turns = add i64 %turn, 1",
            "  %left = icmp slt i64 %turns, %times",
            "  br i1 %left, label %again, label %done",
            "done:",
            *after,
            "  ret void",
            "}",
            "",
        ]
    )


def _loads(vector: str) -> list[str]:
    lines: list[str] = []
    for k in range(8):
        lines.append(f"  %i{k} = add i64 %i, {k}")
        lines.append(f"  %p{k} = getelementptr {vector}, ptr %from, i64 %i{k}")
        lines.append(f"  %v{k} = load {vector}, ptr %p{k}, align 64")
    return lines


def _read(vector: str) -> str:
    carried = [
        f"  %s{k} = phi {vector} [zeroinitializer, %again], [%t{k}, %loop]" for k in range(8)
    ]
    body = [*_loads(vector), *(f"  %t{k} = xor {vector} %s{k}, %v{k}" for k in range(8))]
    after: list[str] = []
    for k in range(8):
        after.append(f"  %q{k} = getelementptr {vector}, ptr %to, i64 {k}")
        after.append(f"  store {vector} %t{k}, ptr %q{k}, align 64")
    return _loop("read", body, carried, after)


def _copy(vector: str) -> str:
    body = _loads(vector)
    for k in range(8):
        body.append(f"  %q{k} = getelementptr {vector}, ptr %to, i64 %i{k}")
        body.append(f"  store {vector} %v{k}, ptr %q{k}, align 64")
    return _loop("copy", body, [], [])


# --- measuring -----------------------------------------------------------------------------------


def limits(threads: int, seconds: float) -> Limits:
    """Measured on this machine in about `seconds` for every number."""
    target = host_target()
    code = engine.object_code(fma_text(target) + memory_text(target), target)
    loaded = engine.load(code, ["peak", "read", "copy"], target)
    pointer, count = ctypes.c_void_p, ctypes.c_int64
    peak = engine.function(loaded, "peak", None, pointer, count)
    moves = {
        n: engine.function(loaded, n, None, pointer, pointer, count, count)
        for n in ("read", "copy")
    }
    lanes = target.machine.lanes(DType.F32)
    outs = [aligned(ACCUMULATORS * 64) for _ in range(threads)]
    best = shortest([lambda o=o: peak(o.ctypes.data, SPIN) for o in outs], seconds)
    flops = 2.0 * ACCUMULATORS * lanes * SPIN * threads / best
    sizes = caches()
    beyond = 8 * max(sizes.values())
    found: list[Level] = []
    for name, held in [*sizes.items(), (MEMORY, beyond)]:
        shared = name in (MEMORY, max(sizes))
        used = held // 2 // (threads if shared else 1)  # of every thread, from and to together
        rates = {move: _rate(f, move, used, threads, lanes, seconds) for move, f in moves.items()}
        found.append(Level(name, held * (1 if shared else threads), rates["read"], rates["copy"]))
    return Limits(threads, flops, tuple(found))


def _rate(
    function: Callable[..., None], move: str, used: int, threads: int, lanes: int, seconds: float
) -> float:
    """Bytes a second of all threads, each on `used` bytes of its own."""
    buffers = [(aligned(used // 2), aligned(used // 2)) for _ in range(threads)]
    vectors = used // 2 // (4 * lanes) // 8 * 8
    times = max(1, PASSED // used)
    works = [
        lambda a=a, b=b: function(a.ctypes.data, b.ctypes.data, vectors, times) for a, b in buffers
    ]
    moved = vectors * lanes * 4 * (2 if move == "copy" else 1) * threads * times
    return moved / shortest(works, seconds)


def aligned(count: int) -> np.ndarray:
    """Zeroed bytes at a multiple of 64: every page of it is there."""
    raw = np.ones(count + 64, np.uint8)
    start = -raw.ctypes.data % 64
    return raw[start : start + count]


def shortest(works: Sequence[Callable[[], None]], seconds: float) -> float:
    """The least seconds from a common start to the last end, over as many turns as there is time.

    The calls let go of the interpreter while they run.
    """
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        if len(works) == 1:
            start = time.perf_counter()
            works[0]()
            best = min(best, time.perf_counter() - start)
        else:
            best = min(best, _together(works))
    return best


def _together(works: Sequence[Callable[[], None]]) -> float:
    gate = threading.Barrier(len(works))
    spans: list[tuple[float, float]] = []

    def one(work: Callable[[], None]) -> None:
        gate.wait()
        start = time.perf_counter()
        work()
        spans.append((start, time.perf_counter()))

    threads = [threading.Thread(target=one, args=(w,)) for w in works]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    return max(end for _, end in spans) - min(start for start, _ in spans)


def from_json(record: dict[str, object]) -> Limits:
    levels = tuple(Level(**level) for level in record["levels"])  # type: ignore[attr-defined]  # JSON
    return Limits(int(record["threads"]), float(record["peak"]), levels)  # type: ignore[call-overload]  # JSON


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--seconds", type=float, default=0.3)
    given = parser.parse_args()
    counts = [int(t) for t in given.threads.split(",")]
    record = {**asdict(describe()), "limits": [asdict(limits(t, given.seconds)) for t in counts]}
    print(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
