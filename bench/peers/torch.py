"""PyTorch: eager with the fused SGD, and the same with its forward and backward pass compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from bench.peers import CannotSay, Case
from bench.workloads.mlp import Mlp
from bench.workloads.record import MOMENTUM, Values, Workload
from bench.workloads.rows import EPSILON, Rows

Tensors = Mapping[str, torch.Tensor]
Function = Callable[[Any, Tensors, Tensors], torch.Tensor]
"""Of the workload's spec, the parameters and constants, and the inputs."""
ACTIVATIONS = {"sigmoid": torch.sigmoid, "relu": torch.relu}


def case(work: Workload, threads: int, variant: str) -> Case:
    torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    scores = SCORES.get(type(work.spec))
    if scores is None:
        raise CannotSay(f"no form of {type(work.spec).__name__} is written here")
    p = {n: torch.from_numpy(v.copy()) for n, v in (work.parameters | work.constants).items()}
    inputs = {n: torch.from_numpy(v) for n, v in work.inputs.items()}
    if work.trains:
        return _training(work, p, inputs, compiled=variant == "compile")
    function = torch.compile(scores) if variant == "compile" else scores

    def infer() -> Any:
        with torch.inference_mode():
            return function(work.spec, p, inputs).numpy()

    return Case(infer)


def _training(
    work: Workload, p: dict[str, torch.Tensor], inputs: Tensors, *, compiled: bool
) -> Case:
    trained = [p[n].requires_grad_() for n in work.parameters]
    learner = torch.optim.SGD(trained, lr=work.rate, momentum=MOMENTUM, fused=True)
    scores, spec = SCORES[type(work.spec)], work.spec

    def criterion(p: Tensors, inputs: Tensors) -> torch.Tensor:
        return F.cross_entropy(scores(spec, p, inputs), inputs["y"], reduction="sum")

    loss_of = torch.compile(criterion) if compiled else criterion

    def step(inputs: Tensors) -> float:
        learner.zero_grad(set_to_none=True)
        loss = loss_of(p, inputs)
        loss.backward()
        learner.step()
        return float(loss.detach())

    def epoch() -> list[float]:
        x, y = inputs["x"], inputs["y"]
        return [step({"x": x[some], "y": y[some]}) for some in inputs["order"]]

    def parameters() -> Values:
        return {n: p[n].detach().numpy().copy() for n in work.parameters}

    return Case(epoch if "order" in inputs else lambda: step(inputs), parameters)


def mlp(spec: Mlp, p: Tensors, inputs: Tensors) -> torch.Tensor:
    h = inputs["x"]
    if spec.normalised:
        h = (h - p["mean"]) * p["scale"]
    for i in range(spec.layers - 1):
        h = ACTIVATIONS[spec.activation](F.linear(h, p[f"W{i}"], p[f"B{i}"]))
    last = spec.layers - 1
    return F.linear(h, p[f"W{last}"], p[f"B{last}"])


def rows(spec: Rows, p: Tensors, inputs: Tensors) -> torch.Tensor:
    x = inputs["x"]
    if spec.function == "softmax":
        return F.softmax(x, dim=1)
    if spec.function == "norm":
        return F.layer_norm(x, x.shape[1:], eps=EPSILON)
    return torch.tanh(x * inputs["a"] + inputs["b"]) * torch.sigmoid(x - inputs["c"]) + x * x


SCORES: dict[type[Any], Function] = {
    Mlp: mlp,
    Rows: rows,
}
