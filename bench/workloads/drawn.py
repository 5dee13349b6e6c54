"""Networks that are in no list: their sizes are drawn from a seed, so that nobody tunes to them."""

from __future__ import annotations

import re

import numpy as np

from bench.workloads.images import ConvNet, convnet
from bench.workloads.mlp import Activation, Mlp, mlp
from bench.workloads.record import Workload, generator
from bench.workloads.recurrent import Cell, Recurrent, recurrent

_NAME = re.compile(r"drawn-\d+-\d+")
_ACTIVATIONS: tuple[Activation, ...] = ("sigmoid", "relu")
_CELLS: tuple[Cell, ...] = ("sigmoid", "lstm", "peepholes")


def drawn_names(seed: int, count: int) -> list[str]:
    """The same seed gives the same networks."""
    return [f"drawn-{seed}-{number}" for number in range(count)]


def is_drawn(name: str) -> bool:
    return _NAME.fullmatch(name) is not None


def drawn(name: str, *, small: bool = False) -> Workload:
    """The network of a name: fully connected, recurrent or convolutional, trained or asked.

    small  with layers of a few units, for tests
    """
    rng = generator(name)
    family = (_mlp, _recurrent, _convnet)[int(name.rpartition("-")[2]) % 3]
    return family(name, rng, 16 if small else 1, bool(rng.integers(4)))


def _size(rng: np.random.Generator, least: int, most: int, divisor: int = 1) -> int:
    """As often between 10 and 20 as between 100 and 200."""
    found = round(float(np.exp(rng.uniform(np.log(least), np.log(most)))))
    return max(found // divisor, 2)


def _mlp(name: str, rng: np.random.Generator, divisor: int, trains: bool) -> Workload:
    hidden = [_size(rng, 20, 1000, divisor) for _ in range(rng.integers(1, 6))]
    widths = (_size(rng, 10, 1500, divisor), *hidden, _size(rng, 2, 300, divisor))
    batch = _size(rng, 8 if trains else 1, 500, divisor)
    spec = Mlp(widths, _ACTIVATIONS[rng.integers(len(_ACTIVATIONS))])
    shown = "-".join(map(str, widths))
    title = f"{shown} {spec.activation}, {_what(trains, batch)}"
    return mlp(name, title, spec, batch, trains=trains)


def _recurrent(name: str, rng: np.random.Generator, divisor: int, trains: bool) -> Workload:
    cell = _CELLS[rng.integers(len(_CELLS))]
    hidden = _size(rng, 20, 500, divisor)
    embedding = hidden if cell == "sigmoid" else _size(rng, 20, 300, divisor)
    words, outputs = _size(rng, 100, 20000, divisor), _size(rng, 10, 5000, divisor)
    time, sequences = _size(rng, 5, 50, divisor), _size(rng, 2, 32, divisor)
    spec = Recurrent(cell, words, 1, embedding, hidden, outputs, True, 0, time, sequences)
    title = f"{cell} {hidden}, {words} words, {outputs} outputs, {sequences} x {time}"
    title += "" if trains else ", inference"
    return recurrent(name, title, spec, trains=trains)


def _convnet(name: str, rng: np.random.Generator, divisor: int, trains: bool) -> Workload:
    kernel = int(rng.integers(3, 6))
    channels = (int(rng.integers(1, 4)), *(_size(rng, 8, 64, divisor) for _ in range(2)))
    image = 4 * (kernel - 1) + int(rng.integers(4, 8 if divisor > 1 else 32))
    dense = (_size(rng, 32, 256, divisor), _size(rng, 2, 100, divisor))
    batch = _size(rng, 8 if trains else 1, 64, divisor)
    spec = ConvNet(image, channels, kernel, dense)
    shown = "-".join(map(str, channels))
    title = f"{image}x{image}, {kernel}x{kernel} {shown}, {_what(trains, batch)}"
    return convnet(name, title, spec, batch, trains=trains)


def _what(trains: bool, batch: int) -> str:
    return f"minibatch {batch}" if trains else f"inference of {batch}"
