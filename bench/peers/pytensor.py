"""PyTensor: fully connected networks, compiled by numba; the step updates shared variables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt

from bench.peers import CannotSay, Case
from bench.workloads.mlp import Mlp
from bench.workloads.record import MOMENTUM, Values, Workload

MODE = "NUMBA"
ACTIVATIONS = {"sigmoid": pt.sigmoid, "relu": lambda x: pt.maximum(x, np.float32(0))}


def case(work: Workload, threads: int, variant: str) -> Case:
    if not isinstance(work.spec, Mlp) or "order" in work.inputs:
        raise CannotSay("only fully connected networks are written here, a call a step")
    p = {n: pytensor.shared(v.copy(), n) for n, v in work.parameters.items()}
    x = pt.matrix("x", dtype="float32")
    z = scores(work, p, x)
    inputs = work.inputs
    if not work.trains:
        infer = pytensor.function([x], z, mode=MODE)
        return Case(lambda: infer(inputs["x"]))
    y = pt.lvector("y")
    shifted = z - pt.max(z, axis=1, keepdims=True)
    logs = shifted - pt.log(pt.sum(pt.exp(shifted), axis=1, keepdims=True))
    loss = -pt.sum(logs[pt.arange(y.shape[0]), y])
    updates: list[Any] = []
    for variable, gradient in zip(p.values(), pt.grad(loss, list(p.values())), strict=True):
        velocity = pytensor.shared(np.zeros_like(variable.get_value()))
        new = np.float32(MOMENTUM) * velocity + gradient
        updates += [(velocity, new), (variable, variable - np.float32(work.rate) * new)]
    step = pytensor.function([x, y], loss, updates=updates, mode=MODE)

    def parameters() -> Values:
        return {n: v.get_value() for n, v in p.items()}

    return Case(lambda: float(step(inputs["x"], inputs["y"])), parameters)


def scores(work: Workload, p: dict[str, Any], x: Any) -> Any:
    spec: Mlp = work.spec
    h = (x - work.constants["mean"]) * work.constants["scale"] if spec.normalised else x
    for i in range(spec.layers - 1):
        h = ACTIVATIONS[spec.activation](h @ p[f"W{i}"].T + p[f"B{i}"])
    last = spec.layers - 1
    return h @ p[f"W{last}"].T + p[f"B{last}"]
