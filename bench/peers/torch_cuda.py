"""PyTorch on a GPU: eager, the whole step as one CUDA graph, and compiled; with and without TF32.

The networks are those of `torch.py`. Inputs lie on the GPU before anything is timed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F

from bench.peers import CannotSay, Case
from bench.peers.torch import SCORES, Tensors, by_class
from bench.workloads.record import MOMENTUM, Values, Workload
from bench.workloads.recurrent import Recurrent

WARM_UP = 3
"""Calls before a graph is captured, as PyTorch's documentation asks for."""


def case(work: Workload, threads: int, variant: str) -> Case:
    if not torch.cuda.is_available():
        raise CannotSay("PyTorch sees no GPU")
    if work.spec.__class__ not in SCORES:
        raise CannotSay(f"no form of {type(work.spec).__name__} is written here")
    how, _, precision = variant.partition(".")
    is_tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = is_tf32
    torch.backends.cudnn.allow_tf32 = is_tf32
    given = work.parameters | work.constants
    p = {n: torch.from_numpy(v.copy()).cuda() for n, v in given.items()}
    inputs = {n: torch.from_numpy(v).cuda() for n, v in work.inputs.items()}
    if work.trains:
        return _training(work, p, inputs, how)
    return _inference(work, p, inputs, how)


def _inference(work: Workload, p: dict[str, Any], inputs: Tensors, how: str) -> Case:
    scores = SCORES[type(work.spec)]
    function = torch.compile(scores, mode="reduce-overhead") if how == "compile" else scores

    def infer() -> Any:
        with torch.inference_mode():
            return function(work.spec, p, inputs)

    begin = _captured(infer) if how == "graph" else infer
    return Case(lambda: begin().cpu().numpy(), begin=begin, wait=torch.cuda.synchronize)


def _training(work: Workload, p: dict[str, Any], inputs: Tensors, how: str) -> Case:
    scores = SCORES[type(work.spec)]
    trained = {n: p[n].requires_grad_() for n in work.parameters}
    learner = torch.optim.SGD(list(trained.values()), lr=work.rate, momentum=MOMENTUM, fused=True)

    def criterion(p: Tensors, inputs: Tensors) -> torch.Tensor:
        if isinstance(work.spec, Recurrent) and work.spec.classes:
            return by_class(work.spec, p, inputs)
        return F.cross_entropy(scores(work.spec, p, inputs), inputs["y"], reduction="sum")

    loss_of = torch.compile(criterion) if how == "compile" else criterion
    given = {n: t.clone() for n, t in inputs.items() if n != "order"}
    if "order" in inputs:
        given = {n: t[inputs["order"][0]].clone() for n, t in given.items()}

    def step() -> torch.Tensor:
        learner.zero_grad(set_to_none=True)
        loss = loss_of(p, given)
        loss.backward()
        learner.step()
        return loss.detach()

    if how == "graph":
        step = _captured(step, lambda: _start_again(work, trained, learner))

    def epoch() -> list[torch.Tensor]:
        losses: list[torch.Tensor] = []
        for some in inputs["order"]:
            for name, tensor in given.items():
                torch.index_select(inputs[name], 0, some, out=tensor)
            losses.append(step().clone())
        return losses

    def run() -> Any:
        if "order" in inputs:
            return torch.stack(epoch()).cpu().numpy()
        return float(step())

    def parameters() -> Values:
        return {n: t.detach().cpu().numpy().copy() for n, t in trained.items()}

    begin: Callable[[], object] = epoch if "order" in inputs else step
    return Case(run, parameters, begin, torch.cuda.synchronize)


def _start_again(
    work: Workload, trained: dict[str, torch.Tensor], learner: torch.optim.Optimizer
) -> None:
    """Start values and velocities of zero, in the memory that a graph has captured."""
    with torch.no_grad():
        for name, parameter in trained.items():
            parameter.copy_(torch.from_numpy(work.parameters[name]))
        for state in learner.state.values():
            state["momentum_buffer"].zero_()


def _captured(
    function: Callable[[], torch.Tensor], start_again: Callable[[], None] = lambda: None
) -> Callable[[], torch.Tensor]:
    """The function as a CUDA graph; `start_again` undoes what its first calls have changed."""
    beside = torch.cuda.Stream()
    beside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(beside):
        for _ in range(WARM_UP):
            function()
    torch.cuda.current_stream().wait_stream(beside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = function()
    torch.cuda.synchronize()
    start_again()

    def replay() -> torch.Tensor:
        graph.replay()
        return result

    return replay
