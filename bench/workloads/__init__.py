"""The workloads by name. Their arrays are made when they are asked for, from a seed each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bench.workloads.drawn import drawn, is_drawn
from bench.workloads.encoder import Encoder, encoder
from bench.workloads.images import ConvNet, Residual, ResNet, convnet, residual, resnet
from bench.workloads.mlp import EPOCH_STEPS, Mlp, mlp
from bench.workloads.record import Workload
from bench.workloads.recurrent import Cell, Recurrent, recurrent
from bench.workloads.rows import rows

IN_BF16 = ".bf16"
"""Behind the name of any workload: the same with factors of products in bf16."""


def workload(name: str, *, small: bool = False) -> Workload:
    """small  the same network at sizes that are compiled and checked in a moment, for tests"""
    if name.endswith(IN_BF16):
        work = workload(name.removesuffix(IN_BF16), small=small)
        # Units for bf16 multiply twice as many numbers as those for f32 at least.
        cost = replace(work.cost, flops=work.cost.flops / 2)
        return replace(work, name=name, title=f"{work.title}, in bf16", cost=cost, bf16=True)
    return drawn(name, small=small) if is_drawn(name) else WORKLOADS[name](small)


def _w1(name: str, title: str, targets: tuple[float, float], epoch: bool) -> Workload:
    spec = Mlp((2, 50, 50, 2), "sigmoid", normalised=True)
    return mlp(name, title, spec, 25, epoch_steps=EPOCH_STEPS if epoch else 0, targets=targets)


def _w2(
    name: str,
    title: str,
    widths: tuple[int, ...],
    batch: int,
    targets: tuple[float, float],
    small: bool,
) -> Workload:
    widths = (20, *(w // 16 for w in widths[1:-1]), 10) if small else widths
    return mlp(name, title, Mlp(widths, "relu"), 8 if small else batch, targets=targets)


def _w3(
    name: str,
    title: str,
    batch: int,
    targets: tuple[float, float],
    small: bool,
    trains: bool = True,
) -> Workload:
    spec = Mlp((30, 24, 24, 24, 17) if small else (792, 512, 512, 512, 183), "sigmoid")
    return mlp(name, title, spec, min(batch, 9 if small else batch), trains=trains, targets=targets)


def _tagger(
    name: str,
    title: str,
    cell: Cell,
    targets: tuple[float, float],
    small: bool,
    trains: bool = True,
) -> Workload:
    words, embedding, hidden, outputs, time = (
        (48, 10, 12, 7, 4) if small else (2832, 50, 300, 127, 20)
    )
    sequences = (3 if small else 10) if trains else 1
    spec = Recurrent(cell, words, 3, embedding, hidden, outputs, True, 0, time, sequences)
    return recurrent(name, title, spec, trains=trains, targets=targets)


def _language(
    name: str,
    title: str,
    cell: Cell,
    classes: int,
    time: int,
    targets: tuple[float, float],
    small: bool,
) -> Workload:
    words, rows, sequences = (40, 12, 3) if small else (10000, 200, 10)
    classes, time = (4 if classes else 0, 5) if small else (classes, time)
    spec = Recurrent(cell, words, 1, rows, rows, words, False, classes, time, sequences)
    return recurrent(name, title, spec, targets=targets)


def _convnet(
    name: str,
    title: str,
    batch: int,
    targets: tuple[float, float],
    small: bool,
    trains: bool = True,
) -> Workload:
    spec = ConvNet(16, (1, 4, 5), 5, (12, 10)) if small else ConvNet(28, (1, 16, 32), 5, (128, 10))
    return convnet(
        name, title, spec, min(batch, 6 if small else batch), trains=trains, targets=targets
    )


def _encoder(
    name: str, title: str, batch: int, targets: tuple[float, float], small: bool
) -> Workload:
    spec = Encoder(16, 2, 7) if small else Encoder(256, 4, 128)
    return encoder(name, title, spec, min(batch, 3 if small else batch), targets)


def _w8(name: str, function: str, targets: tuple[float, float], small: bool) -> Workload:
    titles = {"chain": "element-wise chain", "softmax": "softmax by row", "norm": "norm by row"}
    shape = (33, 37) if small else (4096, 1024)
    return rows(name, f"{titles[function]}, 4096x1024", function, shape, targets)  # type: ignore[arg-type]  # a key of titles


WORKLOADS: dict[str, Callable[[bool], Workload]] = {
    "W1": lambda small: _w1(
        "W1", "2-50-50-2 sigmoid, minibatch 25, a call a step", (6.0, 10.5), epoch=False
    ),
    "W1epoch": lambda small: _w1(
        "W1epoch", "the same, an epoch in one call, per step", (3.5, 3.5), epoch=True
    ),
    "W2a": lambda small: _w2(
        "W2a", "784-256-10 ReLU, minibatch 32", (784, 256, 10), 32, (2.0, 3.0), small
    ),
    "W2b": lambda small: _w2(
        "W2b", "784-512-512-10 ReLU, minibatch 256", (784, 512, 512, 10), 256, (1.3, 1.45), small
    ),
    "W3a": lambda small: _w3(
        "W3a", "792-512-512-512-183 sigmoid, minibatch 256", 256, (1.3, 1.65), small
    ),
    "W3b": lambda small: _w3("W3b", "the same, minibatch 1024", 1024, (1.2, 1.3), small),
    "W3i1": lambda small: _w3("W3i1", "its inference, 1 sample", 1, (1.0, 1.25), small, False),
    "W3i256": lambda small: _w3(
        "W3i256", "its inference, 256 samples", 256, (1.1, 1.4), small, False
    ),
    "W4": lambda small: _tagger(
        "W4", "tagger, LSTM 300 with peepholes, 10 x 20", "peepholes", (3.2, 3.9), small
    ),
    "W4np": lambda small: _tagger("W4np", "without peepholes", "lstm", (3.2, 3.9), small),
    "W4i": lambda small: _tagger(
        "W4i", "inference of one sequence", "peepholes", (1.6, 2.4), small, trains=False
    ),
    "W5full": lambda small: _language(
        "W5full", "sigmoid RNN 200, softmax 10000, 10 x 10", "sigmoid", 0, 10, (2.3, 3.0), small
    ),
    "W5class": lambda small: _language(
        "W5class", "the same, 50 classes of 200 words", "sigmoid", 50, 10, (8.0, 14.0), small
    ),
    "W6": lambda small: _language(
        "W6", "LSTM 200, softmax 10000, 10 x 35", "lstm", 0, 35, (1.5, 2.5), small
    ),
    "W7a": lambda small: _convnet(
        "W7a", "two convolutions 5x5 on 28x28, minibatch 32", 32, (2.0, 3.9), small
    ),
    "W7b": lambda small: _convnet("W7b", "the same, minibatch 64", 64, (1.8, 3.0), small),
    "W7i1": lambda small: _convnet(
        "W7i1", "its inference, 1 sample", 1, (1.7, 2.7), small, trains=False
    ),
    "W7i64": lambda small: _convnet(
        "W7i64", "its inference, 64 samples", 64, (1.1, 1.15), small, trains=False
    ),
    "W8chain": lambda small: _w8("W8chain", "chain", (2.2, 2.5), small),
    "W8softmax": lambda small: _w8("W8softmax", "softmax", (1.2, 1.15), small),
    "W8norm": lambda small: _w8("W8norm", "norm", (1.2, 1.4), small),
    "W9resnet": lambda small: resnet(
        "W9resnet",
        "ResNet-18 at 3x224x224, 1 sample",
        ResNet(32, (4, 6), 7) if small else ResNet(224, (64, 128, 256, 512), 1000),
        1,
        (1.05, 1.15),
    ),
    "W9encoder1": lambda small: _encoder(
        "W9encoder1", "encoder block 256, 4 heads, 128 steps, 1 sequence", 1, (1.2, 1.25), small
    ),
    "W9encoder8": lambda small: _encoder(
        "W9encoder8", "the same, 8 sequences", 8, (1.3, 1.25), small
    ),
    "W10": lambda small: residual(
        "W10",
        "two residual blocks 3x3 on 28x28x64, minibatch 16",
        Residual(13, 2, 16, 1, 5) if small else Residual(28, 3, 64, 2, 10),
        3 if small else 16,
        (1.5, 1.5),
    ),
}

BF16_WORKLOADS = tuple(f"{name}{IN_BF16}" for name in ("W2b", "W3a", "W3b", "W3i1"))
"""Those measured in bf16 where none are asked for."""
