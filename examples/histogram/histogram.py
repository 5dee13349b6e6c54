"""Telling histograms of normal numbers from others, and then fooling the classifier.

    python examples/histogram/histogram.py

A sample is the histogram of 500 numbers in 16 bins (ArrayFlow, section 6.2): class 1 if they are
normal, class 0 if they are uniform, exponential or come in two heaps. The model is that paper's:
three kernels of 5 over the bins, the larger of every two neighbours, then two layers without
anything between them. The loss is its equation 112, log(1 + e^y) - label · y, written so that
e^y cannot overflow.

The exact answer is the classifier that knows all four distributions and sees the numbers
themselves. At the end a histogram of class 0 follows the gradient of y until the model takes it
for normal.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc

OUT = Path(__file__).parent / "out"
NUMBERS, BINS = 500, 16
KERNELS, WIDTH, HIDDEN = 3, 5, 7
OF_EACH_CLASS = 20  # in a batch
HEAPS, NARROW = 0.9, math.sqrt(1 - 0.9**2)  # two heaps at ±0.9; all have mean 0 and variance 1

Array = np.ndarray
Weights = dict[str, Array]


def main(steps: int = 2000, tests: int = 2000, out: Path = OUT) -> int:
    rng = np.random.default_rng(0)
    found = gc.minimize(
        loss,
        initial(rng),
        learner=gc.SGD(learning_rate=0.05, momentum=0.9),
        steps=steps,
        batches=batches(rng),
    )
    print(f"loss {found.losses[0]:.3f} at first, {np.mean(found.losses[-100:]):.4f} at the end")
    numbers, labels = draw_numbers(rng, tests)
    right = (model(histograms(numbers), found.x) > 0) == (labels == 1)
    best = (evidence(numbers) > 0) == (labels == 1)
    print(f"exact answer  {np.mean(best):.2%} right of {tests} new ones")
    print(f"reached       {np.mean(right):.2%}")

    start = typical(numbers, labels, right, found.x)
    morphed = morph(start, found.x)
    before, after = (float(model(h[None], found.x)[0]) for h in (start, morphed))
    print(f"a histogram of class 0: y = {before:.2f}, after following the gradient {after:.2f}")
    print(f"no bin changed by more than {np.max(np.abs(morphed - start)):.3f}")
    draw(histograms(numbers), labels, start, morphed, (before, after), out / "histogram.png")
    return 0


# --- the model ---------------------------------------------------------------------------------


@gc.function
def model(x: Any, p: Any) -> Any:
    """y (N,) of histograms (N, 16); above 0 stands for class 1."""
    pooled = [gc.maxpool(gc.cross_correlate(x, p["kernels"][i]), 2) for i in range(KERNELS)]
    hidden = gc.concatenate(pooled, axis=1) @ p["W"].T + p["b"]
    return hidden @ p["w"]


@gc.function
def loss(p: Any, x: Any, labels: Any) -> Any:
    """The mean cross entropy of a batch."""
    y = model(x, p)
    soft = gc.maximum(y, 0.0) + gc.log(1.0 + gc.exp(-gc.absolute(y)))  # log(1 + e^y)
    return gc.mean(soft - labels * y)


@gc.function
def single(x: Any, p: Any) -> Any:
    """y of one histogram (16,)."""
    return gc.sum(model(gc.expand_dims(x, 0), p))


def initial(rng: np.random.Generator) -> Weights:
    pooled = KERNELS * (BINS - WIDTH + 1) // 2
    return {
        "kernels": rng.normal(size=(KERNELS, WIDTH)),
        "W": rng.normal(size=(HIDDEN, pooled)),
        "b": rng.normal(size=HIDDEN),
        "w": rng.normal(size=HIDDEN),
    }


def morph(x: Array, p: Weights, step: float = 1e-4) -> Array:
    """Uphill on y in small steps, until it is as sure as before, the other way."""
    climb = gc.grad(single)
    goal = -float(single(x, p))
    while float(single(x, p)) < goal:
        x = np.maximum(x + step * climb(x, p), 0.0)  # no bin holds less than nothing
        x /= np.sum(x)
    return x


# --- the data ----------------------------------------------------------------------------------


def batches(rng: np.random.Generator) -> Iterator[tuple[Array, Array]]:
    while True:
        numbers, labels = draw_numbers(rng, 2 * OF_EACH_CLASS)
        yield histograms(numbers), labels


def draw_numbers(rng: np.random.Generator, count: int) -> tuple[Array, Array]:
    """(count, 500) numbers and (count,) labels, half of them of class 1, which come first."""
    half = count // 2
    kind = rng.choice(3, (half, 1))
    size = (half, NUMBERS)
    uniform = rng.uniform(-math.sqrt(3), math.sqrt(3), size)
    exponential = rng.exponential(size=size) - 1
    heaps = HEAPS * rng.choice([-1.0, 1.0], size) + NARROW * rng.normal(size=size)
    other = np.choose(kind, [uniform, exponential, heaps])
    return np.concatenate([rng.normal(size=size), other]), np.repeat([1.0, 0.0], half)


def histograms(numbers: Array) -> Array:
    """(N, 16): which part of each row lies in each of 16 bins from its least to its largest."""
    low, high = numbers.min(axis=1, keepdims=True), numbers.max(axis=1, keepdims=True)
    places = np.minimum((numbers - low) / (high - low) * BINS, BINS - 1).astype(int)
    places += BINS * np.arange(len(numbers))[:, None]
    counts = np.bincount(places.ravel(), minlength=BINS * len(numbers)).reshape(-1, BINS)
    return counts / numbers.shape[1]


def evidence(numbers: Array) -> Array:
    """(N,): log P(numbers | class 1) - log P(numbers | class 0), both with the true densities."""
    with np.errstate(divide="ignore"):
        uniform = np.log(np.where(np.abs(numbers) <= math.sqrt(3), 1 / math.sqrt(12), 0.0))
        exponential = np.where(numbers >= -1, -(numbers + 1), -np.inf)
    heaps = np.logaddexp(*(normal_log(numbers, m, NARROW) for m in (-HEAPS, HEAPS))) - math.log(2)
    kinds = [np.sum(kind, axis=1) for kind in (uniform, exponential, heaps)]
    return np.sum(normal_log(numbers, 0.0, 1.0), axis=1) - np.logaddexp.reduce(kinds) + math.log(3)


def normal_log(x: Array, mean: float, deviation: float) -> Array:
    return -(((x - mean) / deviation) ** 2) / 2 - math.log(deviation * math.sqrt(2 * math.pi))


def typical(numbers: Array, labels: Array, right: Array, p: Weights) -> Array:
    """The histogram of class 0, told rightly, with the median y."""
    chosen = histograms(numbers[(labels == 0) & right])
    return chosen[np.argsort(model(chosen, p))[len(chosen) // 2]]


# --- the picture -------------------------------------------------------------------------------


def draw(
    x: Array, labels: Array, start: Array, morphed: Array, y: Sequence[float], path: Path
) -> None:
    """An example of class 1, one of class 0, and what became of it."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: matplotlib is not installed (the extra `plot`)")
        return
    figure = Figure(figsize=(12, 3.6), layout="constrained")
    panels = figure.subplots(1, 3, sharey=True)
    bins = np.arange(1, BINS + 1)
    panels[0].bar(bins, x[labels == 1][0], color="tab:blue")
    panels[0].set_title("Class 1: normal numbers")
    panels[1].bar(bins, start, color="tab:orange")
    panels[1].set_title(f"Class 0: y = {y[0]:.2f}")
    panels[2].bar(bins, morphed, color="tab:green", label="changed")
    panels[2].step(bins, start, "k:", where="mid", label="as it was")
    panels[2].set_title(f"Taken for class 1: y = {y[1]:.2f}")
    panels[2].legend()
    panels[0].set_ylabel("part of the 500 numbers")
    for panel in panels:
        panel.set(xlabel="bin", xticks=range(1, BINS + 1, 3))
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


if __name__ == "__main__":
    sys.exit(main())
