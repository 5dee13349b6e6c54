"""Random functions of operations whose every bit is defined: backends give what references say.

python -m tests.fuzz.test_random_functions 1234          judge this seed again
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pytest

from graphc.ir.clone import clone_module
from graphc.ir.evaluate import evaluate
from tests.support.compiling import call, compile_for, load_backend
from tests.support.random_functions import make_function
from tests.support.seed_runs import judged

FUNCTIONS = 400
CHUNKS = 10
BACKENDS = ("numpy", "llvm")
MOVES = {"concat", "overlap_add", "pad", "reverse", "slice", "transpose", "patches"}


def judge(seed: int, backends: Sequence[str] = BACKENDS) -> str:
    """What is wrong with a seed's results, '' if nothing."""
    made = make_function(seed, exact=True)
    expected = evaluate(made.function, made.arguments, made.sizes)
    problems: list[str] = []
    for name in backends:
        backend = load_backend(name)
        if isinstance(backend, str):
            continue
        try:
            compiled, signature = compile_for(backend, clone_module(made.module))
            got = call(compiled, signature, made.arguments, made.sizes)
        except Exception as error:  # whatever it is, the seed has to be named
            problems.append(f"{name}: {type(error).__name__}: {error}")
            continue
        problems += [
            f"{name}, {result}: {got[result]}, not {value}"
            for result, value in expected.items()
            if not np.array_equal(got[result], value)
        ]
    if not problems:
        return ""
    again = f"repeat with: python -m tests.fuzz.test_random_functions {seed}"
    return "\n".join([*problems, again, f"{made.sizes}", str(made.module)])


def test_the_functions_have_every_rearrangement() -> None:
    functions = [make_function(seed, exact=True).function for seed in range(100)]
    assert {op.opdef.name for f in functions for op in f.block} >= MOVES


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_backends_compute_random_functions_as_the_references_do(chunk: int) -> None:
    found = judged(__name__, range(chunk, FUNCTIONS, CHUNKS), BACKENDS)
    assert [verdict for verdict in found if verdict.problem] == []


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
