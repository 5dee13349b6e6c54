"""ConvTranspose over sizes that calls decide: one compilation, judged at each size by ONNX's own
evaluator, or where that has no groups by the form of known sizes, which others judge."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

import graphc as gc
from tests.support.compiling import RUN_HERE
from tests.support.onnx_models import model, saved

RANDOM = np.random.default_rng(11)
SIZES = [(1, 1, 1), (2, 1, 6), (1, 2, 3), (2, 5, 4), (1, 7, 6)]
CASES: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {
    "plain": ({}, (4, 3, 3, 2)),
    "strides": (
        {"strides": [2, 3], "pads": [1, 0, 0, 1], "output_padding": [1, 2]},
        (4, 3, 3, 4),
    ),
    "dilations": ({"dilations": [2, 3], "pads": [1, 2, 0, 1]}, (4, 3, 3, 2)),
    "strides and dilations": (
        {"strides": [3, 2], "dilations": [2, 5], "output_padding": [2, 1]},
        (4, 3, 2, 3),
    ),
    "with a common factor": ({"strides": [2, 4], "dilations": [4, 6]}, (4, 3, 2, 3)),
    "groups": ({"group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]}, (4, 3, 4, 4)),
    "groups with dilations": ({"group": 2, "dilations": [1, 2], "strides": [2, 1]}, (4, 2, 2, 2)),
    "depthwise": ({"group": 4, "strides": [2, 1], "dilations": [2, 3]}, (4, 1, 2, 3)),
    "depthwise, several features": ({"group": 4, "output_padding": [0, 0]}, (4, 2, 2, 2)),
    "same": ({"strides": [2, 3], "auto_pad": "SAME_UPPER"}, (4, 3, 4, 3)),
}


def _outputs(judge: ReferenceEvaluator, x: np.ndarray) -> list[Any]:
    found = judge.run(None, {"x": x})
    assert isinstance(found, list)
    return found


def made(name: str, folder: Path) -> Path:
    given, sizes = CASES[name]
    shapes = {"w": sizes, "b": (sizes[1] * given.get("group", 1),)}
    weights = {n: RANDOM.normal(size=s).astype(np.float32) for n, s in shapes.items()}
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], **given)
    return saved(model([node], {"x": ["n", 4, "h", "w"]}, ["y"], weights), folder)


@pytest.mark.parametrize("backend", RUN_HERE)
@pytest.mark.parametrize("name", CASES)
def test_a_transposed_convolution_over_open_axes(name: str, backend: str, tmp_path: Path) -> None:
    path = made(name, tmp_path)
    net = gc.load_program(path, bounds={"h": 7, "w": 6})
    call = gc.compile(net, backend=backend)
    has_judge = "group" not in CASES[name][0] and name != "same"
    for n, h, w in SIZES:
        x = RANDOM.normal(size=(n, 4, h, w)).astype(np.float32)
        if has_judge:
            (wanted,) = _outputs(ReferenceEvaluator(str(path)), x)
        else:
            fixed = gc.load_program(path, sizes={"h": h, "w": w})
            wanted = gc.compile(fixed, backend="numpy")(x=x)["y"]
        got = call(x=x)["y"]
        assert got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, 1e-4, 1e-5, err_msg=f"{n, h, w}")


@pytest.mark.parametrize("name", CASES)
def test_what_is_written_is_the_same_again_and_to_others(name: str, tmp_path: Path) -> None:
    net = gc.load_program(made(name, tmp_path), bounds={"h": 7, "w": 6})
    gc.export_onnx(net, tmp_path / "again.onnx")
    judge, call = ReferenceEvaluator(str(tmp_path / "again.onnx")), gc.compile(net)
    again = gc.compile(gc.load_program(tmp_path / "again.onnx"))
    for n, h, w in SIZES:
        x = RANDOM.normal(size=(n, 4, h, w)).astype(np.float32)
        (written,), wanted = _outputs(judge, x), call(x=x)["y"]
        np.testing.assert_allclose(written, wanted, 1e-4, 1e-5)
        np.testing.assert_allclose(again(x=x)["y"], wanted, 1e-4, 1e-5)


def test_over_a_third_axis(tmp_path: Path) -> None:
    weights = {"w": RANDOM.normal(size=(2, 1, 2, 3, 2)).astype(np.float32)}
    given: dict[str, Any] = {
        "strides": [2, 1, 2],
        "dilations": [2, 1, 1],
        "pads": [0, 1, 0, 1, 0, 0],
    }
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], group=2, **given)
    path = saved(model([node], {"x": ["n", 2, "d", "h", 3]}, ["y"], weights), tmp_path)
    call = gc.compile(gc.load_program(path, bounds={"d": 4, "h": 5}))
    for d, h in ((1, 1), (4, 5), (2, 3)):
        x = RANDOM.normal(size=(1, 2, d, h, 3)).astype(np.float32)
        fixed = gc.compile(gc.load_program(path, sizes={"d": d, "h": h}))
        np.testing.assert_allclose(call(x=x)["y"], fixed(x=x)["y"], 1e-4, 1e-5)


def shaped(how: str, folder: Path, *, kind: int = TensorProto.FLOAT, shape: bool = True) -> Path:
    """A node that is told how large its images are; without `shape` they are what windows reach."""
    given: dict[str, Any] = {"strides": [2, 3], "group": 2}
    if shape:
        given |= {"auto_pad": how, "output_shape": [9, 10], "output_padding": [1, 0]}
    node = helper.make_node("ConvTranspose", ["x", "w"], ["y"], **given)
    weights = {"w": np.random.default_rng(4).normal(size=(4, 3, 3, 4))}
    weights["w"] = weights["w"].astype(helper.tensor_dtype_to_np_dtype(kind))
    return saved(model([node], {"x": ["n", 4, "h", "w"]}, ["y"], weights, kind=kind), folder)


@pytest.mark.parametrize("backend", RUN_HERE)
@pytest.mark.parametrize("how", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
def test_an_output_shape(how: str, backend: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("onnxruntime")
    path = shaped(how, tmp_path)
    call = gc.compile(gc.load_program(path, bounds={"h": 7, "w": 6}), backend=backend)
    judge = runtime.InferenceSession(path)
    for n, h, w in ((2, 4, 4), (1, 7, 3), (0, 5, 6), (3, 5, 6)):
        x = RANDOM.normal(size=(n, 4, h, w)).astype(np.float32)
        (wanted,) = judge.run(None, {"x": x})
        np.testing.assert_allclose(call(x=x)["y"], wanted, 1e-4, 1e-5, err_msg=f"{n, h, w}")
    # larger than what the windows reach, which ONNX Runtime refuses: there are zeros
    x = RANDOM.normal(size=(1, 4, 1, 2)).astype(np.float32)
    (few,) = runtime.InferenceSession(shaped(how, tmp_path, shape=False)).run(None, {"x": x})
    behind = [(0, 0), (0, 0), *((0, n - m) for n, m in zip((9, 10), few.shape[2:], strict=True))]
    np.testing.assert_allclose(call(x=x)["y"], np.pad(few, behind), 1e-4, 1e-5)


@pytest.mark.parametrize("backend", RUN_HERE)
def test_the_gradients_of_an_output_shape(backend: str, tmp_path: Path) -> None:
    """What the sum of all elements changes by, which is linear in each of x and w."""
    net = gc.load_program(
        shaped("SAME_UPPER", tmp_path, kind=TensorProto.DOUBLE), bounds={"h": 7, "w": 6}
    )
    call = gc.compile(net, gradients=["x", "w"], backend=backend)
    weights = net.parameters["w"].copy()
    for n, h, w in ((2, 4, 4), (1, 1, 2), (3, 7, 6)):
        x, change = RANDOM.normal(size=(2, n, 4, h, w))
        made = call(x=x)
        moved = call(x=x + change)["y"].sum() - made["y"].sum()
        np.testing.assert_allclose((made["gradient.x"] * change).sum(), moved, 1e-9)
        np.testing.assert_allclose((made["gradient.w"] * weights).sum(), made["y"].sum(), 1e-9)


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_windows_that_are_valid_have_no_pads(kind: str, tmp_path: Path) -> None:
    """Whatever the node says of them."""
    weights = {"w": RANDOM.normal(size=(2, 2, 3, 3)).astype(np.float32)}
    x = RANDOM.normal(size=(1, 2, 5, 6)).astype(np.float32)
    found = []
    for given in ({"auto_pad": "VALID", "pads": [1, 1, 1, 1]}, {}):
        node = helper.make_node(kind, ["x", "w"], ["y"], **given)
        path = saved(model([node], {"x": [1, 2, 5, 6]}, ["y"], weights), tmp_path)
        found.append(gc.compile(gc.load_program(path), backend="numpy")(x=x)["y"])
    np.testing.assert_array_equal(*found)
