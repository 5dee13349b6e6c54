"""Philox against its published vectors, and masks: equal everywhere, fair, one for each step."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from graphc.backends.llvm.target import X86_64, host_target
from graphc.backends.loops.philox import words
from graphc.ir.core import Function, IRBuilder, Module, RegionKind, ResultInfo
from graphc.ir.evaluate import evaluate
from graphc.ir.types import Dim, DType, Symbol, TensorType
from graphc.ops.control import RETURN
from graphc.ops.random import keep_mask, philox, uniform
from tests.conformance.check import BACKEND_NAMES
from tests.support.compiling import call, compile_for, load_backend
from tests.support.llvm_probe import probe

Array = np.ndarray
N = Symbol("N", 300)
ONE = TensorType((1,), DType.I64)

VECTORS = [  # the known answers for philox2x32-10 that come with Random123: counter, key, result
    ((0x00000000, 0x00000000), 0x00000000, (0xFF1DAE59, 0x6CD10DF2)),
    ((0xFFFFFFFF, 0xFFFFFFFF), 0xFFFFFFFF, (0x2C3F628B, 0xAB4FD7AD)),
    ((0x243F6A88, 0x85A308D3), 0x13198A2E, (0xDD7CE038, 0xF62A4C12)),
]


@pytest.mark.parametrize(("counter", "key", "wanted"), VECTORS)
def test_the_published_vectors_come_out(
    counter: tuple[int, int], key: int, wanted: tuple[int, int]
) -> None:
    whole = np.array([counter[0] | counter[1] << 32], np.uint64)
    (bits,) = philox(whole, np.array([key], np.uint64)).tolist()
    assert (bits & 0xFFFFFFFF, bits >> 32) == wanted


@pytest.mark.parametrize("target", [X86_64, host_target()], ids=["baseline", "host"])
def test_the_published_vectors_come_out_of_native_code(target: object) -> None:
    counters = np.array([c[0] | c[1] << 32 for c, _, _ in VECTORS], np.uint64).view(np.int64)
    keys = np.array([key for _, key, _ in VECTORS])
    for half in (0, 1):
        run = probe(target, lambda s, c, k, h=half: words(s, c, k)[h], [DType.I64] * 2, DType.I64)  # type: ignore[arg-type]
        assert run(counters, keys).tolist() == [wanted[half] for _, _, wanted in VECTORS]


def test_of_a_key_only_the_low_half_counts() -> None:
    counter = np.arange(5)
    same = philox(counter, np.full(5, 3 + (7 << 32)))
    np.testing.assert_array_equal(same, philox(counter, np.full(5, 3)))


def mask_module(dims: tuple[Dim, ...], rate: DType, seed: int = 1, stream: int = 0) -> Module:
    """`(rate, step) -> (mask, numbers)`."""
    function = Function("mask", RegionKind.SSA)
    threshold = function.add_argument("rate", TensorType((1,), rate), "input")
    step = function.add_argument("step", ONE, "input")
    b = IRBuilder(function.block)
    mask = keep_mask(b, dims, threshold, seed=seed, stream=stream, step=step)
    numbers = uniform(b, dims, seed=seed, stream=stream, step=step)
    b.emit(RETURN, [mask, numbers])
    function.results.extend([ResultInfo("mask"), ResultInfo("numbers")])
    return Module([function], [N])


def arguments(rate: float, dtype: DType, step: int) -> dict[str, Array]:
    return {"rate": np.array([rate], dtype.numpy), "step": np.array([step])}


def run(
    dims: tuple[Dim, ...],
    rate: float = 0.5,
    dtype: DType = DType.F32,
    step: int = 0,
    sizes: Mapping[str, int] = {"N": 7},  # never changed
    seed: int = 1,
    stream: int = 0,
) -> dict[str, Array]:
    function = mask_module(dims, dtype, seed, stream).functions[0]
    return evaluate(function, arguments(rate, dtype, step), sizes)


SHAPES: list[tuple[Dim, ...]] = [(), (5,), (3, 5), (N, 5), (5, N), (2, N, 3), (N, 37)]


@pytest.mark.parametrize("name", BACKEND_NAMES)
@pytest.mark.parametrize("dims", SHAPES, ids=str)
def test_every_backend_draws_the_same_numbers(dims: tuple[Dim, ...], name: str) -> None:
    backend = load_backend(name)
    if isinstance(backend, str):
        pytest.skip(backend)
    for dtype in (DType.F32, DType.F64):
        compiled, signature = compile_for(backend, mask_module(dims, dtype))
        for samples in (0, 1, 300):
            sizes, given = {"N": samples}, arguments(0.3, dtype, 2**40 + 5)
            got = call(compiled, signature, given, sizes)
            wanted = run(dims, 0.3, dtype, 2**40 + 5, sizes)
            np.testing.assert_array_equal(got["mask"], wanted["mask"])
            np.testing.assert_array_equal(got["numbers"], wanted["numbers"])


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.7, 0.9, 1 - 2**-24])
def test_a_mask_does_not_depend_on_the_type_of_the_rate(rate: float) -> None:
    narrow, wide = (run((2000, 100), rate, d)["mask"] for d in (DType.F32, DType.F64))
    np.testing.assert_array_equal(narrow, wide)


def test_rate_0_keeps_every_element_and_rate_1_none() -> None:
    assert run((1000, 100), 0.0)["mask"].all()
    assert not run((1000, 100), 1.0)["mask"].any()


@pytest.mark.parametrize("rate", [0.01, 0.25, 0.5, 0.9])
def test_a_mask_keeps_its_share(rate: float) -> None:
    mask = run((500, 400), rate)["mask"]
    deviation = (rate * (1 - rate) / mask.size) ** 0.5
    assert abs(mask.mean() - (1 - rate)) < 5 * deviation
    # No row and no column is special either.
    for axis, size in ((0, 500), (1, 400)):
        shares = mask.mean(axis=axis)
        assert abs(shares - (1 - rate)).max() < 6 * (rate * (1 - rate) / size) ** 0.5


def test_numbers_are_spread_over_the_unit_interval() -> None:
    numbers = run((400, 500))["numbers"]
    assert numbers.min() >= 0 and numbers.max() < 1
    counts, _ = np.histogram(numbers, bins=100, range=(0, 1))
    # Chi squared of 99 degrees of freedom: 160 has a chance of one in ten thousand.
    assert np.sum((counts - 2000) ** 2 / 2000) < 160
    np.testing.assert_array_equal(numbers * 2.0**24, np.floor(numbers * 2.0**24))


def test_steps_streams_and_seeds_have_numbers_of_their_own() -> None:
    kinds = [
        run((10, 10)),
        run((10, 10), step=1),
        run((10, 10), step=2**31),
        run((10, 10), stream=1),
        run((10, 10), seed=2),
    ]
    draws = [made["numbers"] for made in kinds]
    for i, first in enumerate(draws):
        for second in draws[:i]:
            assert (first != second).mean() > 0.9


def test_a_sample_has_the_same_numbers_in_a_smaller_minibatch() -> None:
    large, small = (run((N, 5), sizes={"N": n})["numbers"] for n in (300, 12))
    np.testing.assert_array_equal(large[:12], small)
