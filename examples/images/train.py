"""Trains one of the networks of this folder and says what it reached on the way.

    python examples/images/train.py one-hidden                     # on the digits shipped
    python examples/images/train.py convolution --mnist FOLDER     # on MNIST's four files

The picture of the network is written beside it, if graphviz is installed.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from images import Images, load, one_hot

import graphc as gc

HERE = Path(__file__).parent
OUT = HERE / "out"

Data = dict[str, np.ndarray]


@dataclass(frozen=True)
class Example:
    """How the data reach the network's inputs, which sizes it gets, and how it is trained."""

    inputs: Callable[[Images], Data]
    sizes: Callable[[Images], Mapping[str, int]]
    learning_rate: str = "0.2"


def whole(images: Images) -> Data:
    return {"features": images.pixels, "labels": one_hot(images.classes, 10)}


def halves(images: Images) -> Data:
    middle = images.pixels.shape[1] // 2
    left, right = images.pixels[:, :middle], images.pixels[:, middle:]
    return {"left": left, "right": right, "labels": one_hot(images.classes, 10)}


def with_parity(images: Images) -> Data:
    return {**whole(images), "parity": one_hot(images.classes % 2, 2)}


def features_only(images: Images) -> Data:
    return {"features": images.pixels}


def pixels(images: Images) -> Mapping[str, int]:
    return {"FeatDim": images.width * images.height}


def half_pixels(images: Images) -> Mapping[str, int]:
    half = images.width * images.height // 2
    return {"Feat1Dim": half, "Feat2Dim": half}


def width_and_height(images: Images) -> Mapping[str, int]:
    # The kernel shrinks with the image: 5 on MNIST's 28 pixels, 3 on the digits' 8.
    kernel = 5 if images.width >= 16 else 3
    return {"Width": images.width, "Height": images.height, "Kernel": kernel}


EXAMPLES = {
    "one-hidden": Example(whole, pixels),
    "convolution": Example(whole, width_and_height, "0.05*6:0.01"),
    "autoencoder": Example(features_only, pixels, "0.1"),
    "two-inputs": Example(halves, half_pixels, "0.5"),
    "two-criteria": Example(with_parity, pixels),
}


def main() -> int:
    arguments = _parse()
    try:
        training, test = load(arguments.mnist)
    except (OSError, ValueError) as error:
        print(f"the images cannot be read: {error}", file=sys.stderr)
        return 3
    epochs = arguments.epochs or (10 if arguments.mnist else 60)  # the digits are few
    run(arguments.example, training, test, arguments.backend, arguments.precision, epochs)
    return 0


def run(
    name: str,
    training: Images,
    test: Images,
    backend: str,
    precision: str,
    epochs: int,
    lines: int = 10,
) -> Mapping[str, float]:
    """Train one example and print about this many lines; the last measures on the test images."""
    example = EXAMPLES[name]
    network = gc.load(HERE / f"{name}.ndl", defines=example.sizes(training), seed=1)
    draw(name)
    measured: dict[str, float] = {}
    between = max(1, epochs // lines)  # to measure takes longer than an epoch of the small digits

    def report(record: gc.EpochRecord) -> None:
        if record.epoch % between and record.epoch != epochs:
            return
        averages = {"criterion": record.criterion, **record.evaluations}
        first = not measured
        measured.update(
            gc.evaluate(network, example.inputs(test), backend=backend, precision=precision)
        )
        if first:
            titles = [*(f"train {n}" for n in averages), *(f"test {n}" for n in measured)]
            print("epoch  seconds  " + "  ".join(f"{t:>14}" for t in titles), flush=True)
        numbers = "  ".join(f"{v:14.5f}" for v in (*averages.values(), *measured.values()))
        print(f"{record.epoch:5}  {record.seconds:7.2f}  {numbers}", flush=True)

    gc.train(
        network,
        example.inputs(training),
        epochs=epochs,
        minibatch=32,
        learning_rate=example.learning_rate,
        momentum=0.9,
        seed=1,
        backend=backend,
        precision=precision,
        progress=gc.Progress(epoch=report),
    )
    return measured


def draw(name: str) -> None:
    """out/NAME.svg, if graphviz is there."""
    graphc = Path(sys.executable).parent / "graphc"
    if shutil.which("dot") is None or not graphc.exists():
        print("no picture: graphviz's `dot` is not installed")
        return
    OUT.mkdir(exist_ok=True)
    picture = OUT / f"{name}.svg"
    dot = subprocess.run(
        [str(graphc), "dump", str(HERE / f"{name}.ndl"), "--stage", "nodes", "--format", "dot"],
        check=True,
        capture_output=True,
    ).stdout
    subprocess.run(["dot", "-Tsvg", "-o", str(picture)], input=dot, check=True)
    print(f"the network's picture: {picture}")


def _parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("--mnist", type=Path, help="folder with MNIST's four idx.gz files")
    parser.add_argument("--backend", default="llvm", help="llvm, numpy or reference")
    parser.add_argument("--precision", default="f32", help="f32 or f64")
    parser.add_argument("--epochs", type=int, help="how long to train")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
