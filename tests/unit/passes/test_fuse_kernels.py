from __future__ import annotations

import pytest

from graphc.ir.core import Function, IRBuilder, Module, OpDef, RegionKind, ResultInfo
from graphc.ir.parser import parse_module
from graphc.ir.types import DType, TensorType
from graphc.ops import default_context
from graphc.ops.contraction import MATMUL
from graphc.ops.control import RETURN
from graphc.ops.functions import TANH
from graphc.passes import pipeline
from graphc.passes.fuse_kernels import fuse
from graphc.passes.manager import PassManager
from tests.support.kernel_rules import broken_rules

LONG = 100_000


def fused(arguments: str, results: str, body: str, limit: int = 256) -> Function:
    context = default_context()
    text = f"dim N <= 8\nfunc @f({arguments}) -> ({results}) {{\n{body}\n}}"
    module = parse_module(text, context)
    context.sink.raise_if_errors()
    (function,) = module.functions
    fuse(function, limit)
    assert broken_rules(function, limit) == []
    return function


def names(function: Function) -> list[str]:
    return [op.opdef.name for op in function.block]


def kernel_bodies(function: Function) -> list[list[str]]:
    return [
        [inner.opdef.name for inner in op.regions[0].block]
        for op in function.block
        if op.opdef.name == "kernel"
    ]


def long_chain(op: OpDef, length: int, every: OpDef | None = None) -> Module:
    """`length` operations one after the other, `every` in between if given."""
    function = Function("f", RegionKind.SSA)
    type = TensorType((4, 4), DType.F32)
    value = first = function.add_argument("x", type, "input")
    b = IRBuilder(function.block)
    for _ in range(length):
        value = b.emit_one(op, value)
        if every is not None:
            value = b.emit_one(every, value, first)
    function.results.append(ResultInfo("z"))
    b.emit(RETURN, [value])
    return Module([function])


def test_a_value_read_by_two_kernels_is_stored_once() -> None:
    function = fused(
        "%x: tensor<2x2xf32> input",
        "z: tensor<2x2xf32>",
        """%a = tanh %x : tensor<2x2xf32>
        %p = matmul %a, %a : tensor<2x2xf32>
        %z = add %p, %a : tensor<2x2xf32>
        return %z""",
    )
    assert names(function) == ["kernel", "gemm", "kernel", "return"]
    assert kernel_bodies(function) == [["tanh", "yield"], ["add", "yield"]]


def test_a_column_sum_read_by_the_same_rows_needs_two_kernels() -> None:
    function = fused(
        "%x: tensor<Nx2xf32> input",
        "z: tensor<Nx2xf32>",
        """%s = reduce_sum %x {axes = [0]} : tensor<1x2xf32>
        %b = broadcast %s {dims = [N, 2]} : tensor<Nx2xf32>
        %z = sub %x, %b : tensor<Nx2xf32>
        return %z""",
    )
    assert kernel_bodies(function) == [["reduce_sum", "yield"], ["broadcast", "sub", "yield"]]


def test_a_row_sum_is_read_in_its_own_kernel() -> None:
    function = fused(
        "%x: tensor<Nx2xf32> input",
        "z: tensor<Nx2xf32>",
        """%s = reduce_sum %x {axes = [1]} : tensor<Nx1xf32>
        %b = broadcast %s {dims = [N, 2]} : tensor<Nx2xf32>
        %z = sub %x, %b : tensor<Nx2xf32>
        return %z""",
    )
    assert kernel_bodies(function) == [["reduce_sum", "broadcast", "sub", "yield"]]


def test_a_sum_of_row_sums_needs_a_kernel_of_its_own() -> None:
    function = fused(
        "%x: tensor<Nx2xf32> input",
        "z: tensor<1x1xf32>",
        """%s = reduce_sum %x {axes = [1]} : tensor<Nx1xf32>
        %z = reduce_sum %s {axes = [0]} : tensor<1x1xf32>
        return %z""",
    )
    assert len(kernel_bodies(function)) == 2


SCALAR = """%q = neg %r : tensor<1x1xf32>
        %b = broadcast %q {dims = [N, 2]} : tensor<Nx2xf32>
        %y = mul %x, %b : tensor<Nx2xf32>"""


def test_a_scalar_moves_into_the_only_kernel_that_reads_it() -> None:
    function = fused(
        "%x: tensor<Nx2xf32> input, %r: tensor<1x1xf32> hyperparameter",
        "z: tensor<Nx2xf32>",
        f"{SCALAR}\n%z = mul %y, %b : tensor<Nx2xf32>\nreturn %z",
    )
    assert kernel_bodies(function) == [["neg", "broadcast", "mul", "mul", "yield"]]


def test_a_scalar_that_two_kernels_read_is_computed_once() -> None:
    function = fused(
        "%x: tensor<Nx2xf32> input, %w: tensor<3x3xf32> input, %r: tensor<1x1xf32> hyperparameter",
        "y: tensor<Nx2xf32>, z: tensor<3x3xf32>",
        f"""{SCALAR}
        %c = broadcast %q {{dims = [3, 3]}} : tensor<3x3xf32>
        %z = mul %w, %c : tensor<3x3xf32>
        return %y, %z""",
    )
    assert sorted(body[0] for body in kernel_bodies(function)) == ["broadcast", "broadcast", "neg"]


def test_a_reshape_ends_a_kernel() -> None:
    function = fused(
        "%x: tensor<2x3xf32> input",
        "z: tensor<6xf32>",
        """%a = tanh %x : tensor<2x3xf32>
        %r = reshape %a {dims = [6]} : tensor<6xf32>
        %z = neg %r : tensor<6xf32>
        return %z""",
    )
    assert names(function) == ["kernel", "reshape", "kernel", "return"]


def test_dead_operations_do_not_reach_a_kernel() -> None:
    function = fused(
        "%x: tensor<2xf32> input",
        "z: tensor<2xf32>",
        """%a = exp %x : tensor<2xf32>
        %z = neg %x : tensor<2xf32>
        return %z""",
    )
    assert kernel_bodies(function) == [["neg", "yield"]]


def test_a_kernel_remembers_where_its_operations_came_from() -> None:
    function = fused(
        "%x: tensor<2xf32> input",
        "z: tensor<2xf32>",
        "%a = exp %x : tensor<2xf32>\n%z = neg %a : tensor<2xf32>\nreturn %z",
    )
    kernel = function.block.first
    assert kernel is not None
    assert kernel.location.is_known
    assert len(kernel.location.merged) == 1


def test_operations_are_kept_below_the_limit() -> None:
    module = long_chain(TANH, 1000)
    fuse(module.functions[0], 256)
    assert [len(body) - 1 for body in kernel_bodies(module.functions[0])] == [256, 256, 256, 232]


@pytest.mark.slow
@pytest.mark.parametrize(("every", "arena"), [(None, 64), (MATMUL, 128)])
def test_a_hundred_thousand_operations_pass_through_every_pass(
    every: OpDef | None, arena: int
) -> None:
    module = long_chain(TANH, LONG if every is None else LONG // 4, every)
    text = "simplify, fold-constants, cse, dce, fuse-kernels, plan-memory"
    PassManager(pipeline(text)).run(module, default_context())
    assert module.functions[0].arena == arena
