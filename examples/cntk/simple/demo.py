"""The first demo of the CNTK book: a configuration file trains a network on points of the plane.

    python examples/cntk/simple/demo.py

Makes points with labels, runs `graphc cntk configFile=simple.config` and draws where the trained
network changes its mind: `out/boundary.svg`. The points lie on both sides of a wave, and near it
some have the other label, so that no network can be right about all of them.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
GRAPHC = shutil.which("graphc", path=str(Path(sys.executable).parent)) or shutil.which("graphc")

GRID = 80  # points of the picture along each axis
BLUR = 0.12  # how far from the wave labels are still uncertain
COLOURS = ("#4c72b0", "#dd8452")


def wave(x: np.ndarray) -> np.ndarray:
    """The true boundary."""
    return 0.4 * np.sin(np.pi * x)


def make_data(folder: Path, train: int = 10000, test: int = 1000, seed: int = 1) -> None:
    """Text files of the points: x, y and the label; a grid of points without labels."""
    folder.mkdir(parents=True, exist_ok=True)
    generator = np.random.default_rng(seed)
    for name, count in (("train", train), ("test", test)):
        points = generator.uniform(-1, 1, (count, 2))
        height = points[:, 1] - wave(points[:, 0]) + BLUR * generator.standard_normal(count)
        lines = [
            f"{x:.6f} {y:.6f} {'above' if h > 0 else 'below'}\n"
            for (x, y), h in zip(points, height, strict=True)
        ]
        (folder / f"{name}.txt").write_text("".join(lines), encoding="utf-8")
    axis = np.linspace(-1, 1, GRID)
    grid = [f"{x:.6f} {y:.6f}\n" for y in axis for x in axis]
    (folder / "grid.txt").write_text("".join(grid), encoding="utf-8")
    (folder / "labels.txt").write_text("below\nabove\n", encoding="utf-8")


def draw(folder: Path, shown: int = 400) -> Path:
    """A picture of the scores on the grid and of some points: `boundary.svg`."""
    scores = np.loadtxt(folder / "grid.ScaledLogLikelihood").reshape(GRID, GRID, 2)
    above = 1 / (1 + np.exp(scores[..., 0] - scores[..., 1]))
    cells: list[str] = []
    for row in range(GRID):
        for column in range(GRID):
            shade = 0.15 + 0.55 * abs(2 * above[row, column] - 1)
            colour = COLOURS[int(above[row, column] > 0.5)]
            y = GRID - 1 - row
            cells.append(
                f'<rect x="{column}" y="{y}" width="1.05" height="1.05" fill="{colour}" '
                f'fill-opacity="{shade:.2f}"/>'
            )
    points: list[str] = []
    for line in (folder / "test.txt").read_text(encoding="utf-8").splitlines()[:shown]:
        x, y, label = line.split()
        place = f'cx="{(float(x) + 1) / 2 * GRID:.2f}" cy="{(1 - float(y)) / 2 * GRID:.2f}"'
        points.append(f'<circle {place} r="0.45" fill="{COLOURS[int(label == "above")]}"/>')
    curve = np.linspace(-1, 1, 200)
    line = " ".join(
        f"{(x + 1) / 2 * GRID:.2f},{(1 - y) / 2 * GRID:.2f}"
        for x, y in zip(curve, wave(curve), strict=True)
    )
    picture = folder / "boundary.svg"
    picture.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="640" '
        f'viewBox="0 0 {GRID} {GRID}"><rect width="{GRID}" height="{GRID}" fill="white"/>'
        + "".join(cells)
        + f'<polyline points="{line}" fill="none" stroke="black" stroke-width="0.3" '
        'stroke-dasharray="1.2 0.8"/>' + "".join(points) + "</svg>\n",
        encoding="utf-8",
    )
    return picture


def main() -> int:
    """The exit code of `graphc cntk`."""
    if GRAPHC is None:
        print("graphc is not installed: run `make demo`, or `pip install .` first", file=sys.stderr)
        return 1
    make_data(HERE / "out")
    command = [GRAPHC, "cntk", "configFile=simple.config", *sys.argv[1:]]
    print("$", *command[1:])
    code = subprocess.run(command, cwd=HERE, check=False).returncode
    if code == 0:
        print(f"picture: {draw(HERE / 'out')}")
    return code


if __name__ == "__main__":
    sys.exit(main())
