"""Products computed in parts."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest

from graphc.backends.llvm.target import host_target
from graphc.backends.llvm.text import Module
from graphc.backends.loops.gemm import emit_gemm
from graphc.passes.analysis.loopnest import Size
from graphc.support.diagnostics import InternalError
from tests.support.products import CompiledProduct, compile_product, operands, product_of

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
    (40, 130, 420),
]
Chunking = tuple[int, ...]


def cuts_of(length: int) -> list[Chunking]:
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
    for chunking in cuts_of(dims[0] if split == "rows" else dims[1]):
        c = np.full(expected.shape, np.nan, np.float32)
        for part in itertools.pairwise(chunking):
            compiled.run(a.ctypes.data, b.ctypes.data, c.ctypes.data, part=part)
        np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(
    ("split", "dims", "length"),
    [
        ("cols", (13, 200, 20), 96),  # the last has code of its own
        ("cols", (2, 131, 300), 64),  # and is narrower than a vector
        ("rows", (40, 1, 30), 17),  # one column is computed as a row, whose parts these are
        ("rows", (29, 53, 17), 12),
        ("cols", ("M", 200, 300), 160),
    ],
    ids=str,
)
def test_a_last_part_may_be_shorter_than_the_others(
    split: Literal["rows", "cols"],
    dims: tuple[int | str, int, int],
    length: int,
    layout: tuple[bool, bool],
) -> None:
    rows = (1, 2, 3, 30) if isinstance(dims[0], str) else (dims[0],)
    product = product_of(dims, layout)
    one, cut = (compile_product(p) for p in (product, replace(product, split=split, part=length)))
    for m in rows:
        sizes = {"M": m}
        a, b = operands((m, *dims[1:]), layout)
        expected, c = (np.full((m, dims[1]), np.nan, np.float32) for _ in range(2))
        one.run(a.ctypes.data, b.ctypes.data, expected.ctypes.data, sizes)
        extent = m if split == "rows" else dims[1]
        for begin in range(0, extent, length):
            part = (begin, min(begin + length, extent))
            cut.run(a.ctypes.data, b.ctypes.data, c.ctypes.data, sizes, part=part)
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


@pytest.mark.parametrize("split", ["rows", "cols"])
def test_products_over_a_batch_have_no_parts(split: Literal["rows", "cols"]) -> None:
    product = replace(product_of((3, 4, 5), (False, False)), batch=Size(2), split=split)
    with pytest.raises(InternalError, match="batch"):
        emit_gemm(Module(host_target().triple), host_target().machine, product)
