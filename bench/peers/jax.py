"""JAX: the whole step is one compiled function that takes its state over; an epoch is a scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.peers import CannotSay, Case
from bench.workloads.mlp import Mlp
from bench.workloads.record import MOMENTUM, Values, Workload
from bench.workloads.rows import EPSILON, Rows

Arrays = Mapping[str, Any]
Function = Callable[[Any, Arrays, Arrays], Any]
"""Of the workload's spec, the parameters and constants, and the inputs."""
ACTIVATIONS = {"sigmoid": jax.nn.sigmoid, "relu": jax.nn.relu}


def case(work: Workload, threads: int, variant: str) -> Case:
    """XLA takes the cores that the process may run on."""
    scores = SCORES.get(type(work.spec))
    if scores is None:
        raise CannotSay(f"no form of {type(work.spec).__name__} is written here")
    constants = {n: jnp.asarray(v) for n, v in work.constants.items()}
    inputs = {n: jnp.asarray(v) for n, v in work.inputs.items()}
    p = {n: jnp.asarray(v) for n, v in work.parameters.items()}
    if work.trains:
        return _training(work, p, constants, inputs)
    infer = jax.jit(lambda p, inputs: scores(work.spec, p | constants, inputs))
    return Case(lambda: np.asarray(infer(p, inputs)))


def _training(work: Workload, p: Arrays, constants: Arrays, inputs: Arrays) -> Case:
    scores = SCORES[type(work.spec)]

    def criterion(p: Any, x: Arrays) -> Any:
        logs = jax.nn.log_softmax(scores(work.spec, {**p, **constants}, x))
        return -jnp.take_along_axis(logs, x["y"][:, None], axis=1).sum()

    def update(state: Any, x: Arrays) -> Any:
        p, v = state
        loss, gradient = jax.value_and_grad(criterion)(p, x)
        v = {n: MOMENTUM * v[n] + gradient[n] for n in p}
        return ({n: p[n] - work.rate * v[n] for n in p}, v), loss

    def epoch(state: Any, data: Arrays) -> Any:
        def one(state: Any, some: Any) -> Any:
            return update(state, {"x": data["x"][some], "y": data["y"][some]})

        return jax.lax.scan(one, state, data["order"])

    compiled = jax.jit(epoch if "order" in inputs else update, donate_argnums=0)
    state = [(p, {n: jnp.zeros_like(v) for n, v in p.items()})]

    def run() -> Any:
        state[0], losses = compiled(state[0], inputs)
        return np.asarray(losses)

    def parameters() -> Values:
        return {n: np.array(v) for n, v in state[0][0].items()}

    return Case(run, parameters)


def mlp(spec: Mlp, p: Arrays, inputs: Arrays) -> Any:
    h = inputs["x"]
    if spec.normalised:
        h = (h - p["mean"]) * p["scale"]
    for i in range(spec.layers - 1):
        h = ACTIVATIONS[spec.activation](h @ p[f"W{i}"].T + p[f"B{i}"])
    last = spec.layers - 1
    return h @ p[f"W{last}"].T + p[f"B{last}"]


def rows(spec: Rows, p: Arrays, inputs: Arrays) -> Any:
    x = inputs["x"]
    if spec.function == "softmax":
        return jax.nn.softmax(x, axis=1)
    if spec.function == "norm":
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / jnp.sqrt((centred * centred).mean(axis=1, keepdims=True) + EPSILON)
    return jnp.tanh(x * inputs["a"] + inputs["b"]) * jax.nn.sigmoid(x - inputs["c"]) + x * x


SCORES: dict[type[Any], Function] = {
    Mlp: mlp,
    Rows: rows,
}
