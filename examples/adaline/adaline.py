"""ADALINE: a linear classifier trained one sample at a time, next to the best linear answer.

    python examples/adaline/adaline.py

Men and women by height, weight and body fat, each of these drawn from a normal distribution of its
own. With the label +1 or -1 the loss is the perceptron's, max(0, -label · (w x + b)): only samples
on the wrong side move w and b. No line separates the two, so the trained one never comes to rest;
the average of the lines after each epoch does (Freund and Schapire's averaged perceptron).

Since the distributions are known, so are the accuracy of any line and the best accuracy of all
lines, without drawing a sample (Anderson and Bahadur, 1962).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import erfc, sqrt
from pathlib import Path

import numpy as np

import graphc as gc

OUT = Path(__file__).parent / "out"

# height in cm, weight in kg, body fat in %: mean and standard deviation
MEN = np.array([[171.0, 6.0], [70.0, 10.0], [16.0, 3.5]])
WOMEN = np.array([[158.0, 5.0], [57.0, 8.0], [22.0, 3.5]])
CENTRE = (MEN[:, 0] + WOMEN[:, 0]) / 2
SCALE = (MEN[:, 1] + WOMEN[:, 1]) / 2

Array = np.ndarray


@dataclass(frozen=True)
class Line:
    """A man where w · x + b > 0, x in the units of the table above."""

    w: Array
    b: float

    @property
    def accuracy(self) -> float:
        """Exact, for as many men as women."""
        wrong = []
        for table, sign in ((MEN, 1), (WOMEN, -1)):
            deviation = sqrt(float(np.sum((self.w * table[:, 1]) ** 2)))
            margin = sign * (float(self.w @ table[:, 0]) + self.b) / deviation
            wrong.append(erfc(margin / sqrt(2)) / 2)
        return 1 - sum(wrong) / 2


def main(people: int = 1000, epochs: int = 20, out: Path = OUT) -> int:
    best = best_line()
    print(f"best line of all   {best.accuracy:.2%} right")
    x, labels = sample(np.random.default_rng(0), people)
    lines = train(x, labels, epochs)
    for epoch, line in enumerate(lines, start=1):
        print(f"after epoch {epoch:2}     {line.accuracy:.2%}")
    found = average(lines)
    print(f"average of these   {found.accuracy:.2%}")
    print(f"{best.accuracy - found.accuracy:.4f} below the best answer")
    draw(x, labels, found, best, out / "adaline.png")
    return 0


def sample(rng: np.random.Generator, people: int) -> tuple[Array, Array]:
    """(people, 3) and labels (people, 1), as many men as women."""
    half = people // 2
    size = (half, len(MEN))
    x = np.concatenate([rng.normal(t[:, 0], t[:, 1], size) for t in (MEN, WOMEN)])
    return x, np.repeat([[1.0], [-1.0]], half, axis=0)


def train(x: Array, labels: Array, epochs: int) -> list[Line]:
    """The line after each pass over the samples, which come in minibatches of one."""
    net = gc.Network()
    features, label = net.input("features", x.shape[1]), net.input("label", 1)
    w, b = net.parameter("w", 1, x.shape[1], init="fixedValue", value=0), net.parameter("b", 1)
    adder = w @ features + b
    loss = net.rectified_linear(net.negate(net.element_times(label, adder)))
    net.sum_elements(loss, name="loss", tag="criterion")
    lines: list[Line] = []
    gc.train(
        net,
        {"features": (x - CENTRE) / SCALE, "label": labels},
        epochs=epochs,
        minibatch=1,
        learning_rate=0.01,
        precision="f64",
        progress=gc.Progress(epoch=lambda _: lines.append(line_of(net))),
    )
    return lines


def line_of(net: gc.Network) -> Line:
    """The network's line in the units of the table: it was trained on scaled ones."""
    w = np.asarray(net.parameters["w"])[0] / SCALE
    b = float(np.asarray(net.parameters["b"])[0, 0])
    return Line(w, b - float(w @ CENTRE))


def average(lines: list[Line]) -> Line:
    return Line(np.mean([line.w for line in lines], axis=0), float(np.mean([x.b for x in lines])))


def best_line() -> Line:
    """The line with the highest accuracy.

    It is one of w = (p Σ₁ + (1 - p) Σ₂)⁻¹ (m₁ - m₂) with 0 < p < 1 and the threshold that goes
    with p, so trying finely spaced p finds it.
    """
    men, women = MEN[:, 1] ** 2, WOMEN[:, 1] ** 2  # Σ₁ and Σ₂ are diagonal
    lines = []
    for p in np.linspace(0.001, 0.999, 999):
        w = (MEN[:, 0] - WOMEN[:, 0]) / (p * men + (1 - p) * women)
        threshold = float(w @ MEN[:, 0] - p * np.sum(w**2 * men))
        lines.append(Line(w, -threshold))
    return max(lines, key=lambda line: line.accuracy)


def draw(x: Array, labels: Array, found: Line, best: Line, path: Path) -> None:
    """Height and weight of all, and where both lines cut at the average body fat."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: matplotlib is not installed (the extra `plot`)")
        return
    figure = Figure(figsize=(11, 4.2), layout="constrained")
    people, scores = figure.subplots(1, 2)
    for sign, color, name in ((1, "tab:blue", "men"), (-1, "tab:orange", "women")):
        chosen = labels[:, 0] == sign
        people.scatter(*x[chosen, :2].T, s=6, color=color, alpha=0.6, label=name)
        score = (x[chosen] @ found.w + found.b) / np.linalg.norm(found.w * SCALE)
        scores.hist(score, bins=40, color=color, alpha=0.6, label=name)
    height = np.linspace(x[:, 0].min(), x[:, 0].max(), 2)
    for line, style, name in ((found, "-", "trained"), (best, ":", "best possible")):
        weight = -(line.w[0] * height + line.w[2] * CENTRE[2] + line.b) / line.w[1]
        people.plot(height, weight, f"k{style}", label=f"{name} line, {line.accuracy:.2%} right")
    people.set(xlabel="height in cm", ylabel="weight in kg", title="At average body fat")
    people.set_ylim(x[:, 1].min() - 2, x[:, 1].max() + 2)
    people.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    scores.axvline(0.0, color="k", lw=1)
    scores.set(xlabel="distance from the trained line", ylabel="people", title="All three numbers")
    scores.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


if __name__ == "__main__":
    sys.exit(main())
