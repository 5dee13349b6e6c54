"""TensorFlow: the whole step as one graph (`tf.function`), images with the channels last."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bench.peers import CannotSay, Case
from bench.workloads.images import ConvNet
from bench.workloads.mlp import Mlp
from bench.workloads.record import MOMENTUM, Array, Values, Workload

Tensors = Mapping[str, Any]
ACTIVATIONS = {"sigmoid": tf.sigmoid, "relu": tf.nn.relu}


def case(work: Workload, threads: int, variant: str) -> Case:
    scores = SCORES.get(type(work.spec))
    if scores is None or "order" in work.inputs:
        raise CannotSay("only fully connected and convolutional networks are written here")
    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    p = {n: tf.Variable(to_ours(v)) for n, v in work.parameters.items()}
    constants = {n: tf.constant(v) for n, v in work.constants.items()}
    inputs = {
        n: tf.constant(channels_last(v) if v.ndim == 4 else v) for n, v in work.inputs.items()
    }
    if not work.trains:
        infer = tf.function(lambda x: scores(work.spec, {**p, **constants}, x))
        return Case(lambda: infer(inputs["x"]).numpy())
    velocity = {n: tf.Variable(tf.zeros_like(v)) for n, v in p.items()}

    def update(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            z = scores(work.spec, {**p, **constants}, x)
            each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=z)
            loss = tf.reduce_sum(each)
        for n, gradient in zip(p, tape.gradient(loss, list(p.values())), strict=True):
            velocity[n].assign(MOMENTUM * velocity[n] + gradient)
            p[n].assign_sub(work.rate * velocity[n])
        return loss

    step = tf.function(update)

    def parameters() -> Values:
        return {n: from_ours(v.numpy()) for n, v in p.items()}

    return Case(lambda: float(step(inputs["x"], inputs["y"])), parameters)


def channels_last(x: Array) -> Array:
    return np.ascontiguousarray(x.transpose(0, 2, 3, 1))


def to_ours(v: Array) -> Array:
    """Kernels are [height, width, in, out] here, matrices [in, out]."""
    return np.ascontiguousarray(v.transpose(2, 3, 1, 0) if v.ndim == 4 else v.T)


def from_ours(v: Array) -> Array:
    return v.transpose(3, 2, 0, 1) if v.ndim == 4 else v.T


def mlp(spec: Mlp, p: Tensors, x: Any) -> Any:
    h = (x - p["mean"]) * p["scale"] if spec.normalised else x
    for i in range(spec.layers - 1):
        h = ACTIVATIONS[spec.activation](tf.matmul(h, p[f"W{i}"]) + p[f"B{i}"])
    last = spec.layers - 1
    return tf.matmul(h, p[f"W{last}"]) + p[f"B{last}"]


def convnet(spec: ConvNet, p: Tensors, x: Any) -> Any:
    for i in range(len(spec.channels) - 1):
        y = tf.nn.conv2d(x, p[f"K{i}"], 1, "VALID")
        x = tf.nn.max_pool2d(tf.nn.relu(tf.nn.bias_add(y, p[f"A{i}"])), 2, 2, "VALID")
    x = tf.transpose(x, (0, 3, 1, 2))  # the first matrix has the channels slowest
    h = tf.reshape(x, (-1, spec.flat))
    for i in range(len(spec.dense) - 1):
        h = tf.nn.relu(tf.matmul(h, p[f"W{i}"]) + p[f"B{i}"])
    last = len(spec.dense) - 1
    return tf.matmul(h, p[f"W{last}"]) + p[f"B{last}"]


SCORES: dict[type[Any], Callable[[Any, Tensors, Any], Any]] = {
    ConvNet: convnet,
    Mlp: mlp,
}
