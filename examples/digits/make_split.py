"""Makes train.txt, test.txt and labels.txt of this folder from scikit-learn's digits.csv.gz.

    python make_split.py path/to/digits.csv.gz [--writers] [--out FOLDER]

The order of rows comes from SHA-256 of a fixed text and the row number, so it does not depend on
the version of any random number generator: the same bytes come out everywhere. README.md of this
folder says why the split is what it is.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
from pathlib import Path

FEATURES = 64
CLASSES = 10
HELD_OUT_PER_CLASS = 36
# With --writers: the rows from here on, the last three forms, are held out.
FIRST_HELD_OUT_WRITER_ROW = 1415


def read_rows(path: Path) -> list[tuple[str, ...]]:
    """The rows of the file as text cells: 64 features, then the label.

    Raises ValueError for a row that does not have 65 cells or whose label is no digit.
    """
    rows: list[tuple[str, ...]] = []
    with gzip.open(path, "rt", encoding="ascii") as lines:
        for number, line in enumerate(lines, start=1):
            cells = tuple(cell.strip() for cell in line.split(","))
            if len(cells) != FEATURES + 1 or cells[-1] not in set("0123456789"):
                raise ValueError(f"{path}:{number}: 64 features and a digit are required")
            rows.append(cells)
    return rows


def shuffled(indices: list[int]) -> list[int]:
    """The indices in an order that is fixed for all time but unrelated to their size."""
    return sorted(indices, key=lambda i: hashlib.sha256(f"graphc digits {i}".encode()).digest())


def split_by_class(rows: list[tuple[str, ...]]) -> tuple[list[int], list[int]]:
    """Row numbers for training and for testing: 36 of each digit are held out."""
    order = shuffled(list(range(len(rows))))
    held_out: set[int] = set()
    for digit in range(CLASSES):
        of_digit = [i for i in order if rows[i][-1] == str(digit)]
        held_out.update(of_digit[:HELD_OUT_PER_CLASS])
    return [i for i in order if i not in held_out], [i for i in order if i in held_out]


def split_by_writer(rows: list[tuple[str, ...]]) -> tuple[list[int], list[int]]:
    """Row numbers for training and for testing: the last three forms are held out."""
    border = FIRST_HELD_OUT_WRITER_ROW
    return shuffled(list(range(border))), shuffled(list(range(border, len(rows))))


def write_rows(path: Path, rows: list[tuple[str, ...]], indices: list[int]) -> None:
    """One row a line, cells with a blank between them, line ends as on Unix."""
    text = "".join(" ".join(rows[i]) + "\n" for i in indices)
    path.write_bytes(text.encode("ascii"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("csv", type=Path, help="digits.csv.gz of scikit-learn")
    parser.add_argument("--writers", action="store_true", help="hold out writers, not rows")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent)
    options = parser.parse_args()
    rows = read_rows(options.csv)
    train, test = split_by_writer(rows) if options.writers else split_by_class(rows)
    write_rows(options.out / "train.txt", rows, train)
    write_rows(options.out / "test.txt", rows, test)
    labels = "".join(f"{digit}\n" for digit in range(CLASSES))
    (options.out / "labels.txt").write_bytes(labels.encode("ascii"))


if __name__ == "__main__":
    main()
