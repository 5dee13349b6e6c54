"""Laws that every tensor- and kernel-level pass keeps, on random functions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from graphc.ir.clone import clone_module
from graphc.ir.core import Array, IRBuilder, Level, Module
from graphc.ir.evaluate import evaluate
from graphc.ir.printer import print_module
from graphc.ir.types import DType
from graphc.ops import ALL_OPS, communication, default_context
from graphc.ops.control import YIELD
from graphc.ops.loop import LOOP
from graphc.passes import pipeline
from graphc.passes.analysis.memory import check_plan, memory_report
from graphc.passes.manager import PassManager, PassRecord
from graphc.support.diagnostics import GraphcError
from tests.support.kernel_rules import broken_rules
from tests.support.random_functions import LEFT_OUT, RandomFunction, make_function
from tests.support.random_loops import make_loops

SEEDS = st.integers(0, 2**32)
EXAMPLES = settings(max_examples=30, deadline=None)

# `simplify` may turn a transposed operand into a flag, and the library that multiplies for numpy
# is free to add up in another order then: its functions have no products.
WITH_PRODUCTS = [
    "cse",
    "dce",
    "fold-constants",
    "fuse-kernels",
    "fuse-kernels{max_operations = 4}, plan-memory",
    "cse, dce, fuse-kernels, plan-memory",
    "cse, dce, fuse-kernels, plan-memory{side_by_side = true}",
]
WITHOUT_PRODUCTS = [
    "simplify",
    "choose-layout",
    "simplify, fold-constants, simplify, cse, dce, fuse-kernels, plan-memory",
]


def run(text: str, module: Module) -> list[PassRecord]:
    manager = PassManager(pipeline(text), verify=True, check_claim=True)
    return manager.run(module, default_context())


def transformed(made: RandomFunction, text: str) -> Module:
    module = clone_module(made.module)
    run(text, module)
    return module


def bits(array: Array) -> tuple[str, tuple[int, ...], bytes]:
    """Everything about the array; every nan is the same nan."""
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), np.nan, array).astype(array.dtype)
    return str(array.dtype), array.shape, array.tobytes()


def assert_same_results(made: RandomFunction, module: Module) -> None:
    before = evaluate(made.function, made.arguments, made.sizes)
    after = evaluate(module.functions[0], made.arguments, made.sizes)
    assert {n: bits(a) for n, a in before.items()} == {n: bits(a) for n, a in after.items()}


@pytest.mark.parametrize("text", WITH_PRODUCTS)
@EXAMPLES
@given(seed=SEEDS)
@example(seed=742)  # a product of a constant with itself
def test_a_pass_changes_no_bit_of_the_results(text: str, seed: int) -> None:
    made = make_function(seed)
    assert_same_results(made, transformed(made, text))


@pytest.mark.parametrize("text", WITHOUT_PRODUCTS)
@EXAMPLES
@given(seed=SEEDS)
def test_a_pass_changes_no_bit_of_the_results_without_products(text: str, seed: int) -> None:
    made = make_function(seed, products=False)
    assert_same_results(made, transformed(made, text))


@EXAMPLES
@given(seed=SEEDS)
def test_outputs_that_one_member_has_change_no_bit_or_are_refused(seed: int) -> None:
    made = make_function(seed)
    roles = zip(made.function.arguments, made.function.roles, strict=True)
    before = evaluate(made.function, made.arguments, made.sizes)
    sizes = {**made.sizes, **{f"{dim}ALL": size for dim, size in made.sizes.items()}}
    for name in [argument.name for argument, role in roles if role == "parameter"]:
        try:
            module = transformed(made, f'split-outputs{{parameters = ["{name}"]}}')
        except GraphcError as refused:
            assert refused.diagnostics[0].slug in ("not-supported", "bad-option")
            continue
        after = evaluate(module.functions[0], made.arguments, sizes)
        assert {n: bits(a) for n, a in before.items()} == {n: bits(a) for n, a in after.items()}


@pytest.mark.parametrize(
    "text",
    [
        "cse",
        "dce",
        "simplify",
        "fold-constants",
        "join-sums",
        "fuse-kernels",
        "fuse-kernels,plan-memory",
        "fuse-kernels,plan-memory{side_by_side = true}",
    ],
)
@EXAMPLES
@given(seed=SEEDS)
def test_a_second_run_changes_nothing(text: str, seed: int) -> None:
    module = transformed(make_function(seed), text)
    once = print_module(module)
    again = run(text, module)
    assert print_module(module) == once
    assert not any(record.changed for record in again)


@pytest.mark.parametrize(
    "text",
    [
        "cse",
        "dce",
        "simplify",
        "fold-constants",
        "hoist-loops",
        "fuse-kernels,plan-memory",
        "fuse-kernels,plan-memory{side_by_side = true}",
    ],
)
@EXAMPLES
@given(seed=SEEDS)
def test_a_pass_changes_loops_by_no_more_than_roundings(text: str, seed: int) -> None:
    made = make_loops(seed)
    module = clone_module(made.module)
    run(text, module)
    before = evaluate(made.function, made.arguments, made.sizes)
    after = evaluate(module.functions[0], made.arguments, made.sizes)
    for name, array in before.items():
        np.testing.assert_allclose(after[name], array, 1e-10, 1e-10)


@pytest.mark.parametrize(
    "text",
    [
        "cse",
        "dce",
        "simplify",
        "fold-constants",
        "hoist-loops",
        "fuse-kernels,plan-memory",
        "fuse-kernels,plan-memory{side_by_side = true}",
    ],
)
@EXAMPLES
@given(seed=SEEDS)
def test_a_second_run_changes_nothing_in_loops(text: str, seed: int) -> None:
    module = clone_module(make_loops(seed).module)
    run(text, module)
    once = print_module(module)
    again = run(text, module)
    assert print_module(module) == once
    assert not any(record.changed for record in again)


PLANS = ["plan-memory", "plan-memory{side_by_side = true}"]


@pytest.mark.parametrize("text", PLANS)
@EXAMPLES
@given(seed=SEEDS)
def test_the_memory_plan_of_loops_is_sound(text: str, seed: int) -> None:
    module = clone_module(make_loops(seed).module)
    run(f"hoist-loops,fuse-kernels,{text}", module)
    (function,) = module.functions
    report = memory_report(function)
    assert check_plan(function) == []
    assert report.lower_bound_bytes <= report.arena_bytes


@EXAMPLES
@given(seed=SEEDS, limit=st.sampled_from([3, 12, 256]))
def test_fused_kernels_keep_what_backends_rely_on(seed: int, limit: int) -> None:
    module = transformed(make_function(seed), f"fuse-kernels{{max_operations = {limit}}}")
    # One operation and the free ones it reads may exceed a very small limit.
    assert broken_rules(module.functions[0], limit + 8) == []


@pytest.mark.parametrize("text", PLANS)
@EXAMPLES
@given(seed=SEEDS)
def test_a_memory_plan_is_sound_and_not_below_its_lower_bound(text: str, seed: int) -> None:
    function = transformed(make_function(seed), f"fuse-kernels,{text}").functions[0]
    report = memory_report(function)
    assert check_plan(function) == []
    assert report.lower_bound_bytes <= report.arena_bytes


APART = "overlap-sums{bucket_bytes = 64},fuse-kernels,fuse-epilogues,schedule-updates,plan-memory"


@EXAMPLES
@example(533)  # a sum itself is what an argument is updated with
@given(seed=SEEDS)
def test_sums_over_members_taken_apart_are_those_in_one(seed: int) -> None:
    """Of all results that have one type and a fixed shape, by one member."""
    made = make_function(seed)
    module = clone_module(made.module)
    (function,) = module.functions
    returned = function.returned
    summed = [
        i for i, v in enumerate(returned) if v.tensor.dtype is DType.F32 and not v.tensor.symbols()
    ]
    if summed:
        values = [returned[i] for i in summed]
        sums = communication.all_reduce(IRBuilder.before(function.block.end), values, 1)
        for i, value in zip(summed, sums, strict=True):
            function.block.end.set_operand(i, value)
    run(APART, module)
    assert check_plan(function) == []
    assert_same_results(made, module)


@EXAMPLES
@example(260)  # what reads an earlier sum moves behind a later one of another depth
@given(seed=SEEDS)
def test_sums_that_are_joined_are_those_apart(seed: int) -> None:
    """Of every second value that has a fixed shape, read by what follows, by one member."""
    made = make_function(seed)
    module = clone_module(made.module)
    (function,) = module.functions
    fixed = [
        op
        for op in function.block
        if len(op.results) == 1 and op.result.tensor.dtype.is_float and not op.result.type.symbols()
    ]
    for op in fixed[::2]:
        readers, value = op.result.uses, op.result
        (total,) = communication.all_reduce(IRBuilder(function.block, op.next), [value], 1)
        for reader, index in readers:
            reader.set_operand(index, total)
    (record,) = run("join-sums", module)
    assert len(communication.sums_of(function)) == len(fixed[::2]) - record.counters["joined"]
    run("fuse-kernels,plan-memory", module)
    assert check_plan(function) == []
    assert_same_results(made, module)


def test_random_functions_hold_every_tensor_operation() -> None:
    # Random loops are made elsewhere, collectives are of members.
    apart = (YIELD, LOOP, *communication.OPS, *LEFT_OUT)
    wanted = {op.name for op in ALL_OPS if op.level is Level.TENSOR and op not in apart}
    found = {op.opdef.name for seed in range(120) for op in make_function(seed).function.block}
    assert wanted - found == set()


def test_a_seed_gives_the_same_function_every_time() -> None:
    assert print_module(make_function(7).module) == print_module(make_function(7).module)
