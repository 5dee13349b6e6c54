"""Small networks, data for them and plain numpy implementations that the tests compare with."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import graphc as gc
from graphc.builder import GraphBuilder
from graphc.driver.compile import lower
from graphc.driver.options import CompileOptions
from graphc.ir.core import Operation
from graphc.learn.step import training_passes

Array = np.ndarray

CLASSIFIER = """
    features = Input(FeatDim, tag=feature)
    labels   = Input(LabelDim, tag=label)
    W0 = LearnableParameter(HDim, FeatDim)
    B0 = LearnableParameter(HDim, 1, init=fixedValue, value=0)
    t0 = Times(W0, features)
    a0 = Plus(t0, B0)
    h  = Sigmoid(a0)
    W1 = LearnableParameter(LabelDim, HDim)
    B1 = LearnableParameter(LabelDim, 1, init=fixedValue, value=0)
    t1 = Times(W1, h)
    z  = Plus(t1, B1, tag=output)
    ce  = CrossEntropyWithSoftmax(labels, z, tag=criteria)
    err = ErrorPrediction(labels, z, tag=eval)
"""
"""Needs the defines FeatDim, HDim and LabelDim."""


def classifier(features: int = 6, hidden: int = 5, labels: int = 3, seed: int = 1) -> gc.Network:
    """One hidden layer of sigmoid units, written in NDL."""
    sizes = {"FeatDim": features, "HDim": hidden, "LabelDim": labels}
    network = gc.loads(CLASSIFIER, defines=sizes, seed=seed)
    assert isinstance(network, gc.Network)
    return network


def step_operations(network: GraphBuilder) -> list[Operation]:
    """What a training step computes, optimised, before operations become kernels."""
    options = CompileOptions(backend="reference", batch=16)
    _, passes = training_passes(network.model, gc.SGD(learning_rate=0.1), options)
    return list(lower(network.model, passes, options).function.block)


def classes(samples: int, features: int = 6, labels: int = 3, seed: int = 0) -> dict[str, Array]:
    """Samples whose class a linear rule decides: features and one-hot labels, f64."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((samples, features))
    rule = rng.standard_normal((features, labels))
    return {"features": x, "labels": np.eye(labels)[np.argmax(x @ rule, axis=1)]}


class PlainClassifier:
    """`classifier` in numpy: forward, backward and the update by the toolkit's rules."""

    def __init__(self, parameters: dict[str, Array]) -> None:
        self.parameters = {n: np.array(p, np.float64) for n, p in parameters.items()}
        self.velocity = {n: np.zeros_like(p) for n, p in self.parameters.items()}

    def gradients(self, features: Array, labels: Array) -> tuple[float, dict[str, Array]]:
        """The criterion's sum over the samples and its gradients."""
        p = self.parameters
        h = 1 / (1 + np.exp(-(features @ p["W0"].T + p["B0"].T)))
        z = h @ p["W1"].T + p["B1"].T
        z -= z.max(axis=1, keepdims=True)
        log_probability = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        dz = np.exp(log_probability) * labels.sum(axis=1, keepdims=True) - labels
        da = (dz @ p["W1"]) * h * (1 - h)
        gradients = {
            "W0": da.T @ features,
            "B0": da.sum(axis=0)[:, None],
            "W1": dz.T @ h,
            "B1": dz.sum(axis=0)[:, None],
        }
        return float(-np.sum(labels * log_probability)), gradients

    def step(
        self, features: Array, labels: Array, *, rate: float, momentum: float, l2: float = 0.0
    ) -> float:
        """One update; `rate` per sample, `momentum` of this minibatch. The criterion before it."""
        criterion, gradients = self.gradients(features, labels)
        for name, gradient in gradients.items():
            regularised = gradient + l2 * len(features) * self.parameters[name]
            velocity = (1 - momentum) * rate * regularised + momentum * self.velocity[name]
            self.velocity[name] = velocity
            self.parameters[name] = self.parameters[name] - velocity
        return criterion


def central_difference(f: Callable[[], float], x: Array, step: float = 1e-6) -> Array:
    """The gradient of `f()` with respect to `x`, which is changed in place and put back."""
    gradient = np.empty_like(x)
    for index in np.ndindex(x.shape):
        kept = x[index]
        x[index] = kept + step
        above = f()
        x[index] = kept - step
        below = f()
        x[index] = kept
        gradient[index] = (above - below) / (2 * step)
    return gradient
