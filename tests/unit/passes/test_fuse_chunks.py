"""Which operations are computed chunk by chunk behind others, and in which chunks."""

from __future__ import annotations

import numpy as np
import pytest

from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import host_target
from graphc.backends.signature import make_signature
from graphc.ir.core import Function, Module
from graphc.ir.evaluate import evaluate
from graphc.ops import default_context
from graphc.ops.schedules import Schedule
from graphc.passes import pipeline
from graphc.passes.analysis.memory import check_plan
from graphc.passes.manager import PassManager
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import call, parse
from tests.support.native import last_chunk_first, random_arguments

IMAGES = """dim N <= 32
func @f(%x: tensor<Nx28x28x1xf32> input, %w: tensor<5x5x1x16xf32> parameter,
        %b: tensor<1x1x1x16xf32> parameter) -> (y: tensor<Nx12x12x16xf32>) {
  %c = conv %x, %w {axis = 1, strides = [1, 1]} : tensor<Nx24x24x16xf32>
  %p = pool %c {scalar_op = "maximum", axis = 1, sizes = [2, 2], strides = [2, 2]}
      : tensor<Nx12x12x16xf32>
  %y = kernel %p, %b : tensor<Nx12x12x16xf32> {
  ^(%p: tensor<Nx12x12x16xf32>, %b: tensor<1x1x1x16xf32>):
    %w = broadcast %b {dims = [N, 12, 12, 16]} : tensor<Nx12x12x16xf32>
    %s = add %p, %w : tensor<Nx12x12x16xf32>
    %t = tanh %s : tensor<Nx12x12x16xf32>
    yield %t
  }
  return %y
}
"""

ATTENTION = """func @f(%q: tensor<16x4x64x64xf32> input, %k: tensor<16x4x64x64xf32> input,
        %v: tensor<16x4x64x64xf32> input) -> (y: tensor<16x4x64x64xf32>) {
  %a = gemm %q, %k {batch = 2} : tensor<16x4x64x64xf32>
  %s = kernel %a : tensor<16x4x64x64xf32> {
  ^(%a: tensor<16x4x64x64xf32>):
    %e = exp %a : tensor<16x4x64x64xf32>
    %t = reduce_sum %e {axes = [3]} : tensor<16x4x64x1xf32>
    %w = broadcast %t {dims = [16, 4, 64, 64]} : tensor<16x4x64x64xf32>
    %d = div %e, %w : tensor<16x4x64x64xf32>
    yield %d
  }
  %y = gemm %s, %v {batch = 2} : tensor<16x4x64x64xf32>
  return %y
}
"""

MATRIX = "tensor<256x256xf32>"


def fused(text: str, passes: str = "split-work,fuse-chunks,plan-memory") -> Module:
    module = parse(text)
    PassManager(pipeline(passes), verify=True).run(module, default_context())
    return module


def chunks(function: Function) -> dict[str, tuple[object, int, bool]]:
    """What is cut, how long chunks are, and whether they come behind others, by names."""
    found: dict[str, tuple[object, int, bool]] = {}
    for op in function.block:
        schedule = op.schedule
        if isinstance(schedule, Schedule):
            found[op.results[0].called] = schedule.parallel, schedule.chunk, schedule.behind
    return found


def test_poolings_and_kernels_are_behind_a_convolution() -> None:
    alone = chunks(fused(IMAGES, "split-work").functions[0])
    assert alone["c"] == ("images", 1, False)
    assert min(alone["p"][1], alone["y"][1]) > 1
    assert chunks(fused(IMAGES).functions[0]) == {
        "c": ("images", 1, False),
        "p": ("images", 1, True),
        "y": (0, 1, True),
    }


def test_chunks_become_longer_where_the_next_operation_has_fewer_places() -> None:
    assert chunks(fused(ATTENTION, "split-work").functions[0])["a"] == ("batch", 1, False)
    assert chunks(fused(ATTENTION).functions[0]) == {
        "a": ("batch", 4, False),
        "s": (0, 1, True),
        "y": ("batch", 4, True),
    }


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ATTENTION.replace("16x4", "2x16").replace("[16, 4", "[2, 16"), "two chunks for 32"),
        ("dim N <= 16\n" + ATTENTION.replace("16x", "Nx").replace("[16", "[N"), "one sample"),
        (ATTENTION.replace("x64x64", "x512x512").replace("64, 64", "512, 512")
         .replace("x64x1x", "x512x1x"), "4 MB in a chunk"),
    ],
    ids=["few sequences", "as many as a call has", "long sequences"],
)  # fmt: skip
def test_chunks_do_not_become_longer(text: str, why: str) -> None:
    (function,) = fused(text).functions
    found = chunks(function)
    assert found["a"] == ("batch", 1, False), why
    assert not found["s"][2], why


@pytest.mark.parametrize("text", [IMAGES, ATTENTION], ids=["images", "attention"])
def test_a_group_is_one_job_and_computes_the_same(text: str) -> None:
    module = fused(text)
    (function,) = module.functions
    signature = make_signature(module, function)
    compiled = compile_function(function, signature, host_target())
    sizes = {dim.name: 5 for dim in signature.dims}
    arguments = random_arguments(signature, sizes)
    with last_chunk_first(compiled) as jobs:
        got = call(compiled, signature, arguments, sizes)
    assert jobs == [5 if sizes else 16]
    np.testing.assert_array_equal(got["y"], call(compiled, signature, arguments, sizes)["y"])
    expected = evaluate(function, arguments, sizes)["y"]
    np.testing.assert_allclose(got["y"], expected, rtol=1e-3, atol=1e-3)


def behind_a_product(then: str, result: str = MATRIX, *, more: str = "") -> str:
    """%y is what `then` makes of a product %a of %x, %w in four chunks of rows."""
    return f"""
func @f(%x: {MATRIX} input, %w: {MATRIX} input{more}) -> (y: {result}) {{
  %a = gemm %x, %w schedule {{parallel = "rows", chunk = 64}} : {MATRIX}
  {then}
  return %y
}}
"""


def add(first: str, second: str) -> str:
    return f"""%y = kernel {first}, {second} : {MATRIX} {{
  ^(%f: {MATRIX}, %g: {MATRIX}):
    %s = add %f, %g : {MATRIX}
    yield %s
  }}"""


def is_behind(text: str) -> bool:
    return chunks(fused(text, "fuse-chunks,plan-memory").functions[0])["y"][2]


def test_a_kernel_may_read_what_else_has_the_same_rows() -> None:
    assert is_behind(behind_a_product(add("%a", "%x")))
    assert is_behind(behind_a_product(add("%a", "%o"), more=f", %o: {MATRIX} input"))


def test_what_a_chunk_reads_all_of_is_read_so_alone() -> None:
    assert not is_behind(behind_a_product(add("%a", "%w")))
    turned = behind_a_product(add("%a", "%x")).replace(
        "%w schedule", "%w {transpose_a = true} schedule"
    )
    assert not is_behind(turned)


def test_what_reads_nothing_of_a_group_is_not_in_it() -> None:
    assert not is_behind(behind_a_product(add("%x", "%x")))


@pytest.mark.parametrize(
    "then",
    [
        f"%y = gemm %a, %w : {MATRIX}",
        f"%y = move.transpose %a {{permutation = [1, 0]}} : {MATRIX}",
        f"""%y = kernel %a : tensor<1x256xf32> {{
  ^(%f: {MATRIX}):
    %s = reduce_sum %f {{axes = [0]}} : tensor<1x256xf32>
    yield %s
  }}""",
    ],
    ids=["a product", "a transposition", "a sum over rows"],
)
def test_what_needs_all_rows_or_has_code_for_its_chunks_stays_alone(then: str) -> None:
    result = "tensor<1x256xf32>" if "reduce_sum" in then else MATRIX
    module = fused(behind_a_product(then, result), "fuse-chunks,plan-memory")
    assert not any(is_behind for *_, is_behind in chunks(module.functions[0]).values())


def test_columns_begin_no_group() -> None:
    assert not is_behind(behind_a_product(add("%a", "%x")).replace('"rows"', '"cols"'))


def test_an_update_is_behind_its_gradient_and_in_place() -> None:
    text = behind_a_product(
        add("%a", "%v"), f"{MATRIX} updates %v", more=f", %v: {MATRIX} parameter"
    )
    (function,) = fused(text, "fuse-chunks,plan-memory").functions
    assert chunks(function)["y"] == (0, 64, True)
    assert [op.opdef.name for op in function.block] == ["gemm", "kernel", "return"]
    # Chunks of the product read rows of %v before those of the same chunk are written.
    (function,) = fused(text.replace("gemm %x", "gemm %v"), "fuse-chunks,plan-memory").functions
    assert chunks(function)["y"] == (0, 64, True)
    assert [op.opdef.name for op in function.block] == ["gemm", "kernel", "return"]
    # A chunk of this one reads all of it.
    (function,) = fused(text.replace("%w schedule", "%v schedule")).functions
    assert not chunks(function)["y"][2]


def test_a_plan_that_shares_memory_between_chunks_is_found() -> None:
    (function,) = fused(
        behind_a_product(add("%a", "%b"), more=f", %o: {MATRIX} input").replace(
            "%a = gemm %x", f"%b = gemm %o, %o : {MATRIX}\n  %a = gemm %x"
        ),
        "fuse-chunks,plan-memory",
    ).functions
    assert check_plan(function) == []
    product = next(op for op in function.block if op.results[0].called == "a")
    other = next(op for op in function.block if op.results[0].called == "b")
    product.placement = other.placement
    assert check_plan(function)


def test_ranges_of_other_lengths_in_one_place_are_found() -> None:
    """Four columns at most: where a call has one, chunk 0 of %y has the memory of four of %a."""
    text = """dim N <= 8
dim M <= 4
func @f(%x: tensor<NxMxf32> input, %w: tensor<MxMxf32> input, %b: tensor<Nx4xf32> input)
    -> (z: tensor<NxMxf32>) {
  %a = gemm %x, %w schedule {parallel = "rows", chunk = 1} : tensor<NxMxf32>
  %y = kernel %a, %b schedule {parallel = 0, chunk = 1, behind = true} : tensor<Nx4xf32> {
  ^(%f: tensor<NxMxf32>, %g: tensor<Nx4xf32>):
    %s = reduce_sum %f {axes = [1]} : tensor<Nx1xf32>
    %v = broadcast %s {dims = [N, 4]} : tensor<Nx4xf32>
    %h = add %v, %g : tensor<Nx4xf32>
    yield %h
  }
  %z = kernel %x, %y : tensor<NxMxf32> {
  ^(%f: tensor<NxMxf32>, %g: tensor<Nx4xf32>):
    %s = reduce_sum %g {axes = [1]} : tensor<Nx1xf32>
    %v = broadcast %s {dims = [N, M]} : tensor<NxMxf32>
    %h = add %v, %f : tensor<NxMxf32>
    yield %h
  }
  return %z
}
"""
    (function,) = fused(text, "plan-memory").functions
    assert check_plan(function) == []
    first, second = list(function.block)[:2]
    second.placement = first.placement
    assert any("runs at the same time" in problem for problem in check_plan(function))


BAD = {
    "an operation before it": (
        f"func @f(%a: {MATRIX} input) -> (y: {MATRIX}) {{\n  {{}}\n  return %y\n}}",
        "an operation before it",
    ),
    "another operand": (behind_a_product("{}"), "an operand that those before it make"),
    "other chunks": (behind_a_product("{}"), "chunks of 64, got 32"),
    "a whole product": (
        behind_a_product("{}").replace(' schedule {parallel = "rows", chunk = 64}', ""),
        "chunks of the first operation that are ranges of its first places",
    ),
    "columns": (
        behind_a_product("{}"),
        "results that are made in ranges of their first places",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_schedules_by_hand_that_do_not_fit_are_one_error(name: str) -> None:
    text, wanted = BAD[name]
    operand = "%x" if name == "another operand" else "%a"
    axis, chunk = int(name == "columns"), 32 if name == "other chunks" else 64
    schedule = f"schedule {{parallel = {axis}, chunk = {chunk}, behind = true}}"
    kernel = add(operand, operand).replace(f" : {MATRIX} {{", f" {schedule} : {MATRIX} {{", 1)
    with pytest.raises(GraphcError) as caught:
        fused(text.replace("{}", kernel), "fuse-chunks")
    (diagnostic,) = caught.value.diagnostics
    assert diagnostic.slug == "bad-schedule"
    assert f"`behind` in the schedule of `kernel` requires {wanted}" in str(caught.value)


def test_a_planned_function_that_says_so_is_refused_by_the_backend() -> None:
    schedule = "schedule {parallel = 0, chunk = 32, behind = true}"
    kernel = add("%a", "%x").replace(f" : {MATRIX} {{", f" {schedule} : {MATRIX} {{", 1)
    module = fused(behind_a_product(kernel), "plan-memory")
    (function,) = module.functions
    with pytest.raises(GraphcError, match="chunks of 64, got 32"):
        compile_function(function, make_signature(module, function), host_target())


def test_nothing_is_before_the_first_operation() -> None:
    schedule = "schedule {parallel = 0, chunk = 64, behind = true}"
    kernel = add("%x", "%x").replace(f" : {MATRIX} {{", f" {schedule} : {MATRIX} {{", 1)
    text = f"func @f(%x: {MATRIX} input) -> (y: {MATRIX}) {{\n  {kernel}\n  return %y\n}}\n"
    module = fused(text, "plan-memory")
    with pytest.raises(GraphcError, match="requires an operation before it"):
        compile_function(
            module.functions[0], make_signature(module, module.functions[0]), host_target()
        )


IN_A_LOOP = """dim T <= 4
func @f(%x: tensor<Tx8x8xf32> input, %h: tensor<8x8xf32> input, %w: tensor<8x8xf32> input)
    -> (y: tensor<8x8xf32>) {
  %y = loop %w, %x, %h {count = T, sequences = 1, carried = 1} : tensor<8x8xf32> {
  ^(%v: tensor<8x8xf32>, %e: tensor<8x8xf32>, %c: tensor<8x8xf32>):
    %p = gemm %c, %v schedule {parallel = "rows", chunk = 2} : tensor<8x8xf32>
    %q = kernel %p, %e, %c schedule {parallel = 0, chunk = 2, behind = true} : tensor<8x8xf32> {
    ^(%a: tensor<8x8xf32>, %b: tensor<8x8xf32>, %d: tensor<8x8xf32>):
      %s = add %a, %b : tensor<8x8xf32>
      %u = add %s, %d : tensor<8x8xf32>
      %t = tanh %u : tensor<8x8xf32>
      yield %t
    }
    yield %q
  }
  return %y
}
"""


def test_in_a_loop_it_may_be_written_by_hand() -> None:
    """Rows of what is carried are read, and written over, by the same chunk."""
    module = fused(IN_A_LOOP, "fuse-chunks,plan-memory")
    (function,) = module.functions
    signature, sizes = make_signature(module, function), {"T": 4}
    compiled = compile_function(function, signature, host_target())
    arguments = random_arguments(signature, sizes)
    with last_chunk_first(compiled) as jobs:
        got = call(compiled, signature, arguments, sizes)
    assert jobs == [4] * 4
    np.testing.assert_allclose(got["y"], evaluate(function, arguments, sizes)["y"], atol=1e-5)


def test_in_a_loop_what_does_not_fit_is_refused_by_the_backend() -> None:
    text = IN_A_LOOP.replace("gemm %c, %v", "gemm %v, %c")
    module = fused(text, "fuse-chunks,plan-memory")
    (function,) = module.functions
    with pytest.raises(GraphcError, match="chunks that read what the same chunks before them"):
        compile_function(function, make_signature(module, function), host_target())


@pytest.mark.parametrize(
    "text", [IMAGES, ATTENTION, IN_A_LOOP], ids=["images", "attention", "loop"]
)
def test_who_is_cut_anew_is_behind_nobody(text: str) -> None:
    once = fused(text, "split-work,fuse-chunks")
    assert str(fused(str(once), "split-work,fuse-chunks")) == str(once)


def test_behind_says_chunks_too() -> None:
    text = behind_a_product(add("%a", "%x")).replace(
        f"%x : {MATRIX} {{", f"%x schedule {{behind = true}} : {MATRIX} {{", 1
    )
    with pytest.raises(GraphcError, match="a schedule with a chunk says what is cut"):
        fused(text, "plan-memory")
