"""The shape of a hanging rope, found by going downhill on its energy, next to the closed form.

    python examples/catenary/catenary.py

The rope hangs from (0, 0) and (1, 0). Its n segments have the lengths s, and the loss is
(L - L0)² + E with the length L = Σ s and the energy E = Σ s · height (ArrayFlow, section 6.1).
Equation 79 of that paper has s = √(1/n + Δy²); a segment is 1/n wide, so this is
√((1/n)² + Δy²), as equations 75 and 76 have it.

The loss holds L near L0, not at it: where it is least, the rope has stretched until the tension at
its ends, 2(L - L0), carries it. That is a catenary too, y = a cosh((x - 1/2)/a) - a cosh(1/2a) with
    L = 2a sinh(1/2a)   and   2(L - L0) = a cosh(1/2a),
the exact answer for n → ∞. L0 is such that the lowest point is at depth 1/2, as in the paper.
"""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc

OUT = Path(__file__).parent / "out"
DEPTH = 0.5

Array = np.ndarray


def main(segments: int = 50, out: Path = OUT) -> int:
    a = catenary_parameter(DEPTH)
    x = np.linspace(0.0, 1.0, segments + 1)
    exact = a * np.cosh((x - 0.5) / a) - a * math.cosh(0.5 / a)
    length = 2 * a * math.sinh(0.5 / a)
    natural = length - a * math.cosh(0.5 / a) / 2
    print(f"closed form: a = {a:.4f}, a rope of {natural:.4f} hangs {length:.4f} long")

    found = solve(segments, natural)
    reached = float(np.sum(np.hypot(1 / segments, np.diff(found.x))))
    print(f"{segments} segments, {found.steps} steps: {reached:.4f} long, loss {found.loss:.6f}")
    print(f"largest distance to the catenary: {np.max(np.abs(found.x - exact)):.1e}")
    draw(x, found.x, exact, out / "catenary.png")
    return 0


def catenary_parameter(depth: float) -> float:
    """The a with a cosh(1/2a) - a = depth, by bisection: a flatter rope has a larger a."""
    low, high = 0.1, 100.0
    for _ in range(100):
        a = (low + high) / 2
        low, high = (a, high) if a * math.cosh(0.5 / a) - a > depth else (low, a)
    return low


def solve(segments: int, natural: float) -> gc.Minimum:
    """The heights (n + 1,) of a rope of this natural length, from a random start."""

    @gc.function
    def loss(y: Any) -> Any:
        drop = gc.cross_correlate(y, np.array([1.0, -1.0]))
        middle = gc.cross_correlate(y, np.array([0.5, 0.5]))
        lengths = gc.sqrt(1 / segments**2 + drop**2)
        return (gc.sum(lengths) - natural) ** 2 + gc.sum(lengths * middle)

    inner = np.ones(segments + 1, bool)
    inner[[0, -1]] = False  # the ends are fixed
    start = np.where(inner, np.random.default_rng(0).uniform(-0.1, 0.1, segments + 1), 0.0)
    # A long average of gradients: with a short one (beta 0.3) the step size, which grows as long as
    # the loss falls, outgrows what the stiffest bend of the rope can take.
    learner = gc.SteppingHeuristic(0.01, beta=0.05)
    return gc.minimize(loss, start, learner=learner, steps=40_000, tolerance=1e-8, mask=inner)


def circle(x: Array) -> Array:
    return -np.sqrt(np.maximum(DEPTH**2 - (x - 0.5) ** 2, 0.0))


def parabola(x: Array) -> Array:
    return 4 * DEPTH * x * (x - 1)


def draw(x: Array, y: Array, exact: Array, path: Path) -> None:
    """The rope beside other curves through its ends and its lowest point."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: matplotlib is not installed (the extra `plot`)")
        return
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    shapes, distances = figure.subplots(1, 2)
    fine = np.linspace(0.0, 1.0, 501)
    shapes.plot(fine, circle(fine), color="tab:green", lw=1, label="circle")
    shapes.plot(fine, parabola(fine), color="tab:orange", lw=1, label="parabola")
    shapes.plot(x, y, color="tab:blue", lw=3, alpha=0.6, label="numerical solution")
    shapes.plot(x, exact, "k:", lw=1.8, label="catenary, closed form")
    shapes.set(xlabel="x", ylabel="height y", title="A rope between two points")
    shapes.set_aspect("equal")
    shapes.legend(loc="upper center")
    for curve, color, label in (
        (circle(x), "tab:green", "circle"),
        (parabola(x), "tab:orange", "parabola"),
        (y, "tab:blue", "numerical solution"),
    ):
        distances.semilogy(x[1:-1], np.abs(curve - exact)[1:-1], color=color, label=label)
    distances.set(xlabel="x", ylabel="|y - catenary|", title="Distance to the closed form")
    distances.set_ylim(bottom=1e-6)  # the circle and the parabola meet it in the middle
    distances.grid(alpha=0.3)
    distances.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="The shape of a hanging rope.")
    parser.add_argument("--segments", type=int, default=50)
    sys.exit(main(parser.parse_args().segments))
