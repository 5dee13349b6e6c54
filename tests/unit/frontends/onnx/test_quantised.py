"""Quantised operators and short types, at three sizes of one compilation, against sums by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import TensorProto, helper, numpy_helper

import graphc as gc
from graphc_frontends.onnx.model import GivenDims, program_of

RNG = np.random.default_rng(3)
SIZES = (1, 3, 8)


def compiled(
    nodes: list[Any], inputs: dict[str, tuple[int, list[Any]]], weights: dict[str, Any], out: int
) -> Any:
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, kind, shape) for n, (kind, shape) in inputs.items()],
        [helper.make_tensor_value_info("y", out, None)],
        [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    return gc.compile(program_of(model, "test.onnx", GivenDims({"batch": 8})), backend="llvm")


def quantised(numbers: np.ndarray, dtype: Any) -> np.ndarray:
    info = np.iinfo(dtype)
    return np.clip(np.rint(numbers), info.min, info.max).astype(dtype)


@pytest.mark.parametrize("terms", [40, 400])  # f32 holds the sums of the first, f64 those of both
def test_products_of_integers_are_exact(terms: int) -> None:
    w = RNG.integers(-128, 128, (terms, 5)).astype(np.int8)
    w[:, 0] = 127
    zeros = RNG.integers(-3, 3, 5).astype(np.int8)
    node = helper.make_node("MatMulInteger", ["x", "w", "xz", "wz"], ["y"])
    weights = {"w": w, "xz": np.uint8(7), "wz": zeros}
    call = compiled(
        [node], {"x": (TensorProto.UINT8, ["batch", terms])}, weights, TensorProto.INT32
    )
    for n in SIZES:
        x = RNG.integers(0, 256, (n, terms)).astype(np.uint8)
        x[0] = 255
        wanted = (x.astype(np.int64) - 7) @ (w.astype(np.int64) - zeros)
        found = call(x=x)["y"]
        assert found.dtype == np.int32
        np.testing.assert_array_equal(found, wanted)


def test_a_quantised_layer_is_what_its_integers_say() -> None:
    w = RNG.integers(-128, 128, (6, 4)).astype(np.int8)
    names = ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz"]
    scales = {"xs": np.float32(0.02), "ws": np.float32(0.05), "ys": np.float32(0.25)}
    weights = {"w": w, "xz": np.uint8(128), "wz": np.int8(0), "yz": np.uint8(100), **scales}
    node = helper.make_node("QLinearMatMul", names, ["y"])
    call = compiled([node], {"x": (TensorProto.UINT8, ["batch", 6])}, weights, TensorProto.UINT8)
    for n in SIZES:
        x = RNG.integers(0, 256, (n, 6)).astype(np.uint8)
        exact = (x.astype(np.float64) - 128) @ w * 0.02 * 0.05 / 0.25
        assert np.abs(exact - np.rint(exact)).max() < 0.4999  # no ties, which scales in f32 decide
        np.testing.assert_array_equal(call(x=x)["y"], quantised(exact + 100, np.uint8))


def test_a_convolution_of_integers_has_zeros_where_zero_points_are() -> None:
    w = RNG.integers(0, 256, (2, 3, 3, 3)).astype(np.uint8)
    node = helper.make_node("ConvInteger", ["x", "w", "xz", "wz"], ["y"], pads=[1, 1, 1, 1])
    weights = {"w": w, "xz": np.uint8(9), "wz": np.uint8(130)}
    shape = ["batch", 3, 5, 4]
    call = compiled([node], {"x": (TensorProto.UINT8, shape)}, weights, TensorProto.INT32)
    for n in SIZES:
        x = RNG.integers(0, 256, (n, 3, 5, 4)).astype(np.uint8)
        around = np.pad(x.astype(np.int64) - 9, ((0, 0), (0, 0), (1, 1), (1, 1)))
        seen = np.lib.stride_tricks.sliding_window_view(around, (3, 3), (2, 3))
        wanted = np.einsum("ncijkl,fckl->nfij", seen, w.astype(np.int64) - 130)
        np.testing.assert_array_equal(call(x=x)["y"], wanted)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.uint16, np.int16])
def test_quantising_saturates_and_rounds_to_even(dtype: Any) -> None:
    info = np.iinfo(dtype)
    zero = dtype((info.max + 1) // 4)
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"]),
    ]
    weights = {"s": np.float32(0.5), "z": zero}
    call = compiled(nodes, {"x": (TensorProto.FLOAT, ["batch", 6])}, weights, TensorProto.FLOAT)
    for n in SIZES:
        x = np.tile(np.array([0.25, 0.75, -0.25, 1e9, -1e9, 3.3], np.float32), (n, 1))
        wanted = quantised(np.rint(x.astype(np.float64) / 0.5) + int(zero), dtype)
        np.testing.assert_array_equal(call(x=x)["y"], (wanted.astype(np.float64) - zero) * 0.5)


def test_an_error_says_what_scales_were_required() -> None:
    node = helper.make_node("DequantizeLinear", ["x", "s"], ["y"], axis=1)
    weights = {"s": np.ones(4, np.float32)}
    with pytest.raises(gc.GraphcError, match=r"shape-mismatch.*scales for the 6 places of axis 1"):
        compiled([node], {"x": (TensorProto.INT8, ["batch", 6])}, weights, TensorProto.FLOAT)


def test_weights_of_f16_stay_parameters_of_f16() -> None:
    w = RNG.standard_normal((6, 4)).astype(np.float16)
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    inputs = {"x": (TensorProto.FLOAT16, ["batch", 6])}
    call = compiled([node], inputs, {"w": w}, TensorProto.FLOAT16)
    for n in SIZES:
        x = RNG.standard_normal((n, 6)).astype(np.float16)
        wanted = (x.astype(np.float64) @ w.astype(np.float64)).astype(np.float16)
        np.testing.assert_allclose(call(x=x)["y"], wanted, rtol=2.0**-10)
