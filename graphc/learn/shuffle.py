"""The order in which an epoch visits its samples, and how that order is cut into minibatches.

The order is a function of (seed, epoch, count) alone: the same in every process, on every
platform and with every version of numpy, and without state. A run that is resumed in the middle
of an epoch makes the permutation again and goes on at its position.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from graphc.support.randomness import Purpose, random_words


def permutation(seed: int, epoch: int, count: int) -> np.ndarray:
    """The numbers 0 to count - 1 in random order, i64[count]. O(count log count).

    Each sample gets a random 64-bit word and samples are sorted by word; should two words be
    equal, the samples keep their order. ValueError unless 0 <= seed, epoch < 2^64 and
    count >= 0.
    """
    words = random_words(seed, Purpose.SHUFFLE, epoch, count)
    return np.argsort(words, kind="stable").astype(np.int64, copy=False)


def minibatches(count: int, size: int) -> Iterator[slice]:
    """Slices of `size` samples that cover 0 to count; the last one may be shorter.

    ValueError unless size >= 1 and count >= 0.
    """
    if size < 1 or count < 0:
        raise ValueError(f"size >= 1 and count >= 0 are required, got {size} and {count}")
    return (slice(start, min(start + size, count)) for start in range(0, count, size))
