"""Convolutional networks in NDL.

There an image is [width, height, channels], and a kernel [channels, width, height].
"""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np

import graphc as gc
from bench.ours.how import (
    CRITERION,
    SCORES,
    How,
    calls,
    got,
    inference,
    loss,
    one_hot,
    put,
    scores,
    training_step,
)
from bench.peers import Case
from bench.workloads.images import ConvNet, Convolution, Residual, ResNet, blocks, stem
from bench.workloads.record import Array, Values, Workload

MACROS = """
Normalised(x, channels, before, kernel, stride)
{
  K = Parameter(channels, before, needGradient=false)
  scale = Parameter(channels, 1, needGradient=false)
  bias = Parameter(channels, 1, needGradient=false)
  mean = Parameter(channels, 1, needGradient=false)
  inv = Parameter(channels, 1, needGradient=false)
  c = Convolution(K, x, kernel, kernel, channels, stride, stride, zeroPadding=true)
  y = BatchNormalization(c, scale, bias, mean, inv, spatial=true, eval=true)
}
"""


def images(x: Array) -> Array:
    """[N, channels, height, width] as rows of graphc's order."""
    return np.ascontiguousarray(x.transpose(0, 3, 2, 1)).reshape(len(x), -1)


def kernel_rows(k: Array) -> Array:
    return k.transpose(0, 1, 3, 2).reshape(len(k), -1)


# --- a small network, trained --------------------------------------------------------------------


def convnet_text(spec: ConvNet) -> str:
    lines = [
        f"features = ImageInput({spec.image}, {spec.image}, {spec.channels[0]}, tag=feature)",
        f"labels = Input({spec.dense[-1]}, tag=label)",
    ]
    below = "features"
    for i, (before, after) in enumerate(pairwise(spec.channels)):
        k = spec.kernel
        lines += [
            f"K{i} = Parameter({after}, {before * k * k})",
            f"A{i} = Parameter({after}, 1)",
            f"c{i} = Convolution(K{i}, {below}, {k}, {k}, {after}, 1, 1)",
            f"p{i} = MaxPooling(RectifiedLinear(Plus(c{i}, A{i})), 2, 2, 2, 2)",
        ]
        below = f"p{i}"
    for i, (before, after) in enumerate(pairwise((spec.flat, *spec.dense))):
        lines += [f"W{i} = Parameter({after}, {before})", f"B{i} = Parameter({after}, 1)"]
        affine = f"Plus(Times(W{i}, {below}), B{i}"
        if i == len(spec.dense) - 1:
            lines.append(f"{SCORES} = {affine}, tag=output)")
        else:
            below = f"h{i}"
            lines.append(f"{below} = RectifiedLinear({affine}))")
    lines.append(f"{CRITERION} = CrossEntropyWithSoftmax(labels, {SCORES}, tag=criterion)")
    return "\n".join(lines) + "\n"


def to_nodes(spec: ConvNet, values: Values) -> Values:
    made = dict(values)
    for i in range(len(spec.channels) - 1):
        made[f"K{i}"] = kernel_rows(values[f"K{i}"])
    w, edge = values["W0"], spec.maps[-1]
    made["W0"] = images(w.reshape(len(w), spec.channels[-1], edge, edge))
    return made


def from_nodes(spec: ConvNet, nodes: Values) -> Values:
    made = {n: v[:, 0] if n[0] in "AB" else v for n, v in nodes.items()}
    for i, (before, after) in enumerate(pairwise(spec.channels)):
        kernel = nodes[f"K{i}"].reshape(after, before, spec.kernel, spec.kernel)
        made[f"K{i}"] = kernel.transpose(0, 1, 3, 2)
    w, edge = nodes["W0"], spec.maps[-1]
    pixels = w.reshape(len(w), edge, edge, spec.channels[-1])
    made["W0"] = pixels.transpose(0, 3, 2, 1).reshape(len(w), -1)
    return made


def convnet(work: Workload, how: How) -> Case:
    spec: ConvNet = work.spec
    net = gc.loads(convnet_text(spec))
    put(net, to_nodes(spec, work.parameters))
    x = images(work.inputs["x"])
    if not work.trains:
        infer = inference(net, how, batch=work.samples)
        return calls(infer, {"features": x}, how, scores)
    step = training_step(net, work, how, batch=work.samples)
    labels = one_hot(work.inputs["y"], spec.dense[-1], how)

    def parameters() -> Values:
        return from_nodes(spec, {n: np.array(net.parameters[n]) for n in work.parameters})

    return calls(step, {"features": x, "labels": labels}, how, loss, parameters)


# --- ResNet-18 -----------------------------------------------------------------------------------


def resnet_text(spec: ResNet) -> str:
    lines = [f"features = ImageInput({spec.image}, {spec.image}, 3, tag=feature)"]

    def normalised(c: Convolution, below: str) -> str:
        """The name of the node. NDL's strides are at most the kernel's size: before a kernel of one
        pixel an average of one pixel takes every second one."""
        if c.stride > c.kernel:
            step = f"{c.stride}, {c.stride}"
            lines.append(f"{c.name}s = AveragePooling({below}, 1, 1, {step})")
            below, c = f"{c.name}s", replace(c, stride=1)
        sizes = f"{c.after}, {c.before * c.kernel**2}, {c.kernel}, {c.stride}"
        lines.append(f"{c.name} = Normalised({below}, {sizes})")
        return c.name

    below = normalised(stem(spec), "features")
    lines.append(f"pooled = MaxPooling(RectifiedLinear({below}), 3, 3, 2, 2)")
    below = "pooled"
    for first, second, around in blocks(spec):
        inner = normalised(first, below)
        lines.append(f"{inner}r = RectifiedLinear({inner})")
        added = normalised(second, f"{inner}r")
        beside = normalised(around, below) if around else below
        below = f"{added}r"
        lines.append(f"{below} = RectifiedLinear(Plus({added}, {beside}))")
    lines += [
        f"mean = AveragePooling({below}, {spec.last}, {spec.last}, 1, 1)",
        f"W = Parameter({spec.outputs}, {spec.widths[-1]})",
        f"B = Parameter({spec.outputs}, 1)",
        f"{SCORES} = Plus(Times(W, mean), B, tag=output)",
    ]
    return "\n".join(lines) + "\n"


def resnet(work: Workload, how: How) -> Case:
    net = gc.loads(resnet_text(work.spec), macros=[MACROS])
    nodes: Values = {}
    for name, value in work.parameters.items():
        for part in ("K", "scale", "bias", "mean", "inv"):
            if name.endswith(part) and name != part:
                name = f"{name.removesuffix(part)}.{part}"
                break
        nodes[name] = kernel_rows(value) if value.ndim == 4 else value
    put(net, nodes)
    infer = inference(net, how, batch=work.samples)
    return calls(infer, {"features": images(work.inputs["x"])}, how, scores)


# --- residual blocks, trained --------------------------------------------------------------------


def residual_text(spec: Residual) -> str:
    edge = spec.image
    lines = [
        f"features = ImageInput({edge}, {edge}, {spec.channels}, tag=feature)",
        f"labels = Input({spec.outputs}, tag=label)",
    ]

    def convolved(kernel: str, before: int, below: str) -> str:
        lines.append(f"{kernel} = Parameter({spec.width}, {9 * before})")
        return f"Convolution({kernel}, {below}, 3, 3, {spec.width}, 1, 1, zeroPadding=true)"

    (name, channels), *inner = spec.kernels
    lines.append(f"h = RectifiedLinear({convolved(name, channels, 'features')})")
    below = "h"
    for (first, width), (second, _) in zip(inner[::2], inner[1::2], strict=True):
        lines.append(f"{first}r = RectifiedLinear({convolved(first, width, below)})")
        added = f"Plus({below}, {convolved(second, width, f'{first}r')})"
        below = f"{second}r"
        lines.append(f"{below} = RectifiedLinear({added})")
    lines += [
        f"mean = AveragePooling({below}, {edge}, {edge}, 1, 1)",
        f"W = Parameter({spec.outputs}, {spec.width})",
        f"B = Parameter({spec.outputs}, 1)",
        f"{SCORES} = Plus(Times(W, mean), B, tag=output)",
        f"{CRITERION} = CrossEntropyWithSoftmax(labels, {SCORES}, tag=criterion)",
    ]
    return "\n".join(lines) + "\n"


def residual(work: Workload, how: How) -> Case:
    spec: Residual = work.spec
    net = gc.loads(residual_text(spec))
    put(net, {n: kernel_rows(v) if v.ndim == 4 else v for n, v in work.parameters.items()})
    step = training_step(net, work, how, batch=work.samples)
    labels = one_hot(work.inputs["y"], spec.outputs, how)

    def parameters() -> Values:
        found = got(net, {n: v for n, v in work.parameters.items() if v.ndim < 4})
        for name, before in spec.kernels:
            kernel = np.array(net.parameters[name]).reshape(spec.width, before, 3, 3)
            found[name] = kernel.transpose(0, 1, 3, 2)
        return found

    data = {"features": images(work.inputs["x"]), "labels": labels}
    return calls(step, data, how, loss, parameters)
