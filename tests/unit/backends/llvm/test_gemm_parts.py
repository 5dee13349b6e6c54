"""Products computed in parts, and parts of products handed on as soon as they are final."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from graphc.backends.llvm.gemm import emit_gemm
from graphc.backends.llvm.target import host_target
from graphc.backends.llvm.text import Module
from graphc.backends.loopnest import Size
from graphc.support.diagnostics import InternalError
from tests.support.products import (
    CompiledProduct,
    Rectangle,
    compile_product,
    operands,
    product_of,
    with_finish,
)

LAYOUTS = list(itertools.product((False, True), (False, True)))
LAYOUT_IDS = ["nn", "nt", "tn", "tt"]
SHAPES = [
    (1, 1, 1),
    (1, 40, 30),
    (40, 1, 30),
    (3, 10, 20),
    (13, 16, 9),
    (29, 53, 17),
    (7, 20, 600),
    (30, 300, 8),
    (40, 130, 300),
]
Cut = tuple[int, ...]


def cuts_of(length: int) -> list[Cut]:
    """All in one, every one alone, halves, and parts of other lengths, some of them empty."""
    uneven = sorted({0, length // 7, length // 2, length // 2 + 1, length})
    return [
        (0, length),
        tuple(range(length + 1)),
        (0, length // 2, length // 2, length),
        tuple(min(x, length) for x in uneven),
    ]


def whole(compiled: CompiledProduct, dims: tuple[int, int, int]) -> np.ndarray:
    m, n, _ = dims
    layout = (compiled.product.transpose_a, compiled.product.transpose_b)
    a, b = operands(dims, layout)
    c = np.full((m, n), np.nan, np.float32)
    compiled.run(a.ctypes.data, b.ctypes.data, c.ctypes.data)
    return c


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("dims", SHAPES, ids=str)
@pytest.mark.parametrize("split", ["rows", "cols"])
def test_the_bits_are_the_same_however_the_range_is_cut(
    split: Literal["rows", "cols"], dims: tuple[int, int, int], layout: tuple[bool, bool]
) -> None:
    product = product_of(dims, layout)
    expected = whole(compile_product(product), dims)
    compiled = compile_product(replace(product, split=split))
    a, b = operands(dims, layout)
    for cut in cuts_of(dims[0] if split == "rows" else dims[1]):
        c = np.full(expected.shape, np.nan, np.float32)
        for part in itertools.pairwise(cut):
            compiled.run(a.ctypes.data, b.ctypes.data, c.ctypes.data, part=part)
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("split", ["rows", "cols"])
def test_a_part_writes_nothing_outside_itself(
    split: Literal["rows", "cols"], layout: tuple[bool, bool]
) -> None:
    dims = (29, 53, 17)
    compiled = compile_product(replace(product_of(dims, layout), split=split))
    a, b = operands(dims, layout)
    for begin, end in ((0, 1), (5, 9), (3, 29), (28, 29), (7, 7)):
        c = np.full(dims[:2], np.nan, np.float32)
        compiled.run(a.ctypes.data, b.ctypes.data, c.ctypes.data, part=(begin, end))
        written = np.zeros(dims[:2], bool)
        written[(slice(begin, end), slice(None))[:: 1 if split == "rows" else -1]] = True
        np.testing.assert_array_equal(~np.isnan(c), written)


def doubled(
    compiled: CompiledProduct,
    dims: tuple[int, int, int],
    parts: Sequence[tuple[int, int] | None] = (None,),
    sizes: dict[str, int] | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    """C with each finished rectangle doubled in place, and how often each element was finished."""
    product = compiled.product
    a, b = operands(dims, (product.transpose_a, product.transpose_b))
    c = np.full(dims[:2], np.nan, np.float32)
    count = np.zeros(dims[:2], int)

    def finish(rectangle: Rectangle) -> None:
        top, bottom, left, right = rectangle
        assert 0 <= top < bottom <= dims[0]
        assert 0 <= left < right <= dims[1]
        c[top:bottom, left:right] *= 2
        count[top:bottom, left:right] += 1

    for part in parts:
        compiled.run(a.ctypes.data, b.ctypes.data, c.ctypes.data, sizes, part, finish)
    return c, count


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("dims", [*SHAPES, (5, 7, 0), (9, 40, 0)], ids=str)
def test_every_rectangle_is_finished_once_and_when_it_is_final(
    dims: tuple[int, int, int], layout: tuple[bool, bool]
) -> None:
    product = product_of(dims, layout)
    c, count = doubled(compile_product(with_finish(product)), dims)
    np.testing.assert_array_equal(count, 1)
    np.testing.assert_array_equal(c, 2 * whole(compile_product(product), dims))


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("dims", SHAPES, ids=str)
@pytest.mark.parametrize("split", ["rows", "cols"])
def test_parts_are_finished_too(
    split: Literal["rows", "cols"], dims: tuple[int, int, int], layout: tuple[bool, bool]
) -> None:
    product = product_of(dims, layout)
    expected = 2 * whole(compile_product(product), dims)
    compiled = compile_product(with_finish(replace(product, split=split)))
    for cut in cuts_of(dims[0] if split == "rows" else dims[1]):
        c, count = doubled(compiled, dims, list(itertools.pairwise(cut)))
        np.testing.assert_array_equal(count, 1)
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("symbol", [0, 1, 2], ids=["m", "n", "k"])
def test_extents_decided_at_the_call_are_finished(symbol: int, layout: tuple[bool, bool]) -> None:
    extents: list[int | str] = [11, 21, 13]
    extents[symbol] = "N"
    m, n, k = extents
    compiled = compile_product(with_finish(product_of((m, n, k), layout)))
    for number in (0, 1, 5, 16, 40):
        m, n, k = (number if isinstance(x, str) else x for x in extents)
        c, count = doubled(compiled, (m, n, k), sizes={"N": number})
        np.testing.assert_array_equal(count, 1)
        a, b = operands((m, n, k), layout)
        expected = 2 * ((a.T if layout[0] else a) @ (b.T if layout[1] else b))
        np.testing.assert_allclose(c, expected, rtol=0, atol=2e-4)


@pytest.mark.parametrize(("split", "finish"), [("rows", ""), ("", "@finish")])
def test_a_product_over_a_batch_is_neither_cut_nor_finished(
    split: Literal["", "rows"], finish: str
) -> None:
    product = product_of((3, 4, 5), (False, False))
    product = replace(product, batch=Size(2), split=split, finish=finish)
    with pytest.raises(InternalError, match="batch"):
        emit_gemm(Module(host_target().triple), host_target(), product)
