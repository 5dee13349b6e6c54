"""Schedules changed at random: what the checks admit computes what it did before.

Functions whose every bit is defined keep each bit, as products do; sums of other lanes differ by
rounding alone.

python -m tests.fuzz.test_random_schedules 1234          judge this seed again
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pytest

from graphc.backends.base import CompiledFunction
from graphc.backends.llvm.runtime import compile_function
from graphc.backends.signature import make_signature
from graphc.ir.clone import clone_module
from graphc.ir.core import Module, Operation
from graphc.ir.evaluate import evaluate
from graphc.ir.machine import MACHINES
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.ops.schedules import ProductSchedule
from graphc.passes import pipeline
from graphc.passes.analysis.schedules import complete_schedule
from graphc.passes.choose_schedule import choose_schedules
from graphc.passes.manager import PassManager
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import call, load_backend, parse
from tests.support.guarded import GuardedFunction
from tests.support.native import runnable_targets
from tests.support.random_functions import make_function
from tests.support.random_loops import make_loops
from tests.support.random_schedules import edit, random_tiling, scheduled
from tests.support.random_splits import cut_at_random
from tests.support.seed_runs import judged

FUNCTIONS = 150
CHUNKS = 6
FEW = 24
IN_C = (0, 1, 2, 6, 12)
TRIES = 8
FUSED = "fuse-kernels,fuse-epilogues{least_bytes = 0},schedule-updates"
EXTENTS = (0, 1, 2, 3, 5, 8, 17, 33, 40, 65, 300)
SIZES = (0, 1, 2, 3, 7, 20, 33)

Arrays = Mapping[str, np.ndarray]


class Case(NamedTuple):
    """A function with edited schedules, and what it is called with. `expected` is of the function
    before; `is_exact`: to the last bit."""

    module: Module
    calls: list[tuple[Arrays, dict[str, int], Arrays]]
    is_exact: bool
    edits: int
    is_product: bool = False


def make_case(seed: int) -> Case:
    """Every third one a product, the others random functions."""
    return product_case(seed) if seed % 3 == 0 else function_case(seed)


def function_case(seed: int) -> Case:
    """All schedules of a random function, cut into chunks or with loops over steps, or neither."""
    choose = random.Random(seed)
    is_exact = seed % 2 == 0
    has_loops = seed % 7 == 0 and not is_exact
    made = make_loops(seed) if has_loops else make_function(seed, exact=is_exact)
    expected = evaluate(made.function, made.arguments, made.sizes)
    module = clone_module(made.module)
    PassManager(pipeline(FUSED), verify=True).run(module, default_context())
    if choose.random() < 0.5:
        cut_at_random(module.functions[0], seed)
    edits = edit_all(choose, module, lambda op: edit(choose, op))
    return Case(module, [(made.arguments, made.sizes, expected)], is_exact, edits)


def product_case(seed: int) -> Case:
    """One product, computed before by the tiling that is chosen."""
    choose = random.Random(seed)
    extents = [choose.choice((*EXTENTS, name, name)) for name in "MNK"]
    dtype = choose.choice(("f32", "f64"))
    text = product_text(choose, extents, dtype)
    numbers = np.random.default_rng(seed)
    calls: list[tuple[Arrays, dict[str, int], Arrays]] = []
    before = planned(parse(text))
    for _ in range(3):
        sizes = {name: choose.choice(SIZES) for name in "MNK"}
        function = before.functions[0]
        arguments = {
            a.name or "": numbers.standard_normal(a.tensor.shape(sizes)).astype(
                a.tensor.dtype.numpy
            )
            for a in function.arguments
        }
        calls.append((arguments, sizes, compute(before, arguments, sizes)))
    module = parse(text)
    edits = edit_all(choose, module, lambda op: tile(choose, op))
    return Case(module, calls, is_exact=True, edits=edits, is_product=True)


def product_text(choose: random.Random, extents: Sequence[object], dtype: str) -> str:
    m, n, k = extents
    turned = [choose.random() < 0.5 for _ in "AB"]
    a = f"{k}x{m}" if turned[0] else f"{m}x{k}"
    b = f"{n}x{k}" if turned[1] else f"{k}x{n}"
    params = ", ".join(
        f"transpose_{name} = true"
        for name, is_turned in zip("ab", turned, strict=True)
        if is_turned
    )
    params = f" {{{params}}}" if params else ""
    split = choose.choice(("", "", 'parallel = "rows"', 'parallel = "cols"'))
    if split:
        split = f" schedule {{{split}, chunk = {choose.choice((1, 3, 5, 8, 16))}}}"
    dims = "\n".join(f"dim {name} <= {max(SIZES)}" for name in "MNK")
    c = f"tensor<{m}x{n}x{dtype}>"
    return f"""{dims}
func @f(%a: tensor<{a}x{dtype}> input, %b: tensor<{b}x{dtype}> input) -> (y: {c}) {{
  %y = gemm %a, %b{params}{split} : {c}
  return %y
}}
"""


def tile(choose: random.Random, op: Operation) -> None:
    """Another tiling, near the one that was chosen or far from it."""
    schedule = op.schedule
    edit(choose, op)
    if op.schedule is schedule or choose.random() < 0.3:
        return
    if isinstance(schedule, ProductSchedule) and schedule.tile is not None:
        op.schedule = replace(schedule, tile=random_tiling(choose))


def edit_all(choose: random.Random, module: Module, change: Callable[[Operation], None]) -> int:
    """Change each schedule until one is admitted that is another; how many are."""
    (function,) = module.functions
    machine = choose.choice(list(MACHINES.values()))
    choose_schedules(function, machine)
    count = 0
    for op in scheduled(function):
        before = op.schedule
        for _ in range(TRIES):
            change(op)
            if op.schedule == before:
                continue
            if is_admitted(module, op):
                count += 1
                break
            op.schedule = before
    return count


def is_admitted(module: Module, op: Operation) -> bool:
    """Whether verifier and backend take the schedule."""
    context = default_context()
    verify_module(module, context.sink)
    if context.sink.has_errors:
        return False
    try:
        complete_schedule(op, MACHINES["x86-64-v3"])
    except GraphcError as error:
        assert {d.slug for d in error.diagnostics} == {"bad-schedule"}
        return False
    return True


def planned(module: Module) -> Module:
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    return module


def compute(module: Module, arguments: Arrays, sizes: Mapping[str, int]) -> Arrays:
    signature = make_signature(module, module.functions[0])
    compiled = compile_function(module.functions[0], signature)
    return call(compiled, signature, arguments, sizes)


def judge(seed: int, backends: Sequence[str] = ("llvm",)) -> str:
    """What is wrong with a seed's results, '' if nothing."""
    case = make_case(seed)
    module = planned(case.module)
    signature = make_signature(module, module.functions[0])
    problems: list[str] = []
    for name, compiled, is_exact in compiled_by(backends, case, module, signature):
        for arguments, sizes, expected in case.calls:
            got = call(compiled, signature, arguments, sizes)
            problems += [
                f"{name}, {result}, {sizes}: {got[result]}, not {value}"
                for result, value in expected.items()
                if not agree(got[result], value, is_exact=is_exact)
            ]
    if not problems:
        return ""
    again = f"repeat with: python -m tests.fuzz.test_random_schedules {seed}"
    return "\n".join([*problems, again, str(module)])


def compiled_by(
    backends: Sequence[str], case: Case, module: Module, signature: Signature
) -> Iterator[tuple[str, CompiledFunction, bool]]:
    """The function by each backend and target, and whether results keep their bits there."""
    (function,) = module.functions
    if "llvm" in backends:
        for target in runnable_targets():
            # Products without fused multiply-adds have bits of their own.
            is_exact = case.is_exact and not (case.is_product and not target.machine.has_fma)
            compiled = compile_function(function, signature, target)
            yield target.isa, GuardedFunction(compiled), is_exact
    backend = load_backend("c") if "c" in backends else ""
    if not isinstance(backend, str):
        yield "c", backend.compile(function, signature), case.is_exact


def agree(got: np.ndarray, expected: np.ndarray, *, is_exact: bool) -> bool:
    if is_exact or got.dtype.kind != "f":
        return np.array_equal(got, expected, equal_nan=True)
    return np.allclose(got, expected, rtol=1e-3, atol=1e-3)


def test_a_few_random_schedules() -> None:
    assert [problem for seed in range(FEW) if (problem := judge(seed))] == []


def test_a_few_random_schedules_in_c() -> None:
    assert [problem for seed in IN_C if (problem := judge(seed, ["c"]))] == []


def test_many_schedules_are_changed() -> None:
    assert sum(make_case(seed).edits for seed in range(FEW)) >= 2 * FEW


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_random_schedules(chunk: int) -> None:
    found = judged(__name__, range(FEW + chunk, FEW + FUNCTIONS, CHUNKS), ["llvm"])
    assert [verdict for verdict in found if verdict.problem] == []


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.write(f"{argument}: {judge(int(argument)) or 'fine'}\n")
