"""choose-layout: values stay, no more bytes are transposed, nothing is left to be done."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

import graphc as gc
from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager


def run(text: str, module: Module) -> Module:
    made = clone_module(module)
    PassManager(pipeline(text), verify=True, check_claim=True).run(made, default_context())
    return made


def moved_bytes(module: Module) -> int:
    return sum(
        op.result.tensor.bound_bytes
        for op in module.functions[0].block
        if op.opdef.name == "transpose"
    )


def random_program(seed: int) -> gc.Program:
    """Elementwise operations, moves and reductions over a few arrays, transposed here and there."""
    choose = random.Random(seed)

    def step(x: Any) -> Any:
        kind = choose.randrange(9)
        rank, axis = len(x.shape), choose.randrange(len(x.shape))
        match kind:
            case 0 | 1 | 2:
                return gc.transpose(x, choose.sample(range(rank), rank))
            case 3:
                return gc.tanh(x)
            case 4:
                return gc.flip(x, axis)
            case 5:
                pairs = [(0, 0)] * rank
                pairs[axis] = (1, 2)
                return gc.pad(x, pairs, 0.5)
            case 6:
                return gc.concatenate([x, gc.exp(-x * x)], axis)
            case 7:
                return x - gc.sum(x, axis, keepdims=True) / 8
            case _:
                return x[(slice(None),) * axis + (slice(0, 2),)]

    def network(x: Any) -> dict[str, Any]:
        values = [x]
        for _ in range(choose.randint(6, 16)):
            values.append(step(choose.choice(values[-3:])))
            if values[-1].shape == values[-2].shape and choose.random() < 0.6:
                values.append(values[-1] * values[-2])
        return {"y": values[-1], "z": values[-2]}

    return gc.program(network, {"x": "2x3x4x2xf64"})


def test_random_functions_keep_their_values_and_transpose_no_more() -> None:
    rng = np.random.default_rng(0)
    fewer = 0
    for seed in range(40):
        module = random_program(seed).module
        before = run("simplify,cse,dce", module)
        after = run("choose-layout,simplify,cse,dce", before)
        x = {"x": rng.standard_normal((2, 3, 4, 2))}
        first, second = (evaluate(m.functions[0], x, {}) for m in (before, after))
        for name, value in first.items():
            np.testing.assert_allclose(second[name], value, rtol=1e-12, atol=1e-12)
        assert moved_bytes(after) <= moved_bytes(before)
        fewer += moved_bytes(after) < moved_bytes(before)
    assert fewer >= 5
