"""Which range MNIST's pixels had when the toolkit trained its 784-256-10 network: [-1, 1].

    python examples/images/pixel_ranges.py --mnist FOLDER

The toolkit's sources hold the log of one such training (`CheckInSuites/MNIST`), on a CPU and on a
GPU. Its settings are in a file beside it and are those of `one-hidden` here; how the data file
scaled the pixels is not recorded. So the network is trained once for each likely range, and its
criterion is printed next to the logs. The curves are in out/pixel_ranges.png.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from images import Images, load, one_hot

import graphc as gc

HERE = Path(__file__).parent

Curve = tuple[float, ...]

# Cross entropy per training sample, after each epoch.
LOGS: dict[str, Curve] = {
    "toolkit, CPU": (
        *(0.40258, 0.19932, 0.14519, 0.11351, 0.09412),
        *(0.07940, 0.06790, 0.05927, 0.05262, 0.04649),
    ),
    "toolkit, GPU": (
        *(0.40694, 0.20054, 0.14601, 0.11391, 0.09456),
        *(0.08026, 0.06856, 0.06053, 0.05307, 0.04693),
    ),
}
RANGES = ((-1.0, 1.0), (0.0, 1.0), (0.0, 2.0), (-0.5, 0.5))


def main(folder: Path, seed: int = 1, out: Path = HERE / "out") -> int:
    try:
        images, _ = load(folder)
    except (OSError, ValueError) as error:
        print(f"the images cannot be read: {error}", file=sys.stderr)
        return 3
    curves = dict(LOGS)
    print(f"{'':12}  " + "".join(f"{f'epoch {i}':>9}" for i in range(1, 11)) + "   farthest off")
    for name, curve in LOGS.items():
        print(f"{name:12}  {_numbers(curve)}{_farthest(curve):14.1%}")
    for low, high in RANGES:
        curve = train(images, low, high, seed)
        curves[name := f"[{low:g}, {high:g}]"] = curve
        print(f"{name:12}  {_numbers(curve)}{_farthest(curve):14.1%}", flush=True)
    draw(curves, out / "pixel_ranges.png")
    return 0


def train(images: Images, low: float, high: float, seed: int) -> Curve:
    """The criterion after each epoch on pixels that go from `low` to `high`."""
    network = gc.load(
        HERE / "one-hidden.ndl",
        defines={"FeatDim": images.pixels.shape[1], "PixelScale": 1},
        seed=seed,
    )
    records = gc.train(
        network,
        {"features": scaled(images.pixels, low, high), "labels": one_hot(images.classes, 10)},
        epochs=10,
        minibatch=32,
        learning_rate="0.2",
        momentum=0.9,
        seed=seed,
    )
    return tuple(record.criterion for record in records)


def scaled(pixels: np.ndarray, low: float, high: float) -> np.ndarray:
    """Pixels from 0 to 255 as numbers from `low` to `high`."""
    return np.float32(low) + pixels * np.float32((high - low) / 255)


def _numbers(curve: Curve) -> str:
    return "".join(f"{value:9.4f}" for value in curve)


def _farthest(curve: Curve) -> float:
    """The largest relative difference from the log of the CPU."""
    return max(abs(a / b - 1) for a, b in zip(curve, LOGS["toolkit, CPU"], strict=True))


def draw(curves: dict[str, Curve], path: Path) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: matplotlib is not installed (the extra `plot`)")
        return
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    marks = dict(zip(LOGS, ("kx", "k+"), strict=True))
    for name, curve in curves.items():
        axes.semilogy(range(1, 11), curve, marks.get(name, "-"), label=name)
    axes.set(xlabel="epoch", ylabel="cross entropy per training sample", title="784-256-10, MNIST")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument(
        "--mnist", type=Path, required=True, help="folder with MNIST's four idx.gz files"
    )
    parser.add_argument(
        "--seed", type=int, default=1, help="seed of the initial values and of the order"
    )
    arguments = parser.parse_args()
    sys.exit(main(arguments.mnist, arguments.seed))
