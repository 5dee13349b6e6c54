"""Products of pairs of bf16 in chunks, whose factors are copied whole before: by dot products, and
in the registers of AMX, by an emulation and by a processor that has them.

The judge is numpy, as in `test_amx.py`.
"""

from __future__ import annotations

import ctypes
import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import load_function
from graphc.backends.llvm.target import SAPPHIRE_RAPIDS, host_target
from graphc.backends.llvm.text import Module as Text
from graphc.backends.loops.prepacking import emit_prepacked, whole_copies
from graphc.backends.loops.values import I64, PTR, Val
from graphc.backends.signature import make_signature
from graphc.ir.core import Function, Module, Operation
from graphc.ir.machine import Machine
from graphc.ir.printer import print_module
from graphc.ops import default_context
from graphc.ops.schedules import ProductSchedule
from graphc.passes import pipeline
from graphc.passes.analysis.product_schedules import product_schedule
from graphc.passes.choose_schedule import ChooseSchedule
from graphc.passes.manager import PassManager
from graphc.passes.pack_parameters import PackParameters
from graphc.runtime.layouts import in_pairs, in_panels
from graphc.support.diagnostics import GraphcError
from tests.support.amx import Amx
from tests.support.compiling import call, parse
from tests.support.guarded_memory import SIDES, GuardedMemory
from tests.unit.backends.llvm.test_amx import (
    LAYOUT_IDS,
    LAYOUTS,
    NEEDS_DOTS,
    RUNNING,
    chained,
    numbers,
)
from tests.unit.backends.llvm.test_bf16_products import DOTS, in_bf16
from tests.unit.backends.llvm.test_bf16_products import chained as chained_by_dots

Array = np.ndarray
NEEDS_AMX = pytest.mark.skipif(
    not host_target().machine.has_amx, reason="this machine has no registers of AMX"
)
FEW_ROWS, ROWS = 90, 300
"""Bounds: chunks of columns stay such; they become chunks of rows."""

AMX = SAPPHIRE_RAPIDS.machine
ON_EACH = pytest.mark.parametrize("machine", [AMX, DOTS], ids=["amx", "dots"])


def product_text(dims: tuple[int, int], layout: tuple[bool, bool], bound: int) -> str:
    """y = op(A) op(B) of N rows; N is known only to the call."""
    n, k = dims
    a, b = (f"{k}xN" if layout[0] else f"Nx{k}"), (f"{n}x{k}" if layout[1] else f"{k}x{n}")
    settings = f"transpose_a = {str(layout[0]).lower()}, transpose_b = {str(layout[1]).lower()}"
    return f"""
dim N <= {bound}
func @f(%a: tensor<{a}xf32> input, %b: tensor<{b}xf32> input
       ) -> (y: tensor<Nx{n}xf32>) contraction bf16 {{
  %y = gemm %a, %b {{{settings}}} schedule {{parallel = "cols", chunk = 64}} : tensor<Nx{n}xf32>
  return %y
}}
"""


GRADIENT = """
dim N <= 300
func @f(%a: tensor<Nx90xf32> input, %b: tensor<Nx172xf32> input
       ) -> (y: tensor<90x172xf32>) contraction bf16 {
  %y = gemm %a, %b {transpose_a = true} schedule {parallel = "rows", chunk = 32}
      : tensor<90x172xf32>
  return %y
}
"""
"""A sum of N steps."""

WITH_SUMS = """
dim N <= 300
func @f(%a: tensor<Nx70xf32> input, %b: tensor<70x172xf32> input
       ) -> (y: tensor<Nx172xf32>, s: tensor<1x172xf32>) contraction bf16 {
  %y, %s = gemm.fused %a, %b schedule {parallel = "cols", chunk = 64}
      : tensor<Nx172xf32>, tensor<1x172xf32> {
    ^(%p: tensor<Nx172xf32>):
      %0 = mul %p, %p : tensor<Nx172xf32>
      %1 = reduce_sum %p {axes = [0]} : tensor<1x172xf32>
      yield %0, %1
  }
  return %y, %s
}
"""
"""A body that sums over the rows: chunks stay columns."""

WITH_BODY = WITH_SUMS.replace("%y, %s", "%y").replace(", s: tensor<1x172xf32>", "")
WITH_BODY = WITH_BODY.replace(", tensor<1x172xf32>", "").replace("yield %0, %1", "yield %0")
WITH_BODY = WITH_BODY.replace("      %1 = reduce_sum %p {axes = [0]} : tensor<1x172xf32>\n", "")


def planned(text: str, machine: Machine = AMX) -> tuple[Module, ProductSchedule]:
    module = parse(text)
    passes = [ChooseSchedule(machine), *pipeline("plan-memory")]
    PassManager(passes, verify=True).run(module, default_context())
    assert print_module(parse(print_module(module))) == print_module(module)
    return module, product(module.functions[0]).schedule_as(ProductSchedule)


def product(function: Function) -> Operation:
    return next(op for op in function.block if isinstance(op.schedule, ProductSchedule))


def run(
    module: Module, given: dict[str, Array], rows: int, *, threads: int = 1, emulated: bool = True
) -> dict[str, Array]:
    """Several threads only with registers of their own."""
    function = module.functions[0]
    signature = make_signature(module, function)
    text, registers = emit_function(function, signature, RUNNING), Amx()
    if emulated:
        text = registers.emulated(text)
    loaded = load_function(engine.object_code(text, RUNNING), signature, RUNNING)
    loaded.threads = threads
    found = call(loaded, signature, given, {"N": rows})
    assert registers.problems == []
    return found


def stored(x: Array, *, transposed: bool) -> Array:
    return np.ascontiguousarray(x.T if transposed else x)


# --- bits ---


def exact(machine: Machine, a: Array, b: Array) -> Array:
    """A B, by sums in the order of the machine's instructions."""
    return chained(a, b) if machine.has_amx else chained_by_dots(in_bf16(a), in_bf16(b))


@NEEDS_DOTS
@ON_EACH
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(
    ("dims", "bound", "rows"),
    [
        ((172, 70), FEW_ROWS, (0, 1, 90)),
        ((192, 33), FEW_ROWS, (40,)),
        ((172, 70), ROWS, (0, 1, 300)),
        ((183, 129), ROWS, (45, 97)),
    ],
    ids=str,
)
def test_chunks_read_copies_of_whole_factors(
    dims: tuple[int, int],
    bound: int,
    rows: tuple[int, ...],
    layout: tuple[bool, bool],
    machine: Machine,
) -> None:
    module, schedule = planned(product_text(dims, layout, bound), machine)
    by_rows = bound == ROWS
    assert schedule.tile is not None and schedule.amx == machine.has_amx
    assert (schedule.parallel, schedule.tile.b) == ("rows" if by_rows else "cols", "prepacked")
    assert schedule.tile.a == ("packed" if by_rows else "prepacked")
    assert len(product(module.functions[0]).workspace) == (1 if by_rows else 2)
    n, k = dims
    for count in rows:
        a, b = numbers((count, n, k))
        given = {"a": stored(a, transposed=layout[0]), "b": stored(b, transposed=layout[1])}
        np.testing.assert_array_equal(run(module, given, count)["y"], exact(machine, a, b))


@NEEDS_DOTS
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_chunks_of_columns_copy_their_own_of_a_far_b(layout: tuple[bool, bool]) -> None:
    far = replace(DOTS, l1=16384, l2=16384)
    module, schedule = planned(product_text((183, 129), layout, FEW_ROWS), far)
    tilings = (schedule.tile, schedule.few_rows, schedule.last)
    made = {(t.a, t.b) for t in tilings if t is not None}
    way = "packed" if layout[0] else "prepacked"
    assert made <= {(way, "packed"), (way, "in place")}
    assert schedule.parallel == "cols"
    assert len(product(module.functions[0]).workspace) == (0 if layout[0] else 1)
    for rows in (0, 1, 2, 90):
        a, b = numbers((rows, 183, 129))
        given = {"a": stored(a, transposed=layout[0]), "b": stored(b, transposed=layout[1])}
        np.testing.assert_array_equal(run(module, given, rows)["y"], exact(far, a, b))


@NEEDS_DOTS
@pytest.mark.parametrize("kind", ["input", "parameter"])
@pytest.mark.parametrize(("columns", "steps"), [(160, 1536), (183, 1030), (224, 1100)])
def test_few_rows_read_each_panel_once_where_sums_are_cut(
    columns: int, steps: int, kind: str
) -> None:
    """Two tiles of several panels each would add the same columns' sums twice."""
    text = product_text((columns, steps), (False, False), 600)
    module = parse(text.replace(f"{steps}x{columns}xf32> input", f"{steps}x{columns}xf32> {kind}"))
    passes = [ChooseSchedule(DOTS), PackParameters(DOTS), *pipeline("plan-memory")]
    PassManager(passes, verify=True).run(module, default_context())
    few = product(module.functions[0]).schedule_as(ProductSchedule).few_rows
    assert few is not None and few.b == ("panels" if kind == "parameter" else "prepacked")
    for rows in (1, 2, 3):
        a, b = numbers((rows, columns, steps))
        panels = {"b.panels.32.pairs": in_pairs(in_panels(b, 32))}
        given = {"a": a, **({"b": b} if kind == "input" else panels)}
        np.testing.assert_array_equal(run(module, given, rows)["y"], exact(DOTS, a, b))


@NEEDS_DOTS
@pytest.mark.parametrize("bound", [32, 64, 90, 256])
def test_a_transposed_factor_of_rows_that_only_the_call_knows(bound: int) -> None:
    """With a B whose copy would leave the near cache."""
    module, schedule = planned(product_text((2048, 1024), (True, False), bound), DOTS)
    assert schedule.tile is not None and schedule.tile.a == "packed"
    a, b = numbers((3, 2048, 1024))
    given = {"a": stored(a, transposed=True), "b": b}
    np.testing.assert_array_equal(run(module, given, 3)["y"], exact(DOTS, a, b))


@NEEDS_DOTS
@pytest.mark.parametrize("columns", [100, 128, 150])
def test_what_is_not_written_of_a_copy_fits_what_is(columns: int) -> None:
    """A last chunk that is shorter reads the same copy of A; one chunk alone copies nothing."""
    tile = 'rows = 12, vectors = 2, lanes = 16, depth = 80, block = 96, a = "prepacked"'
    text = product_text((columns, 70), (False, False), FEW_ROWS).replace("Nx", "90x")
    written = text.replace(
        "chunk = 64", f'chunk = 64, tile = {{{tile}, b = "packed"}}, pairs = true'
    )
    a, b = numbers((90, columns, 70))
    for changed in (written, text.replace("chunk = 64", f"chunk = {columns + 28}")):
        module, _ = planned(changed, DOTS)
        found = run(module, {"a": a, "b": b}, 90)["y"]
        np.testing.assert_array_equal(found, exact(DOTS, a, b))


@NEEDS_DOTS
@ON_EACH
@pytest.mark.parametrize("steps", [0, 1, 33, 300])
def test_only_the_call_knows_how_many_steps_a_copy_has(steps: int, machine: Machine) -> None:
    module, schedule = planned(GRADIENT, machine)
    assert schedule.tile is not None
    assert (schedule.parallel, schedule.chunk, schedule.tile.b) == ("rows", 32, "prepacked")
    a, b = numbers((90, 172, steps))
    given = {"a": stored(a, transposed=True), "b": b}
    np.testing.assert_array_equal(run(module, given, steps)["y"], exact(machine, a, b))


@NEEDS_DOTS
@ON_EACH
@pytest.mark.parametrize("text", [WITH_SUMS, WITH_BODY], ids=["sums", "body"])
@pytest.mark.parametrize("rows", [1, 300])
def test_bodies_follow_products_of_copies(text: str, rows: int, machine: Machine) -> None:
    module, schedule = planned(text, machine)
    assert schedule.parallel == ("cols" if text is WITH_SUMS else "rows")
    a, b = numbers((rows, 172, 70))
    found, y = run(module, {"a": a, "b": b}, rows), exact(machine, a, b)
    np.testing.assert_array_equal(found["y"], np.float32(y) * np.float32(y))
    if text is WITH_SUMS:
        np.testing.assert_allclose(found["s"], y.sum(axis=0, keepdims=True), atol=1e-3)


@NEEDS_DOTS
@ON_EACH
def test_a_copy_of_a_is_multiplied_with_frozen_panels(machine: Machine) -> None:
    text = product_text((172, 70), (False, False), FEW_ROWS).replace(
        "70x172xf32> input", "70x172xf32> parameter"
    )
    module = parse(text)
    passes = [ChooseSchedule(machine), PackParameters(machine), *pipeline("plan-memory")]
    PassManager(passes, verify=True).run(module, default_context())
    tile = product(module.functions[0]).schedule_as(ProductSchedule).tile
    assert tile is not None and (tile.a, tile.b) == ("prepacked", "panels")
    for rows in (1, 90):
        a, b = numbers((rows, 172, 70))
        given = {"a": a, "b.panels.32.pairs": in_pairs(in_panels(b, 32))}
        np.testing.assert_array_equal(run(module, given, rows)["y"], exact(machine, a, b))


@NEEDS_AMX
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "text",
    [
        WITH_SUMS,
        WITH_BODY,
        product_text((172, 70), (False, False), FEW_ROWS),
        product_text((172, 70), (False, False), ROWS),
    ],
    ids=["sums", "body", "columns", "rows"],
)
def test_a_processor_gives_the_bits_of_the_emulation(text: str, threads: int) -> None:
    module, _ = planned(text)
    a, b = numbers((77, 172, 70))
    given = {"a": a, "b": b}
    wanted = run(module, given, 77)
    found = run(module, given, 77, threads=threads, emulated=False)
    for name, array in wanted.items():
        np.testing.assert_array_equal(found[name], array)


# --- memory ---


@NEEDS_DOTS
@ON_EACH
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("dims", [(172, 70), (183, 129), (64, 96)], ids=str)
def test_copies_touch_nothing_outside(
    dims: tuple[int, int], layout: tuple[bool, bool], machine: Machine
) -> None:
    module, _ = planned(product_text(dims, layout, FEW_ROWS), machine)
    op, machine = product(module.functions[0]), RUNNING.machine
    n, k = dims
    for copy, array in zip(whole_copies(op), op.workspace, strict=True):
        text = Text(RUNNING.triple)
        name = emit_prepacked(text, machine, copy)
        sizes = [Val(f"%d{i}", I64) for i in range(len(copy.symbols()))]
        code = text.body()
        given = [Val("%a", PTR), Val("%b", PTR), *sizes, Val("%begin", I64), Val("%end", I64)]
        code.invoke(name, given)
        code.leave()
        go = text.add("go", given, code)
        made = text.text().replace(f"define internal void {go}(", "define void @go(")
        loaded = engine.load(engine.object_code(made, RUNNING), ["go"], RUNNING)
        types = [ctypes.c_void_p] * 2 + [ctypes.c_int64] * (len(given) - 2)
        function = engine.function(loaded, "go", None, *types)
        for side, rows in itertools.product(SIDES, (1, FEW_ROWS)):
            memory = GuardedMemory(side)
            factor = numbers((rows, n, k))[copy.operand]
            _, x = memory.like(stored(factor, transposed=layout[copy.operand]))
            _, goal = memory.like(np.zeros(array.type.bound_elements, np.int32))
            extent = rows if copy.operand == 0 else copy.chunking.extent.factor
            for begin in range(0, extent, copy.chunking.length):
                end = min(begin + copy.chunking.length, extent)
                function(x.ctypes.data, goal.ctypes.data, *([rows] * len(sizes)), begin, end)
            assert memory.problems() == []
            memory.close()


# --- schedules ---


@pytest.mark.parametrize(
    ("bound", "change", "message"),
    [
        (FEW_ROWS, ("chunk = 64", "chunk = 80"), "chunks of whole panels of 32 columns, got 80"),
        (ROWS, ('parallel = "rows", chunk = 64, ', ""), "requires chunks of rows or columns"),
        (
            FEW_ROWS,
            ('"prepacked", b = "prepacked"}, p', '"packed", b = "prepacked"}, p'),
            "of none",
        ),
        (ROWS, ("x172x", "x20x"), "vectors that begin inside|32 columns or more for panels"),
    ],
    ids=["chunk", "whole", "a", "narrow"],
)
def test_copies_that_do_not_fit_are_told_what_is_required(
    bound: int, change: tuple[str, str], message: str
) -> None:
    module = parse(product_text((172, 70), (False, False), bound))
    PassManager([ChooseSchedule(AMX)]).run(module, default_context())
    text = print_module(module)
    changed = text.replace(*change)
    assert changed != text
    with pytest.raises(GraphcError, match=message):
        product_schedule(product(parse(changed).functions[0]))


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (8, "tiles that fill 160 columns for sums in several depths, got 128"),
        (12, "a tile in the 160 columns of whole panels, got 192"),
    ],
)
def test_tiles_of_several_panels_have_to_fit(vectors: int, message: str) -> None:
    module, _ = planned(product_text((183, 1030), (False, False), 600), DOTS)
    text = print_module(module)
    changed = re.sub(r"(few_rows = \{rows = 2, vectors = )\d+", rf"\g<1>{vectors}", text)
    assert changed != text
    with pytest.raises(GraphcError, match=message):
        product_schedule(product(parse(changed).functions[0]))
