"""Matrix products next to OpenBLAS (through numpy) and MKL (through torch), one thread each.

    python -m bench.products [SHAPE ...] [--dtype f64] [--rounds 40] [--offset 16] [--json FILE]

A shape is rows x columns x length of the sums, such as 256x512x784; without any, the shapes of the
workloads. Each is measured as it is and with A or with B stored transposed. All matrices begin with
a line of a cache; everybody's C so many bytes behind one where `--offset` says so, as arrays of
numpy often do. Results are compared
before anything is timed. The three take turns, many short runs each, by the processor time of the
thread; a number is the shortest run, which a busy machine disturbs least. The last column is ours
over the better of the others: above 1 is faster than both.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
os.environ.update(ONE_THREAD)

import numpy as np  # noqa: E402  # reads the number of threads once

from bench.machine import aligned, limits  # noqa: E402
from graphc.backends.llvm import engine  # noqa: E402
from graphc.backends.llvm.target import host_target  # noqa: E402
from graphc.backends.llvm.text import Module  # noqa: E402
from graphc.backends.loops.gemm import Product, emit_gemm  # noqa: E402
from graphc.ir.types import DType  # noqa: E402
from graphc.passes.analysis.loopnest import Size  # noqa: E402

Shape = tuple[int, int, int]
SHAPES: tuple[Shape, ...] = (
    (25, 50, 50),
    (50, 50, 25),
    (25, 50, 2),
    (50, 2, 25),
    (32, 256, 784),
    (784, 256, 32),
    (32, 784, 256),
    (32, 10, 256),
    (256, 10, 32),
    (256, 512, 784),
    (784, 512, 256),
    (256, 512, 512),
    (512, 512, 256),
    (256, 183, 512),
    (256, 512, 792),
    (1024, 512, 792),
    (10, 1200, 300),
    (10, 300, 1200),
    (300, 1200, 200),
    (10, 200, 200),
    (10, 800, 200),
    (100, 200, 10000),
    (100, 10000, 200),
    (200, 10000, 100),
    (350, 10000, 200),
    (1, 512, 792),
    (1, 1200, 300),
    (1, 300, 1200),
    (2, 512, 512),
    (4, 512, 512),
    (512, 1, 792),
    (128, 256, 256),
    (128, 1024, 256),
)
LAYOUTS = {"": (False, False), "A": (True, False), "B": (False, True)}
RUN = 3e6
"""Multiply-adds in a run, at least: long next to a call, short next to a disturbance."""


@dataclass(frozen=True)
class Row:
    """GFLOP/s of one product; `transposed` names what is stored so. None: not installed."""

    shape: str
    transposed: str
    dtype: str
    ours: float
    openblas: float
    mkl: float | None

    @property
    def ratio(self) -> float:
        return self.ours / max(self.openblas, self.mkl or 0.0)


def measure(shape: Shape, transposed: str, dtype: DType, rounds: int, offset: int = 0) -> Row:
    """One product by all three; ends with an error where a result differs."""
    m, n, k = shape
    layout = LAYOUTS[transposed]
    rng = np.random.default_rng(0)
    a = _random(rng, (k, m) if layout[0] else (m, k), dtype)
    b = _random(rng, (n, k) if layout[1] else (k, n), dtype)
    results = {name: _zeros((m, n), dtype, offset) for name in ("ours", "openblas", "mkl")}
    left, right = a.T if layout[0] else a, b.T if layout[1] else b
    works: dict[str, Callable[[], object]] = {
        "ours": _ours(Product(Size(m), Size(n), Size(k), dtype, *layout), a, b, results["ours"]),
        "openblas": lambda: np.matmul(left, right, out=results["openblas"]),
    }
    mkl = _mkl(left, right, results["mkl"])
    if mkl is not None:
        works["mkl"] = mkl
    expected = left.astype(np.float64) @ right.astype(np.float64)
    allowed = (1e-5 if dtype is DType.F32 else 1e-13) * max(k, 1)
    for name, work in works.items():
        work()
        np.testing.assert_allclose(results[name], expected, rtol=0, atol=allowed, err_msg=name)
    seconds = _shortest(works, rounds, max(1, round(RUN / max(m * n * k, 1))))
    speed = {name: 2 * m * n * k / t / 1e9 for name, t in seconds.items()}
    name = "x".join(map(str, shape))
    return Row(name, transposed, dtype.value, speed["ours"], speed["openblas"], speed.get("mkl"))


def _zeros(shape: tuple[int, int], dtype: DType, offset: int = 0) -> np.ndarray:
    """From so many bytes behind an aligned address on."""
    raw = aligned(math.prod(shape) * dtype.itemsize + offset)[offset:]
    values = raw.view(dtype.numpy).reshape(shape)
    values[...] = 0
    return values


def _random(rng: np.random.Generator, shape: tuple[int, int], dtype: DType) -> np.ndarray:
    """Standard normal numbers from an aligned address on."""
    values = _zeros(shape, dtype)
    values[...] = rng.standard_normal(shape)
    return values


def _ours(product: Product, a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Callable[[], object]:
    target = host_target()
    module = Module(target.triple)
    name = emit_gemm(module, target.machine, product)
    text = (
        f"{module.text()}\ndefine void @product(ptr %a, ptr %b, ptr %c) {{\n"
        f"  call void {name}(ptr %a, ptr %b, ptr %c)\n  ret void\n}}\n"
    )
    loaded = engine.load(engine.object_code(text, target), ["product"], target)
    call = engine.function(loaded, "product", None, *[ctypes.c_void_p] * 3)
    addresses = [x.ctypes.data for x in (a, b, c)]

    def run() -> object:
        assert loaded
        return call(*addresses)

    return run


def _mkl(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Callable[[], object] | None:
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    left, right, result = (torch.from_numpy(x) for x in (a, b, c))
    return lambda: torch.mm(left, right, out=result)


def _shortest(
    works: Mapping[str, Callable[[], object]], rounds: int, repeats: int
) -> dict[str, float]:
    """Seconds of one call of each, from the shortest of many runs in turns."""
    best = dict.fromkeys(works, math.inf)
    for _ in range(rounds):
        for name, work in works.items():
            start = time.thread_time()
            for _ in range(repeats):
                work()
            best[name] = min(best[name], (time.thread_time() - start) / repeats)
    return best


def table(rows: Sequence[Row], peak: float) -> str:
    """Lines for people to read."""
    lines = [f"peak {peak / 1e9:.0f} GFLOP/s (f32, own loop of multiply-adds)", ""]
    lines.append(f"{'shape':>15} {'transposed':>10} {'ours':>7} {'OpenBLAS':>8} {'MKL':>7} ratio")
    for row in rows:
        mkl = "absent" if row.mkl is None else f"{row.mkl:.1f}"
        lines.append(
            f"{row.shape:>15} {row.transposed or '-':>10} {row.ours:7.1f} {row.openblas:8.1f}"
            f" {mkl:>7} {row.ratio:5.2f}"
        )
    mean = math.exp(sum(math.log(row.ratio) for row in rows) / len(rows))
    behind = sum(row.ratio < 1 for row in rows)
    lines.append(f"geometric mean {mean:.2f}; behind the better of both at {behind} of {len(rows)}")
    return "\n".join(lines)


def markdown(rows: Sequence[Row]) -> str:
    """A line a shape: ours and the better of the others, for each layout."""
    lines = ["| rows x columns x sums | as stored | A transposed | B transposed |"]
    lines.append("| --- | ---: | ---: | ---: |")
    for shape in dict.fromkeys(row.shape for row in rows):
        cells = [
            f"{r.ours:.1f} / {max(r.openblas, r.mkl or 0.0):.1f}, **{r.ratio:.2f}**"
            for r in rows
            if r.shape == shape
        ]
        lines.append(f"| {shape} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    arguments = argparse.ArgumentParser(description="matrix products next to OpenBLAS and MKL")
    arguments.add_argument("shapes", nargs="*", metavar="SHAPE", help="such as 256x512x784")
    arguments.add_argument("--dtype", choices=("f32", "f64"), default="f32")
    arguments.add_argument("--rounds", type=int, default=40)
    arguments.add_argument("--offset", type=int, default=0, metavar="BYTES", help="of C's address")
    arguments.add_argument("--json", type=Path, metavar="FILE")
    arguments.add_argument("--markdown", action="store_true", help="a line a shape, for documents")
    given = arguments.parse_args()
    shapes = [shape_of(text) for text in given.shapes] or SHAPES
    rows = [
        measure(shape, transposed, DType(given.dtype), given.rounds, given.offset)
        for shape in shapes
        for transposed in LAYOUTS
    ]
    peak = limits(1, 0.3).peak
    print(markdown(rows) if given.markdown else table(rows, peak))
    if given.json:
        record = {"peak": peak, "rows": [asdict(row) | {"ratio": row.ratio} for row in rows]}
        given.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def shape_of(text: str) -> Shape:
    """The three extents in a text such as 256x512x784."""
    try:
        m, n, k = (int(part) for part in text.split("x"))
    except ValueError:
        raise SystemExit(f"a shape is three extents such as 256x512x784, got {text}") from None
    return m, n, k


if __name__ == "__main__":
    main()
