"""Random chains of operations over samples, computed chunk by chunk: bits are those of one after
the other, in whatever order chunks are computed, and numbers those of the references.

python -m tests.fuzz.test_random_chains 1234          judge this seed again
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np
import pytest

from graphc.backends.llvm.runtime import compile_function
from graphc.backends.signature import make_signature
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.ops.schedules import is_behind
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.compiling import call, load_backend, parse
from tests.support.guarded import GuardedFunction
from tests.support.native import last_chunk_first, random_arguments, runnable_targets
from tests.support.random_chains import BOUND, random_chain
from tests.support.seed_runs import judged

CHAINS = 240
CHUNKS = 6
FEW = 30
IN_C = (0, 1, 2, 3)
SIZES = (0, 1, 2, BOUND)
APART = "plan-memory"
TOGETHER = "fuse-chunks{least_ns = 0.0},plan-memory"


def planned(seed: int, passes: str) -> Module:
    """Every other one with schedules for a machine."""
    module = parse(random_chain(seed))
    chosen = 'choose-schedule{machine = "x86-64-v2"},' if seed % 2 else ""
    PassManager(pipeline(chosen + passes), verify=True).run(module, default_context())
    return module


def _agree(got: np.ndarray, exact: np.ndarray) -> bool:
    """To a thousandth of the largest number: chains of products cancel."""
    return np.allclose(got, exact, rtol=0.0, atol=1e-3 * max(1.0, np.abs(exact).max(initial=0.0)))


def judge(seed: int, backends: Sequence[str] = ("llvm",)) -> str:
    """What is wrong with a seed's results, '' if nothing."""
    apart, together = planned(seed, APART), planned(seed, TOGETHER)
    function, signature = together.functions[0], make_signature(together, together.functions[0])
    of_apart = make_signature(apart, apart.functions[0])
    problems: list[str] = []
    compiler = load_backend("c") if "c" in backends else ""
    for target in runnable_targets() if "llvm" in backends else ():
        alone = compile_function(apart.functions[0], of_apart, target)
        compiled = compile_function(function, signature, target)
        compiled.use_threads(3)
        for n in SIZES:
            sizes = {"N": n}
            arguments = random_arguments(signature, sizes, seed=seed)
            bits = call(alone, of_apart, arguments, sizes)
            exact = evaluate(apart.functions[0], arguments, sizes)
            got = call(GuardedFunction(compiled), signature, arguments, sizes)
            with last_chunk_first(compiled):
                turned = call(compiled, signature, arguments, sizes)
            for name, value in bits.items():
                if not np.array_equal(got[name], value) or not np.array_equal(turned[name], value):
                    problems.append(f"{target.isa}, N = {n}, {name}: other bits than apart")
                if not _agree(value, exact[name]):
                    problems.append(f"{target.isa}, N = {n}, {name}: {value}, not {exact[name]}")
    if not isinstance(compiler, str):
        compiled = compiler.compile(function, signature)
        arguments = random_arguments(signature, {"N": BOUND}, seed=seed)
        exact = evaluate(function, arguments, {"N": BOUND})
        got = call(compiled, signature, arguments, {"N": BOUND})
        for name, value in exact.items():
            if not _agree(got[name], value):
                problems.append(f"c, {name}: {got[name]}, not {value}")
    if not problems:
        return ""
    again = f"repeat with: python -m tests.fuzz.test_random_chains {seed}"
    return "\n".join([*problems, again, str(together)])


def test_a_few_random_chains() -> None:
    assert [problem for seed in range(FEW) if (problem := judge(seed))] == []


def test_a_few_random_chains_in_c() -> None:
    assert [problem for seed in IN_C if (problem := judge(seed, ["c"]))] == []


def test_many_operations_are_behind_others() -> None:
    behind = [sum(map(is_behind, planned(s, TOGETHER).functions[0].block)) for s in range(FEW)]
    assert sum(behind) >= FEW
    assert max(behind) >= 3


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_chains(chunk: int) -> None:
    found = judged(__name__, range(FEW + chunk, FEW + CHAINS, CHUNKS), ["llvm"])
    assert [verdict for verdict in found if verdict.problem] == []


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
