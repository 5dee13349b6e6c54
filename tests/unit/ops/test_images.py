"""Convolution and pooling: values, sizes and gradients against loops over the book's formulas.

The loops here know nothing of the nodes' own references or expansions: they walk every index of
equations 2.162, 2.170 and 2.172, and find rows of columns by the toolkit's index formulas.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.ir.core import Array
from graphc.ir.types import SAMPLES, DType, Image, MatrixType
from graphc.ops.nodes.leaves import ParameterParams
from tests.support.nodes import (
    complaint,
    computed,
    difference_quotients,
    gradients,
    judged,
    network,
)

TOLERANCE = {DType.F32: 1e-5, DType.F64: 1e-13}


def image_input(width: int, height: int, channels: int) -> str:
    return f"node.input {{width = {width}, height = {height}, channels = {channels}}}"


@dataclass(frozen=True)
class Convolution:
    """A convolution with everything that counts."""

    width: int
    height: int
    channels: int
    kernel_width: int
    kernel_height: int
    output_channels: int
    horizontal_subsample: int
    vertical_subsample: int
    zero_padding: bool

    def __str__(self) -> str:
        image = f"{self.width}x{self.height}x{self.channels}"
        kernel = f"{self.kernel_width}x{self.kernel_height}x{self.output_channels}"
        steps = f"{self.horizontal_subsample}x{self.vertical_subsample}"
        return f"{image}-by-{kernel}-every-{steps}{'-padded' * self.zero_padding}"

    @property
    def weight(self) -> tuple[int, int]:
        return self.output_channels, self.kernel_width * self.kernel_height * self.channels

    @property
    def nodes(self) -> dict[str, str]:
        settings = (
            f"kernel_width = {self.kernel_width}, kernel_height = {self.kernel_height}, "
            f"output_channels = {self.output_channels}, "
            f"horizontal_subsample = {self.horizontal_subsample}, "
            f"vertical_subsample = {self.vertical_subsample}, "
            f"zero_padding = {str(self.zero_padding).lower()}"
        )
        return {
            "x": image_input(self.width, self.height, self.channels),
            "w": "node.parameter {rows = 0, cols = 0}",
            "v": f"node.convolution %w, %x {{{settings}}}",
        }


def output_size(extent: int, kernel: int, stride: int, *, padded: bool) -> int:
    """Equations 2.163 and 2.164."""
    return (extent - (kernel % 2 if padded else kernel)) // stride + 1


def convolved(c: Convolution, w: Array, x: Array) -> Array:
    """Equation 2.162, element by element."""
    p = c.zero_padding
    rows = output_size(c.height, c.kernel_height, c.vertical_subsample, padded=p)
    cols = output_size(c.width, c.kernel_width, c.horizontal_subsample, padded=p)
    found = np.zeros((c.output_channels * rows * cols, x.shape[1]))
    for sample, out, i, j in product(
        range(x.shape[1]), range(c.output_channels), range(rows), range(cols)
    ):
        for k, m, n in product(range(c.channels), range(c.kernel_height), range(c.kernel_width)):
            row = i * c.vertical_subsample + m - (c.kernel_height // 2 if p else 0)
            col = j * c.horizontal_subsample + n - (c.kernel_width // 2 if p else 0)
            if 0 <= row < c.height and 0 <= col < c.width:
                pixel = x[k + c.channels * (row + c.height * col), sample]
                column = k * c.kernel_width * c.kernel_height + m + n * c.kernel_height
                found[out + c.output_channels * (i + rows * j), sample] += w[out, column] * pixel
    return found


IMAGES = ((1, 1, 1), (4, 3, 1), (3, 4, 2), (5, 5, 3))
KERNELS = ((1, 1), (2, 3), (3, 2), (3, 3), (4, 1), (2, 2))
STEPS = ((1, 1), (2, 1), (1, 2), (3, 2))
CONVOLUTIONS = [
    Convolution(*image, *kernel, outputs, *steps, padded)
    for image, kernel, outputs, steps, padded in product(
        IMAGES, KERNELS, (1, 2), STEPS, (False, True)
    )
    if kernel[0] <= image[0]
    and kernel[1] <= image[1]
    and steps[0] <= kernel[0]
    and steps[1] <= kernel[1]
]
FEW_CONVOLUTIONS = [
    Convolution(4, 3, 2, 2, 3, 2, 1, 2, False),
    Convolution(3, 4, 2, 3, 2, 2, 2, 1, True),
    Convolution(4, 3, 1, 2, 2, 3, 1, 1, True),  # even: one position more than pixels
    Convolution(5, 4, 1, 3, 3, 1, 3, 2, True),
    Convolution(2, 2, 3, 1, 1, 2, 1, 1, False),
]


def data(c: Convolution, samples: int, seed: int = 0) -> dict[str, Array]:
    """Numbers that f32 holds."""
    rng = np.random.default_rng(seed)
    rows = c.width * c.height * c.channels
    sizes = {"x": (rows, samples), "w": c.weight}
    return {n: rng.uniform(-2, 2, s).astype(np.float32).astype(float) for n, s in sizes.items()}


@pytest.mark.parametrize("c", CONVOLUTIONS, ids=str)
def test_a_convolution_is_what_the_books_formula_gives(c: Convolution) -> None:
    net = network(c.nodes)
    leaves = data(c, 3)
    expected = convolved(c, leaves["w"], leaves["x"])
    for dtype, tolerance in TOLERANCE.items():
        found = computed(net, "v", leaves, 3, dtype)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=20 * tolerance)


@pytest.mark.parametrize("c", CONVOLUTIONS, ids=str)
def test_the_reference_of_a_convolution_is_what_the_books_formula_gives(c: Convolution) -> None:
    leaves = data(c, 2, seed=1)
    found = judged(network(c.nodes), "v", leaves)
    expected = convolved(c, leaves["w"], leaves["x"])
    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("samples", [0, 1, 7])
def test_a_convolution_of_any_number_of_samples(samples: int) -> None:
    c = FEW_CONVOLUTIONS[0]
    leaves = data(c, samples)
    found = computed(network(c.nodes), "v", leaves, samples)
    np.testing.assert_allclose(found, convolved(c, leaves["w"], leaves["x"]), rtol=1e-13)
    assert found.shape == (2 * 3 * 1, samples)


def weighted(nodes: dict[str, str]) -> dict[str, str]:
    """With a sum `j` in which every element of `v` has another slope."""
    return {**nodes, "u": "node.element_times %v, %v", "j": "node.sum_elements %u"}


@pytest.mark.parametrize("c", FEW_CONVOLUTIONS, ids=str)
def test_gradients_of_a_convolution_are_what_central_differences_say(c: Convolution) -> None:
    net = network(weighted(c.nodes))
    leaves = data(c, 2, seed=3)
    found = gradients(net, "j", leaves, 2, ["x", "w"])
    for name in ("x", "w"):
        expected = difference_quotients(net, "j", leaves, name)
        np.testing.assert_allclose(found[name], expected, rtol=1e-6, atol=1e-6, err_msg=name)


def test_gradients_of_a_convolution_are_those_of_the_packed_product() -> None:
    """Equations 2.165 to 2.169: a product with packed columns, whose gradient is unpacked."""
    c = FEW_CONVOLUTIONS[1]
    net = network(weighted(c.nodes))
    leaves = data(c, 1, seed=4)
    rows = output_size(c.height, c.kernel_height, c.vertical_subsample, padded=True)
    cols = output_size(c.width, c.kernel_width, c.horizontal_subsample, padded=True)
    packed = np.zeros((c.weight[1], rows * cols))
    places: dict[tuple[int, int], int] = {}  # (row, column) of the packed matrix: its pixel
    for i, j, k, m, n in product(range(rows), range(cols), range(2), range(2), range(3)):
        row, col = i * c.vertical_subsample + m - 1, j * c.horizontal_subsample + n - 1
        if 0 <= row < c.height and 0 <= col < c.width:
            at = (k * c.kernel_width * c.kernel_height + m + n * c.kernel_height, i + rows * j)
            places[at] = k + c.channels * (row + c.height * col)
            packed[at] = leaves["x"][places[at], 0]
    value = leaves["w"] @ packed
    cotangent = 2 * value
    unpacked = np.zeros_like(leaves["x"])
    for at, pixel in places.items():
        unpacked[pixel, 0] += (leaves["w"].T @ cotangent)[at]
    found = gradients(net, "j", leaves, 1, ["x", "w"])
    np.testing.assert_allclose(found["w"], cotangent @ packed.T, rtol=1e-12)
    np.testing.assert_allclose(found["x"], unpacked, rtol=1e-12, atol=1e-12)


def test_the_kernel_is_not_turned_round() -> None:
    c = Convolution(2, 1, 1, 2, 1, 1, 1, 1, False)
    leaves = {"x": np.array([[3.0], [5.0]]), "w": np.array([[10.0, 1.0]])}
    assert computed(network(c.nodes), "v", leaves, 1).tolist() == [[35.0]]


def test_a_kernels_columns_run_down_the_rows_first_and_its_channels_come_last() -> None:
    """One window of 2 columns x 3 rows x 2 channels; pixel c, row, column holds 100c + 10col + row,
    in the order of images, and the kernel picks one pixel at a time."""
    c = Convolution(2, 3, 2, 2, 3, 12, 1, 1, False)
    pixels = [100 * k + 10 * col + row for col, row, k in product(range(2), range(3), range(2))]
    leaves = {"x": np.array([pixels], float).T, "w": np.eye(12)}
    found = computed(network(c.nodes), "v", leaves, 1)[:, 0].tolist()
    assert found == [0, 1, 2, 10, 11, 12, 100, 101, 102, 110, 111, 112]


def test_the_output_of_a_convolution_is_an_image_with_channels_fastest_then_rows() -> None:
    c = Convolution(3, 2, 1, 1, 1, 2, 1, 1, False)
    leaves = {"x": np.arange(6.0).reshape(6, 1), "w": np.array([[1.0], [10.0]])}
    found = computed(network(c.nodes), "v", leaves, 1)[:, 0].tolist()
    assert found == [0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50]


@pytest.mark.parametrize(
    ("extent", "kernel", "stride", "padded", "expected"),
    [
        (28, 5, 1, False, 24),
        (28, 5, 1, True, 28),
        (28, 5, 2, True, 14),
        (28, 4, 1, True, 29),  # an even kernel has no middle: one position more
        (28, 4, 2, True, 15),
        (5, 2, 2, False, 2),
        (5, 2, 2, True, 3),
        (6, 3, 3, True, 2),
        (1, 1, 1, True, 1),
        (7, 7, 7, False, 1),
    ],
)
@pytest.mark.parametrize("axis", ["width", "height"])
def test_the_output_of_a_convolution_has_the_toolkits_size(
    axis: str, extent: int, kernel: int, stride: int, padded: bool, expected: int
) -> None:
    other = (30, 3, 1)
    across, down = (
        ((extent, kernel, stride), other) if axis == "width" else (other, (extent, kernel, stride))
    )
    c = Convolution(across[0], down[0], 2, across[1], down[1], 4, across[2], down[2], padded)
    net = network(c.nodes)
    fixed = 30 if padded else 28
    sizes = (expected, fixed) if axis == "width" else (fixed, expected)
    assert net.type("v") == MatrixType(4 * expected * fixed, SAMPLES, Image(*sizes, 4))
    params = net.node("w").params
    assert isinstance(params, ParameterParams)
    assert (params.rows, params.cols) == c.weight


def test_a_window_that_sticks_out_sees_zeros() -> None:
    c = Convolution(3, 3, 1, 3, 3, 1, 3, 3, True)  # one window, with its middle on the first pixel
    leaves = {"x": np.ones((9, 1)), "w": np.arange(9.0).reshape(1, 9)}
    assert computed(network(c.nodes), "v", leaves, 1).tolist() == [[4 + 5 + 7 + 8]]


# --- pooling ---


@dataclass(frozen=True)
class Pooling:
    op: str
    width: int
    height: int
    channels: int
    window_width: int
    window_height: int
    step_width: int
    step_height: int

    def __str__(self) -> str:
        image = f"{self.width}x{self.height}x{self.channels}"
        window = f"{self.window_width}x{self.window_height}"
        return f"{self.op}-{image}-by-{window}-every-{self.step_width}x{self.step_height}"

    @property
    def nodes(self) -> dict[str, str]:
        settings = (
            f"window_width = {self.window_width}, window_height = {self.window_height}, "
            f"step_width = {self.step_width}, step_height = {self.step_height}"
        )
        return {
            "x": image_input(self.width, self.height, self.channels),
            "v": f"node.{self.op} %x {{{settings}}}",
        }


def pooled(p: Pooling, x: Array) -> Array:
    """Equations 2.170 and 2.172, element by element."""
    rows = output_size(p.height, p.window_height, p.step_height, padded=False)
    cols = output_size(p.width, p.window_width, p.step_width, padded=False)
    found = np.zeros((p.channels * rows * cols, x.shape[1]))
    for sample, k, i, j in product(range(x.shape[1]), range(p.channels), range(rows), range(cols)):
        window = [
            x[
                k + p.channels * (i * p.step_height + m + p.height * (j * p.step_width + n)),
                sample,
            ]
            for m, n in product(range(p.window_height), range(p.window_width))
        ]
        value = max(window) if p.op == "max_pooling" else sum(window) / len(window)
        found[k + p.channels * (i + rows * j), sample] = value
    return found


POOLINGS = [
    Pooling(op, *image, *window, *steps)
    for op, image, window, steps in product(
        ("max_pooling", "average_pooling"),
        ((1, 1, 1), (4, 3, 1), (3, 5, 2), (5, 5, 3)),
        ((1, 1), (2, 3), (3, 2), (2, 2), (3, 1)),
        ((1, 1), (2, 1), (1, 2), (4, 3)),  # the last further than some windows reach
    )
    if window[0] <= image[0] and window[1] <= image[1]
]
FEW_POOLINGS = [
    Pooling(op, *sizes)
    for op in ("max_pooling", "average_pooling")
    for sizes in ((4, 3, 2, 2, 2, 1, 1), (3, 5, 1, 2, 3, 1, 2), (5, 4, 1, 1, 2, 3, 2))
]


def pixels(p: Pooling, samples: int, seed: int = 0) -> dict[str, Array]:
    """All different, so that no two tie."""
    rng = np.random.default_rng(seed)
    rows = p.width * p.height * p.channels
    return {"x": (rng.permutation(rows * samples) / 8 - 3).reshape(rows, samples)}


@pytest.mark.parametrize("p", POOLINGS, ids=str)
def test_pooling_is_what_the_books_formula_gives(p: Pooling) -> None:
    net = network(p.nodes)
    leaves = pixels(p, 3)
    expected = pooled(p, leaves["x"])
    for dtype, tolerance in TOLERANCE.items():
        found = computed(net, "v", leaves, 3, dtype)
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(judged(net, "v", leaves), expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("p", FEW_POOLINGS, ids=str)
def test_gradients_of_pooling_are_what_central_differences_say(p: Pooling) -> None:
    net = network(weighted(p.nodes))
    leaves = pixels(p, 2, seed=5)
    found = gradients(net, "j", leaves, 2, ["x"])["x"]
    expected = difference_quotients(net, "j", leaves, "x")
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("op", ["max_pooling", "average_pooling"])
def test_pooling_over_no_samples_gives_none(op: str) -> None:
    p = Pooling(op, 4, 3, 2, 2, 2, 1, 1)
    assert computed(network(p.nodes), "v", pixels(p, 0), 0).shape == (2 * 2 * 3, 0)


def test_the_slope_of_max_pooling_goes_to_every_maximum_that_ties() -> None:
    p = Pooling("max_pooling", 2, 2, 1, 2, 2, 1, 1)
    leaves = {"x": np.array([[7.0], [1.0], [7.0], [7.0]])}
    assert gradients(network(p.nodes), "v", leaves, 1, ["x"])["x"].tolist() == [[1], [0], [1], [1]]


def test_the_slope_of_average_pooling_is_shared_by_the_whole_window() -> None:
    p = Pooling("average_pooling", 3, 2, 1, 2, 2, 1, 1)
    found = gradients(network(p.nodes), "v", pixels(p, 1), 1, ["x"])["x"]
    assert found[:, 0].tolist() == [0.25, 0.25, 0.5, 0.5, 0.25, 0.25]  # the middle is in both


def test_max_pooling_does_not_hide_nan() -> None:
    p = Pooling("max_pooling", 2, 1, 1, 2, 1, 1, 1)
    leaves = {"x": np.array([[1.0, np.nan, np.inf], [np.nan, 1.0, -np.inf]])}
    found = computed(network(p.nodes), "v", leaves, 3)[0]
    assert np.isnan(found[:2]).all()
    assert found[2] == np.inf


@pytest.mark.parametrize("op", ["max_pooling", "average_pooling"])
def test_pooling_keeps_channels_and_counts_whole_windows(op: str) -> None:
    net = network(Pooling(op, 7, 6, 3, 3, 2, 2, 3).nodes)
    assert net.type("v") == MatrixType(3 * 2 * 3, SAMPLES, Image(3, 2, 3))


# --- a network of layers ---


def test_image_sizes_go_from_layer_to_layer() -> None:
    net = network(
        {
            "x": image_input(28, 28, 1),
            "w1": "node.parameter {rows = 0, cols = 0}",
            "c1": "node.convolution %w1, %x {kernel_width = 5, kernel_height = 5, "
            "output_channels = 16, horizontal_subsample = 1, vertical_subsample = 1, "
            "zero_padding = true}",
            "b1": "node.parameter {rows = 16}",  # one for each channel, repeated over the pixels
            "h1": "node.plus %c1, %b1",
            "a1": "node.rectified_linear %h1",
            "p1": "node.max_pooling %a1 {window_width = 2, window_height = 2, step_width = 2, "
            "step_height = 2}",
            "w2": "node.parameter {rows = 0, cols = 0}",
            "c2": "node.convolution %w2, %p1 {kernel_width = 3, kernel_height = 3, "
            "output_channels = 32, horizontal_subsample = 1, vertical_subsample = 1}",
            "w3": "node.parameter {rows = 10, cols = 0}",
            "z": "node.times %w3, %c2",
        }
    )
    assert net.type("a1").image == Image(28, 28, 16)
    assert net.type("p1").image == Image(14, 14, 16)
    assert net.type("w2") == MatrixType(32, 9 * 16)
    assert net.type("c2").image == Image(12, 12, 32)
    assert net.type("w3") == MatrixType(10, 12 * 12 * 32)
    assert net.type("z") == MatrixType(10, SAMPLES)


def test_images_may_be_the_columns_of_a_parameter() -> None:
    nodes = {
        "a": "node.parameter {rows = 6, cols = 2}",
        "i": "node.reshape %a {num_rows = 6, image_width = 3, image_height = 2}",
        "w": "node.parameter {rows = 0, cols = 0}",
        "v": "node.convolution %w, %i {kernel_width = 2, kernel_height = 1, output_channels = 2, "
        "horizontal_subsample = 1, vertical_subsample = 1}",
    }
    c = Convolution(3, 2, 1, 2, 1, 2, 1, 1, False)
    leaves = data(c, 2, seed=6)
    net = network(nodes)
    assert net.type("v") == MatrixType(8, 2, Image(2, 2, 2))
    found = computed(net, "v", {"a": leaves["x"], "w": leaves["w"]}, 0)
    np.testing.assert_allclose(found, convolved(c, leaves["w"], leaves["x"]), rtol=1e-13)


X = image_input(4, 3, 2)  # 24 rows


@pytest.mark.parametrize(
    "text",
    [
        "node.negate %x",
        "node.sigmoid %x",
        "node.softmax %x",
        "node.time_reverse %x",
        "node.plus %x, %x",
        "node.plus %x, %column",
        "node.plus %column, %x",
        "node.plus %plain, %x",
        "node.minus %x, %plain",
        "node.element_times %plain, %x",
        "node.scale %number, %x",
        "node.column_element_times %x, %column",
        "node.diag_times %column, %x",
        "node.row_element_times %x, %sum",
        "node.past_value %x",
    ],
)
def test_what_works_element_by_element_keeps_the_image(text: str) -> None:
    net = network(
        {
            "x": X,
            "plain": "node.input {rows = 24}",
            "column": "node.parameter {rows = 24}",
            "number": "node.parameter {rows = 1}",
            "sum": "node.sum_column_elements %x",
            "v": text,
        }
    )
    assert net.type("v") == MatrixType(24, SAMPLES, Image(4, 3, 2))


@pytest.mark.parametrize(
    "text",
    [
        "node.row_slice %x {start_row = 0, num_rows = 24}",
        "node.row_stack %x, %x",
        "node.row_repeat %x {num_repeats = 1}",
        "node.times %w, %x",
        "node.reshape %x {num_rows = 24}",
        "node.sum_column_elements %x",
        "node.khatri_rao_product %x, %x",
    ],
)
def test_what_moves_rows_has_no_image(text: str) -> None:
    net = network({"x": X, "w": "node.parameter {rows = 24, cols = 24}", "v": text})
    assert net.type("v").image is None


def test_an_image_goes_round_a_cycle() -> None:
    net = network({"h": "node.plus %p, %x", "p": "node.past_value %h", "x": X})
    assert net.type("p") == net.type("h") == MatrixType(24, SAMPLES, Image(4, 3, 2))


# --- wrong uses ---

CONVOLUTION = (
    "node.convolution %w, %x {kernel_width = 2, kernel_height = 2, output_channels = 3, "
    "horizontal_subsample = 1, vertical_subsample = 1}"
)
W = "node.parameter {rows = 0, cols = 0}"
POOL = "{window_width = 2, window_height = 2, step_width = 1, step_height = 1}"


def changed(text: str, **settings: object) -> str:
    """The node's text with other settings."""
    for name, value in settings.items():
        head, _, tail = text.partition(f"{name} = ")
        text = f"{head}{name} = {value}{tail.lstrip('0123456789')}"
    return text


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        (
            {"x": "node.input {rows = 24}", "w": W, "v": CONVOLUTION},
            "shape-mismatch: Convolution requires columns that are images, got matrix<24x*>; "
            "ImageInput makes such a node, and Reshape with imageWidth",
        ),
        (
            {"x": X, "w": "node.parameter {rows = 3, cols = 7}", "v": CONVOLUTION},
            "shape-mismatch: Convolution requires a weight matrix<3x8> (output channels x kernel "
            "width · kernel height · input channels of a group) for matrix<24x* image "
            "4x3x2>, got "
            "matrix<3x7>",
        ),
        (
            {"x": X, "w": "node.parameter {rows = 2, cols = 0}", "v": CONVOLUTION},
            "requires a weight matrix<3x8>",
        ),
        (
            {"x": X, "w": "node.input {rows = 3}", "v": CONVOLUTION},
            "shape-mismatch: Convolution requires a weight whose columns are not samples",
        ),
        (
            {"x": X, "w": W, "v": changed(CONVOLUTION, kernel_width=5)},
            "shape-mismatch: Convolution requires a kernel of at most 4x3 for the image 4x3x2, "
            "got 5x2",
        ),
        (
            {"x": X, "w": W, "v": changed(CONVOLUTION, kernel_height=4)},
            "kernel of at most 4x3 for the image 4x3x2, got 2x4",
        ),
        (
            {"x": X, "w": W, "v": changed(CONVOLUTION, horizontal_subsample=3)},
            "ill-typed: Convolution requires subsampling by at most the kernel's 2x2, got 3x1",
        ),
        (
            {"x": X, "w": W, "v": changed(CONVOLUTION, vertical_subsample=3)},
            "at most the kernel's 2x2, got 1x3",
        ),
        (
            {"x": X, "w": W, "v": changed(CONVOLUTION, kernel_width=0)},
            "requires a kernel width from 1 to 2147483647, got 0",
        ),
        (
            {"x": X, "w": W, "v": changed(CONVOLUTION, output_channels=0)},
            "requires a number of output channels from 1 to 2147483647, got 0",
        ),
        (
            {"x": X, "w": W, "v": changed(CONVOLUTION, output_channels=2**31 - 1)},
            "requires a result of at most 2147483647 rows, got",
        ),
        (
            {"x": "node.input {rows = 24}", "v": f"node.max_pooling %x {POOL}"},
            "shape-mismatch: MaxPooling requires columns that are images, got matrix<24x*>",
        ),
        (
            {"x": "node.parameter {rows = 24}", "v": f"node.average_pooling %x {POOL}"},
            "shape-mismatch: AveragePooling requires columns that are images, got matrix<24x1>",
        ),
        (
            {"x": X, "s": "node.row_stack %x, %x", "v": f"node.max_pooling %s {POOL}"},
            "requires columns that are images, got matrix<48x*>",
        ),
        (
            {"x": X, "v": f"node.max_pooling %x {changed(POOL, window_width=5)}"},
            "requires a window of at most 4x3 for the image 4x3x2, got 5x2",
        ),
        (
            {"x": X, "v": f"node.average_pooling %x {changed(POOL, window_height=4)}"},
            "requires a window of at most 4x3 for the image 4x3x2, got 2x4",
        ),
        (
            {"x": X, "v": f"node.max_pooling %x {changed(POOL, step_width=0)}"},
            "requires a step width from 1 to 2147483647, got 0",
        ),
        (
            {"x": X, "v": f"node.average_pooling %x {changed(POOL, window_height=0)}"},
            "requires a window height from 1",
        ),
        (
            {"x": X, "y": image_input(3, 4, 2), "v": "node.plus %x, %y"},
            "shape-mismatch: Plus requires operands that are images of one shape, got "
            "matrix<24x* image 4x3x2> and matrix<24x* image 3x4x2>; Reshape without image sizes",
        ),
        (
            {"x": X, "y": image_input(24, 1, 1), "v": "node.element_times %x, %y"},
            "ElementTimes requires operands that are images of one shape",
        ),
        (
            {"x": "node.input {width = 4}"},
            "ill-typed: Input requires height from 1 to 2147483647, got 0",
        ),
        (
            {"x": "node.input {width = 65536, height = 65536, channels = 1}"},
            "Input requires an image of at most 2147483647 rows, got 65536x65536x1",
        ),
        (
            {"x": "node.input {rows = 5, width = 2, height = 2, channels = 1}"},
            "Input requires the 4 rows of 2x2x1, got 5",
        ),
        (
            {"x": "node.input {width = -1, height = 2, channels = 1}"},
            "Input requires width from 1 to 2147483647, got -1",
        ),
    ],
)
def test_a_wrong_use_is_refused(nodes: dict[str, str], message: str) -> None:
    assert message in complaint(nodes)


def test_a_missing_image_is_reported_once_and_not_for_the_layers_after_it() -> None:
    nodes = {
        "x": "node.input {rows = 24}",
        "p": f"node.max_pooling %x {POOL}",
        "q": f"node.max_pooling %p {POOL}",
        "s": "node.sigmoid %q",
    }
    assert "MaxPooling requires columns that are images, got matrix<24x*>" in complaint(nodes)


# --- parameters that are images ----------------------------------------------------------------

IMAGE = (4, 3, 2)
WITH_A_BIAS = """
x = ImageInput(4, 3, 2, tag=feature)
b = ImageParameter(4, 3, 2, init=fixedValue, value=0.5)
s = Plus(x, b)
p = MaxPooling(s, 2, 2, 2, 1)
J = SumElements(p, tag=criteria)
q = AveragePooling(b, 2, 3, 2, 3, tag=output)
"""


def test_a_parameter_may_be_an_image() -> None:
    net = gc.loads(WITH_A_BIAS)
    assert net.parameters["b"].tolist() == [[0.5]] * 24
    sizes = {name: str(net.find(name).operation.result.type) for name in "bspq"}  # type: ignore[union-attr]
    assert sizes == {
        "b": "matrix<24x1 image 4x3x2>",
        "s": "matrix<24x* image 4x3x2>",
        "p": "matrix<8x* image 2x2x2>",
        "q": "matrix<4x1 image 2x1x2>",
    }


def test_python_makes_the_same_image_of_a_parameter() -> None:
    net = gc.Network()
    b = net.image_parameter("b", *IMAGE, init="fixedValue", value=0.5)
    of_ndl = gc.loads(WITH_A_BIAS).find("b")
    assert of_ndl is not None
    assert b.operation.params == of_ndl.operation.params


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm"])
@pytest.mark.parametrize("samples", [0, 1, 5])
def test_the_slope_of_an_image_counts_where_it_is_the_maximum(backend: str, samples: int) -> None:
    net = gc.loads(WITH_A_BIAS)
    x = np.random.default_rng(samples).permutation(samples * 24).reshape(samples, 24) * 1.0
    results = gc.compile(net, "J", gradients="b", backend=backend, precision="f64")(x=x)
    images = x.reshape(samples, *IMAGE)  # columns, rows, channels: no two numbers are equal
    wanted, slope = 0.0, np.zeros(IMAGE)
    for n, i, j, c in product(range(samples), range(2), range(2), range(2)):
        window = images[n, 2 * i : 2 * i + 2, j : j + 2, c]
        wanted += window.max() + 0.5
        column, row = np.unravel_index(window.argmax(), window.shape)
        slope[2 * i + column, j + row, c] += 1
    np.testing.assert_allclose(results["J"], wanted, rtol=1e-12)
    np.testing.assert_array_equal(results["gradient.b"], slope.reshape(24, 1))


def test_a_model_file_keeps_an_image_of_a_parameter(tmp_path: Path) -> None:
    gc.loads(WITH_A_BIAS).save(tmp_path / "net.safetensors")
    again = gc.load(tmp_path / "net.safetensors").find("b")
    assert again is not None
    assert str(again.operation.result.type) == "matrix<24x1 image 4x3x2>"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("width = 2, height = 2, channels = 3, rows = 5", "requires the 12 rows of 2x2x3, got 5"),
        (
            "width = 2, height = 2, channels = 3, cols = 2",
            "requires one column for an image, got 2",
        ),
        ("width = 2, height = 2", "requires channels from 1 to 2147483647, got 0"),
        ("width = 65536, height = 65536, channels = 2", "requires an image of at most 2147483647"),
    ],
)
def test_an_image_of_a_parameter_has_the_sizes_it_says(settings: str, message: str) -> None:
    assert message in complaint({"p": f"node.parameter {{{settings}}}"})
