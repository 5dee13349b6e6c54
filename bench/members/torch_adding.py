"""Sums by PyTorch's gloo; arguments as of `adding`, COMM is gloo."""

from __future__ import annotations

import sys
from pathlib import Path

import torch
import torch.distributed as dist

from bench.members.clock import timed
from bench.members.torch_member import joined


def main(arguments: list[str]) -> None:
    folder, comm, sizes, seconds = arguments
    me = joined(Path(folder), comm)
    found = {}
    for size in map(int, sizes.split(",")):
        numbers = torch.randn(size // 4)
        array = numbers.clone()
        found[str(size)] = timed(
            me,
            lambda array=array: dist.all_reduce(array),
            float(seconds),
            lambda array=array, numbers=numbers: array.copy_(numbers),
        )
    me.write(found)
    if dist.is_initialized():
        dist.barrier()
        dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1:])
