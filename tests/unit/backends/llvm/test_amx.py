"""Products in the registers of AMX, by an emulation of these: bits, memory, what is executed.

The judge is numpy: both factors rounded to bf16, products exact, 32 steps of k at a time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import SAPPHIRE_RAPIDS, host_target
from graphc.backends.loops.gemm import Product
from graphc.ops.schedules import Tiling
from graphc.runtime.signature import in_panels, in_pairs
from tests.support.amx import Amx
from tests.support.guarded_memory import SIDES, GuardedMemory, Side
from tests.support.products import compile_text, product_of, product_text

Array = np.ndarray
LAYOUTS = list(itertools.product((False, True), (False, True)))
LAYOUT_IDS = ["nn", "nt", "tn", "tt"]
NEEDS_DOTS = pytest.mark.skipif(
    not host_target().machine.dots_bf16,
    reason="this machine has no conversion to bf16, which copies of factors are made by",
)
RUNNING = replace(host_target(), machine=SAPPHIRE_RAPIDS.machine)
"""This machine, with registers that are emulated."""


def in_bf16(x: Array) -> Array:
    """By the fraction's bits in f64: for numbers that are neither tiny nor large."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(fraction * 256) / 256, exponent)


def f32(x: Array) -> Array:
    return x.astype(np.float32).astype(np.float64)


def chained(a: Array, b: Array) -> Array:
    """Sums of 32 steps, even and odd ones apart, one after the other."""
    a, b = in_bf16(a), in_bf16(b)
    total = np.zeros((a.shape[0], b.shape[1]))
    for begin in range(0, a.shape[1], 32):
        halves = [np.zeros_like(total), np.zeros_like(total)]
        for step in range(begin, min(begin + 32, a.shape[1])):
            halves[step % 2] = f32(halves[step % 2] + np.outer(a[:, step], b[step]))
        total = f32(total + f32(halves[0] + halves[1]))
    return total


def amx(product: Product) -> Product:
    return replace(product, pairs=True, amx=True)


def numbers(dims: tuple[int, int, int]) -> tuple[Array, Array]:
    m, n, k = dims
    rng = np.random.default_rng(m + 7 * n + 11 * k)
    return rng.standard_normal((m, k)).astype("f4"), rng.standard_normal((k, n)).astype("f4")


def run(
    product: Product,
    a: Array,
    b: Array,
    sizes: Mapping[str, int],
    *,
    side: Side = "end",
    parts: tuple[tuple[int, int], ...] = (),
    registers: Amx | None = None,
) -> Array:
    """Of arrays as they lie in memory, between pages that nobody may touch."""
    registers = registers or Amx()
    text = registers.emulated(product_text(product, RUNNING))
    compiled = compile_text(product, text, RUNNING)
    memory = GuardedMemory(side)
    (_, left), (_, right) = (memory.like(np.ascontiguousarray(x)) for x in (a, b))
    left[:], right[:] = a, b
    rows, cols = (s.factor if not s.symbols else sizes[s.symbols[0]] for s in (product.m, product.n))
    buffer, c = memory.like(np.zeros((rows, cols), np.float32))
    c[:] = np.nan
    for part in parts or (None,):
        compiled.run(left.ctypes.data, right.ctypes.data, c.ctypes.data, sizes, part)
    assert registers.problems == []
    assert registers.registers == [], "configured registers were left behind"
    assert memory.problems() == []
    result = c.copy()
    del buffer
    memory.close()
    return result


def stored(a: Array, b: Array, layout: tuple[bool, bool]) -> tuple[Array, Array]:
    left, right = (x.T if t else x for x, t in zip((a, b), layout, strict=True))
    return np.ascontiguousarray(left), np.ascontiguousarray(right)


# --- bits ---


@NEEDS_DOTS
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(
    ("dims", "known"),
    [
        ((1, 1, 1), "MNK"),
        ((13, 3, 9), "MNK"),
        ((40, 1, 31), "MNK"),
        ((33, 53, 321), "MNK"),
        ((4, 48, 0), "MNK"),
        ((64, 64, 64), "MNK"),
        ((3, 70, 70), "NK"),
        ((47, 20, 45), "M"),
        ((50, 33, 33), ""),
    ],
    ids=str,
)
def test_sums_are_what_numpy_makes_of_rounded_factors(
    dims: tuple[int, int, int], known: str, layout: tuple[bool, bool]
) -> None:
    a, b = numbers(dims)
    given = tuple(n if s in known else s for s, n in zip("MNK", dims, strict=True))
    product = amx(product_of(given, layout))  # type: ignore[arg-type]  # three
    side = SIDES[sum(dims) % 2]
    got = run(product, *stored(a, b, layout), dict(zip("MNK", dims, strict=True)), side=side)
    exact = in_bf16(a) @ in_bf16(b)
    slack = (20 + dims[2] / 32) * 2.0**-24 * (abs(in_bf16(a)) @ abs(in_bf16(b)))
    assert (np.abs(got - exact) <= slack).all()
    np.testing.assert_array_equal(got, chained(a, b))


@NEEDS_DOTS
def test_bits_depend_neither_on_other_rows_nor_on_cuts() -> None:
    a, b = numbers((70, 100, 600))
    whole = run(amx(product_of((70, 100, 600), (False, False))), a, b, {})
    product = amx(product_of(("M", 100, 600), (False, False)))
    for rows in (1, 2, 16, 31):
        np.testing.assert_array_equal(run(product, a[:rows], b, {"M": rows}), whole[:rows])
    cut = replace(amx(product_of((70, 100, 600), (False, False))), split="cols", part=64)
    np.testing.assert_array_equal(run(cut, a, b, {}, parts=((64, 100), (0, 64))), whole)
    cut = replace(cut, split="rows", part=32)
    parts = ((0, 32), (32, 64), (64, 70))
    np.testing.assert_array_equal(run(cut, a, b, {}, parts=parts), whole)


@NEEDS_DOTS
def test_frozen_factors_lie_in_panels() -> None:
    a, b = numbers((40, 70, 45))
    panels = in_pairs(in_panels(b, 32))
    tile = Tiling(32, 2, 16, 48, 64, a="packed", b="panels")
    product = amx(product_of(("M", 70, 45), (False, False)))
    product = replace(product, panel=32, tile=tile, most_m=64)
    np.testing.assert_array_equal(run(product, a, panels, {"M": 40}), chained(a, b))


@NEEDS_DOTS
def test_what_is_no_number_stays_where_it_belongs() -> None:
    a, b = np.ones((17, 3), "f4"), np.ones((3, 20), "f4")
    a[0, 2], b[1, 4], b[2, 5] = np.nan, np.inf, 3.4e38
    got = run(amx(product_of((17, 20, 3), (False, False))), a, b, {})
    assert np.isnan(got[0]).all()
    assert np.isinf(got[1:, [4, 5]]).all()
    assert (np.delete(got[1:], [4, 5], axis=1) == 3).all()


# --- what is executed ---


@NEEDS_DOTS
def test_every_register_is_configured_once_a_call_and_all_are_used() -> None:
    a, b = numbers((64, 64, 64))
    registers = Amx()
    run(amx(product_of((64, 64, 64), (False, False))), a, b, {}, registers=registers)
    # Four tiles of two by two registers, two steps of 32 each.
    assert registers.calls == {
        "ldtilecfg": 1,
        "tilezero": 16,
        "tileloadd64": 32,
        "tdpbf16ps": 32,
        "tilestored64": 16,
        "tilerelease": 1,
    }
    assert (registers.rows[:8], registers.row_bytes[:8]) == ([16] * 8, [64] * 8)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_machine_code_has_the_instructions_and_their_configuration(
    layout: tuple[bool, bool],
) -> None:
    product = product_of((64, 96, 101), layout)
    text = engine.assembly(product_text(amx(product), SAPPHIRE_RAPIDS), SAPPHIRE_RAPIDS)
    names = ("ldtilecfg", "tilezero", "tileloadd", "tdpbf16ps", "tilestored", "tilerelease")
    for name in names:
        assert re.search(rf"\b{name}\b", text), name
    dots = re.findall(r"tdpbf16ps\s+%tmm(\d), %tmm(\d), %tmm(\d)", text)
    assert {(int(c), int(a), int(b)) for b, a, c in dots} == {
        (2 * i + j, 4 + i, 6 + j) for i in (0, 1) for j in (0, 1)
    }
    assert "vdpbf16ps" not in text and not re.search(r"\bvfmadd\w+ps\b", text)
    shape = [1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8]
    assert bytes(shape) == _configuration(product_text(amx(product), SAPPHIRE_RAPIDS))


def _configuration(text: str) -> bytes:
    """The 64 bytes that the registers are configured by, as the text has them."""
    name = re.search(r"@llvm\.x86\.ldtilecfg\(ptr (@[\w.]+)\)", text)
    assert name is not None
    found = re.search(rf'^{re.escape(name[1])} = .*\[64 x i8\] c"(.*)", align 64', text, re.M)
    assert found is not None, text[:500]
    parts = re.findall(r"\\([0-9A-F]{2})|(.)", found[1])
    return bytes(int(code, 16) if code else ord(plain) for code, plain in parts)
