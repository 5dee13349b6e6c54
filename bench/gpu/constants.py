"""What a device can do, measured through the runtime's own launches and graphs.

    python -m bench.gpu.constants FILE       writes them there, after each

The numbers are those that the choice among ways to run a function rests on, and the bounds that
times of workloads are compared with.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from bench.gpu.apart import put
from graphc.backends.cuda.device import Device, LoadedCode
from graphc.backends.cuda.module import header_text
from graphc.backends.cuda.platform import Platform, platform
from graphc.support.phases import Phases

THREADS = 256
CHAIN = 400
"""Launches of a graph, or phases of a kernel."""
ROUNDS = 7


@dataclass(frozen=True)
class Sizes:
    """How much each measurement does; less where kernels are emulated."""

    chain: int = CHAIN
    copied: int = 1 << 30
    turns: int = 20000
    rounds: int = ROUNDS


SMALL = Sizes(chain=3, copied=1 << 14, turns=2, rounds=1)


@dataclass(frozen=True)
class Constant:
    """`value` in `unit`; `spread` is half the range of the rounds next to it."""

    name: str
    value: float
    unit: str
    spread: float


def measure(given: Platform, sizes: Sizes = Sizes()) -> Iterator[Constant]:  # frozen
    """One after the other. The blocks of a grid are as many as the device has multiprocessors."""
    device = given.device()
    text = header_text("device") + Path(__file__).with_name("constants.cu").read_text("utf-8")
    image = given.compile(text, device.machine.arch, Phases())
    yield from _Bench(device, device.load(image.code), sizes).all()


class _Bench:
    def __init__(self, device: Device, code: LoadedCode, sizes: Sizes) -> None:
        self.device, self.code, self.sizes = device, code, sizes
        self.blocks = device.machine.multiprocessors
        self.memory = device.allocate(4 * (32 + 8 * self.blocks * THREADS))
        self.word = device.allocate(256)
        floats = np.full(32 + 8 * self.blocks * THREADS, 0.5, np.float32)
        device.upload(self.memory.address, floats)
        device.upload(self.word.address, np.zeros(64, np.uint32))

    def all(self) -> Iterator[Constant]:
        n, x = self.sizes.chain, self.memory.address
        yield self._launches("launch, one after the other", "empty", self.blocks, record=False)
        yield self._launches("kernel in a graph", "empty", self.blocks, record=True)
        yield self._launches("dependent kernel in a graph", "one", self.blocks, record=True)
        yield self._phases("phase of a grid", "grid_phases", self.blocks, (x, self.word.address, n))
        yield self._phases("phase of a block", "block_phases", 1, (x, n))
        yield self._replay()
        yield self._bandwidth()
        yield self._rate("f32 multiply-adds", "multiply_adds", 16 * 2 * THREADS)
        yield self._rate("TF32 on tensor cores", "tensor_products", 8 * 2048 * THREADS // 32)

    def _launches(self, name: str, kernel: str, blocks: int, *, record: bool) -> Constant:
        def all_launches() -> None:
            for _ in range(self.sizes.chain):
                self.code.launch(kernel, blocks, THREADS, 0, (self.memory.address,))

        work = self.device.record(all_launches) if record else all_launches
        return self._constant(name, "us", work, lambda s: s / self.sizes.chain * 1e6)

    def _phases(self, name: str, kernel: str, blocks: int, given: Sequence[int]) -> Constant:
        def work() -> None:
            self.code.launch(kernel, blocks, THREADS, 0, given, together=blocks > 1)

        return self._constant(name, "us", work, lambda s: s / self.sizes.chain * 1e6)

    def _replay(self) -> Constant:
        work = self.device.record(
            lambda: self.code.launch("empty", 1, THREADS, 0, (self.memory.address,))
        )
        return self._constant(
            "replay of a graph and the wait for it", "us", work, lambda s: s * 1e6
        )

    def _bandwidth(self) -> Constant:
        size = self.sizes.copied
        source, target = self.device.allocate(size), self.device.allocate(size)
        given = (source.address, target.address, size // 16)

        def work() -> None:
            self.code.launch("copied", self.blocks * 8, THREADS, 0, given)

        return self._constant(
            "copy, bytes read and written", "GB/s", work, lambda s: 2e-9 * size / s
        )

    def _rate(self, name: str, kernel: str, operations: int) -> Constant:
        blocks = self.blocks * 8

        def work() -> None:
            self.code.launch(kernel, blocks, THREADS, 0, (self.memory.address, self.sizes.turns))

        done = operations * blocks * self.sizes.turns
        return self._constant(name, "TFLOP/s", work, lambda s: done / s * 1e-12)

    def _constant(
        self, name: str, unit: str, work: Callable[[], None], value: Callable[[float], float]
    ) -> Constant:
        """The median of rounds, each from its beginning to the end of the device's work."""
        work()
        self.device.wait()
        found: list[float] = []
        for _ in range(self.sizes.rounds):
            start = time.perf_counter()
            work()
            self.device.wait()
            found.append(value(time.perf_counter() - start))
        middle = statistics.median(found)
        return Constant(name, middle, unit, (max(found) - min(found)) / 2 / middle)


def main() -> None:
    found: list[dict[str, object]] = []
    for constant in measure(platform()):
        found.append(asdict(constant))
        put(Path(sys.argv[1]), found)


if __name__ == "__main__":
    main()
