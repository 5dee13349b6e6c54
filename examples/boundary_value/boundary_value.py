"""A boundary value problem, solved by going downhill on its residual, next to the closed form.

    python examples/boundary_value/boundary_value.py

2 y'' + y' + 2 y = 0 with y(0) = 1 and y(5) = 0.1 (ArrayFlow, section 6.3): y is a list of points,
its derivatives are finite differences, and the loss is the mean square of the left-hand side. Two
things differ from the paper. The centred second derivative (equation 124) has +4/3 on both
sides, its -4/3 being a slip; and the rate and momentum are not found by trial: the loss is
quadratic, so its Hessian, which `gc.hessian` gives, is the same everywhere and says which are best.
Its condition number grows like the fourth power of the number of points, which is what makes this
an inefficient way to solve an equation. With such rates f32 is as good as f64 at 20, 30 and 40
points; the paper needed f64 above 20.

The Hessian alone gives the answer in one step too (Newton's). What remains then is the error of
the finite differences, which no descent can get below but by chance.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import graphc as gc

OUT = Path(__file__).parent / "out"
END = 5.0  # of the time
FIRST, LAST = 1.0, 0.1  # the values at both ends

Array = np.ndarray

# Weights of neighbours: centred, and at the first two points of the list. At the last two the
# first derivative has these backwards with the other sign, the second one backwards.
CENTRED = (
    np.array([1 / 12, -2 / 3, 0, 2 / 3, -1 / 12]),
    np.array([-1 / 12, 4 / 3, -5 / 2, 4 / 3, -1 / 12]),
)
FORWARD = (
    np.array([-25 / 12, 4, -3, 4 / 3, -1 / 4]),
    np.array([35 / 12, -26 / 3, 19 / 2, -14 / 3, 11 / 12]),
)


def main(counts: Sequence[int] = (20, 30), out: Path = OUT) -> int:
    print("points  precision      steps  largest distance to the closed form")
    curves: list[tuple[str, Array, Array]] = []
    for count in counts:
        t = np.linspace(0.0, END, count)
        straight = FIRST + (LAST - FIRST) * t / END
        curvature = inner_hessian(straight)
        for precision in ("f32", "f64"):
            found = descend(straight, curvature, precision)
            report(count, precision, f"{found.steps}", found.x, t)
            curves.append((f"{count} points, {precision}", t, found.x))
        report(count, "f64", "1, Newton", newton(straight, curvature), t)
    draw(curves, out / "boundary_value.png")
    return 0


def report(count: int, precision: str, steps: str, y: Array, t: Array) -> None:
    error = np.max(np.abs(y - closed_form(t)))
    print(f"{count:6}  {precision:>9}  {steps:>9}  {error:.1e}", flush=True)


def closed_form(t: Array) -> Array:
    """e^(-t/4) (cos ωt + c sin ωt), c being such that the value at the end is right."""
    omega = np.sqrt(15) / 4
    c = (LAST * np.exp(END / 4) - np.cos(omega * END)) / np.sin(omega * END)
    return np.exp(-t / 4) * (np.cos(omega * t) + c * np.sin(omega * t))


def loss_of(count: int, precision: str) -> Callable[..., Any]:
    """The mean square of 2 y'' + y' + 2 y, a function of `count` values y."""
    step = END / (count - 1)

    @gc.function(precision=precision)
    def loss(y: Any) -> Any:
        first = derivative(y, CENTRED[0], FORWARD[0], -FORWARD[0][::-1]) / step
        second = derivative(y, CENTRED[1], FORWARD[1], FORWARD[1][::-1]) / step**2
        return gc.mean((2 * second + first + 2 * y) ** 2)

    return loss


def derivative(y: Any, centred: Array, forward: Array, backward: Array) -> Any:
    """At every point, in units of the distance between them; the outer two have no neighbours."""
    inner = gc.cross_correlate(y, centred)
    left = gc.cross_correlate(y[:6], forward)
    right = gc.cross_correlate(y[-6:], backward)
    return gc.concatenate([left, inner, right])


def descend(start: Array, curvature: Array, precision: str) -> gc.Minimum:
    """The curve that gradient descent with momentum ends at."""
    # Polyak's choice for a quadratic function, from its Hessian's extreme eigenvalues.
    flat, steep = np.sqrt(np.linalg.eigvalsh(curvature)[[0, -1]])
    momentum = ((steep - flat) / (steep + flat)) ** 2
    rate = 4 / (steep + flat) ** 2 / (1 - momentum)
    movable = np.ones(len(start), bool)
    movable[[0, -1]] = False  # the values at both ends are given
    return gc.minimize(
        loss_of(len(start), precision),
        start.astype(np.float32 if precision == "f32" else np.float64),
        learner=gc.SGD(learning_rate=rate, momentum=momentum),
        steps=50_000,
        tolerance=1e-7 if precision == "f32" else 1e-8,
        mask=movable,
    )


def newton(start: Array, curvature: Array) -> Array:
    """Where the loss is least."""
    slope = gc.grad(loss_of(len(start), "f64"))(start)
    y = start.copy()
    y[1:-1] -= np.linalg.solve(curvature, slope[1:-1])
    return y


def inner_hessian(start: Array) -> Array:
    """Second derivatives of the loss by all values but those at the ends."""
    return gc.hessian(loss_of(len(start), "f64"))(start)[1:-1, 1:-1]


def draw(curves: Sequence[tuple[str, Array, Array]], path: Path) -> None:
    """The last curve beside the closed form, and how far from it each one is."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        print("no picture: matplotlib is not installed (the extra `plot`)")
        return
    figure = Figure(figsize=(11, 3.8), layout="constrained")
    solution, distances = figure.subplots(1, 2)
    label, t, y = curves[-1]
    fine = np.linspace(0.0, END, 400)
    solution.plot(t, y, "o-", color="tab:blue", ms=4, lw=3, alpha=0.6, label=label)
    solution.plot(fine, closed_form(fine), "k:", lw=1.8, label="closed form")
    solution.plot([0, END], [FIRST, LAST], "s", color="tab:red", ms=7, label="given values")
    solution.set(xlabel="t", ylabel="y(t)", title="2 y'' + y' + 2 y = 0")
    solution.legend()
    for index, (label, t, y) in enumerate(curves):
        style: dict[str, Any] = {"ls": "--", "lw": 1.5, "zorder": 3}
        if label.endswith("f64"):
            style = {"ls": "-", "lw": 5, "alpha": 0.35}
        distance = np.abs(y - closed_form(t))[1:-1]
        distances.semilogy(t[1:-1], distance, color=f"C{index // 2}", label=label, **style)
    distances.set(xlabel="t", ylabel="|y - closed form|", title="Distance to the closed form")
    distances.grid(alpha=0.3)
    distances.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    print(f"picture: {path}")


if __name__ == "__main__":
    sys.exit(main())
