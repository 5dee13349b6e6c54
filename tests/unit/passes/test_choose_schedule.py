"""Schedules that are chosen, kept, and refused where they do not fit."""

from __future__ import annotations

import pytest

from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.target import TARGETS
from graphc.backends.signature import make_signature
from graphc.ir.clone import clone_module
from graphc.ir.core import Module
from graphc.ir.machine import MACHINES
from graphc.ir.printer import print_module
from graphc.ops import default_context
from graphc.ops.kernel import GEMM
from graphc.ops.schedules import ProductSchedule
from graphc.passes import pipeline
from graphc.passes.choose_schedule import ChooseSchedule, choose_schedules
from graphc.passes.manager import PassManager
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse
from tests.support.random_functions import make_function
from tests.support.random_loops import make_loops
from tests.support.random_schedules import scheduled

PIPELINE = "fuse-patches,fuse-kernels,fuse-epilogues{least_bytes = 0},schedule-updates,split-work"
SEEDS = range(12)


def kernels_of(seed: int) -> Module:
    """A random function of products, kernels and moves, every fourth one with loops over steps, not
    planned yet."""
    module = clone_module((make_loops(seed) if seed % 4 == 0 else make_function(seed)).module)
    PassManager(pipeline(PIPELINE), verify=True).run(module, default_context())
    return module


def planned(module: Module) -> Module:
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    return module


def llvm_text(module: Module, isa: str) -> str:
    module = planned(clone_module(module))
    function = module.functions[0]
    return emit_function(function, make_signature(module, function), TARGETS[isa])


def test_the_functions_have_schedules_of_every_kind() -> None:
    kinds = {
        type(op.schedule).__name__ for s in SEEDS for op in scheduled(kernels_of(s).functions[0])
    }
    assert kinds == {"KernelSchedule", "ProductSchedule"}
    assert "loop" in str(kernels_of(0))


@pytest.mark.parametrize("isa", MACHINES)
def test_what_is_chosen_reads_back_and_stays(isa: str) -> None:
    for seed in SEEDS:
        module = kernels_of(seed)
        assert choose_schedules(module.functions[0], MACHINES[isa]) > 0
        text = print_module(module)
        again = parse(text)
        assert print_module(again) == text
        # No machine changes what is chosen.
        for machine in MACHINES.values():
            assert choose_schedules(again.functions[0], machine) == 0
        assert print_module(again) == text


@pytest.mark.parametrize("isa", MACHINES)
def test_the_backend_chooses_the_same_by_itself(isa: str) -> None:
    for seed in SEEDS:
        module, chosen = kernels_of(seed), kernels_of(seed)
        choose_schedules(chosen.functions[0], MACHINES[isa])
        assert llvm_text(parse(print_module(chosen)), isa) == llvm_text(module, isa)


def test_what_another_machine_would_choose_is_emitted() -> None:
    module = parse(product('{tile = {rows = 1, vectors = 1, lanes = 4, b = "in place"}}'))
    assert llvm_text(module, "x86-64-v4") != llvm_text(parse(product("")), "x86-64-v4")
    assert "<16 x float>" not in llvm_text(module, "x86-64-v4")


def test_the_pass_counts_what_was_not_complete() -> None:
    module = parse(product(""))
    counts = [
        record.counters["scheduled"]
        for _ in range(2)
        for record in PassManager([ChooseSchedule()]).run(module, default_context())
    ]
    assert counts == [1, 0]


TILE = "rows = 4, vectors = 2, lanes = 8"
LAST = "rows = 3, vectors = 2, lanes = 4"


@pytest.mark.parametrize(
    ("written", "tile_rows", "last_rows"),
    [("", 6, 6), (f", tile = {{{TILE}}}", 4, 6), (f", tile = {{{TILE}}}, last = {{{LAST}}}", 4, 3)],
)
def test_a_last_chunk_of_fewer_columns_has_a_tiling_chosen_or_written(
    written: str, tile_rows: int, last_rows: int
) -> None:
    module = parse(product(f'{{parallel = "cols", chunk = 32{written}}}'))
    choose_schedules(module.functions[0], MACHINES["x86-64-v3"])
    (schedule,) = (op.schedule for op in module.functions[0].block if op.opdef is GEMM)
    assert isinstance(schedule, ProductSchedule)
    assert schedule.tile is not None
    assert schedule.last is not None
    assert (schedule.tile.rows, schedule.last.rows) == (tile_rows, last_rows)
    assert schedule.last.lanes * schedule.last.vectors == 8


# --- what does not fit ---


def product(schedule: str, dims: str = "20 300 40", params: str = "") -> str:
    m, k, n = dims.split()
    a, b = (f"{k}x{m}", f"{k}x{n}") if "transpose_a" in params else (f"{m}x{k}", f"{k}x{n}")
    b = f"{n}x{k}" if "transpose_b" in params else b
    shown = f" schedule {schedule}" if schedule else ""
    return f"""dim N <= 64
func @f(%a: tensor<{a}xf32> input, %b: tensor<{b}xf32> input) -> (y: tensor<{m}x{n}xf32>) {{
  %y = gemm %a, %b{params}{shown} : tensor<{m}x{n}xf32>
  return %y
}}
"""


def refusal(text: str) -> tuple[str, int]:
    """What choose-schedule says of the function, and the line at which it does."""
    module = parse(text)
    with pytest.raises(GraphcError) as caught:
        choose_schedules(module.functions[0], MACHINES["x86-64-v3"])
    (found,) = caught.value.diagnostics
    assert found.slug == "bad-schedule"
    assert found.span is not None
    return found.message, found.span.line


@pytest.mark.parametrize(
    ("schedule", "params", "message"),
    [
        ("{few_rows = {%s}}", "", "a schedule of `gemm` requires `tile` here"),
        ("{tile = {%s}, few_rows = {%s}}", "", "a schedule of `gemm` has no `few_rows` here"),
        (
            '{parallel = "cols", chunk = 20, tile = {%s}, last = {%s}}',
            "",
            "a schedule of `gemm` has no `last` here",
        ),
        (
            '{parallel = "cols", chunk = 32, tile = {%s}, last = {%s}}',
            "",
            "`last` of `gemm` requires vectors that begin inside the 8 columns, got 2 of 8",
        ),
        (
            "{tile = {rows = 4, vectors = 6, lanes = 8}}",
            "",
            "`tile` of `gemm` requires vectors that begin inside the 40 columns, got 6 of 8",
        ),
        (
            "{tile = {rows = 80, vectors = 2, lanes = 32}}",
            "",
            "`tile` of `gemm` requires a tile of at most 16384 bytes, got 80 rows of 64 columns",
        ),
        (
            "{tile = {%s, depth = 100}}",
            "",
            "`tile` of `gemm` requires a depth of all 300 steps or a multiple of 256, got 100",
        ),
        (
            '{tile = {%s, b = "packed"}}',
            "",
            '`tile` of `gemm` requires b = "in place" or "packed by tiles" for a B that is stored '
            "by rows, got packed",
        ),
        (
            "{tile = {%s}}",
            " {transpose_b = true}",
            '`tile` of `gemm` requires b = "packed" or "transposed by tiles" for a transposed B, '
            "got in place",
        ),
        (
            '{tile = {%s, a = "packed", depth = 256, block = 8}}',
            "",
            "`tile` of `gemm` requires a depth, a block and an A that is stored by columns for "
            'a = "packed"',
        ),
        (
            '{tile = {%s, a = "packed", depth = 256}}',
            " {transpose_a = true}",
            "`tile` of `gemm` requires a depth, a block and an A that is stored by columns for "
            'a = "packed"',
        ),
        (
            "{tile = {%s, depth = 256, block = 6}}",
            "",
            "`tile` of `gemm` requires a block of whole tiles of 4 rows, got 6",
        ),
        (
            '{tile = {%s, b = "packed by tiles"}}',
            "",
            "`tile` of `gemm` requires a panel of 1 to 1048576 bytes, got depth 0 x 16 columns",
        ),
        (
            '{tile = {%s, b = "packed by tiles", depth = 65536}}',
            "",
            "`tile` of `gemm` requires a panel of 1 to 1048576 bytes, got depth 65536 x 16 columns",
        ),
        (
            '{tile = {%s, a = "packed", depth = 512, block = 512}}',
            " {transpose_a = true}",
            "`tile` of `gemm` requires a packed block of at most 524288 bytes, got 512 rows x "
            "depth 512",
        ),
    ],
)
def test_a_tiling_that_does_not_fit_is_refused_at_its_line(
    schedule: str, params: str, message: str
) -> None:
    assert refusal(product(schedule.replace("%s", TILE), params=params)) == (message, 3)


def test_few_rows_have_a_tiling_where_only_the_call_knows_them() -> None:
    schedule = f"{{tile = {{{TILE}}}}}"
    message, _ = refusal(product(schedule, "N 600 40"))
    assert message == "a schedule of `gemm` requires `few_rows` here"
    schedule = f"{{tile = {{{TILE}}}, few_rows = {{{TILE}, depth = 3}}}}"
    message, _ = refusal(product(schedule, "N 600 40"))
    assert message.startswith("`few_rows` of `gemm` requires a depth of all 600 steps")


def kernel(nest: str, body: str = "neg", dims: str = "3x5") -> str:
    bodies = {
        "neg": ("%y = neg %x : tensor<DIMSxf32>", "tensor<DIMSxf32>"),
        "less": ("%y = less %x, %x : tensor<DIMSxi1>", "tensor<DIMSxi1>"),
        "sum": ("%y = reduce_sum %x {axes = [1]} : tensor<3x1xf32>", "tensor<3x1xf32>"),
    }
    line, result = (text.replace("DIMS", dims) for text in bodies[body])
    return f"""func @f(%a: tensor<{dims}xf32> input) -> (y: {result}) {{
  %r = kernel %a schedule {{nests = [{nest}]}} : {result} {{
  ^(%x: tensor<{dims}xf32>):
    {line}
    yield %y
  }}
  return %r
}}
"""


LOOPS = "loops = [[0, 1]]"


@pytest.mark.parametrize(
    ("nest", "body", "message"),
    [
        ("{%s}, {%s}", "neg", "1 nests, got 2"),
        (
            "{loops = [[1], [0]]}",
            "neg",
            "loops [[0, 1]] or these taken apart where nothing is folded, got [[1], [0]]",
        ),
        (
            "{loops = [[1, 0]]}",
            "neg",
            "loops [[0, 1]] or these taken apart where nothing is folded, got [[1, 0]]",
        ),
        (
            "{loops = [[0]]}",
            "neg",
            "loops [[0, 1]] or these taken apart where nothing is folded, got [[0]]",
        ),
        (
            "{loops = [[0, 1], []]}",
            "neg",
            "loops [[0, 1]] or these taken apart where nothing is folded, got [[0, 1], []]",
        ),
        (
            "{%s}",
            "sum",
            "loops [[0], [1]] or these taken apart where nothing is folded, got [[0, 1]]",
        ),
        (
            '{%s, lanes = 8, tail = "masked"}',
            "less",
            'tail = "scalar" for a nest that moves elements of one or two bytes',
        ),
        (
            "{%s, lanes = 8, prefetch = true}",
            "neg",
            "prefetch = false for rows that are swept once, or are too long",
        ),
        ("{%s, lanes = 8, vectors = 3}", "neg", "vectors that are a power of two, got 3"),
        ("{%s, lanes = 8, keep = [7]}", "neg", "kept operations that have lanes, got 7"),
    ],
)
def test_a_nest_that_does_not_fit_is_refused_at_its_line(
    nest: str, body: str, message: str
) -> None:
    text = kernel(nest.replace("%s", LOOPS), body)
    assert refusal(text) == (f"the schedule of `kernel` requires {message}", 2)


def test_a_nest_of_one_element_has_one_lane() -> None:
    message, _ = refusal(kernel("{lanes = 4}", dims="1x1"))
    assert message == "the schedule of `kernel` requires lanes = 1 for a nest of one element, got 4"


def test_rows_that_are_kept_have_to_find_room() -> None:
    text = """func @f(%a: tensor<3x9000xf32> input) -> (y: tensor<3x1xf32>) {
  %r = kernel %a schedule {nests = [{loops = [[0], [1]], lanes = 8, keep = [0]}]} :
      tensor<3x1xf32> {
  ^(%x: tensor<3x9000xf32>):
    %e = exp %x : tensor<3x9000xf32>
    %s = reduce_sum %e {axes = [1]} : tensor<3x1xf32>
    %b = broadcast %s {dims = [3, 9000]} : tensor<3x9000xf32>
    %d = div %e, %b : tensor<3x9000xf32>
    %m = reduce_max %d {axes = [1]} : tensor<3x1xf32>
    yield %m
  }
  return %r
}
"""
    message, line = refusal(text)
    assert line == 2
    assert message == (
        "the schedule of `kernel` requires kept rows of at most 16384 bytes, 32768 in all, "
        "got 36000 for operation 0"
    )


def test_a_body_that_does_not_fit_is_refused_where_code_is_written_too() -> None:
    module = parse("""func @f(%a: tensor<64x32xf32> input, %b: tensor<32x48xf32> input)
    -> (y: tensor<64x48xf32>) arena 0 {
  %y = gemm.fused %a, %b schedule {parallel = "rows", chunk = 16,
      body = {loops = [[0], [1]], lanes = 8, vectors = 3}} at result:0 : tensor<64x48xf32> {
  ^(%p: tensor<64x48xf32>):
    %n = neg %p : tensor<64x48xf32>
    yield %n
  }
  return %y
}
""")
    function = module.functions[0]
    with pytest.raises(
        GraphcError, match=r"`gemm\.fused` requires vectors that are a power of two"
    ):
        emit_function(function, make_signature(module, function), TARGETS["x86-64-v3"])


def test_a_body_without_chunks_is_for_gpus_only() -> None:
    module = parse("""func @f(%a: tensor<64x32xf32> input, %b: tensor<32x48xf32> input)
    -> (y: tensor<64x48xf32>) arena 0 {
  %y = gemm.fused %a, %b at result:0 : tensor<64x48xf32> {
  ^(%p: tensor<64x48xf32>):
    %n = neg %p : tensor<64x48xf32>
    yield %n
  }
  return %y
}
""")
    function = module.functions[0]
    with pytest.raises(GraphcError, match="on a processor requires chunks to be made in"):
        emit_function(function, make_signature(module, function), TARGETS["x86-64-v3"])
