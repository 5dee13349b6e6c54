"""W7: a convolutional network on small images; W9's residual network of 18 layers; and W10: blocks
of such a network, trained."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from bench.workloads.record import BYTES, Cost, Values, Workload, generator, normal, size, weights


@dataclass(frozen=True)
class ConvNet:
    """Convolutions of `kernel` pixels without padding, each with bias, ReLU and max pooling by 2;
    then fully connected layers with ReLU between them. Images are square."""

    image: int
    channels: tuple[int, ...]
    kernel: int
    dense: tuple[int, ...]

    @property
    def maps(self) -> list[int]:
        """Pixels along an edge: of the input, then behind each pooling."""
        found = [self.image]
        for _ in self.channels[1:]:
            found.append((found[-1] - self.kernel + 1) // 2)
        return found

    @property
    def flat(self) -> int:
        return self.channels[-1] * self.maps[-1] ** 2


def convnet(
    name: str,
    title: str,
    spec: ConvNet,
    batch: int,
    *,
    trains: bool = True,
    targets: tuple[float, float] = (1.0, 1.0),
) -> Workload:
    rng = generator(name)
    k = spec.kernel
    inputs: Values = {"x": normal(rng, batch, spec.channels[0], spec.image, spec.image)}
    if trains:
        inputs["y"] = rng.integers(0, spec.dense[-1], batch)
    parameters: Values = {}
    for i, (before, after) in enumerate(pairwise(spec.channels)):
        parameters[f"K{i}"] = weights(rng, after, before, k, k, inputs=before * k * k)
        parameters[f"A{i}"] = normal(rng, after) * np.float32(0.1)
    for i, (before, after) in enumerate(pairwise((spec.flat, *spec.dense))):
        parameters[f"W{i}"] = weights(rng, after, before)
        parameters[f"B{i}"] = normal(rng, after) * np.float32(0.1)
    return Workload(
        name,
        title,
        spec,
        inputs,
        parameters,
        _convnet_cost(spec, batch, size(parameters), trains),
        trains,
        batch,
        {},
        targets=targets,
    )


def _convnet_cost(spec: ConvNet, batch: int, parameters: int, trains: bool) -> Cost:
    products: list[float] = []
    kept = spec.channels[0] * spec.image**2
    for (before, after), edge in zip(pairwise(spec.channels), spec.maps, strict=False):
        pixels = (edge - spec.kernel + 1) ** 2
        products.append(2.0 * pixels * before * after * spec.kernel**2)
        kept += pixels * after
    products += [2.0 * a * b for a, b in pairwise((spec.flat, *spec.dense))]
    data = BYTES * batch * spec.channels[0] * spec.image**2
    if not trains:
        flops = batch * sum(products)
        return Cost(flops, BYTES * parameters + data, BYTES * (parameters + batch * kept))
    flops = batch * (3 * sum(products) - products[0])  # no gradient by the input
    moved = 4 * BYTES * parameters + data
    return Cost(flops, moved, 2 * BYTES * (parameters + batch * kept))


# --- residual network ----------------------------------------------------------------------------


@dataclass(frozen=True)
class ResNet:
    """ResNet-18: a 7x7 convolution with stride 2, max pooling, two blocks for each of `widths`.

    NDL's MaxPooling does not pad: 112 pixels become 55 here, and 56 in the paper's network.
    """

    image: int
    widths: tuple[int, ...]
    outputs: int

    @property
    def first(self) -> int:
        """Pixels behind the max pooling of 3 with stride 2."""
        return (halved(self.image) - 3) // 2 + 1

    @property
    def last(self) -> int:
        """Pixels before the average over all of them."""
        edge = self.first
        for _ in self.widths[1:]:
            edge = halved(edge)
        return edge


@dataclass(frozen=True)
class Convolution:
    """A convolution with zeros around the image, and its normalisation: K, scale, bias, mean,
    inverse deviation of this name."""

    name: str
    before: int
    after: int
    kernel: int
    stride: int


def halved(edge: int) -> int:
    """Pixels of a convolution with stride 2 whose window stands on the first one."""
    return (edge - 1) // 2 + 1


def blocks(spec: ResNet) -> Iterator[tuple[Convolution, Convolution, Convolution | None]]:
    """Two convolutions of each block, and one on the way around them where sizes change."""
    before = spec.widths[0]
    for stage, width in enumerate(spec.widths):
        for i in range(2):
            name, stride = f"s{stage}b{i}", 2 if stage and not i else 1
            around = Convolution(f"{name}d", before, width, 1, stride) if before != width else None
            yield (
                Convolution(f"{name}c", before, width, 3, stride),
                Convolution(f"{name}e", width, width, 3, 1),
                around,
            )
            before = width


def stem(spec: ResNet) -> Convolution:
    return Convolution("stem", 3, spec.widths[0], 7, 2)


def resnet(
    name: str, title: str, spec: ResNet, batch: int, targets: tuple[float, float]
) -> Workload:
    rng = generator(name)
    parameters: Values = {}
    flops, edge = 0.0, spec.image

    def add(c: Convolution, edge: int) -> None:
        """`edge` of its output."""
        nonlocal flops
        inputs = c.before * c.kernel**2
        kernel = weights(rng, c.after, c.before, c.kernel, c.kernel, inputs=inputs)
        parameters[f"{c.name}K"] = kernel * np.float32(math.sqrt(2))
        parameters[f"{c.name}scale"] = 1 + normal(rng, c.after) * np.float32(0.1)
        parameters[f"{c.name}bias"] = normal(rng, c.after) * np.float32(0.1)
        parameters[f"{c.name}mean"] = normal(rng, c.after) * np.float32(0.1)
        parameters[f"{c.name}inv"] = 1 / (1 + normal(rng, c.after) * np.float32(0.05))
        flops += 2.0 * batch * edge**2 * inputs * c.after

    add(stem(spec), halved(edge))
    edge = spec.first
    for first, second, around in blocks(spec):
        edge = halved(edge) if first.stride == 2 else edge
        for c in (first, second, *([around] if around else [])):
            add(c, edge)
    parameters["W"] = weights(rng, spec.outputs, spec.widths[-1])
    parameters["B"] = normal(rng, spec.outputs) * np.float32(0.1)
    flops += 2.0 * batch * spec.outputs * spec.widths[-1]
    inputs = {"x": normal(rng, batch, 3, spec.image, spec.image)}
    moved = BYTES * (size(parameters) + size(inputs))
    cost = Cost(flops, moved, moved)
    return Workload(name, title, spec, inputs, parameters, cost, False, batch, {}, targets=targets)


# --- residual blocks, trained --------------------------------------------------------------------


@dataclass(frozen=True)
class Residual:
    """A convolution 3x3 with zeros around the image and ReLU, then blocks of two, each
    relu(h + K relu(K h)); the average over all pixels; one layer. Images are square."""

    image: int
    channels: int
    width: int
    blocks: int
    outputs: int

    @property
    def kernels(self) -> list[tuple[str, int]]:
        """Of each convolution the name, and the channels before it."""
        inner = [f"K{i}{part}" for i in range(self.blocks) for part in "ab"]
        return [("K", self.channels), *((name, self.width) for name in inner)]


def residual(
    name: str, title: str, spec: Residual, batch: int, targets: tuple[float, float]
) -> Workload:
    rng = generator(name)
    parameters = {
        kernel: weights(rng, spec.width, before, 3, 3, inputs=9 * before)
        for kernel, before in spec.kernels
    }
    parameters["W"] = weights(rng, spec.outputs, spec.width)
    parameters["B"] = normal(rng, spec.outputs) * np.float32(0.1)
    inputs: Values = {
        "x": normal(rng, batch, spec.channels, spec.image, spec.image),
        "y": rng.integers(0, spec.outputs, batch),
    }
    products = [2.0 * 9 * spec.image**2 * before * spec.width for _, before in spec.kernels]
    products.append(2.0 * spec.width * spec.outputs)
    flops = batch * (3 * sum(products) - products[0])  # no gradient by the input
    kept = spec.image**2 * (spec.channels + spec.width * len(spec.kernels))
    moved = 4 * BYTES * size(parameters) + BYTES * size(inputs)
    cost = Cost(flops, moved, 2 * BYTES * (size(parameters) + batch * kept))
    return Workload(name, title, spec, inputs, parameters, cost, True, batch, {}, targets=targets)
