"""Speed of the UCI text reader next to numpy.loadtxt and pandas.read_csv, in megabytes of text.

    python -m bench.data.uci_read [--megabytes 8] [--rounds 9] [--json FILE]

Files are made from a seed: 64 features and a label, once for each way of writing numbers; then
narrow and wide ones. All readers give the same float32 features before they are timed; rounds are
taken in turn. graphc reads with native code out of the cache of compiled code, as its commands do,
and once without any.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import json
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphc.data.plain_rows import NativeRows
from graphc.data.uci import Columns, FeatureBlock, LabelBlock, read_uci
from graphc.driver.cache_key import default_cache
from graphc.driver.native_rows import native_rows

CLASSES = 10
Reader = Callable[[Path], np.ndarray]
Row = dict[str, object]


@dataclass(frozen=True)
class Kind:
    """A file: how its features are written and how many a line has, and what separates them."""

    name: str
    cell: str
    features: int = 64
    separator: str = " "

    def make(self, path: Path, megabytes: float) -> None:
        """A file of about so many megabytes."""
        rng = np.random.default_rng(7)
        rows = 1 + int(megabytes * 1e6 / (self.features * len(self.cell % 100.25) + 2))
        size = (rows, self.features)
        whole = rng.integers(0, 256, size)
        features = whole if self.cell == "%d" else rng.normal(size=size).astype(np.float32)
        labels = rng.integers(0, CLASSES, (rows, 1))
        cells = [self.cell] * self.features + ["%d"]
        np.savetxt(path, np.hstack([features, labels]), fmt=cells, delimiter=self.separator)


KINDS = (
    Kind("integers 0 to 255", "%d"),
    Kind("decimals (%.4f)", "%.4f"),
    Kind("float32 (%.9g)", "%.9g"),
    Kind("exponents (%.9e)", "%.9e"),
    Kind("float64 (%.17g)", "%.17g"),
    Kind("%.9g, commas", "%.9g", separator=","),
    Kind("%d, 784 features", "%d", 784),
    Kind("%.9g, 784 features", "%.9g", 784),
    Kind("%d, 2 features", "%d", 2),
    Kind("%.9g, 2 features", "%.9g", 2),
)


def ours(kind: Kind, native: NativeRows | None) -> Reader:
    columns, label = Columns(0, kind.features), Columns(kind.features, 1)
    blocks = [FeatureBlock("features", columns), LabelBlock("labels", label, CLASSES)]
    return lambda path: read_uci(path, blocks, native=native)["features"]


def readers(kind: Kind) -> dict[str, Reader]:
    """The readers that can be had here."""
    count, separator = kind.features, kind.separator
    found: dict[str, Reader] = {
        "graphc": ours(kind, native_rows(default_cache())),
        "graphc, numpy": ours(kind, None),
        "numpy.loadtxt": lambda path: np.loadtxt(path, np.float32, delimiter=separator)[:, :count],
    }
    if importlib.util.find_spec("pandas") is not None:
        read_csv = importlib.import_module("pandas").read_csv
        options = {"sep": separator, "header": None, "dtype": np.float32}
        found["pandas"] = lambda path: read_csv(path, **options).to_numpy()[:, :count]
    return found


def timings(path: Path, found: dict[str, Reader], rounds: int) -> dict[str, list[float]]:
    """Seconds of each reader in each round, readers in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in found}
    for _ in range(rounds):
        for name, read in found.items():
            start = time.perf_counter()
            read(path)
            seconds[name].append(time.perf_counter() - start)
    return seconds


def measured(kind: Kind, path: Path, found: dict[str, Reader], rounds: int) -> list[Row]:
    """One row of the table for each reader of the file."""
    values = found["graphc"](path)
    for name, read in found.items():
        np.testing.assert_allclose(read(path), values, rtol=1e-6, err_msg=name)
    megabytes = path.stat().st_size / 1e6
    seconds = timings(path, found, rounds)
    own = statistics.median(seconds["graphc"])
    return [
        {
            "file": kind.name,
            "megabytes": round(megabytes, 2),
            "reader": name,
            "median": megabytes / statistics.median(taken),
            "slowest": megabytes / max(taken),
            "fastest": megabytes / min(taken),
            "ratio": statistics.median(taken) / own,
        }
        for name, taken in seconds.items()
    ]


def versions() -> dict[str, str]:
    found = {"python": platform.python_version(), "numpy": np.__version__}
    if importlib.util.find_spec("pandas") is not None:
        found["pandas"] = importlib.import_module("pandas").__version__
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--megabytes", type=float, default=8)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if "pandas" not in versions():
        print("pandas is not installed: its rows are left out")
    table: list[Row] = []
    print(f"{'file':18} {'MB':>5} {'reader':14} {'MB/s':>6} {'range':>13}  graphc is faster by")
    with tempfile.TemporaryDirectory() as folder:
        for kind in KINDS:
            path = Path(folder) / "data.txt"
            kind.make(path, options.megabytes)
            for row in measured(kind, path, readers(kind), options.rounds):
                table.append(row)
                extent = f"{row['slowest']:.0f} to {row['fastest']:.0f}"
                print(
                    f"{kind.name:18} {row['megabytes']:5.1f} {row['reader']:14} "
                    f"{row['median']:6.0f} {extent:>13}  {row['ratio']:.2f}"
                )
    print("graphc also checks the text, makes one-hot labels and knows the place of each cell;")
    print("loadtxt and pandas read the label as one more number.")
    if options.json:
        record = {
            "schema": 1,
            "bench": "data.uci_read",
            "machine": f"{platform.system()} {platform.machine()}",
            "versions": versions(),
            "rows": table,
        }
        options.json.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
