"""How far long sums are from the exact ones, on every backend. The judge adds in exact arithmetic.

Any order of n additions keeps an error of n u Σ|x|; what is asked for here is far less.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from tests.conformance.check import BACKEND_NAMES
from tests.support.compiling import call, compile_for, load_backend, parse
from tests.support.native import fused

Array = np.ndarray
DTYPES = {"f32": np.float32, "f64": np.float64}


def most_roundings(n: int) -> float:
    """That a number goes through in a sum of n, as documented."""
    return min(n, 128 * (2 + math.ceil(math.log(max(n, 2), 128))))


def run(
    backend: str, text: str, given: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    loaded = load_backend(backend)
    if isinstance(loaded, str):
        pytest.skip(loaded)
    return call(*compile_for(loaded, parse(text)), given, sizes)


def check_sum(got: Array, terms: Array, axes: Sequence[int]) -> None:
    """Some elements of a sum of these terms, from all corners."""
    summed = tuple(1 if i in axes else n for i, n in enumerate(terms.shape))
    assert got.shape == summed
    unit = float(np.finfo(got.dtype).eps) / 2
    corners = [sorted({0, n // 2, n - 1}) if n else [] for n in summed]
    for place in itertools.product(*corners):
        where = tuple(slice(None) if i in axes else p for i, p in enumerate(place))
        values = terms[where].astype(np.float64).ravel().tolist()
        size = math.fsum(map(abs, values))
        error = abs(math.fsum([float(got[place]), *(-v for v in values)]))
        assert error <= most_roundings(len(values)) * unit * size, place


def sum_text(dims: Sequence[object], axes: Sequence[int], dtype: str, bound: int = 0) -> str:
    whole = "x".join(map(str, dims))
    summed = "x".join("1" if i in axes else str(d) for i, d in enumerate(dims))
    declared = f"dim N <= {bound}\n" if bound else ""
    return declared + (
        f"func @f(%x: tensor<{whole}x{dtype}> input) -> (y: tensor<{summed}x{dtype}>) {{\n"
        f"  %y = reduce_sum %x {{axes = {list(axes)}}} : tensor<{summed}x{dtype}>\n"
        "  return %y\n}\n"
    )


SHAPES = [
    ((1_000_003,), (0,)),
    ((1, 500_000), (1,)),
    ((70_001, 1), (0,)),
    ((70_001, 3), (0,)),
    ((40_000, 5), (0, 1)),
    ((3, 9_000, 17), (1,)),
    ((300, 7, 150), (0, 2)),
    ((2_000, 3, 20), (0,)),
    ((129, 33), (0,)),
    ((1, 1), (0, 1)),
]


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "axes"), SHAPES, ids=str)
def test_sums_of_equal_and_of_random_numbers(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, backend: str
) -> None:
    rng = np.random.default_rng(3)
    text = sum_text(shape, axes, dtype)
    for values in (np.full(shape, 0.1), rng.random(shape), rng.standard_normal(shape)):
        x = values.astype(DTYPES[dtype])
        check_sum(run(backend, text, {"x": x}, {})["y"], x, axes)


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rest", [(1,), (37,), (2, 9)], ids=str)
def test_sums_over_samples_of_any_number(rest: tuple[int, ...], dtype: str, backend: str) -> None:
    text = sum_text(("N", *rest), (0,), dtype, bound=20_000)
    for samples in (0, 1, 127, 128, 129, 16_385, 20_000):
        x = np.full((samples, *rest), 0.1, DTYPES[dtype])
        check_sum(run(backend, text, {"x": x}, {"N": samples})["y"], x, (0,))


def fused_text(rows: int, columns: int, dtype: str) -> str:
    """Every number less the largest of its row: its sums over rows, over columns and of all."""
    whole, column, row = (f"{a}x{b}x{dtype}" for a, b in ((rows, columns), (rows, 1), (1, columns)))
    return (
        f"func @f(%x: tensor<{whole}> input) -> (d: tensor<{whole}>, r: tensor<{column}>,"
        f" c: tensor<{row}>, a: tensor<1x1x{dtype}>) {{\n"
        f"  %m = reduce_max %x {{axes = [1]}} : tensor<{column}>\n"
        f"  %w = broadcast %m {{dims = [{rows}, {columns}]}} : tensor<{whole}>\n"
        f"  %d = sub %x, %w : tensor<{whole}>\n"
        f"  %r = reduce_sum %d {{axes = [1]}} : tensor<{column}>\n"
        f"  %c = reduce_sum %d {{axes = [0]}} : tensor<{row}>\n"
        f"  %a = reduce_sum %d {{axes = [0, 1]}} : tensor<1x1x{dtype}>\n"
        "  return %d, %r, %c, %a\n}\n"
    )


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (3, 20_011), (20_011, 3), (700, 900)])
def test_sums_in_a_kernel_of_several_sweeps(
    rows: int, columns: int, dtype: str, backend: str
) -> None:
    whole = np.random.default_rng(1).integers(0, 1 << 20, (rows, columns))
    x = whole.astype(DTYPES[dtype])  # so that differences are exact
    got = run(backend, fused_text(rows, columns, dtype), {"x": x}, {})
    terms = x - x.max(1, keepdims=True)
    np.testing.assert_array_equal(got["d"], terms)
    for name, axes in (("r", (1,)), ("c", (0,)), ("a", (0, 1))):
        check_sum(got[name], terms, axes)


def epilogue_text(samples: int, inner: int, columns: int, dtype: str) -> str:
    """A product, and its sums over the samples: as a layer's output and its bias's gradient."""
    whole = f"{samples}x{columns}x{dtype}"
    return (
        f"func @f(%x: tensor<{samples}x{inner}x{dtype}> input,"
        f" %w: tensor<{inner}x{columns}x{dtype}> input)"
        f" -> (y: tensor<{whole}>, s: tensor<1x{columns}x{dtype}>) {{\n"
        f"  %p = matmul %x, %w : tensor<{whole}>\n"
        f"  %y = mul %p, %p : tensor<{whole}>\n"
        f"  %s = reduce_sum %y {{axes = [0]}} : tensor<1x{columns}x{dtype}>\n"
        "  return %y, %s\n}\n"
    )


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("columns", [1, 10, 70])
def test_sums_behind_a_product(columns: int, dtype: str, backend: str) -> None:
    x = np.full((9_000, 1), 0.3, DTYPES[dtype])
    w = np.full((1, columns), 0.7, DTYPES[dtype])
    got = run(backend, epilogue_text(9_000, 1, columns, dtype), {"x": x, "w": w}, {})
    check_sum(got["s"], got["y"], (0,))


def weights_text(images: int, side: int, features: int, dtype: str, zeros: int) -> str:
    """The gradient of a convolution to its 2x2 weights, of images with zeros around them."""
    x, wide = f"{images}x{side}x{side}x1", side + 2 * zeros
    padded = f"{images}x{wide}x{wide}x1"
    y, patches = (f"{images}x{wide - 1}x{wide - 1}x{end}" for end in (features, "2x2x1"))
    w, edge = f"2x2x1x{features}", f"[0, {zeros}, {zeros}, 0]"
    return (
        f"func @f(%x: tensor<{x}x{dtype}> input, %dy: tensor<{y}x{dtype}> input)"
        f" -> (dw: tensor<{w}x{dtype}>) {{\n"
        f"  %e = pad %x {{low = {edge}, high = {edge}, inner = [0, 0, 0, 0], value = 0.0}}"
        f" : tensor<{padded}x{dtype}>\n"
        "  %p = patches %e {axis = 1, sizes = [2, 2], strides = [1, 1]}"
        f" : tensor<{patches}x{dtype}>\n"
        "  %t = matmul %dy, %p {transpose_a = true, contract = 3}"
        f" : tensor<{features}x2x2x1x{dtype}>\n"
        f"  %dw = transpose %t {{permutation = [1, 2, 3, 0]}} : tensor<{w}x{dtype}>\n"
        "  return %dw\n}\n"
    )


@pytest.mark.parametrize("backend", [name for name in BACKEND_NAMES if name != "reference"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zeros", [0, 1])
def test_sums_over_images(zeros: int, dtype: str, backend: str) -> None:
    """The reference makes one product of all images, with the error of numpy's BLAS."""
    images, side, features = 20_001, 3, 2
    wide = side + 2 * zeros
    x = np.full((images, side, side, 1), np.float32(0.1), DTYPES[dtype])
    dy = np.full((images, wide - 1, wide - 1, features), np.float32(0.3), DTYPES[dtype])
    text = weights_text(images, side, features, dtype, zeros)
    assert " = conv.weight_grad %x" in fused(text)
    got = run(backend, text, {"x": x, "dy": dy}, {})["dw"]
    around = np.pad(x.astype(np.float64), [(0, 0), (zeros, zeros), (zeros, zeros), (0, 0)])
    for i, j in itertools.product(range(2), range(2)):
        window = around[:, i : i + wide - 1, j : j + wide - 1]
        check_sum(got[i, j, :, :1], (window * dy[..., :1]).reshape(-1, 1), (0,))


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("channels", [1, 20])
def test_sums_over_large_windows(channels: int, dtype: str, backend: str) -> None:
    whole = f"1x100x80x{channels}x{dtype}"
    text = (
        f"func @f(%x: tensor<{whole}> input) -> (y: tensor<1x1x1x{channels}x{dtype}>) {{\n"
        "  %p = patches %x {axis = 1, sizes = [100, 80], strides = [1, 1]}"
        f" : tensor<1x1x1x100x80x{channels}x{dtype}>\n"
        f"  %s = reduce_sum %p {{axes = [3, 4]}} : tensor<1x1x1x1x1x{channels}x{dtype}>\n"
        f"  %y = reshape %s {{dims = [1, 1, 1, {channels}]}} : tensor<1x1x1x{channels}x{dtype}>\n"
        "  return %y\n}\n"
    )
    assert " = pool %x" in fused(text)
    x = np.full((1, 100, 80, channels), 0.1, DTYPES[dtype])
    check_sum(run(backend, text, {"x": x}, {})["y"], x, (1, 2))
