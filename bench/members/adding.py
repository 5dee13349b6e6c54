"""Sums with graphc: `python -m bench.members.adding FOLDER COMM BYTES,BYTES… SECONDS`.

COMM is `alone`, `threads` (two of this process), an order or a wire of MPI,
or `gloo`.
"""

from __future__ import annotations

import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc
from bench.members.clock import timed
from bench.members.member import agreed_by, communicator, joined
from bench.members.ways import Me, Record, keep_to_a_core
from graphc.runtime.communicators.wire import adder


def main(arguments: list[str]) -> None:
    folder, comm, sizes, seconds = arguments
    me, world = joined(Path(folder))
    counts = [int(size) // 4 for size in sizes.split(",")]
    if comm == "threads":
        me.write({str(4 * n): of_threads(me, n, float(seconds)) for n in counts})
        return
    keep_to_a_core(me.rank)
    member = gc.comm.alone() if comm == "alone" else communicator(comm)
    if world is None:
        me = replace(me, agree=agreed_by(member))
    me.write({str(4 * n): measured(me, member, n, float(seconds)) for n in counts})


def measured(me: Me, member: Any, count: int, seconds: float) -> Record:
    """Of a sum over so many f32, the same ones each time."""
    numbers = np.random.default_rng(member.rank).standard_normal(count, np.float32)
    array = numbers.copy()
    add = adder(member, array, {0: (count // 2, 2)})

    def renew() -> None:
        array[...] = numbers

    return timed(me, add, seconds, renew)


def of_threads(me: Me, count: int, seconds: float) -> Record:
    """Two threads; how often is decided by one of them."""
    members = gc.comm.threads(2)
    found: dict[int, Record] = {}
    agreed: list[int] = []
    barrier = threading.Barrier(2)

    def work(member: gc.comm.Communicator) -> None:
        def agree(number: int) -> int:
            if member.rank == 0:
                agreed.append(number)
            barrier.wait()
            return agreed[0]

        its = Me(member.rank, me.folder, agree)
        found[member.rank] = measured(its, member, count, seconds)

    threads = [threading.Thread(target=work, args=(member,)) for member in members]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found[0]


if __name__ == "__main__":
    main(sys.argv[1:])
