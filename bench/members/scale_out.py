"""Many machines on paper: what a step keeps of its speed, from parts that are measured here.

    python -m bench.members.scale_out [--plot FILE] [--json FILE]
    python -m bench.members.scale_out --check

Measured on this machine: the step of a workload on one core, and how fast arrays are added. Given:
latency and bandwidth of the networks, and how many times as fast as one core a machine of 16 is
(`MACHINE`). A sum over P machines takes

    2 ⌈log2 P⌉ α  +  2 (P-1)/P bytes/β  +  (P-1)/P bytes/adding

and the efficiency is step / (step + sum), or, where sums go on beside the backward pass (at best:
from its first gradient on, a third of the step being forward), step / max(step, step/3 + sum). Work
per machine is fixed, so that minibatches grow with their number.

`--check` compares the formula with two members over TCP whose loopback is slowed down by `tc tbf`,
in a network namespace of its own: both directions of a link share it, so it has twice the rate.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from bench.members.ways import MPIRUN, SUMS, WAYS, Failed, Record, together
from bench.workloads import workload
from graphc.runtime.communicators.sums import tree_sum

MACHINE: Mapping[str, float] = {"W3b": 12.0, "W4": 8.0, "W6": 8.0}
"""A machine's 16 cores over one of them; assumed."""
RESNET = 0.390, 46_800_000
"""ResNet-18 on 32 images: seconds of a step at 900 GFLOP/s, which is assumed, and bytes."""
MACHINES = (2, 4, 8, 16, 32, 64, 128, 256)
TABLE = (8, 128)
SECONDS = 1.0
ROUNDS = 5


@dataclass(frozen=True)
class Network:
    """`alpha`: seconds that a message takes, however short; `beta`: bytes a second, each way."""

    name: str
    alpha: float
    beta: float


NETWORKS = (Network("25 Gbit/s", 20e-6, 2.6e9), Network("100 Gbit/s", 10e-6, 10e9))


@dataclass(frozen=True)
class Job:
    """A step: seconds on one machine, bytes of gradients."""

    name: str
    step: float
    size: int


def sum_of(size: int, machines: int, network: Network, adding: float) -> float:
    """Seconds of a sum of so many bytes; `adding` is in bytes a second."""
    sent = (machines - 1) / machines * size
    messages = 2 * math.ceil(math.log2(machines))
    return messages * network.alpha + 2 * sent / network.beta + sent / adding


def efficiency(job: Job, added: float, *, overlapped: bool) -> float:
    """Share of so many times one machine, where sums take `added` seconds."""
    if overlapped:
        return job.step / max(job.step, job.step / 3 + added)
    return job.step / (job.step + added)


# --- parts ---------------------------------------------------------------------------------------


def measured_jobs() -> list[Job]:
    """The workloads, on a machine as it is assumed to be."""
    found = [Job(name, step_here(name) / times, size_of(name)) for name, times in MACHINE.items()]
    return [*found, Job("ResNet-18", *RESNET)]


def size_of(name: str) -> int:
    return 4 * sum(v.size for v in workload(name).parameters.values())


def step_here(name: str) -> float:
    """Seconds of a step on one core of this machine."""
    (record,) = together(WAYS["alone"], [name, str(SECONDS)])
    return record["median"]


def adding_here() -> float:
    """Bytes a second of adding two arrays as long as W3a's."""
    a, b = np.random.default_rng(0).standard_normal((2, size_of("W3a") // 4), np.float32)
    times: list[float] = []
    for _ in range(200):
        start = time.perf_counter()
        tree_sum([a, b])
        times.append(time.perf_counter() - start)
    return a.nbytes / statistics.median(times)


# --- the check -----------------------------------------------------------------------------------

RATES = (1, 2.5, 10)
"""Gbit/s of a link."""
CHECKED_SIZES = (4096, 1_000_000, 4_100_000, 17_300_000)


def slowed(gbit: float) -> list[str]:
    """What starts members in a network namespace whose links have this rate; 0 leaves them."""
    over_tcp = "--mca btl self,tcp --mca pml ob1 --mca btl_tcp_if_include lo"
    return _in_namespace(gbit, f'exec {MPIRUN[0]} {over_tcp} "$@"')


def _in_namespace(gbit: float, command: str) -> list[str]:
    """Words that run a command of the shell there, with the words behind them as its `$@`."""
    lines = ["ip link set lo up"]
    if gbit:
        rate = f"rate {2 * gbit * 1000:.0f}mbit burst 512kb latency 100ms"
        lines.append(f"tc qdisc add dev lo root tbf {rate}")
    return ["unshare", "-n", "sh", "-ec", "; ".join([*lines, command]), "sh"]


def cannot_check() -> str:
    """Why links cannot be slowed down here; or nothing."""
    missing = [name for name in ("unshare", "ip", "tc") if shutil.which(name) is None]
    if missing:
        return f"there is no {', '.join(missing)}"
    words = _in_namespace(1, "true")
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return done.stderr.strip() if done.returncode else ""


def check() -> list[dict[str, Any]]:
    """Print measured times next to the formula's; the rows."""
    if why := SUMS["mpi any"].missing() or cannot_check():
        raise SystemExit(f"links cannot be slowed down here: {why}")
    adding = adding_here()
    free = _sums(0)
    step = statistics.median([step_here("W3a") for _ in range(3)])
    alpha = free["4096"]["median"] / 2
    rows: list[dict[str, Any]] = []
    parts = f"alpha {alpha * 1e6:.0f} us (a sum of 4 kB over TCP, halved)"
    print(f"{parts}, {adding / 1e9:.1f} GB/s added")
    print(f"{'link':12}{'what':22}{'measured ms':>12}{'formula ms':>12}{'off':>7}")
    for gbit in RATES:
        network = Network(f"{gbit:g} Gbit/s", alpha, gbit * 1e9 / 8)
        times = _sums(gbit)
        for size in CHECKED_SIZES[1:]:
            row = times[str(size)]["median"], sum_of(size, 2, network, adding)
            rows.append(_checked(network.name, f"a sum of {size / 1e6:.1f} MB", *row))
        members = _started(WAYS["mpi any"], ["W3a", str(SECONDS)], gbit)
        predicted = step + sum_of(size_of("W3a"), 2, network, adding)
        rows.append(_checked(network.name, "a step of W3a", members[0]["median"], predicted))
    return rows


def _checked(link: str, what: str, measured: float, predicted: float) -> dict[str, Any]:
    off = predicted / measured - 1
    print(f"{link:12}{what:22}{measured * 1e3:12.2f}{predicted * 1e3:12.2f}{off:7.0%}", flush=True)
    return {"link": link, "what": what, "ms": measured * 1e3, "formula_ms": predicted * 1e3}


def _sums(gbit: float) -> Record:
    sizes = ",".join(map(str, CHECKED_SIZES))
    return _started(SUMS["mpi any"], [sizes, str(SECONDS)], gbit)[0]


def _started(way: Any, arguments: Sequence[str], gbit: float) -> list[Record]:
    try:
        return together(way, arguments, slowed(gbit))
    except Failed as problem:
        raise SystemExit(str(problem)) from None


# --- table and picture ---------------------------------------------------------------------------


def simulated(jobs: Sequence[Job], adding: float) -> list[dict[str, Any]]:
    """Efficiency of every job, network and number of machines."""
    rows: list[dict[str, Any]] = []
    for job in jobs:
        for network in NETWORKS:
            for machines in MACHINES:
                added = sum_of(job.size, machines, network, adding)
                row = {"job": job.name, "step_ms": job.step * 1e3, "bytes": job.size}
                row |= {"network": network.name, "machines": machines, "sum_ms": added * 1e3}
                row["blocking"] = efficiency(job, added, overlapped=False)
                row["overlapped"] = efficiency(job, added, overlapped=True)
                rows.append(row)
    return rows


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Efficiency, sums that block / that go on beside the backward pass."""
    heads = [(m, n.name) for n in NETWORKS for m in TABLE]
    lines = [f"{'':12}{'step ms':>9}{'MB':>7}" + "".join(f"{m:>6}, {n:<11}" for m, n in heads)]
    for job in dict.fromkeys(r["job"] for r in rows):
        its = [r for r in rows if r["job"] == job]
        cells = [
            f"{r['blocking']:>7.0%} / {r['overlapped']:<5.0%}    "
            for m, n in heads
            for r in its
            if (r["machines"], r["network"]) == (m, n)
        ]
        first = f"{job:12}{its[0]['step_ms']:9.1f}{its[0]['bytes'] / 1e6:7.1f}"
        lines.append(first + "".join(cells))
    return "\n".join(lines)


def draw(rows: Sequence[Mapping[str, Any]], path: Path) -> None:
    """Efficiency over machines, a panel for each network."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise SystemExit("a picture requires matplotlib: pip install graphc[plot]") from None
    mpl.rcParams["svg.hashsalt"] = "graphc"  # the same file for the same numbers
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    panels = figure.subplots(1, len(NETWORKS), sharey=True)
    jobs = list(dict.fromkeys(r["job"] for r in rows))
    for panel, network in zip(panels, NETWORKS, strict=True):
        for i, job in enumerate(jobs):
            its = [r for r in rows if (r["job"], r["network"]) == (job, network.name)]
            for how, style in (("blocking", "-"), ("overlapped", "--")):
                panel.plot(
                    [r["machines"] for r in its],
                    [100 * r[how] for r in its],
                    style,
                    color=f"C{i}",
                    label=job if how == "blocking" else None,
                )
        panel.set_xscale("log", base=2)
        panel.set_xticks(MACHINES, [str(m) for m in MACHINES])
        panel.set_ylim(0, 104)
        panel.grid(alpha=0.3)
        panel.set_xlabel("machines")
        panel.set_title(network.name, loc="left")
    panels[0].set_ylabel("% of so many times one machine")
    panels[0].legend(fontsize="small", loc="lower left")
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.members.scale_out", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--check", action="store_true", help="against two members on slowed links")
    parser.add_argument("--plot", type=Path, help="a picture, .png or .svg; needs matplotlib")
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if given.check:
        rows = check()
    else:
        adding = adding_here()
        rows = simulated(measured_jobs(), adding)
        print(f"{adding / 1e9:.1f} GB/s added here; efficiency, blocking / overlapped")
        print(table(rows))
        if given.plot:
            draw(rows, given.plot)
    if given.json:
        record = {"schema": 1, "bench": "members on paper", "rows": rows}
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
