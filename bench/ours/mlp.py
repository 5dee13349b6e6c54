"""Fully connected networks in NDL."""

from __future__ import annotations

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
from bench.workloads.mlp import Mlp
from bench.workloads.record import Workload

FUNCTIONS = {"sigmoid": "Sigmoid", "relu": "RectifiedLinear"}
NORMALISED = """\
mean = Mean(features)
scale = InvStdDev(features)
x = PerDimMeanVarNormalization(features, mean, scale)
"""


def text(spec: Mlp) -> str:
    lines = [
        f"features = Input({spec.widths[0]}, tag=feature)",
        f"labels = Input({spec.widths[-1]}, tag=label)",
    ]
    if spec.normalised:
        lines.append(NORMALISED)
    below = "x" if spec.normalised else "features"
    for i in range(spec.layers):
        rows, cols = spec.widths[i + 1], spec.widths[i]
        lines += [f"W{i} = Parameter({rows}, {cols})", f"B{i} = Parameter({rows}, 1)"]
        affine = f"Plus(Times(W{i}, {below}), B{i}"
        if i == spec.layers - 1:
            lines.append(f"{SCORES} = {affine}, tag=output)")
        else:
            below = f"h{i}"
            lines.append(f"{below} = {FUNCTIONS[spec.activation]}({affine}))")
    lines.append(f"{CRITERION} = CrossEntropyWithSoftmax(labels, {SCORES}, tag=criterion)")
    return "\n".join(lines) + "\n"


def mlp(work: Workload, how: How) -> Case:
    spec: Mlp = work.spec
    net = gc.loads(text(spec))
    put(net, work.parameters)
    for name, value in work.constants.items():
        net.model.set_statistic(name, value[:, None])
    x = work.inputs["x"]
    if not work.trains:
        infer = inference(net, how, batch=work.samples)
        return calls(infer, {"features": x}, how, scores)
    labels = one_hot(work.inputs["y"], spec.widths[-1], how)
    step = training_step(net, work, how, batch=work.samples)

    def parameters() -> dict[str, np.ndarray]:
        return got(net, work.parameters)

    if "order" not in work.inputs:
        return calls(step, {"features": x, "labels": labels}, how, loss, parameters)
    order = work.inputs["order"].reshape(-1)
    data = {"features": x, "labels": labels}

    def epoch() -> np.ndarray:
        return step.run_epoch(data, order=order, minibatch=work.samples)[CRITERION]

    return Case(epoch, parameters)
