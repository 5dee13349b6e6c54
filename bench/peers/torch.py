"""PyTorch: eager with the fused SGD; with its own layers where it has them (`nn`); and compiled.

Recurrent cells are written by hand, all four gates as one product and the inputs projected once for
all steps; `nn.LSTM` is PyTorch's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F

from bench.peers import CannotSay, Case
from bench.workloads.encoder import EPSILON as ENCODER_EPSILON
from bench.workloads.encoder import Encoder
from bench.workloads.images import ConvNet, Convolution, Residual, ResNet, blocks, stem
from bench.workloads.mlp import Mlp
from bench.workloads.record import MOMENTUM, Values, Workload
from bench.workloads.recurrent import Recurrent
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
    if variant == "nn":
        scores = _with_layer(work, p)
    inputs = {n: torch.from_numpy(v) for n, v in work.inputs.items()}
    if work.bf16 and not work.trains:  # weights are converted once, as those of graphc are
        p, inputs = ({n: _in_bf16(v) for n, v in values.items()} for values in (p, inputs))
    if work.trains:
        return _training(work, scores, p, inputs, compiled=variant == "compile")
    function = torch.compile(scores) if variant == "compile" else scores

    def infer() -> Any:
        with torch.inference_mode():
            return function(work.spec, p, inputs).float().numpy()

    return Case(infer)


def _in_bf16(values: torch.Tensor) -> torch.Tensor:
    return values.bfloat16() if values.is_floating_point() else values


def _training(
    work: Workload,
    scores: Function,
    p: dict[str, torch.Tensor],
    inputs: Tensors,
    *,
    compiled: bool,
) -> Case:
    trained = [p[n].requires_grad_() for n in work.parameters]
    learner = torch.optim.SGD(trained, lr=work.rate, momentum=MOMENTUM, fused=True)

    def criterion(p: Tensors, inputs: Tensors) -> torch.Tensor:
        if isinstance(work.spec, Recurrent) and work.spec.classes:
            return by_class(work.spec, p, inputs)
        return F.cross_entropy(scores(work.spec, p, inputs), inputs["y"], reduction="sum")

    loss_of = torch.compile(criterion) if compiled else criterion

    def step(inputs: Tensors) -> float:
        learner.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=work.bf16):
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


def convnet(spec: ConvNet, p: Tensors, inputs: Tensors) -> torch.Tensor:
    h = inputs["x"]
    for i in range(len(spec.channels) - 1):
        h = F.max_pool2d(torch.relu(F.conv2d(h, p[f"K{i}"], p[f"A{i}"])), 2)
    h = h.flatten(1)
    for i in range(len(spec.dense) - 1):
        h = torch.relu(F.linear(h, p[f"W{i}"], p[f"B{i}"]))
    last = len(spec.dense) - 1
    return F.linear(h, p[f"W{last}"], p[f"B{last}"])


def resnet(spec: ResNet, p: Tensors, inputs: Tensors) -> torch.Tensor:
    def normalised(c: Convolution, x: torch.Tensor) -> torch.Tensor:
        n = c.name
        y = F.conv2d(x, p[f"{n}K"], stride=c.stride, padding=c.kernel // 2)
        variance = p[f"{n}inv"] ** -2
        return F.batch_norm(y, p[f"{n}mean"], variance, p[f"{n}scale"], p[f"{n}bias"], eps=0.0)

    h = F.max_pool2d(torch.relu(normalised(stem(spec), inputs["x"])), 3, 2)
    for first, second, around in blocks(spec):
        inner = normalised(second, torch.relu(normalised(first, h)))
        h = torch.relu(inner + (normalised(around, h) if around else h))
    return F.linear(h.mean(dim=(2, 3)), p["W"], p["B"])


def residual(spec: Residual, p: Tensors, inputs: Tensors) -> torch.Tensor:
    h = torch.relu(F.conv2d(inputs["x"], p["K"], padding=1))
    for i in range(spec.blocks):
        inner = torch.relu(F.conv2d(h, p[f"K{i}a"], padding=1))
        h = torch.relu(h + F.conv2d(inner, p[f"K{i}b"], padding=1))
    return F.linear(h.mean(dim=(2, 3)), p["W"], p["B"])


def encoder(spec: Encoder, p: Tensors, inputs: Tensors) -> torch.Tensor:
    x = inputs["x"]

    def affine(layer: str, x: torch.Tensor) -> torch.Tensor:
        return F.linear(x, p[f"W{layer}"], p[f"B{layer}"])

    def heads(layer: str) -> torch.Tensor:
        return affine(layer, x).unflatten(2, (spec.heads, spec.head)).transpose(1, 2)

    def normalised(which: str, x: torch.Tensor) -> torch.Tensor:
        scale, shift = p[f"scale_{which}"], p[f"shift_{which}"]
        return F.layer_norm(x, (spec.width,), scale, shift, ENCODER_EPSILON)

    mixed = F.scaled_dot_product_attention(heads("q"), heads("k"), heads("v"))
    y = normalised("first", x + affine("o", mixed.transpose(1, 2).flatten(2)))
    return normalised("second", y + affine("down", torch.relu(affine("up", y))))


def hidden(spec: Recurrent, p: Tensors, inputs: Tensors, layer: Any = None) -> torch.Tensor:
    """[T * S, hidden]: the states of all steps."""
    x = F.embedding(inputs["words"], p["E"]).sum(dim=2)
    if layer is not None:
        return layer(x)[0].flatten(0, 1)
    h = c = x.new_zeros(spec.sequences, spec.hidden)
    states: list[torch.Tensor] = []
    if spec.cell == "sigmoid":
        for now in (x + p["b"]).unbind(0):
            h = torch.sigmoid(now + h @ p["R"].T)
            states.append(h)
        return torch.cat(states)
    for now in F.linear(x, p["Wx"], p["b"]).unbind(0):
        i, f, g, o = (now + h @ p["R"].T).chunk(4, dim=1)
        if spec.cell == "peepholes":
            i, f = i + p["di"] * c, f + p["df"] * c
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        if spec.cell == "peepholes":
            o = o + p["do"] * c
        h = torch.sigmoid(o) * torch.tanh(c)
        states.append(h)
    return torch.cat(states)


def recurrent(spec: Recurrent, p: Tensors, inputs: Tensors, layer: Any = None) -> torch.Tensor:
    return F.linear(hidden(spec, p, inputs, layer), p["V"], p.get("a"))


def by_class(spec: Recurrent, p: Tensors, inputs: Tensors) -> torch.Tensor:
    h, y = hidden(spec, p, inputs), inputs["y"]
    classes = y // spec.class_size
    columns = p["W"].view(spec.classes, spec.class_size, -1)[classes]
    scores = torch.bmm(columns, h[:, :, None])[:, :, 0]
    inside = F.cross_entropy(scores, y % spec.class_size, reduction="sum")
    return inside + F.cross_entropy(h @ p["C"].T, classes, reduction="sum")


def _with_layer(work: Workload, p: dict[str, torch.Tensor]) -> Function:
    """The scores by nn.LSTM, whose parameters take the place of ours in `p`."""
    if not isinstance(work.spec, Recurrent) or work.spec.cell != "lstm" or work.spec.classes:
        raise CannotSay("PyTorch has a layer of its own for an LSTM without peepholes alone")
    layer = torch.nn.LSTM(work.spec.embedding, work.spec.hidden)
    ours = {"Wx": layer.weight_ih_l0, "R": layer.weight_hh_l0, "b": layer.bias_ih_l0}
    with torch.no_grad():
        layer.bias_hh_l0.zero_().requires_grad_(False)
        for name, parameter in ours.items():
            parameter.copy_(p[name])
            p[name] = parameter
    return lambda spec, p, inputs: recurrent(spec, p, inputs, layer)


def rows(spec: Rows, p: Tensors, inputs: Tensors) -> torch.Tensor:
    x = inputs["x"]
    if spec.function == "softmax":
        return F.softmax(x, dim=1)
    if spec.function == "norm":
        return F.layer_norm(x, x.shape[1:], eps=EPSILON)
    return torch.tanh(x * inputs["a"] + inputs["b"]) * torch.sigmoid(x - inputs["c"]) + x * x


SCORES: dict[type[Any], Function] = {
    ConvNet: convnet,
    Encoder: encoder,
    Mlp: mlp,
    Recurrent: recurrent,
    Residual: residual,
    ResNet: resnet,
    Rows: rows,
}
