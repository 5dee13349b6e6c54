"""The block of an encoder as a function of arrays: NDL multiplies no two nodes with samples."""

from __future__ import annotations

from typing import Any

import graphc as gc
from bench.ours.how import How, array_calls
from bench.peers import Case
from bench.workloads.encoder import EPSILON, Encoder
from bench.workloads.record import Workload


def encoder(work: Workload, how: How) -> Case:
    spec: Encoder = work.spec

    # Weights are closed over: they are part of the function, as those in a file of ONNX are.
    p = {name: value.astype(how.dtype) for name, value in work.parameters.items()}

    def affine(layer: str, x: Any) -> Any:
        return x @ gc.transpose(p[f"W{layer}"]) + p[f"B{layer}"]

    def heads(layer: str, x: Any) -> Any:
        split = gc.reshape(affine(layer, x), (x.shape[0], x.shape[1], spec.heads, spec.head))
        return gc.transpose(split, (0, 2, 1, 3))

    def normalised(which: str, x: Any) -> Any:
        centred = x - gc.mean(x, axis=-1, keepdims=True)
        deviation = gc.sqrt(gc.mean(centred * centred, axis=-1, keepdims=True) + EPSILON)
        return centred / deviation * p[f"scale_{which}"] + p[f"shift_{which}"]

    def block(x: Any) -> Any:
        q, k, v = (heads(layer, x) for layer in "qkv")
        scores = q @ gc.transpose(k, (0, 1, 3, 2)) * spec.head**-0.5
        mixed = gc.transpose(gc.softmax(scores) @ v, (0, 2, 1, 3))
        x = normalised("first", x + affine("o", gc.reshape(mixed, x.shape)))
        return normalised("second", x + affine("down", gc.relu(affine("up", x))))

    return array_calls(block, (work.inputs["x"],), how)
