"""Images and their labels as arrays: MNIST's files, or the small digits that graphc ships.

A sample is a column of the book's layout: column after column of the image, rows within.
"""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

DIGITS = Path(__file__).parent.parent / "digits"


@dataclass(frozen=True)
class Images:
    """pixels (N, width·height) from 0 to 255, classes (N,) from 0 to 9."""

    pixels: np.ndarray
    classes: np.ndarray
    width: int
    height: int


def load(folder: Path | None) -> tuple[Images, Images]:
    """Training and test images: MNIST from `folder`, without one the 8x8 digits."""
    if folder is None:
        return tuple(_read_digits(DIGITS / f"{part}.txt") for part in ("train", "test"))  # type: ignore[return-value]
    return _read_mnist(folder, "train"), _read_mnist(folder, "t10k")


def one_hot(classes: np.ndarray, count: int) -> np.ndarray:
    """(N, count) with a 1 at each sample's class."""
    return np.eye(count, dtype=np.float32)[classes]


def _read_digits(path: Path) -> Images:
    table = np.loadtxt(path)
    images = 255 / 16 * table[:, :64].reshape(-1, 8, 8)
    return Images(_columns(images), table[:, 64].astype(int), 8, 8)


def _read_mnist(folder: Path, part: str) -> Images:
    images = _read_idx(folder / f"{part}-images-idx3-ubyte.gz")
    classes = _read_idx(folder / f"{part}-labels-idx1-ubyte.gz")
    return Images(_columns(images), classes.astype(int), images.shape[2], images.shape[1])


def _read_idx(path: Path) -> np.ndarray:
    """An idx file: two zero bytes, 8 for bytes, the rank, the sizes, the elements."""
    with gzip.open(path, "rb") as file:
        content = file.read()
    zeros, kind, rank = struct.unpack_from(">HBB", content)
    if zeros != 0 or kind != 8:
        raise ValueError(f"{path} is no idx file of bytes")
    sizes = struct.unpack_from(f">{rank}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * rank).reshape(sizes)


def _columns(images: np.ndarray) -> np.ndarray:
    """(N, rows, cols) as (N, pixels), column after column."""
    return np.ascontiguousarray(images.transpose(0, 2, 1).reshape(len(images), -1), np.float32)
