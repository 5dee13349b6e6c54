"""Passes that improve tensor operations, in random order and number, change no result."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.driver.pipelines import Bounds, evaluation
from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import PassManager
from graphc.passes.synthesize_gradient import SynthesizeGradient
from tests.support.network_judge import (
    arguments_of,
    expansion,
    expectations,
    one_row_per_sample,
    sizes_of,
)
from tests.support.random_networks import RandomNetwork, random_network

ORDERS = 300
CHUNKS = 6
FIRST_SEED = 100_000  # other networks than those that the backends are judged by
PASSES = (
    *("hoist-pooling", "simplify", "fold-constants", "hoist-loops", "cse", "dce"),
    *("choose-layout", "merge-products"),
)


def expanded(network: RandomNetwork, dtype: DType) -> Module:
    module = clone_module(network.builder.model.module)
    passes = [
        InferShapes(),
        expansion(network, dtype),
        SynthesizeGradient(network.outputs[0], network.wrt),
    ]
    PassManager(passes).run(module, default_context())
    return module


def judge(seed: int) -> str | None:
    """What is wrong with a seed's results, '' if nothing, None if the network is discarded."""
    network = random_network(seed)
    dtype = DType.F32 if seed % 2 == 0 else DType.F64
    expected = None if network is None else expectations(network, dtype)
    if network is None or expected is None:
        return None
    rng = np.random.default_rng(seed)
    text = ",".join(map(str, rng.choice(PASSES, int(rng.integers(1, 9)))))
    module = expanded(network, dtype)
    PassManager(pipeline(text), verify=True, check_claim=True).run(module, default_context())
    (function,) = module.functions
    given = arguments_of(network, function, dtype.numpy.type)
    arguments = {n: np.ascontiguousarray(x) for n, x in given.items()}
    results = evaluate(function, arguments, sizes_of(network, function))
    results = {n: one_row_per_sample(network, n, x) for n, x in results.items()}
    problems = [f"`{n}`: {p}" for n, x in results.items() if (p := expected[n].problem(x))]
    if not problems and results.keys() == expected.keys():
        return ""
    return "\n".join([f"seed {seed}, {dtype}, after {text}:", *problems, str(network.builder)])


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_any_passes_in_any_order_keep_the_results(chunk: int) -> None:
    seeds = range(FIRST_SEED + chunk, FIRST_SEED + ORDERS, CHUNKS)
    found = [judge(seed) for seed in seeds]
    assert [problem for problem in found if problem] == []
    assert found.count(None) <= 0.1 * len(seeds)


def test_the_optimising_pipeline_is_made_of_these_passes() -> None:
    passes = evaluation(["y"], [], DType.F32, Bounds(1))
    first = {"infer-shapes", "expand-nodes"}
    assert {p.name for p in passes} - first == set(PASSES)
