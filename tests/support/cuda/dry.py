"""A GPU that computes nothing: whatever is compiled for it is collected as text.

texts: list[str] = []
with using(dry_platform(GPUS["sm_90"], texts)):
    … what would be compiled for a GPU is in `texts` …
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from graphc.backends.cuda.compiler import Image
from graphc.backends.cuda.platform import Platform
from graphc.ir.machine import GpuMachine
from tests.support.cuda.emulator import EmulatedDevice


class DryCode:
    """See `graphc.backends.cuda.device.LoadedCode`."""

    def launch(
        self,
        kernel: str,
        grid: int,
        threads: int,
        shared: int,
        arguments: Sequence[int],
        *,
        together: bool = False,
    ) -> None:
        pass

    def resident_blocks(self, kernel: str, threads: int, shared: int) -> int:
        return 1


@dataclass(frozen=True)
class DryMemory:
    address: int = 256


@dataclass(eq=False)
class DryDevice(EmulatedDevice):
    """Results are zeros."""

    def allocate(self, size: int) -> DryMemory:  # type: ignore[override]
        return DryMemory()

    def upload(self, address: int, array: np.ndarray) -> None:
        pass

    def download(self, array: np.ndarray, address: int) -> None:
        array[...] = 0

    def copy(self, target: int, source: int, size: int) -> None:
        pass

    def load(self, image: bytes) -> DryCode:  # type: ignore[override]
        return DryCode()


def dry_platform(machine: GpuMachine, texts: list[str]) -> Platform:
    """What `graphc.backends.cuda.platform.using` takes."""
    device = DryDevice(machine)

    def collect(text: str, arch: str, _phases: object) -> Image:
        texts.append(text)
        return Image(arch, b"")

    return Platform(lambda: "", lambda: machine, lambda: device, collect, lambda: "nothing")
