"""Random words: fixed values, independence of streams, and the numbers made of them."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.support.randomness import BLOCK, Purpose, random_words, unit_interval, word_blocks


def test_the_words_of_a_stream_are_these_for_ever() -> None:
    words = random_words(7, Purpose.SHUFFLE, 3, 3)
    assert [int(word) for word in words] == [
        3845544696532098304,
        9931676275916508706,
        5599683423530089621,
    ]


def test_a_longer_read_starts_with_a_shorter_one() -> None:
    short = random_words(1, Purpose.INITIAL_VALUE, 0, 5)
    long = random_words(1, Purpose.INITIAL_VALUE, 0, 1000)
    np.testing.assert_array_equal(long[:5], short)


@pytest.mark.parametrize("count", [0, 1, BLOCK, 2 * BLOCK + 3])
def test_blocks_of_a_stream_are_its_words(count: int) -> None:
    blocks = list(word_blocks(1, Purpose.INITIAL_VALUE, 2, count))
    assert all(0 < len(block) <= BLOCK for block in blocks)
    words = random_words(1, Purpose.INITIAL_VALUE, 2, count)
    np.testing.assert_array_equal(np.concatenate([words[:0], *blocks]), words)


def test_streams_differ_by_seed_index_and_purpose() -> None:
    streams = [
        random_words(seed, purpose, index, 4).tobytes()
        for seed in (0, 1, 2**64 - 1)
        for index in (0, 1, 2**64 - 1)
        for purpose in Purpose
    ]
    assert len(set(streams)) == len(streams)


@pytest.mark.parametrize(("seed", "index"), [(-1, 0), (0, -1), (2**64, 0), (0, 2**64)])
def test_a_seed_or_index_beyond_64_bits_is_refused(seed: int, index: int) -> None:
    with pytest.raises(ValueError, match="from 0 to 2"):
        random_words(seed, Purpose.SHUFFLE, index, 1)


def test_the_unit_interval_excludes_one() -> None:
    words = np.array([0, 2**64 - 1, 2**63], dtype=np.uint64)
    np.testing.assert_array_equal(unit_interval(words), [0.0, 1.0 - 2.0**-53, 0.5])
