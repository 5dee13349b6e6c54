"""Updates of an ONNX network by minibatches against PyTorch's: the same start, data and order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.learn.rated import RatedLearner

torch = pytest.importorskip("torch")
onnx = pytest.importorskip("onnx")

Array = np.ndarray
RATE, MOMENTUM = 0.4, 0.9
MINIBATCH, CLASSES = 8, 5
SHAPES = {"kernel": (4, 1, 3, 3), "shift": (4,), "weight": (CLASSES, 36), "bias": (CLASSES,)}

LEARNERS: dict[str, tuple[RatedLearner, Callable[[Any], Any]]] = {
    # The toolkit's momentum has unit gain: PyTorch's rate is its rate times 1 - momentum.
    "momentum": (
        gc.SGD(RATE, momentum=MOMENTUM),
        lambda p: torch.optim.SGD(p, lr=RATE * (1 - MOMENTUM), momentum=MOMENTUM),
    ),
    "adam": (
        gc.Adam(0.01, beta1=0.9, beta2=0.999, epsilon=1e-8),
        lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.9, 0.999), eps=1e-8),
    ),
}


def start() -> dict[str, Array]:
    rng = np.random.default_rng(3)
    return {n: rng.normal(0, 0.3, size).astype(np.float32) for n, size in SHAPES.items()}


def network(path: Path) -> gc.Program:
    """Conv, Relu, MaxPool, Flatten, Gemm; logits as the result."""
    helper = onnx.helper
    nodes = [
        helper.make_node("Conv", ["x", "kernel", "shift"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "weight", "bias"], ["logits"], transB=1),
    ]
    float_ = onnx.TensorProto.FLOAT
    x = helper.make_tensor_value_info("x", float_, ["batch", 1, 8, 8])
    y = helper.make_tensor_value_info("logits", float_, ["batch", CLASSES])
    values = [onnx.numpy_helper.from_array(v, n) for n, v in start().items()]
    graph = helper.make_graph(nodes, "images", [x], [y], values)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)]), path)
    return gc.load_program(path)


def judge(x: Array, labels: Array, parts: list[slice], optimiser: Callable[[Any], Any]) -> Any:
    """The losses of the minibatches, and the parameters behind them."""
    p = {n: torch.tensor(v, requires_grad=True) for n, v in start().items()}
    descent, losses = optimiser([*p.values()]), []
    nn = torch.nn.functional
    for part in parts:
        h = nn.max_pool2d(torch.relu(nn.conv2d(torch.tensor(x[part]), p["kernel"], p["shift"])), 2)
        logits = nn.linear(h.flatten(1), p["weight"], p["bias"])
        loss = nn.cross_entropy(logits, torch.tensor(labels[part]), reduction="sum")
        descent.zero_grad()
        (loss / len(x[part])).backward()
        descent.step()
        losses.append(float(loss.detach()))
    return losses, {name: value.detach().numpy() for name, value in p.items()}


@pytest.mark.parametrize("backend", ["llvm", "numpy"])
@pytest.mark.parametrize("learner", LEARNERS)
def test_two_epochs_are_pytorch_s(learner: str, backend: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(24, 1, 8, 8)).astype(np.float32)
    x[3] = x[11] = 0.0  # pixels that tie in every window
    labels = rng.integers(0, CLASSES, 24)
    ours, theirs = LEARNERS[learner]
    net = network(tmp_path / "net.onnx")
    records = gc.train(
        net,
        {"x": x, "labels": labels},
        learner=ours,
        loss="softmax_cross_entropy",
        labels="BATCHxi64",
        measure="classification_error",
        epochs=2,
        minibatch=MINIBATCH,
        shuffle=False,
        backend=backend,
    )
    parts = [slice(i, i + MINIBATCH) for i in range(0, 24, MINIBATCH)] * 2
    losses, wanted = judge(x, labels, parts, theirs)
    epochs = [sum(losses[:3]) / 24, sum(losses[3:]) / 24]
    assert [r.criterion for r in records] == pytest.approx(epochs, rel=1e-5)
    for name, value in wanted.items():
        np.testing.assert_allclose(net.parameters[name], value, rtol=1e-5, atol=1e-5)
        assert np.abs(value - start()[name]).max() > 1e-3


def test_batch_normalisation_is_trained_as_pytorch_does(tmp_path: Path) -> None:
    """Its running variance divides by one element less, which is undone here."""
    helper, float_ = onnx.helper, onnx.TensorProto.FLOAT
    rng = np.random.default_rng(7)
    values = {"kernel": rng.normal(0, 0.3, (4, 1, 3, 3)), "scale": rng.uniform(0.5, 2, 4)}
    values |= {"shift": rng.normal(size=4), "mean": np.zeros(4), "variance": np.ones(4)}
    values = {name: value.astype(np.float32) for name, value in values.items()}
    columns = ["scale", "shift", "mean", "variance"]
    nodes = [
        helper.make_node("Conv", ["x", "kernel"], ["c"], kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["c", *columns], ["n"], epsilon=1e-3, momentum=0.8),
        helper.make_node("Relu", ["n"], ["r"]),
        helper.make_node("GlobalAveragePool", ["r"], ["p"]),
        helper.make_node("Flatten", ["p"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", float_, ["batch", 1, 8, 8])
    y = helper.make_tensor_value_info("y", float_, ["batch", 4])
    held = [onnx.numpy_helper.from_array(v, n) for n, v in values.items()]
    graph = helper.make_graph(nodes, "normalised", [x], [y], held)
    opset = [helper.make_opsetid("", 21)]
    onnx.save(helper.make_model(graph, opset_imports=opset), tmp_path / "n.onnx")
    net = gc.load_program(tmp_path / "n.onnx")
    step = gc.compile_training(net, loss="squared_error", learner=gc.SGD(0.5), batch=MINIBATCH)

    nn = torch.nn.functional
    p = {n: torch.tensor(v, requires_grad=n not in columns[2:]) for n, v in values.items()}
    descent = torch.optim.SGD([v for v in p.values() if v.requires_grad], lr=0.5)
    for _ in range(3):
        images = rng.normal(size=(MINIBATCH, 1, 8, 8)).astype(np.float32)
        labels = rng.normal(size=(MINIBATCH, 4)).astype(np.float32)
        c = nn.conv2d(torch.tensor(images), p["kernel"])
        running = p["mean"], p["variance"], p["scale"], p["shift"]
        n = nn.batch_norm(c, *running, training=True, momentum=0.2, eps=1e-3)
        loss = 0.5 * ((torch.relu(n).mean((2, 3)) - torch.tensor(labels)) ** 2).sum()
        descent.zero_grad()
        (loss / MINIBATCH).backward()
        descent.step()
        assert step(x=images, labels=labels)["loss"] == pytest.approx(loss.item(), rel=1e-5)
    one_less = (MINIBATCH * 36 - 1) / (MINIBATCH * 36)
    kept = 0.8**3
    with torch.no_grad():
        p["variance"] = (p["variance"] - kept) * one_less + kept
    for name, value in p.items():
        np.testing.assert_allclose(net.parameters[name], value.detach().numpy(), 1e-4, 1e-5)
