"""Gradients that travel in fewer bits: what arrives, the same everywhere, and what stays exact."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import graphc as gc
from graphc.runtime.communicators.wire import adder

Array = np.ndarray
SHAPES = {0: (40, 33), 1328: (5, 1), 1344: (), 1360: (3, 400)}
"""A matrix, a bias, a criterion and another matrix, with gaps between them."""
SIZE = 1360 + 1200


def summed(wire: str, arrays: list[Array], calls: int = 1) -> list[list[Array]]:
    """What each member has after each of so many sums of the same arrays."""

    def work(member: gc.comm.Communicator) -> list[Array]:
        mine = np.zeros(SIZE, arrays[0].dtype)
        add = adder(member, mine, SHAPES)
        found: list[Array] = []
        for _ in range(calls):
            mine[...] = arrays[member.rank]
            add()
            found.append(mine.copy())
        return found

    with ThreadPoolExecutor(len(arrays)) as pool:
        return list(pool.map(work, gc.comm.threads(len(arrays), 60.0, wire=wire)))


def numbers(members: int, dtype: type = np.float32) -> list[Array]:
    rng = np.random.default_rng(3)
    made = rng.standard_normal((members, SIZE)) * 10.0 ** rng.integers(-6, 3, SIZE)
    made[:, 1320:1328] = made[:, 1333:1344] = made[:, 1345:1360] = 0
    return list(made.astype(dtype))


def rounded(x: Array) -> Array:
    """To 8 significant bits, halves to even ones: bf16 without its bounds."""
    part, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(part * 256) / 256, exponent)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("members", [2, 3])
def test_bf16_rounds_what_is_sent_and_the_sums(members: int, dtype: type) -> None:
    arrays = numbers(members, dtype)
    found = summed("bf16", arrays)
    sent = [rounded(a).astype(dtype) for a in arrays]
    total = sent[0] + sent[1] if members == 2 else (sent[0] + sent[1]) + sent[2]
    exact = arrays[0] + arrays[1] if members == 2 else (arrays[0] + arrays[1]) + arrays[2]
    for (its,) in found:
        assert np.array_equal(its[:1320], rounded(total[:1320]))
        assert np.array_equal(its[1360:], rounded(total[1360:]))
        assert np.array_equal(its[1328:1333], exact[1328:1333])  # a bias, a criterion
        assert its[1344] == exact[1344]


def test_what_is_no_number_arrives_as_such() -> None:
    arrays = numbers(2)
    arrays[1][:4] = [np.nan, np.inf, -np.inf, 3e38]
    (first,), (second,) = summed("bf16", arrays)
    np.testing.assert_array_equal(first, second)
    assert np.isnan(first[0])
    assert list(first[1:3]) == [np.inf, -np.inf]


def test_one_bit_leaves_nothing_out_for_long() -> None:
    """The sum of what arrived stays as near to that of what was sent as it is after a few."""
    arrays = numbers(2)
    for array in arrays:
        array[:] = np.clip(array, -1, 1)
    found = summed("1bit", arrays, calls=200)
    assert all(np.array_equal(a, b) for a, b in zip(*found, strict=True))
    one = found[0][0][:512]
    assert len(np.unique(one)) <= 2
    wanted = arrays[0] + arrays[1]
    off = [np.abs(np.sum(found[0][:n], axis=0) - n * wanted)[:1320].max() for n in (50, 200)]
    assert off[1] < 2 * off[0] < 0.5 * 50 * np.abs(wanted[:1320]).max()
    assert np.array_equal(found[0][7][1344:1345], wanted[1344:1345])


def test_fewer_bits_are_none_of_shards_and_have_names() -> None:
    with pytest.raises(gc.GraphcError, match="leave out shards"):
        gc.comm.threads(2, shards=2, wire="bf16")
    with pytest.raises(gc.GraphcError, match="travel as full, bf16, 1bit, got 'int8'"):
        gc.comm.threads(2, wire="int8")
