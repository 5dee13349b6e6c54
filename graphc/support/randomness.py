"""Counter-based random words: the same numbers whatever was drawn before, on every platform.

A stream is named by (seed, purpose, index) and its words depend on nothing else: not on threads,
on other streams, on how many words were read, nor on a generator's state that would have to be
saved. Only the raw words of numpy's Philox-4x64-10 are used. Those are fixed by the algorithm,
whereas numpy may change what its distributions and shuffles make of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum

import numpy as np

SEED_LIMIT = 2**64
BLOCK = 2**15
"""Words of a piece of a stream: what is made of it stays in a cache."""


class Purpose(IntEnum):
    """What a stream is for, so that equal seeds and indices never give the same words twice."""

    SHUFFLE = 1
    INITIAL_VALUE = 2
    MASK = 3


def random_words(seed: int, purpose: Purpose, index: int, count: int) -> np.ndarray:
    """The first `count` words, u64[count], of a stream.

    ValueError unless 0 <= seed, index < 2^64.
    """
    return _stream(seed, purpose, index).random_raw(count)


def word_blocks(seed: int, purpose: Purpose, index: int, count: int) -> Iterator[np.ndarray]:
    """The same words, in pieces of `BLOCK` and a rest."""
    stream = _stream(seed, purpose, index)
    for start in range(0, count, BLOCK):
        yield stream.random_raw(min(BLOCK, count - start))


def _stream(seed: int, purpose: Purpose, index: int) -> np.random.Philox:
    """Philox is keyed by (seed, index); the purpose is the highest word of its 256-bit counter."""
    if not (0 <= seed < SEED_LIMIT and 0 <= index < SEED_LIMIT):
        raise ValueError(f"seed and index must be from 0 to 2^64 - 1, got {seed} and {index}")
    key = np.array([seed, index], dtype=np.uint64)
    counter = np.array([0, 0, 0, purpose], dtype=np.uint64)
    return np.random.Philox(key=key, counter=counter)


def unit_interval(words: np.ndarray) -> np.ndarray:
    """The words as f64 numbers k / 2^53 in [0, 1), k their upper 53 bits."""
    numbers = (words >> np.uint64(11)).astype(np.float64)
    numbers *= 2.0**-53
    return numbers
