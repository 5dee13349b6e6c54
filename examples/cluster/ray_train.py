"""A training whose members are actors of Ray: where one is lost, all begin again at the checkpoint.

    python examples/cluster/ray_train.py [--members 4,2] [--lose]

`--members` is how many there are at the first start, at the second one and so on; by default as
many as the cluster has CPUs for. With `--lose` the last member of the first start is killed on the
way. Since every minibatch has SHARDS parts whoever computes them, the parameters have the bits of a
training that nothing happened to, which is computed afterwards and compared.

On a cluster (`ray start` on its machines) `--folder` is one that all of them see: the first member
writes the checkpoints there. Ray launches and starts again; in a step members talk by gloo alone.
"""

from __future__ import annotations

import argparse
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import ray

import graphc as gc

HERE = Path(__file__).resolve().parent
DIGITS = HERE.parent / "digits"
SHARDS, EPOCHS, MINIBATCH = 4, 20, 32
LOST_AT = 500
"""Minibatches after which the member of `--lose` is killed: in the twelfth epoch."""
STARTS = 5
PATIENCE = 60.0

Parameters = dict[str, np.ndarray]


def train(
    member: gc.comm.Communicator,
    checkpoints: gc.Checkpoints | None,
    should_stop: Callable[[], bool] = lambda: False,
) -> Parameters:
    """The whole training, or the rest of it, for one member."""
    net = gc.load(DIGITS / "digits.ndl", seed=1)
    rows = np.loadtxt(DIGITS / "train.txt", dtype=np.float32)
    data = {
        "features": rows[:, :64],
        "labels": np.eye(10, dtype=np.float32)[rows[:, 64].astype(int)],
    }
    gc.train(
        net,
        data,
        learning_rate=1.0,
        momentum=0.9,
        epochs=EPOCHS,
        minibatch=MINIBATCH,
        checkpoints=checkpoints,
        comm=member,
        progress=gc.Progress(should_stop=should_stop),
        threads=1,
    )
    return dict(net.parameters)


@ray.remote(num_cpus=1, max_restarts=0)
class Member:
    """A process of the cluster that is one member of one start."""

    def address(self) -> tuple[str, int]:
        """Where the others find this one: a port that nobody uses now."""
        with socket.socket() as free:
            free.bind(("", 0))
            return ray.util.get_node_ip_address(), free.getsockname()[1]

    def train(
        self, rank: int, size: int, address: tuple[str, int], folder: str, lost_at: int | None
    ) -> tuple[float, Parameters]:
        """The time of the first minibatch, and what was learnt."""
        host, port = address
        member = gc.comm.gloo(rank, size, host=host, port=port, patience=PATIENCE, shards=SHARDS)
        began: list[float] = []

        def count() -> bool:
            began.append(time.time())
            if len(began) == lost_at:
                os.kill(os.getpid(), signal.SIGKILL)
            return False

        checkpoints = gc.Checkpoints(Path(folder) / "state", resume=True)
        parameters = train(member, checkpoints, count)
        return (began or [time.time()])[0], parameters


@dataclass(frozen=True)
class Trained:
    """What was learnt, how many members each start had, and how long it was from a loss to the
    first minibatch after it."""

    parameters: Parameters
    sizes: Sequence[int]
    seconds: Sequence[float]


def train_by_actors(folder: Path, sizes: Sequence[int] = (), *, lose: bool = False) -> Trained:
    """Train, and start again where members are lost, at most STARTS times."""
    used, lost, waited = list[int](), list[float](), list[float]()
    for start in range(STARTS):
        size = sizes[min(start, len(sizes) - 1)] if sizes else fitting()
        used.append(size)
        members = [Member.remote() for _ in range(size)]
        try:
            address = ray.get(members[0].address.remote())
            tasks = [
                member.train.remote(
                    rank,
                    size,
                    address,
                    str(folder),
                    LOST_AT if lose and start == 0 and rank == size - 1 else None,
                )
                for rank, member in enumerate(members)
            ]
            began, parameters = ray.get(tasks)[0]
        except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError) as problem:
            lost.append(time.time())
            print(f"start {start + 1}, {size} members: {why(problem)}")
            continue
        finally:
            for member in members:
                ray.kill(member)
        waited += [began - lost[-1]] if lost else []
        return Trained(parameters, used, waited)
    raise SystemExit(f"the training did not come to its end in {STARTS} starts")


def fitting() -> int:
    """As many members as there are CPUs for, of the numbers that divide SHARDS."""
    free = int(ray.available_resources().get("CPU", 1))
    return max(size for size in (1, 2, SHARDS) if size <= max(free, 1))


def why(problem: Exception) -> str:
    """What a member says, or Ray of one that is gone, in a line."""
    cause = getattr(problem, "cause", None) or problem
    return str(cause).strip().partition("\n")[0]


def main(sizes: Sequence[int] = (), folder: Path | None = None, *, lose: bool = False) -> int:
    """0 if the parameters are those of a training that nothing happened to."""
    with tempfile.TemporaryDirectory() as own:
        trained = train_by_actors(folder or Path(own), sizes, lose=lose)
    print(f"members of each start: {', '.join(map(str, trained.sizes))}")
    for seconds in trained.seconds:
        print(f"from the loss to the next minibatch: {seconds:.1f} s")
    expected = train(gc.comm.alone(shards=SHARDS), None)
    same = all(np.array_equal(trained.parameters[name], w) for name, w in expected.items())
    print(f"parameters of one undisturbed member: {'the same bits' if same else 'others'}")
    return 0 if same else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--members", default="")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--lose", action="store_true")
    args = parser.parse_args()
    sizes = [int(n) for n in args.members.split(",") if n]
    here = None if os.environ.get("RAY_ADDRESS") else max([os.cpu_count() or 1, *sizes])
    ray.init(num_cpus=here, logging_level="ERROR", log_to_driver=False)
    sys.exit(main(sizes, args.folder, lose=args.lose))
