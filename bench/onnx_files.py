"""Networks as ONNX files, exported by PyTorch: graphc's library next to ONNX Runtime.

    python -m bench.onnx_files [NAMES] [--threads 1,2] [--rounds 15] [--sizes]

Random weights, fixed sizes, f32, weights frozen. A line for each network and number of threads:
operators in the file and its size, that of the library that it becomes, the time to read and to
compile it, the most memory of a process that reads, compiles and calls it, the times of a call
(least of all rounds, in turns), their ratio, and the largest difference of the results. With
`--sizes` the files leave the number of samples open, and where PyTorch exports that the length of
sequences and the height and width of images: a line for each of three sizes, of one compilation.
Needs torch and onnxruntime.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any

import numpy as np

import graphc as gc
from graphc.driver.artifact import ArtifactRequest, emit
from graphc.driver.options import CompileOptions

MIN_SECONDS = 0.02
"""A round repeats its call for at least so long."""
PAUSE = 0.1
"""Seconds before a round: ONNX Runtime's threads look for work for a while behind a call, on a core
that graphc's would need."""


@dataclass(frozen=True)
class Network:
    """What makes a PyTorch module, the shape of its input, and sizes of axes that a file may leave
    open, the largest last."""

    make: Callable[[Any], Any]
    shape: tuple[int, ...]
    sizes: Mapping[int, tuple[int, int, int]]

    def shapes(self) -> list[tuple[int, ...]]:
        """Those of its open sizes."""
        axes = range(len(self.shape))
        return [
            tuple(self.sizes[a][i] if a in self.sizes else self.shape[a] for a in axes)
            for i in range(3)
        ]


def _mobile(nn: Any) -> Any:
    """Depthwise and pointwise convolutions, as in MobileNet."""

    def block(inputs: int, outputs: int, stride: int) -> list[Any]:
        return [
            nn.Conv2d(inputs, inputs, 3, stride, 1, groups=inputs, bias=False),
            nn.BatchNorm2d(inputs),
            nn.ReLU6(),
            nn.Conv2d(inputs, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU6(),
        ]

    sizes = [(32, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1)]
    first = [nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU6()]
    body = [layer for size in sizes for layer in block(*size)]
    return nn.Sequential(*first, *body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(256, 100))


def _residual(nn: Any) -> Any:
    """Two stages of basic blocks, as in ResNet-18."""

    class Block(nn.Module):  # type: ignore[misc]  # nn is a module that need not be installed
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            self.body = nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
                nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
                nn.BatchNorm2d(outputs),
            )
            same = inputs == outputs
            self.way = nn.Identity() if same else nn.Conv2d(inputs, outputs, 1, stride, bias=False)
            self.relu = nn.ReLU()

        def forward(self, x: Any) -> Any:
            return self.relu(self.body(x) + self.way(x))

    first = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    blocks = [Block(64, 64, 1), Block(64, 64, 1), Block(64, 128, 2), Block(128, 128, 1)]
    last = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 100)]
    return nn.Sequential(*first, nn.MaxPool2d(3, 2, 1), *blocks, *last)


def _u_net(nn: Any) -> Any:
    """Down, up by transposed convolutions, and the joined images between."""
    import torch

    class UNet(nn.Module):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.down = nn.Sequential(nn.Conv2d(3, 32, 3, 1, 1), nn.ReLU())
            self.deep = nn.Sequential(
                nn.MaxPool2d(2),
                nn.Conv2d(32, 64, 3, 1, 1),
                nn.ReLU(),
                nn.ConvTranspose2d(64, 32, 2, 2),
            )
            self.up = nn.Sequential(nn.Conv2d(64, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 2, 1))

        def forward(self, x: Any) -> Any:
            here = self.down(x)
            return self.up(torch.cat([here, self.deep(here)], 1))

    return UNet()


def _lstm(nn: Any) -> Any:
    class Tagger(nn.Module):  # type: ignore[misc]  # as above
        def __init__(self) -> None:
            super().__init__()
            self.lstm = nn.LSTM(64, 128, 2, batch_first=True, bidirectional=True)
            self.out = nn.Linear(256, 40)

        def forward(self, x: Any) -> Any:
            return self.out(self.lstm(x)[0])

    return Tagger()


def _transformer(nn: Any) -> Any:
    layer = nn.TransformerEncoderLayer(128, 4, 512, 0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)


def _mlp(nn: Any) -> Any:
    return nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    )


def _alexnet(nn: Any) -> Any:
    """61 million weights, most of them in three dense layers."""
    sizes = [(3, 64, 11, 4, 2), (64, 192, 5, 1, 2), (192, 384, 3, 1, 1), (384, 256, 3, 1, 1)]
    layers: list[Any] = []
    for size in [*sizes, (256, 256, 3, 1, 1)]:
        layers += [nn.Conv2d(*size), nn.ReLU()]
        if size[0] in (3, 64) or size[:2] == (256, 256):
            layers.append(nn.MaxPool2d(3, 2))
    layers.append(nn.Flatten())
    for rows, cols in ((9216, 4096), (4096, 4096)):
        layers += [nn.Linear(rows, cols), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(4096, 1000))


FEW = (1, 2, 4)
SIDES = (64, 80, 96)
NETWORKS = {
    "mobile": Network(_mobile, (1, 3, 96, 96), {0: FEW, 2: SIDES, 3: SIDES}),
    "residual": Network(_residual, (1, 3, 96, 96), {0: FEW, 2: SIDES, 3: SIDES}),
    "u-net": Network(_u_net, (1, 3, 64, 64), {0: FEW}),
    "lstm": Network(_lstm, (1, 50, 64), {0: FEW, 1: (10, 30, 50)}),
    "transformer": Network(_transformer, (1, 64, 128), {0: FEW}),
    "mlp": Network(_mlp, (1, 784), {0: (1, 8, 64)}),
    "alexnet": Network(_alexnet, (1, 3, 224, 224), {0: FEW}),
}


def exported(network: Network, path: Path, *, is_open: bool = False) -> np.ndarray:
    """Writes the file, with open sizes or of fixed ones; gives an input."""
    import torch

    torch.manual_seed(0)
    module = network.make(torch.nn).eval()
    for parameter in module.parameters():
        if parameter.dim() == 4:
            parameter.data *= 2  # or what deep convolutions give vanishes
    x = torch.randn(*network.shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module,
            (x,),
            str(path),
            dynamo=False,
            opset_version=17,
            input_names=["x"],
            dynamic_axes={"x": {axis: _size(axis) for axis in network.sizes}} if is_open else None,
        )
    return x.numpy()


def _size(axis: int) -> str:
    """The name of an open size."""
    return f"d{axis}"


def session(path: Path, threads: int) -> Any:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def seconds_of(call: Callable[[], object]) -> float:
    """A call's time: the mean of a round, which begins when the other's threads sleep."""
    sleep(PAUSE)
    count, start = 0, perf_counter()
    while (spent := perf_counter() - start) < MIN_SECONDS or count == 0:
        call()
        count += 1
    return spent / count


def in_turns(calls: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """The least time of each."""
    for call in calls:
        call()
    found = [[seconds_of(call) for call in calls] for _ in range(rounds)]
    return [min(times) for times in zip(*found, strict=True)]


CALLED_ALONE = """
import re, sys, numpy, graphc
program = graphc.load_program(sys.argv[1])
(given,) = program.function.arguments[:1]
x = numpy.zeros(given.tensor.dims, numpy.float32)
graphc.compile(program, freeze=True, threads=1)(**{given.name: x})
status = open("/proc/self/status").read()
print(int(re.search("VmHWM:\\s*(\\d+)", status)[1]) // 1024)  # of this program alone
"""


def peak_megabytes(path: Path) -> int:
    """The most memory that reading, compiling and calling takes, in a process of its own."""
    command = [sys.executable, "-c", CALLED_ALONE, str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def library_kilobytes(program: Any, out: Path) -> int:
    """The size of the library that the program becomes, with its weights."""
    emit(program, ArtifactRequest(["so"], out), CompileOptions())
    return out.stat().st_size // 1024


def line(name: str, folder: Path, threads: int, rounds: int) -> str:
    path = folder / f"{name}.onnx"
    x = exported(NETWORKS[name], path)
    start = perf_counter()
    program = gc.load_program(path)
    read = perf_counter() - start
    ours = gc.compile(program, freeze=True, threads=threads)
    compiled = perf_counter() - start - read
    peer = session(path, threads)
    (expected,) = peer.run(None, {"x": x})
    (found,) = ours(x=x).values()
    times = in_turns([lambda: ours(x=x), lambda: peer.run(None, {"x": x})], rounds)
    return (
        f"{name:12} {threads:7} {node_count(path):5} {path.stat().st_size // 1024:8} "
        f"{library_kilobytes(program, path.with_suffix('.so')):8} {read:7.2f} {compiled:9.2f} "
        f"{peak_megabytes(path):7} "
        f"{times[0] * 1e3:10.3f} {times[1] * 1e3:9.3f} {times[0] / times[1]:6.2f} "
        f"{np.abs(found - expected).max():9.1e}"
    )


def lines_of_sizes(name: str, folder: Path, threads: int, rounds: int) -> Iterator[str]:
    """One for each of three sizes, of one compilation."""
    network, path = NETWORKS[name], folder / f"{name}.open.onnx"
    exported(network, path, is_open=True)
    bounds = {_size(axis): sizes[-1] for axis, sizes in network.sizes.items()}
    program = gc.load_program(path, bounds=bounds)
    ours, peer = gc.compile(program, freeze=True, threads=threads), session(path, threads)
    for shape in network.shapes():
        x = np.random.default_rng(0).standard_normal(shape, np.float32)
        (expected,) = peer.run(None, {"x": x})
        (found,) = ours(x=x).values()
        times = in_turns([partial(ours, x=x), partial(peer.run, None, {"x": x})], rounds)
        yield (
            f"{name:12} {threads:7} {' x '.join(map(str, shape)):>16} "
            f"{times[0] * 1e3:10.3f} {times[1] * 1e3:9.3f} {times[0] / times[1]:6.2f} "
            f"{np.abs(found - expected).max():9.1e}"
        )


HEAD = "nodes  file kB    so kB  read s compile s peak MB"


def node_count(path: Path) -> int:
    import onnx

    return len(onnx.load(str(path)).graph.node)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="?", default=",".join(NETWORKS))
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--sizes", action="store_true", help="open sizes, three of each network")
    given = parser.parse_args()
    os.environ["GRAPHC_CACHE"] = "off"  # so that every network is compiled
    head = "            size" if given.sizes else HEAD
    print(f"network      threads {head}  graphc ms    ORT ms  ratio     error")
    with TemporaryDirectory() as folder:
        for name in given.names.split(","):
            for threads in map(int, given.threads.split(",")):
                arguments = name, Path(folder), threads, given.rounds
                made = lines_of_sizes(*arguments) if given.sizes else [line(*arguments)]
                for text in made:
                    print(text, flush=True)


if __name__ == "__main__":
    main()
