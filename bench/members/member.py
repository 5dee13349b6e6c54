"""One member with graphc: `python -m bench.members.member FOLDER COMM WORKLOAD SECONDS`.

COMM is how members over MPI add, an order or a wire, or `none`: each trains by itself; `split`: as
with `any`, but for the output layer, which they split.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.members.clock import timed
from bench.members.ways import OUTPUT_LAYER, Me, keep_to_a_core
from bench.workloads import workload
from bench.workloads.record import Values, Workload
from bench.workloads.recurrent import Recurrent


def main(arguments: list[str]) -> None:
    folder, comm, name, seconds = arguments
    me, world = joined(Path(folder))
    keep_to_a_core(me.rank)
    from bench.ours import FORMS, How

    member = None if comm == "none" else communicator(comm)
    work = replace(workload(name), inputs=inputs_of(workload(name), me.rank))
    split = OUTPUT_LAYER if comm == "split" else ""
    case = FORMS[type(work.spec)](work, How("llvm", "f32", comm=member, split=split))
    case.run()
    if world is None and member is not None:
        me = replace(me, agree=agreed_by(member))
    found = timed(me, case.run, float(seconds))
    me.write({**found, "samples": work.samples, "digest": digest(case.parameters())})


def communicator(comm: str) -> Any:
    """The engine of this name."""
    import graphc as gc

    if comm == "gloo":
        return gc.comm.gloo()
    if comm == "split":
        return gc.comm.mpi()
    if comm in ("any", "fixed"):
        return gc.comm.mpi(order=comm)
    return gc.comm.mpi(wire=comm)


def agreed_by(member: Any) -> Callable[[int], int]:
    """`Me.agree` by a communicator."""

    def agree(number: int) -> int:
        mine = np.array([number if member.rank == 0 else 0])
        member.all_reduce(mine)
        return int(mine[0])

    return agree


def joined(folder: Path) -> tuple[Me, Any]:
    """This process, and mpi4py's communicator where mpirun has started it."""
    if "OMPI_COMM_WORLD_SIZE" not in os.environ and "PMI_SIZE" not in os.environ:
        return Me(int(os.environ.get("RANK", "0")), folder, lambda number: number), None
    from mpi4py import MPI

    world = MPI.COMM_WORLD.Dup()
    return Me(world.Get_rank(), folder, world.bcast), world


def inputs_of(work: Workload, rank: int) -> Values:
    """Those of the first member are the workload's; others have other words, classes, numbers."""
    if rank == 0:
        return work.inputs
    rng = np.random.default_rng(rank)
    given, spec = work.inputs, work.spec
    made = {"y": rng.permutation(given["y"])}
    if isinstance(spec, Recurrent):
        part = spec.words // spec.window
        first = part * np.arange(spec.window)
        made["words"] = rng.integers(0, part, given["words"].shape) + first
    else:
        made["x"] = rng.permutation(given["x"].ravel()).reshape(given["x"].shape)
    return {**given, **made}


def digest(parameters: Values) -> str:
    """Of all bits."""
    found = hashlib.sha256()
    for name in sorted(parameters):
        found.update(np.ascontiguousarray(parameters[name]).tobytes())
    return found.hexdigest()


if __name__ == "__main__":
    main(sys.argv[1:])
