"""Criteria of labels that are class numbers, against PyTorch's `cross_entropy` of these."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc
from tests.torch.tensor_functions import torch

Array = np.ndarray
TOLERANCE = {"f32": 2e-6, "f64": 1e-12}
SIZES = [(2, 1), (10, 32), (1000, 7)]


@pytest.mark.parametrize("backend", ["reference", "numpy", "llvm", "c"])
@pytest.mark.parametrize("precision", ["f32", "f64"])
@pytest.mark.parametrize(("classes", "samples"), SIZES)
def test_value_and_gradients(classes: int, samples: int, precision: str, backend: str) -> None:
    rng = np.random.default_rng(classes)
    dtype = {"f32": np.float32, "f64": np.float64}[precision]
    features = rng.standard_normal((samples, 5)).astype(dtype)
    numbers = rng.integers(0, classes, samples)
    net = gc.Network()
    x, t = net.input("x", 5), net.input("t", classes, tag="label")
    z = net.parameter("W", classes, 5) @ x + net.parameter("b", classes)
    net.cross_entropy_with_softmax(t, z, name="CE", tag="criterion")
    net.error_prediction(t, z, name="wrong", tag="evaluation")
    run = gc.compile(
        net,
        ["CE", "wrong"],
        gradients=["W", "b", "x"],
        precision=precision,
        backend=backend,
        class_numbers="t",
    )
    weight, bias = (torch.tensor(np.array(net.parameters[n], dtype)) for n in ("W", "b"))
    given = [weight, bias, torch.tensor(features)]
    for tensor in given:
        tensor.requires_grad_()
    scores = given[2] @ given[0].T + given[1].T
    loss = torch.nn.functional.cross_entropy(scores, torch.tensor(numbers), reduction="sum")
    loss.backward()
    found = run(x=features, t=numbers)
    close = TOLERANCE[precision]
    np.testing.assert_allclose(found["CE"], loss.item(), close * 10)
    assert found["wrong"] == (scores.argmax(dim=1).numpy() != numbers).sum()
    for name, tensor in zip(("W", "b", "x"), given, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(
            found.gradients[name], tensor.grad.numpy(), close * 10, close * 10, err_msg=name
        )
