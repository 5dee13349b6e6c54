"""NumPy by hand: forward and backward pass as its users write them, updates in place.

CuPy is the same with arrays on a GPU: what numpy's functions are given, they hand on to it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from bench.peers import CannotSay, Case
from bench.workloads.mlp import Mlp
from bench.workloads.record import MOMENTUM, Array, Values, Workload
from bench.workloads.rows import EPSILON, Rows


def case(work: Workload, threads: int, variant: str) -> Case:
    """The threads of its BLAS are set by environment variables."""
    if variant == "cupy":
        return _on_gpu(work)
    if isinstance(work.spec, Mlp):
        return _mlp(work)
    if isinstance(work.spec, Rows):
        return Case(lambda: rows(work.spec, work.inputs))
    raise CannotSay("only fully connected layers and rows are written by hand here")


def _on_gpu(work: Workload) -> Case:
    import cupy

    def put(values: Values) -> Values:
        return {n: cupy.asarray(v) for n, v in values.items()}

    there = replace(
        work,
        inputs=put(work.inputs),
        parameters=put(work.parameters),
        constants=put(work.constants),
    )
    made = case(there, 0, "")

    def parameters() -> Values:
        return {n: cupy.asnumpy(v) for n, v in made.parameters().items()}

    def wait() -> None:
        cupy.cuda.Device().synchronize()

    return Case(lambda: cupy.asnumpy(made.run()), parameters, made.run, wait)


def _mlp(work: Workload) -> Case:
    p = {n: v.copy() for n, v in work.parameters.items()}
    velocity = {n: np.zeros_like(v) for n, v in p.items()}
    inputs = work.inputs
    if not work.trains:
        return Case(lambda: forward(work, p, inputs["x"])[-1])

    def step(x: Array, y: Array) -> float:
        layers = forward(work, p, x)
        loss, gradients = backward(work.spec, p, layers, y)
        for n, gradient in gradients.items():
            v = velocity[n]
            v *= MOMENTUM
            v += gradient
            p[n] -= np.float32(work.rate) * v
        return loss

    def epoch() -> list[float]:
        return [step(inputs["x"][some], inputs["y"][some]) for some in inputs["order"]]

    def parameters() -> Values:
        return {n: v.copy() for n, v in p.items()}

    return Case(epoch if "order" in inputs else lambda: step(inputs["x"], inputs["y"]), parameters)


def forward(work: Workload, p: Values, x: Array) -> list[Array]:
    """The input and every layer's values; the last ones are the scores."""
    spec: Mlp = work.spec
    layers = [(x - work.constants["mean"]) * work.constants["scale"] if spec.normalised else x]
    for i in range(spec.layers):
        a = layers[-1] @ p[f"W{i}"].T
        a += p[f"B{i}"]
        if i < spec.layers - 1:
            a = np.maximum(a, 0, out=a) if spec.activation == "relu" else 1 / (1 + np.exp(-a))
        layers.append(a)
    return layers


def backward(spec: Mlp, p: Values, layers: list[Array], y: Array) -> tuple[float, Values]:
    z = layers[-1]
    z -= z.max(axis=1, keepdims=True)
    d = np.exp(z)
    sums = d.sum(axis=1, keepdims=True)
    places = np.arange(len(y), like=y)
    loss = float((np.log(sums[:, 0]) - z[places, y]).sum())
    d /= sums
    d[places, y] -= 1
    gradients: Values = {}
    for i in reversed(range(spec.layers)):
        gradients[f"W{i}"], gradients[f"B{i}"] = d.T @ layers[i], d.sum(axis=0)
        if i:
            h = layers[i]
            d = d @ p[f"W{i}"]
            d *= h > 0 if spec.activation == "relu" else h * (1 - h)
    return loss, gradients


def rows(spec: Rows, inputs: Values) -> Any:
    x = inputs["x"]
    if spec.function == "softmax":
        e = np.exp(x - x.max(axis=1, keepdims=True))
        e /= e.sum(axis=1, keepdims=True)
        return e
    if spec.function == "norm":
        centred = x - x.mean(axis=1, keepdims=True)
        centred /= np.sqrt((centred * centred).mean(axis=1, keepdims=True) + np.float32(EPSILON))
        return centred
    return np.tanh(x * inputs["a"] + inputs["b"]) / (1 + np.exp(inputs["c"] - x)) + x * x
