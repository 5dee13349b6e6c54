"""How far matrix products with long sums are from the exact ones, judged in rational arithmetic."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from graphc.backends.llvm.target import TARGETS, Target, host_target
from graphc.ir.types import DType
from tests.support.products import compile_product, operands, product_of

LAYOUTS = list(itertools.product((False, True), (False, True)))
LAYOUT_IDS = ["nn", "nt", "tn", "tt"]
STRETCH = 256
"""What the documents promise: after so many steps a chain of additions ends."""

Fill = Literal["equal", "positive", "mixed"]


def allowed(k: int, size: np.ndarray) -> np.ndarray:
    """Of sums of k products, whose absolute values add up to `size`.

    A rounding for each product where the target has no fused multiply-add, and one for each
    addition that an element goes through.
    """
    unit = float(np.finfo(size.dtype).eps) / 2
    return (1 + min(k, STRETCH) + math.ceil(k / STRETCH)) * unit * size.astype(np.float64) * 1.001


def numbers(shape: tuple[int, int], dtype: DType, fill: Fill, seed: int) -> np.ndarray:
    """Numbers of 24 bits at most, whose products f64 holds exactly."""
    rng = np.random.default_rng(seed)
    if fill == "equal":
        values = np.full(shape, 0.1)
    else:
        values = rng.random(shape) if fill == "positive" else rng.standard_normal(shape)
    return values.astype(np.float32).astype(dtype.numpy)


def check(
    dims: tuple[int, int, int], layout: tuple[bool, bool], dtype: DType, fill: Fill, target: Target
) -> None:
    m, n, k = dims
    a, b = numbers((m, k), dtype, fill, 1), numbers((k, n), dtype, fill, 2)
    given = [np.ascontiguousarray(x.T if t else x) for x, t in zip((a, b), layout, strict=True)]
    c = np.full((m, n), np.nan, dtype.numpy)
    compiled = compile_product(product_of(dims, layout, dtype), target)
    compiled.run(given[0].ctypes.data, given[1].ctypes.data, c.ctypes.data)
    for i, j in itertools.product({0, m - 1}, {0, n - 1}):
        products = a[i].astype(np.float64) * b[:, j].astype(np.float64)
        size = np.asarray(np.abs(products).sum(), dtype.numpy)
        error = abs(math.fsum([c[i, j], *(-products).tolist()]))
        assert error <= allowed(k, size), (i, j)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("dtype", [DType.F32, DType.F64], ids=str)
@pytest.mark.parametrize("isa", ["x86-64", "native"])
@pytest.mark.parametrize(
    "dims",
    [(1, 1, 39_063), (1, 70, 39_063), (2, 3, 100_001), (5, 40, 39_063), (30, 17, 20_000)],
    ids=str,
)
def test_equal_products_do_not_drift(
    dims: tuple[int, int, int], isa: str, dtype: DType, layout: tuple[bool, bool]
) -> None:
    check(dims, layout, dtype, "equal", target(isa))


@pytest.mark.parametrize("fill", ["positive", "mixed"])
@pytest.mark.parametrize("k", [0, 1, 255, 256, 257, 512, 513, 1000, 4096])
def test_errors_grow_with_the_stretches(k: int, fill: Fill) -> None:
    for layout, dtype in itertools.product(LAYOUTS, (DType.F32, DType.F64)):
        check((3, 33, k), layout, dtype, fill, host_target())


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("dims", [(1, 40, 1024), (3, 70, 700), (7, 33, 1000), (50, 300, 600)])
def test_the_bits_are_those_of_any_caches_and_of_extents_decided_at_the_call(
    dims: tuple[int, int, int], layout: tuple[bool, bool]
) -> None:
    m, n, k = dims
    a, b = operands(dims, layout)
    found: list[np.ndarray] = []
    unknown = replace(product_of(("M", "N", "K"), layout), most_m=m, most_k=k)
    for l1, product in itertools.product(
        (16384, 49152, 1 << 20), (product_of(dims, layout), unknown)
    ):
        c = np.full((m, n), np.nan, np.float32)
        machine = replace(host_target().machine, l1=l1, l2=16 * l1)
        compiled = compile_product(product, replace(host_target(), machine=machine))
        sizes = {"M": m, "N": n, "K": k}
        compiled.run(a.ctypes.data, b.ctypes.data, c.ctypes.data, sizes)
        found.append(c)
    for c in found[1:]:
        np.testing.assert_array_equal(c, found[0])


def target(isa: str) -> Target:
    return host_target() if isa == "native" else TARGETS[isa]
