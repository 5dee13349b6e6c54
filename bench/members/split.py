"""A layer of many outputs whose gradients two members add, next to one that they split.

    python -m bench.members.split [--outputs 10000] [--width 200] [--samples 350] [--steps 30]

Members are threads, or what mpirun has started; each keeps to a core and computes with one thread.
Steps of both kinds are taken in turns. `core ms`: the time of its processor that the first member
takes, in which waiting over MPI counts. `sent MB`: what a member hands to its communicator, of a
sum 2(P-1)/P of it.
"""

from __future__ import annotations

import argparse
import statistics
import threading
import time
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

import graphc as gc
from bench.members.ways import keep_to_a_core
from graphc.runtime.communicators.communicator import Communicator, PieceCommunicator
from graphc.runtime.communicators.mpi import started

TEXT = """
    x = Input({width})
    y = Input({outputs}, tag=label)
    U = Parameter({width}, {width})
    W = Parameter({outputs}, {width})
    b = Parameter({outputs}, 1)
    z = Plus(Times(W, Tanh(Times(U, x))), b)
    e = CrossEntropyWithSoftmax(y, z, tag=criteria)
"""
WARM_UP = 3
KINDS = ("added", "split")


@dataclass
class Counting:
    """A member, and how many bytes it has sent."""

    member: PieceCommunicator
    wire: Any = "full"
    sent: float = 0
    rank: int = field(init=False)
    size: int = field(init=False)

    def __post_init__(self) -> None:
        self.rank, self.size = self.member.rank, self.member.size

    def all_reduce(self, array: np.ndarray) -> None:
        self.sent += 2 * array.nbytes * (self.size - 1) / self.size
        self.member.all_reduce(array)

    def exchange(self, rows: np.ndarray) -> np.ndarray:
        self.sent += rows.nbytes * (self.size - 1) / self.size
        return self.member.exchange(rows)

    def collect(self, piece: np.ndarray) -> np.ndarray:
        self.sent += piece.nbytes * (self.size - 1)
        return self.member.collect(piece)


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.members.split", description=(__doc__ or "").partition("\n")[0]
    )
    for name, number in (("outputs", 10000), ("width", 200), ("samples", 350), ("steps", 30)):
        parser.add_argument(f"--{name}", type=int, default=number)
    given = parser.parse_args()
    if started() > 1:
        measure(given, gc.comm.mpi())
        return
    work = partial(measure, given)
    members = [threading.Thread(target=work, args=(m,)) for m in gc.comm.threads(2)]
    for member in members:
        member.start()
    for member in members:
        member.join()


def measure(given: argparse.Namespace, member: Communicator) -> None:
    """Both kinds of steps by this member; the first one prints."""
    assert isinstance(member, PieceCommunicator)
    keep_to_a_core(member.rank)
    rng = np.random.default_rng(0)
    x = rng.standard_normal((given.samples, given.width)).astype(np.float32)
    y = rng.integers(0, given.outputs, given.samples)
    mine = slice(member.rank, None, member.size)
    counting = {kind: Counting(member) for kind in KINDS}
    steps = {kind: step_of(given, counting[kind], kind == "split") for kind in KINDS}
    times: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for turn in range(WARM_UP + given.steps):
        for kind, step in steps.items():
            counting[kind].sent = 0
            start, core = time.perf_counter(), time.thread_time()
            step(x=x[mine], y=y[mine])
            if turn >= WARM_UP:
                ended = time.perf_counter() - start, time.thread_time() - core
                times[kind].append(ended)
    if member.rank == 0:
        print(f"{'':8}{'ms':>8}{'least':>8}{'core ms':>9}{'least':>8}{'sent MB':>9}")
        for kind, found in times.items():
            walls, cores = ([1e3 * t for t in its] for its in zip(*found, strict=True))
            row = (statistics.median(walls), min(walls), statistics.median(cores), min(cores))
            sent = counting[kind].sent / 1e6
            print(f"{kind:8}{row[0]:8.1f}{row[1]:8.1f}{row[2]:9.1f}{row[3]:8.1f}{sent:9.2f}")


def step_of(given: argparse.Namespace, member: Communicator, is_split: bool) -> Any:
    """One step is compiled at a time: compilation takes all members' cores."""
    net = gc.loads(TEXT.format(outputs=given.outputs, width=given.width))
    assert isinstance(net, gc.Network)
    return gc.compile_training(
        net,
        learner=gc.SGD(learning_rate=0.1, momentum=0.9),
        batch=-(-given.samples // member.size),
        comm=member,
        threads=1,
        split="W" if is_split else (),
    )


if __name__ == "__main__":
    main()
