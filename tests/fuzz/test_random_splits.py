"""Random functions cut into parts at random: bits are those of the whole, with threads or without.

python -m tests.fuzz.test_random_splits 1234          judge this seed again
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from graphc.backends.llvm.runtime import compile_function
from graphc.backends.signature import make_signature
from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.compiling import call
from tests.support.guarded import GuardedFunction
from tests.support.native import last_chunk_first, runnable_targets
from tests.support.random_functions import RandomFunction, make_function
from tests.support.random_splits import cut_at_random
from tests.support.seed_runs import judged

FUNCTIONS = 100
CHUNKS = 6
FEW = 25
COUNTS = (1, 2, 3, 8)

Arrays = Mapping[str, np.ndarray]


def _cut(made: RandomFunction, seed: int, *, first: bool) -> tuple[Module, int]:
    """The function at kernel level, cut before or after memory is planned."""
    module = clone_module(made.module)
    (function,) = module.functions
    context = default_context()
    PassManager(
        pipeline("fuse-kernels,fuse-epilogues{least_bytes = 0},schedule-updates"), verify=True
    ).run(module, context)
    count = cut_at_random(function, seed) if first else 0
    PassManager(pipeline("plan-memory"), verify=True).run(module, context)
    count += 0 if first else cut_at_random(function, seed)
    verify_module(module, context.sink)
    context.sink.raise_if_errors()
    return module, count


def judge(seed: int, backends: Sequence[str] = ()) -> str:
    """What is wrong with a seed's results, '' if nothing; only the llvm backend has parts."""
    del backends
    made = make_function(seed, exact=True)
    expected = evaluate(made.function, made.arguments, made.sizes)
    module, _ = _cut(made, seed, first=seed % 2 == 0)
    (function,) = module.functions
    signature = make_signature(module, function)
    problems: list[str] = []
    for target in runnable_targets():
        compiled = compile_function(function, signature, target)
        for threads in COUNTS:
            compiled.threads = threads
            got = call(GuardedFunction(compiled), signature, made.arguments, made.sizes)
            problems += _differences(f"{target.isa}, {threads} threads", got, expected)
        with last_chunk_first(compiled):
            got = call(compiled, signature, made.arguments, made.sizes)
            problems += _differences(f"{target.isa}, last chunk first", got, expected)
    if not problems:
        return ""
    again = f"repeat with: python -m tests.fuzz.test_random_splits {seed}"
    return "\n".join([*problems, again, f"{made.sizes}", str(module)])


def _differences(how: str, got: Arrays, expected: Arrays) -> list[str]:
    return [
        f"{how}, {name}: {got[name]}, not {value}"
        for name, value in expected.items()
        if not np.array_equal(got[name], value)
    ]


def test_a_few_random_functions_in_parts() -> None:
    assert [problem for seed in range(FEW) if (problem := judge(seed))] == []


def test_the_functions_are_cut_in_many_places() -> None:
    made = [make_function(seed, exact=True) for seed in range(FEW)]
    assert sum(_cut(m, seed, first=seed % 2 == 0)[1] for seed, m in enumerate(made)) >= FEW


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_functions_in_parts(chunk: int) -> None:
    found = judged(__name__, range(FEW + chunk, FEW + FUNCTIONS, CHUNKS), ["llvm"])
    assert [verdict for verdict in found if verdict.problem] == []


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
