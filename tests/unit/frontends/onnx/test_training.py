"""Training what an ONNX file holds: the step, against numpy's own gradient descent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx", reason="requires the package onnx (graphc[onnx])")

from onnx import helper

import graphc as gc
from tests.support.compiling import RUN_HERE
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
