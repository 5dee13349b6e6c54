from __future__ import annotations

from itertools import combinations, product

import pytest

from graphc.ir.core import Function, Operation, Value
from graphc.ir.parser import parse_module
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.analysis.memory import check_plan, memory_report
from graphc.passes.fuse_kernels import fuse
from graphc.passes.manager import PassManager
from graphc.passes.plan_memory import MAX_BYTES, peak_formula, plan
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import KERNEL_PIPELINE, parse
from tests.support.random_functions import make_function


def planned(text: str) -> Function:
    context = default_context()
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    (function,) = module.functions
    fuse(function)
    plan(function)
    return function


def chain(length: int) -> str:
    """Products one after the other: no two values but neighbours live together."""
    lines = ["dim N <= 100", "func @f(%w: tensor<4x4xf32> parameter, %h0: tensor<Nx4xf32> input)"]
    lines[-1] += " -> (z: tensor<Nx4xf32>) {"
    for i in range(length):
        lines.append(f"%h{i + 1} = matmul %h{i}, %w : tensor<Nx4xf32>")
    return "\n".join([*lines, f"return %h{length}", "}"])


def test_memory_is_used_again_after_the_last_reader() -> None:
    function = planned(chain(10))
    assert function.arena == 2 * 1600
    assert check_plan(function) == []


def test_the_peak_is_a_formula_of_the_dims() -> None:
    assert peak_formula(planned(chain(10))) == "32*N"


def test_a_function_without_buffers_needs_no_arena() -> None:
    function = planned("func @f(%x: tensor<2xf32> input) -> (z: tensor<2xf32>) {\nreturn %x\n}")
    assert function.arena == 0
    assert peak_formula(function) == "0"


def test_buffers_of_size_0_take_no_memory() -> None:
    function = planned(
        """func @f(%x: tensor<0x4xf32> input, %w: tensor<4x4xf32> input) -> (z: tensor<0x4xf32>) {
          %a = matmul %x, %w : tensor<0x4xf32>
          %b = matmul %a, %w : tensor<0x4xf32>
          return %b
        }"""
    )
    assert function.arena == 0
    assert check_plan(function) == []


def test_a_view_keeps_its_memory_alive() -> None:
    function = planned(
        """func @f(%x: tensor<4x4xf32> input) -> (z: tensor<16x16xf32>) {
          %a = matmul %x, %x : tensor<4x4xf32>
          %row = reshape %a {dims = [1, 16]} : tensor<1x16xf32>
          %b = matmul %x, %x {transpose_a = true} : tensor<4x4xf32>
          %other = reshape %b {dims = [1, 16]} : tensor<1x16xf32>
          %z = matmul %row, %other {transpose_a = true} : tensor<16x16xf32>
          return %z
        }"""
    )
    offsets = [p for op in function.block for p in op.placement if p.kind == "arena"]
    assert len(set(offsets)) == 2
    assert check_plan(function) == []


def test_a_dead_result_beside_a_live_one_has_memory_of_its_own() -> None:
    context = default_context()
    module = parse_module(
        """func @f(%x: tensor<2xf32> input) -> (z: tensor<2xf32>) {
          %z, %unread = kernel %x : tensor<2xf32>, tensor<2xf32> {
          ^(%0: tensor<2xf32>):
            %1 = exp %0 : tensor<2xf32>
            %2 = neg %0 : tensor<2xf32>
            yield %1, %2
          }
          return %z
        }""",
        context,
    )
    context.sink.raise_if_errors()
    (function,) = module.functions
    plan(function)
    assert check_plan(function) == []
    assert function.arena == 64


def test_an_update_that_reads_a_broadcast_of_its_argument_is_copied() -> None:
    function = planned(
        """func @f(%w: tensor<1x2xf32> parameter, %x: tensor<3x2xf32> input)
            -> (w: tensor<1x2xf32> updates %w) {
          %b = broadcast %w {dims = [3, 2]} : tensor<3x2xf32>
          %d = mul %b, %x : tensor<3x2xf32>
          %s = reduce_sum %d {axes = [0]} : tensor<1x2xf32>
          return %s
        }"""
    )
    assert [op.opdef.name for op in function.block] == ["kernel", "copy", "return"]
    assert check_plan(function) == []


def test_planning_twice_gives_the_same_plan() -> None:
    function = planned(chain(5))
    before = [op.placement for op in function.block]
    plan(function)
    assert [op.placement for op in function.block] == before


def test_the_lower_bound_counts_what_lives_together() -> None:
    report = memory_report(planned(chain(10)))
    assert report.lower_bound_bytes == report.arena_bytes == 3200


def test_more_memory_than_can_be_addressed_is_an_error_at_the_largest_array() -> None:
    text = chain(3).replace("N <= 100", "N <= 9000000000000")
    module = parse(text)
    with pytest.raises(GraphcError, match=f"at most {MAX_BYTES} bytes") as caught:
        PassManager(pipeline(KERNEL_PIPELINE)).run(module, default_context())
    (problem,) = caught.value.diagnostics
    assert problem.slug == "limit"
    assert problem.span is not None
    assert "N up to 9000000000000" in problem.label


def test_an_argument_that_no_machine_holds_is_an_error_too() -> None:
    text = "func @f(%x: tensor<4000000000x4000000000xf32> input) -> () {\nreturn\n}"
    with pytest.raises(GraphcError, match="requires 64000000000000000000"):
        PassManager(pipeline(KERNEL_PIPELINE)).run(parse(text), default_context())


Stretch = tuple[int, int]


def written(op: Operation) -> list[Stretch]:
    """The bytes of the arena that an operation writes."""
    arrays = [(place, value.tensor) for place, value in zip(op.placement, op.results, strict=True)]
    arrays += [(w.place, w.type) for w in op.workspace]
    return [(p.index, p.index + t.bound_bytes) for p, t in arrays if p.kind == "arena"]


def lying(value: Value) -> list[Stretch]:
    """The bytes of the arena that a value lies in."""
    op = value.op
    if op is None:
        return []
    if not op.placement:  # a view
        return lying(op.operands[0])
    place = op.placement[value.index]
    return [(place.index, place.index + value.tensor.bound_bytes)] if place.kind == "arena" else []


def chain_before(op: Operation, known: dict[Operation, int]) -> int:
    """The number of operations in the longest chain that makes what it reads."""
    if op not in known:
        makers = [v.op for v in op.operands if v.op is not None]
        known[op] = max((chain_before(m, known) + bool(m.placement) for m in makers), default=0)
    return known[op]


@pytest.mark.parametrize("seed", range(40))
def test_what_could_run_side_by_side_shares_no_memory(seed: int) -> None:
    """Of two operations with chains of the same length before them, none writes where the other
    one writes or reads."""
    module = make_function(seed).module
    before = KERNEL_PIPELINE.removesuffix("plan-memory")
    PassManager(pipeline(f"{before}plan-memory{{side_by_side = true}}")).run(
        module, default_context()
    )
    depths: dict[Operation, int] = {}
    for a, b in combinations((op for op in module.functions[0].block if op.placement), 2):
        if chain_before(a, depths) == chain_before(b, depths):
            reads = [[s for v in op.operands for s in lying(v)] for op in (a, b)]
            pairs = [*product(written(a), written(b) + reads[1]), *product(reads[0], written(b))]
            for x, y in pairs:
                assert max(x[0], y[0]) >= min(x[1], y[1]), (str(a), str(b))
