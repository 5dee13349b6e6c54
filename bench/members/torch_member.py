"""One member with PyTorch: `python -m bench.members.torch_member FOLDER COMM WORKLOAD SECONDS`.

COMM `gloo` is DistributedDataParallel over gloo, `none` the same module by itself. The networks are
those of `bench/peers/torch.py`, the update is the fused SGD with momentum.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F

from bench.members.clock import timed
from bench.members.member import digest, inputs_of
from bench.members.ways import Me, keep_to_a_core
from bench.peers.torch import SCORES, Tensors, by_class
from bench.workloads import workload
from bench.workloads.record import MOMENTUM, Workload
from bench.workloads.recurrent import Recurrent


class Net(torch.nn.Module):
    """The criterion of a workload, a sum over the samples."""

    def __init__(self, work: Workload) -> None:
        super().__init__()
        self.spec = work.spec
        values = {
            n: torch.nn.Parameter(torch.from_numpy(v.copy())) for n, v in work.parameters.items()
        }
        self.values = torch.nn.ParameterDict(values)

    def forward(self, inputs: Tensors) -> torch.Tensor:
        p = dict(self.values.items())
        if isinstance(self.spec, Recurrent) and self.spec.classes:
            return by_class(self.spec, p, inputs)
        scores = SCORES[type(self.spec)](self.spec, p, inputs)
        return F.cross_entropy(scores, inputs["y"], reduction="sum")


def main(arguments: list[str]) -> None:
    folder, comm, name, seconds = arguments
    me = joined(Path(folder), comm)
    work = workload(name)
    inputs = {n: torch.from_numpy(v) for n, v in inputs_of(work, me.rank).items()}
    net = Net(work)
    trained: torch.nn.Module = net
    if comm == "gloo":
        trained = torch.nn.parallel.DistributedDataParallel(net, gradient_as_bucket_view=True)
    learner = torch.optim.SGD(net.parameters(), lr=work.rate, momentum=MOMENTUM, fused=True)

    def step() -> float:
        learner.zero_grad(set_to_none=True)
        loss = trained(inputs)
        loss.backward()
        learner.step()
        return float(loss.detach())

    step()
    found = timed(me, step, float(seconds))
    parameters = {n: p.detach().numpy() for n, p in net.values.items()}
    me.write({**found, "samples": work.samples, "digest": digest(parameters)})
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


def joined(folder: Path, comm: str) -> Me:
    """This process, on its core, with the others by gloo if it has any."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    keep_to_a_core(rank)
    torch.set_num_threads(1)
    torch.set_num_interop_threads(1)
    if comm != "gloo":
        return Me(rank, folder, lambda number: number)
    dist.init_process_group("gloo", rank=rank, world_size=size)

    def agree(number: int) -> int:
        chosen = torch.tensor([number])
        dist.broadcast(chosen, 0)
        return int(chosen)

    return Me(rank, folder, agree)


if __name__ == "__main__":
    main(sys.argv[1:])
