"""Speed of the UCI text reader next to numpy.loadtxt and pandas.read_csv, in megabytes of text.

    python -m bench.data.uci_read [--rows 20000] [--rounds 7] [--json FILE]

Files of 64 features and a label are made from a seed, once for each way of writing numbers. All
readers give the same float32 features before they are timed; rounds are taken in turn.
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
from pathlib import Path

import numpy as np

from graphc.data.uci import Columns, FeatureBlock, LabelBlock, read_uci

FEATURES, CLASSES = 64, 10
Reader = Callable[[Path], np.ndarray]
Row = dict[str, object]


def write_file(path: Path, kind: str, rows: int) -> None:
    """A file of `rows` samples whose features are integers, decimals or full floats."""
    rng = np.random.default_rng(7)
    normal = rng.normal(size=(rows, FEATURES)).astype(np.float32)
    features, cell = {
        "integers 0 to 255": (rng.integers(0, 256, (rows, FEATURES)), "%d"),
        "decimals (%.4f)": (normal, "%.4f"),
        "float32 (%.9g)": (normal, "%.9g"),
        "exponents (%.9e)": (normal, "%.9e"),
    }[kind]
    labels = rng.integers(0, CLASSES, (rows, 1))
    np.savetxt(path, np.hstack([features, labels]), fmt=[cell] * FEATURES + ["%d"])


def read_ours(path: Path) -> np.ndarray:
    labels = LabelBlock("labels", Columns(FEATURES, 1), CLASSES)
    data = read_uci(path, [FeatureBlock("features", Columns(0, FEATURES)), labels])
    return data["features"]


def read_numpy(path: Path) -> np.ndarray:
    return np.loadtxt(path, dtype=np.float32)[:, :FEATURES]


def readers() -> dict[str, Reader]:
    """The readers that can be had here; says so if pandas cannot."""
    found: dict[str, Reader] = {"graphc": read_ours, "numpy.loadtxt": read_numpy}
    if importlib.util.find_spec("pandas") is None:
        print("pandas is not installed: its rows are left out")
        return found
    read_csv = importlib.import_module("pandas").read_csv
    common = {"sep": " ", "header": None}
    found["pandas"] = lambda path: read_csv(path, dtype=np.float32, **common).to_numpy()[
        :, :FEATURES
    ]
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


def measured(kind: str, path: Path, found: dict[str, Reader], rounds: int) -> list[Row]:
    """One row of the table for each reader of the file."""
    ours = read_ours(path)
    for name, read in found.items():
        np.testing.assert_allclose(read(path), ours, rtol=1e-6, err_msg=name)
    megabytes = path.stat().st_size / 1e6
    seconds = timings(path, found, rounds)
    own = statistics.median(seconds["graphc"])
    return [
        {
            "file": kind,
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
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = readers()
    table: list[Row] = []
    print(f"{'file':18} {'MB':>5} {'reader':14} {'MB/s':>6} {'range':>13}  graphc is faster by")
    kinds = ("integers 0 to 255", "decimals (%.4f)", "float32 (%.9g)", "exponents (%.9e)")
    with tempfile.TemporaryDirectory() as folder:
        for kind in kinds:
            path = Path(folder) / "data.txt"
            write_file(path, kind, options.rows)
            for row in measured(kind, path, found, options.rounds):
                table.append(row)
                extent = f"{row['slowest']:.0f} to {row['fastest']:.0f}"
                print(
                    f"{kind:18} {row['megabytes']:5.1f} {row['reader']:14} {row['median']:6.0f} "
                    f"{extent:>13}  {row['ratio']:.2f}"
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
