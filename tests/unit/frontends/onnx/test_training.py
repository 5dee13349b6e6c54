"""Training what an ONNX file holds: the step, against numpy's own gradient descent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import TensorProto, helper

import graphc as gc
from tests.support.compiling import JUDGED, RUN_HERE
from tests.support.onnx_models import model, saved


@pytest.mark.parametrize("backend", RUN_HERE)
def test_a_file_is_fine_tuned(backend: str, tmp_path: Path) -> None:
    if backend == "reference":
        pytest.skip("the references have no training step of their own")
    rng = np.random.default_rng(0)
    w, b = rng.normal(size=(4, 3)).astype("f4"), rng.normal(size=3).astype("f4")
    node = helper.make_node("Gemm", ["x", "w", "b"], ["z"])
    path = saved(model([node], {"x": ["batch", 4]}, ["z"], {"w": w, "b": b}), tmp_path)
    net = gc.load_program(path, bounds={"batch": 8})
    step = gc.compile_training(
        net,
        learner=gc.SGD(0.5),
        loss="softmax_cross_entropy",
        labels="BATCHxi64",
        train="w",
        backend=backend,
    )
    x, labels = rng.normal(size=(6, 4)).astype("f4"), np.array([0, 2, 1, 1, 0, 2])
    scores = x @ w + b
    shares = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    loss = step(x=x, labels=labels)["loss"]
    np.testing.assert_allclose(loss, -np.log(shares[np.arange(6), labels]).sum(), 1e-5)
    # A rate per minibatch is divided by its nominal size.
    expected = w - 0.5 / 8 * x.T @ (shares - np.eye(3)[labels])
    np.testing.assert_allclose(net.parameters["w"], expected, 1e-4, 1e-5)
    np.testing.assert_array_equal(net.parameters["b"], b)


WEIGHTS = np.random.default_rng(1).normal(size=(4, 3))


def over_an_open_axis(folder: Path) -> Path:
    """Scores [n, 3], a mean over what is padded, doubled, turned, cut and masked along t."""
    node = helper.make_node
    fixed = {
        "around": np.array([0, 2, 0, 0, 1, 0]),
        "twice": np.array([2.0], np.float32),
        "two": np.array([2]),
        "one": np.array([1]),
        "zero": np.array([0]),
        "far": np.array([2**31 - 1]),
        "minus three": np.array([-3]),
        "w": WEIGHTS,
    }
    nodes = [
        node("MatMul", ["x", "w"], ["z"]),
        node("Pad", ["z", "around"], ["padded"], mode="edge"),
        node("Resize", ["padded", "", "twice"], ["doubled"], mode="nearest", axes=[1]),
        node("Shape", ["doubled"], ["length"], start=1, end=2),
        node("Mod", ["minus three", "length"], ["place"]),
        node("Slice", ["doubled", "place", "length", "one"], ["behind"]),
        node("Slice", ["doubled", "zero", "place", "one"], ["before"]),
        node("Concat", ["behind", "before"], ["turned"], axis=1),
        node("Slice", ["turned", "one", "far", "one", "two"], ["cut"]),
        node("Trilu", ["cut"], ["masked"], upper=0),
        node("ReduceMean", ["masked", "one"], ["scores"], keepdims=0),
    ]
    made = model(nodes, {"x": ["n", "t", 4]}, ["scores"], fixed, kind=TensorProto.DOUBLE)
    return saved(made, folder)


def scores_by_numpy(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    doubled = np.repeat(np.pad(x @ w, [(0, 0), (2, 1), (0, 0)], "edge"), 2, 1)
    return np.tril(np.roll(doubled, 3, 1)[:, 1::2]).mean(1)


@pytest.mark.parametrize("backend", [b for b in JUDGED if b != "reference"])
def test_steps_over_sizes_that_calls_decide(backend: str, tmp_path: Path) -> None:
    """One step for all of them, each against the slope of numpy's loss."""
    net = gc.load_program(over_an_open_axis(tmp_path), bounds={"n": 4, "t": 5})
    step = gc.compile_training(
        net, learner=gc.SGD(0.5), loss="softmax_cross_entropy", labels="Nxi64", backend=backend
    )

    def loss_of(w: np.ndarray) -> float:
        z = scores_by_numpy(x, w)
        return float((np.log(np.exp(z).sum(1)) - z[np.arange(len(z)), labels]).sum())

    w = WEIGHTS.copy()
    for n, t in ((3, 4), (4, 1), (1, 5)):
        rng = np.random.default_rng(t)
        x, labels = rng.normal(size=(n, t, 4)), rng.integers(0, 3, n)
        slope = np.zeros_like(w)
        for place in np.ndindex(w.shape):
            change = np.zeros_like(w)
            change[place] = 1e-6
            slope[place] = (loss_of(w + change) - loss_of(w - change)) / 2e-6
        np.testing.assert_allclose(step(x=x, labels=labels)["loss"], loss_of(w), 1e-12)
        w -= 0.5 / 4 * slope
        np.testing.assert_allclose(net.parameters["w"], w, 1e-7, 1e-8)
        w = net.parameters["w"].copy()
