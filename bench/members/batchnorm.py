"""What BatchNormalization over the samples of all members costs, next to that by each one's own.

    mpirun -n 2 python -m bench.members.batchnorm [--layers 1 6 12] [--width 128] [--samples 32]

Networks of layers of so many outputs, each with a BatchNormalization, and steps of `samples` for
each member, which keeps to one thread. Steps of both kinds are taken in turns, in blocks of five.
`meetings` is what a step has of sums over members, besides that of how many samples each has; times
are those of the first member, of a step.
"""

from __future__ import annotations

import argparse
import statistics
import time
from typing import Any

import numpy as np

import graphc as gc
from graphc.runtime.communicators.communicator import Communicator

INPUTS, OUTPUTS, BLOCK, WARM_UP = 64, 10, 5, 2
KINDS = ("own", "all")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.members.batchnorm", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 6, 12])
    for name, number in (("width", 128), ("samples", 32), ("blocks", 60)):
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    member = gc.comm.mpi()
    if member.rank == 0:
        print(f"{'layers':>6}  {'samples of':10}{'meetings':>9}{'us':>9}{'least':>9}")
    for layers in given.layers:
        measure(member, layers, given)


def network_text(layers: int, width: int) -> str:
    """A network of NDL."""
    lines = [f"x = Input({INPUTS})", f"y = Input({OUTPUTS})"]
    last, size = "x", INPUTS
    for i in range(layers):
        lines += [
            f"W{i} = Parameter({width}, {size})",
            f"scale{i} = Parameter({width}, 1, init=fixedValue, value=1)",
            f"shift{i} = Parameter({width}, 1, init=fixedValue, value=0)",
            f"mean{i} = Parameter({width}, 1, needGradient=false)",
            f"inverse{i} = Parameter({width}, 1, needGradient=false)",
            f"n{i} = BatchNormalization(Times(W{i}, {last}), scale{i}, shift{i}, mean{i}, "
            f"inverse{i}, expAvgFactor=0.1)",
            f"h{i} = RectifiedLinear(n{i})",
        ]
        last, size = f"h{i}", width
    lines += [f"V = Parameter({OUTPUTS}, {size})"]
    lines += [f"e = SquareError(y, Times(V, {last}), tag=criteria)"]
    return "\n".join(lines)


def step_of(
    member: Communicator, text: str, given: argparse.Namespace, *, sync: bool
) -> gc.TrainingStep:
    step = gc.compile_training(
        gc.loads(text),
        learner=gc.SGD(learning_rate=1e-4),
        batch=given.samples,
        threads=1,
        comm=member,
        sync_batchnorm=sync,
    )
    step.nominal = given.samples * member.size
    return step


def measure(member: Communicator, layers: int, given: argparse.Namespace) -> None:
    """Both kinds of steps by this member; the first one prints."""
    text, rng = network_text(layers, given.width), np.random.default_rng(member.rank)
    some: dict[str, Any] = {
        name: rng.standard_normal((given.samples, rows)).astype(np.float32)
        for name, rows in (("x", INPUTS), ("y", OUTPUTS))
    }
    steps = {kind: step_of(member, text, given, sync=kind == "all") for kind in KINDS}
    times: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for turn in range(WARM_UP + given.blocks):
        for kind, step in steps.items():
            member.all_reduce(np.zeros(1))
            start = time.perf_counter()
            for _ in range(BLOCK):
                step(**some)
            if turn >= WARM_UP:
                times[kind].append((time.perf_counter() - start) / BLOCK * 1e6)
    if member.rank == 0:
        for kind, found in times.items():
            meetings = len(steps[kind].signature.sums)
            row = f"{meetings:9}{statistics.median(found):9.1f}{min(found):9.1f}"
            print(f"{layers:6}  {kind:10}{row}", flush=True)


if __name__ == "__main__":
    main()
