"""How members of a measurement are started, and what they write down.

A member is a process that keeps to a core of its own and computes with one thread. Those of MPI are
started by mpirun, those of gloo by hand, with the loopback between them.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from bench.runner import environment

MPIRUN = ("mpirun",)
SETTINGS = {
    # Within a container, and as many members as there are cores.
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_hwloc_base_binding_policy": "none",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
}
HERE = {"MASTER_ADDR": "127.0.0.1"}
LONGEST = 600.0
"""Seconds that members may take."""
OUTPUT_LAYER = "V"
"""The parameter that members split, of the workloads that have it."""
Record = dict[str, Any]


@dataclass(frozen=True)
class Way:
    """How members are started and add.

    module   of this package: what each of them runs
    members  how many there are
    comm     what the module is told: how they add
    needs    packages
    over_mpi mpirun starts them
    """

    module: str
    members: int
    comm: str
    needs: tuple[str, ...] = ()
    over_mpi: bool = False

    def missing(self) -> str:
        """Why it cannot be measured here, as a sentence; or nothing."""
        absent = [f"{name} is not installed" for name in self.needs if find_spec(name) is None]
        if self.over_mpi and shutil.which(MPIRUN[0]) is None:
            absent.append("there is no mpirun")
        return ", ".join(absent)


def _ours(comm: str) -> Way:
    return Way("member", 2, comm, ("mpi4py",), over_mpi=True)


WAYS: Mapping[str, Way] = {
    "alone": Way("member", 1, "none"),
    "two apart": _ours("none"),
    "mpi any": _ours("any"),
    "mpi fixed": _ours("fixed"),
    "mpi split": _ours("split"),
    "mpi bf16": _ours("bf16"),
    "mpi 1bit": _ours("1bit"),
    "gloo": Way("member", 2, "gloo", ("torch",)),
    "torch alone": Way("torch_member", 1, "none", ("torch",)),
    "torch DDP": Way("torch_member", 2, "gloo", ("torch",)),
}
"""Of training steps. What each is compared with: `single`."""
SUMS: Mapping[str, Way] = {
    "alone": Way("adding", 1, "alone"),
    "threads": Way("adding", 1, "threads"),
    "mpi any": Way("adding", 2, "any", ("mpi4py",), over_mpi=True),
    "mpi fixed": Way("adding", 2, "fixed", ("mpi4py",), over_mpi=True),
    "mpi bf16": Way("adding", 2, "bf16", ("mpi4py",), over_mpi=True),
    "mpi 1bit": Way("adding", 2, "1bit", ("mpi4py",), over_mpi=True),
    "gloo": Way("adding", 2, "gloo", ("torch",)),
    "torch's gloo": Way("torch_adding", 2, "gloo", ("torch",)),
}
"""Of sums by themselves."""


def single(name: str) -> str:
    """The way of one member that two of this way are compared with."""
    return "torch alone" if WAYS[name].module.startswith("torch") else "alone"


class Failed(Exception):
    """Members that ended otherwise than with their records. The text is what they said."""


def together(way: Way, arguments: Sequence[str], mpirun: Sequence[str] = MPIRUN) -> list[Record]:
    """What the members write down, by rank. Raises Failed.

    mpirun  what starts members of MPI
    """
    with tempfile.TemporaryDirectory(prefix="graphc-members-") as folder:
        command = [sys.executable, "-m", f"bench.members.{way.module}", folder, way.comm]
        command += arguments
        port = str(_free_port())
        if way.over_mpi:
            started = [[*mpirun, "-n", str(way.members), *command]]
            settings: list[dict[str, str]] = [{}]
        else:
            started = [command] * way.members
            settings = [
                {"RANK": str(r), "WORLD_SIZE": str(way.members), "MASTER_PORT": port, **HERE}
                for r in range(way.members)
            ]
        processes = [
            subprocess.Popen(
                words,
                env={**environment(1), **SETTINGS, **_paths(), **its},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                text=True,
            )
            for words, its in zip(started, settings, strict=True)
        ]
        for process in processes:
            _, said = process.communicate(timeout=LONGEST)
            if process.returncode:
                for other in processes:
                    other.kill()
                raise Failed(f"ended with {process.returncode}: {said.strip()[-2000:]}")
        paths = [Path(folder) / str(rank) for rank in range(way.members)]
        return [json.loads(path.read_text(encoding="utf-8")) for path in paths]


def _paths() -> dict[str, str]:
    """This interpreter's, so that members find what it finds."""
    return {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}


def _free_port() -> int:
    with socket.socket() as place:
        place.bind(("127.0.0.1", 0))
        return place.getsockname()[1]


@dataclass(frozen=True)
class Me:
    """One of the members, as it finds itself.

    agree  makes a number of the first one that of all; they wait for each other there
    """

    rank: int
    folder: Path
    agree: Callable[[int], int]

    def write(self, record: Record) -> None:
        (self.folder / str(self.rank)).write_text(json.dumps(record), encoding="utf-8")


def keep_to_a_core(rank: int) -> None:
    """Member r computes on the r-th core; before anything starts threads."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
