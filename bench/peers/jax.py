"""JAX: the whole step is one compiled function that takes its state over; an epoch is a scan."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from bench.peers import CannotSay, Case
from bench.workloads.encoder import EPSILON as ENCODER_EPSILON
from bench.workloads.encoder import Encoder
from bench.workloads.images import ConvNet, Convolution, Residual, ResNet, blocks, stem
from bench.workloads.mlp import Mlp
from bench.workloads.record import MOMENTUM, Values, Workload
from bench.workloads.recurrent import Recurrent
from bench.workloads.rows import EPSILON, Rows

Arrays = Mapping[str, Any]
Function = Callable[[Any, Arrays, Arrays], Any]
"""Of the workload's spec, the parameters and constants, and the inputs."""
ACTIVATIONS = {"sigmoid": jax.nn.sigmoid, "relu": jax.nn.relu}


def case(work: Workload, threads: int, variant: str) -> Case:
    """XLA takes the cores that the process may run on. On a GPU, which is asked for by no threads,
    it rounds the factors of f32 products unless it is told not to."""
    if not threads and not on_gpu():
        raise CannotSay("JAX sees no GPU")
    jax.config.update("jax_default_matmul_precision", "tensorfloat32" if variant else "highest")
    scores = SCORES.get(type(work.spec))
    if scores is None:
        raise CannotSay(f"no form of {type(work.spec).__name__} is written here")
    constants = {n: jnp.asarray(v) for n, v in work.constants.items()}
    inputs = {n: jnp.asarray(v) for n, v in work.inputs.items()}
    p = {n: jnp.asarray(v) for n, v in work.parameters.items()}
    if work.trains:
        return _training(work, p, constants, inputs)
    infer = jax.jit(lambda p, inputs: scores(work.spec, p | constants, inputs))
    latest: list[Any] = []

    def begin() -> None:
        latest[:] = [infer(p, inputs)]

    return Case(
        lambda: np.asarray(infer(p, inputs)),
        begin=begin if on_gpu() else None,
        wait=lambda: jax.block_until_ready(latest),
    )


def on_gpu() -> bool:
    return jax.default_backend() == "gpu"


def _training(work: Workload, p: Arrays, constants: Arrays, inputs: Arrays) -> Case:
    scores = SCORES[type(work.spec)]

    def criterion(p: Any, x: Arrays) -> Any:
        if isinstance(work.spec, Recurrent) and work.spec.classes:
            return by_class(work.spec, p, x)
        return cross_entropy(scores(work.spec, {**p, **constants}, x), x["y"])

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

    def begin() -> None:
        state[0], _ = compiled(state[0], inputs)

    def wait() -> None:
        jax.block_until_ready(state[0])

    return Case(run, parameters, begin if on_gpu() else None, wait)


def cross_entropy(z: Any, y: Any) -> Any:
    """The sum over the rows."""
    return -jnp.take_along_axis(jax.nn.log_softmax(z), y[:, None], axis=1).sum()


def mlp(spec: Mlp, p: Arrays, inputs: Arrays) -> Any:
    h = inputs["x"]
    if spec.normalised:
        h = (h - p["mean"]) * p["scale"]
    for i in range(spec.layers - 1):
        h = ACTIVATIONS[spec.activation](h @ p[f"W{i}"].T + p[f"B{i}"])
    last = spec.layers - 1
    return h @ p[f"W{last}"].T + p[f"B{last}"]


def convolved(x: Any, kernel: Any, stride: int = 1, padding: int = 0) -> Any:
    around = [(padding, padding)] * 2
    return jax.lax.conv_general_dilated(x, kernel, (stride, stride), around)


def pooled(x: Any, window: int) -> Any:
    """The largest of each window, with stride 2."""
    lowest = -jnp.inf
    sizes, strides = (1, 1, window, window), (1, 1, 2, 2)
    return jax.lax.reduce_window(x, lowest, jax.lax.max, sizes, strides, "VALID")


def convnet(spec: ConvNet, p: Arrays, inputs: Arrays) -> Any:
    h = inputs["x"]
    for i in range(len(spec.channels) - 1):
        h = pooled(jax.nn.relu(convolved(h, p[f"K{i}"]) + p[f"A{i}"][:, None, None]), 2)
    h = h.reshape(len(h), -1)
    for i in range(len(spec.dense) - 1):
        h = jax.nn.relu(h @ p[f"W{i}"].T + p[f"B{i}"])
    last = len(spec.dense) - 1
    return h @ p[f"W{last}"].T + p[f"B{last}"]


def resnet(spec: ResNet, p: Arrays, inputs: Arrays) -> Any:
    def normalised(c: Convolution, x: Any) -> Any:
        y = convolved(x, p[f"{c.name}K"], c.stride, c.kernel // 2)
        slope = p[f"{c.name}inv"] * p[f"{c.name}scale"]
        rest = p[f"{c.name}bias"] - p[f"{c.name}mean"] * slope
        return y * slope[:, None, None] + rest[:, None, None]

    h = pooled(jax.nn.relu(normalised(stem(spec), inputs["x"])), 3)
    for first, second, around in blocks(spec):
        inner = normalised(second, jax.nn.relu(normalised(first, h)))
        h = jax.nn.relu(inner + (normalised(around, h) if around else h))
    return h.mean(axis=(2, 3)) @ p["W"].T + p["B"]


def residual(spec: Residual, p: Arrays, inputs: Arrays) -> Any:
    h = jax.nn.relu(convolved(inputs["x"], p["K"], padding=1))
    for i in range(spec.blocks):
        inner = jax.nn.relu(convolved(h, p[f"K{i}a"], padding=1))
        h = jax.nn.relu(h + convolved(inner, p[f"K{i}b"], padding=1))
    return h.mean(axis=(2, 3)) @ p["W"].T + p["B"]


def encoder(spec: Encoder, p: Arrays, inputs: Arrays) -> Any:
    x = inputs["x"]

    def affine(layer: str, x: Any) -> Any:
        return x @ p[f"W{layer}"].T + p[f"B{layer}"]

    def heads(layer: str) -> Any:
        split = affine(layer, x).reshape(*x.shape[:2], spec.heads, spec.head)
        return split.transpose(0, 2, 1, 3)

    def normalised(which: str, x: Any) -> Any:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = (centred * centred).mean(axis=-1, keepdims=True)
        scaled = centred * jax.lax.rsqrt(variance + ENCODER_EPSILON) * p[f"scale_{which}"]
        return scaled + p[f"shift_{which}"]

    scores = heads("q") @ heads("k").transpose(0, 1, 3, 2) * spec.head**-0.5
    mixed = (jax.nn.softmax(scores) @ heads("v")).transpose(0, 2, 1, 3).reshape(x.shape)
    y = normalised("first", x + affine("o", mixed))
    return normalised("second", y + affine("down", jax.nn.relu(affine("up", y))))


def hidden(spec: Recurrent, p: Arrays, inputs: Arrays) -> Any:
    """[T * S, hidden]: the states of all steps."""
    x = p["E"][inputs["words"]].sum(axis=2)
    h = jnp.zeros((spec.sequences, spec.hidden), jnp.float32)
    if spec.cell == "sigmoid":

        def simple(h: Any, now: Any) -> Any:
            h = jax.nn.sigmoid(now + h @ p["R"].T)
            return h, h

        return jax.lax.scan(simple, h, x + p["b"])[1].reshape(-1, spec.hidden)

    def lstm(state: Any, now: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(now + h @ p["R"].T, 4, axis=1)
        if spec.cell == "peepholes":
            i, f = i + p["di"] * c, f + p["df"] * c
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        if spec.cell == "peepholes":
            o = o + p["do"] * c
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    states = jax.lax.scan(lstm, (h, h), x @ p["Wx"].T + p["b"])[1]
    return states.reshape(-1, spec.hidden)


def recurrent(spec: Recurrent, p: Arrays, inputs: Arrays) -> Any:
    z = hidden(spec, p, inputs) @ p["V"].T
    return z + p["a"] if spec.biased else z


def by_class(spec: Recurrent, p: Arrays, inputs: Arrays) -> Any:
    h, y = hidden(spec, p, inputs), inputs["y"]
    classes = y // spec.class_size
    columns = p["W"].reshape(spec.classes, spec.class_size, -1)[classes]
    inside = cross_entropy(jnp.einsum("nsh,nh->ns", columns, h), y % spec.class_size)
    return inside + cross_entropy(h @ p["C"].T, classes)


def rows(spec: Rows, p: Arrays, inputs: Arrays) -> Any:
    x = inputs["x"]
    if spec.function == "softmax":
        return jax.nn.softmax(x, axis=1)
    if spec.function == "norm":
        centred = x - x.mean(axis=1, keepdims=True)
        return centred / jnp.sqrt((centred * centred).mean(axis=1, keepdims=True) + EPSILON)
    return jnp.tanh(x * inputs["a"] + inputs["b"]) * jax.nn.sigmoid(x - inputs["c"]) + x * x


SCORES: dict[type[Any], Function] = {
    ConvNet: convnet,
    Encoder: encoder,
    Mlp: mlp,
    Recurrent: recurrent,
    Residual: residual,
    ResNet: resnet,
    Rows: rows,
}
