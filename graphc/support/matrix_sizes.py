"""Which arrays count as matrices, and of what sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Size = TypeVar("Size")


def matrix_sizes(sizes: Iterable[Size]) -> list[Size]:
    """Rows and columns: the two sizes of a matrix, and of more axes those that are not 1, as the
    weights of a convolution with windows of one element have; no matrix unless there are two."""
    found = list(sizes)
    return found if len(found) == 2 else [n for n in found if n != 1]
