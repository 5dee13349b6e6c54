"""Products of factors as pairs of bf16: their bits, what denormals do, and which code there is."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import LINUX_X86, Target, host_target
from graphc.ir.machine import MACHINES
from graphc.ops.schedules import Tiling
from tests.support.products import CompiledProduct, compile_product, product_of, product_text

DOTS = replace(MACHINES["x86-64-v4"], dots_bf16=True)
NEEDS_DOTS = pytest.mark.skipif(
    not host_target().machine.dots_bf16, reason="this machine has no dot products of bf16"
)
LAYOUTS = list(itertools.product((False, True), (False, True)))
LAYOUT_IDS = ["nn", "nt", "tn", "tt"]
Array = np.ndarray


def in_bf16(x: Array) -> Array:
    """By the fraction's bits in f64: for numbers that are neither tiny nor large."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(fraction * 256) / 256, exponent)


def in_f32(x: Array) -> Array:
    """Rounded to 24 bits, below the smallest normal number 0: as a dot product gives it."""
    up = (x * 2.0**64).astype(np.float32).astype(np.float64)
    return np.where(np.abs(up) < 2.0**-62, 0.0, up) * 2.0**-64


def chained(a: Array, b: Array) -> Array:
    """Each sum as the instruction makes it: step by step, products exact, denormals 0."""
    a, b = (np.where(np.abs(x) < 2.0**-126, 0.0, x) for x in (a, b))
    total = np.zeros((a.shape[0], b.shape[1]))
    for begin in range(0, a.shape[1], 256):
        part = np.zeros_like(total)
        for step in range(begin, min(begin + 256, a.shape[1])):
            part = in_f32(part + np.outer(a[:, step], b[step]))
        total = (total.astype(np.float32) + part.astype(np.float32)).astype(np.float64)
    return total


def stored(a: Array, b: Array, layout: tuple[bool, bool]) -> tuple[Array, Array]:
    """As they lie in memory."""
    given = (x.T if t else x for x, t in zip((a, b), layout, strict=True))
    a, b = (np.ascontiguousarray(x, np.float32) for x in given)
    return a, b


def run(compiled: CompiledProduct, a: Array, b: Array, dims: tuple[int, int, int]) -> Array:
    layout = (compiled.product.transpose_a, compiled.product.transpose_b)
    left, right = stored(a, b, layout)
    c = np.full(dims[:2], np.nan, np.float32)
    sizes = dict(zip("MNK", dims, strict=True))
    compiled.run(left.ctypes.data, right.ctypes.data, c.ctypes.data, sizes)
    return c


@NEEDS_DOTS
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(
    ("dims", "known"),
    [
        ((1, 1, 1), "MNK"),
        ((13, 3, 9), "MNK"),
        ((40, 1, 31), "MNK"),
        ((29, 53, 601), "MNK"),
        ((4, 48, 0), "MNK"),
        ((5, 300, 77), "MNK"),
        ((3, 330, 70), "NK"),
        ((31, 64, 1030), "N"),
        ((9, 20, 45), "M"),
        ((14, 70, 33), "K"),
    ],
    ids=str,
)
def test_sums_go_step_by_step_however_a_product_is_cut(
    dims: tuple[int, int, int], known: str, layout: tuple[bool, bool]
) -> None:
    rng = np.random.default_rng(dims[2])
    a, b = rng.standard_normal(dims[::2]), rng.standard_normal((dims[2], dims[1]))
    a, b = a.astype(np.float32), b.astype(np.float32)
    given = tuple(n if s in known else s for s, n in zip("MNK", dims, strict=True))
    product = replace(product_of(given, layout), pairs=True)  # type: ignore[arg-type]  # three
    got = run(compile_product(product), a, b, dims)
    exact = in_bf16(a) @ in_bf16(b)
    bound = (1 + min(dims[2], 256) + dims[2] / 256) * 2.0**-24 * (abs(in_bf16(a)) @ abs(in_bf16(b)))
    assert (np.abs(got - exact) <= bound).all()
    np.testing.assert_array_equal(got, chained(in_bf16(a), in_bf16(b)))


@NEEDS_DOTS
def test_panels_of_one_row_do_not_reach_into_each_other() -> None:
    tile = Tiling(1, 2, 16, 256, 20, a="packed", b="packed")
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(s).astype(np.float32) for s in ((15, 100), (100, 40)))
    product = replace(product_of((15, 40, 100), (True, False)), pairs=True, tile=tile)
    got = run(compile_product(product), a, b, (15, 40, 100))
    np.testing.assert_array_equal(got, chained(in_bf16(a), in_bf16(b)))


@NEEDS_DOTS
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_denormals_are_zero_as_factors_and_as_sums(layout: tuple[bool, bool]) -> None:
    rng = np.random.default_rng(3)
    dims = (7, 40, 51)

    def numbers(*shape: int) -> Array:
        sizes = np.exp2(rng.integers(-66, -59, shape)) * rng.standard_normal(shape)
        tiny = np.exp2(-130.0) * rng.integers(-8, 8, shape)
        return in_bf16(np.where(rng.random(shape) < 0.2, tiny, sizes))

    a, b = numbers(7, 51), numbers(51, 40)
    wanted = chained(a, b)
    assert (wanted == 0).any() and (wanted != 0).any()
    got = run(compile_product(replace(product_of(dims, layout), pairs=True)), a, b, dims)
    np.testing.assert_array_equal(got, wanted)
    # No more is lost than this.
    most = dims[2] * 2.0**-126 * (1 + np.abs(a).max() + np.abs(b).max())
    assert np.abs(got - a @ b).max() <= most + dims[2] * 2.0**-24 * (abs(a) @ abs(b)).max()


@NEEDS_DOTS
def test_what_is_no_number_stays_so_and_infinity_too() -> None:
    a, b = np.ones((2, 3)), np.ones((3, 20))
    a[0, 2], b[1, 4], b[2, 5] = np.nan, np.inf, 3.4e38
    got = run(
        compile_product(replace(product_of((2, 20, 3), (False, False)), pairs=True)),
        a,
        b,
        (2, 20, 3),
    )
    assert np.isnan(got[0]).all()
    assert np.isinf(got[1, [4, 5]]).all()
    assert (np.delete(got[1], [4, 5]) == 3).all()


@pytest.mark.parametrize("cpu", ["znver4", "sapphirerapids"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_tiles_are_dot_products_on_machines_that_have_them(
    layout: tuple[bool, bool], cpu: str
) -> None:
    target = Target(LINUX_X86, cpu, "", "x86-64-v4", DOTS)
    product = product_of((48, 96, 101), layout)
    text = engine.assembly(product_text(replace(product, pairs=True), target), target)
    dots = re.findall(r"\bvdpbf16ps\b.*%zmm", text)
    assert len(dots) >= 24 and not re.search(r"\bvfmadd\w+ps\b", text)
    assert "vdpbf16ps" not in engine.assembly(product_text(product, target), target)
