"""Products in the registers of AMX, by an emulation of these: bits, memory, what is executed.

The judge is numpy: both factors rounded to bf16, products exact, 32 steps of k at a time.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from graphc.backends import BACKENDS
from graphc.backends.abi import AMX_STATUS
from graphc.backends.base import EmitRequest
from graphc.backends.llvm import engine
from graphc.backends.llvm.artifact import emit_artifact
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import load_function
from graphc.backends.llvm.target import SAPPHIRE_RAPIDS, host_target
from graphc.backends.loops.gemm import Product
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.ir.printer import print_module
from graphc.ops import default_context
from graphc.ops.schedules import Tiling
from graphc.passes.analysis.product_schedules import misfit
from graphc.passes.analysis.product_tiles import choose_tiling
from graphc.passes.manager import PassManager
from graphc.runtime.layouts import in_pairs, in_panels
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError, InternalError
from tests.support.amx import Amx
from tests.support.compiling import call, parse
from tests.support.guarded_memory import SIDES, GuardedMemory, Side
from tests.support.products import compile_text, product_of, product_text

Array = np.ndarray
LAYOUTS = list(itertools.product((False, True), (False, True)))
LAYOUT_IDS = ["nn", "nt", "tn", "tt"]
NEEDS_DOTS = pytest.mark.skipif(
    not host_target().machine.dots_bf16,
    reason="this machine has no conversion to bf16, which copies of factors are made by",
)
RUNNING = replace(host_target(), machine=SAPPHIRE_RAPIDS.machine)
"""This machine, with registers that are emulated."""


def in_bf16(x: Array) -> Array:
    """By the fraction's bits in f64: for numbers that are neither tiny nor large."""
    fraction, exponent = np.frexp(x.astype(np.float64))
    return np.ldexp(np.rint(fraction * 256) / 256, exponent)


def f32(x: Array) -> Array:
    return x.astype(np.float32).astype(np.float64)


def chained(a: Array, b: Array) -> Array:
    """Sums of 32 steps, even and odd ones apart, one after the other."""
    a, b = in_bf16(a), in_bf16(b)
    total = np.zeros((a.shape[0], b.shape[1]))
    for begin in range(0, a.shape[1], 32):
        halves = [np.zeros_like(total), np.zeros_like(total)]
        for step in range(begin, min(begin + 32, a.shape[1])):
            halves[step % 2] = f32(halves[step % 2] + np.outer(a[:, step], b[step]))
        total = f32(total + f32(halves[0] + halves[1]))
    return total


def amx(product: Product) -> Product:
    return replace(product, pairs=True, amx=True)


def numbers(dims: tuple[int, int, int]) -> tuple[Array, Array]:
    m, n, k = dims
    rng = np.random.default_rng(m + 7 * n + 11 * k)
    return rng.standard_normal((m, k)).astype("f4"), rng.standard_normal((k, n)).astype("f4")


def run(
    product: Product,
    a: Array,
    b: Array,
    sizes: Mapping[str, int],
    *,
    side: Side = "end",
    parts: tuple[tuple[int, int], ...] = (),
    registers: Amx | None = None,
) -> Array:
    """Of arrays as they lie in memory, between pages that nobody may touch."""
    registers = registers or Amx()
    text = registers.emulated(product_text(product, RUNNING))
    compiled = compile_text(product, text, RUNNING)
    memory = GuardedMemory(side)
    (_, left), (_, right) = (memory.like(np.ascontiguousarray(x)) for x in (a, b))
    left[:], right[:] = a, b
    rows, cols = (
        s.factor if not s.symbols else sizes[s.symbols[0]] for s in (product.m, product.n)
    )
    buffer, c = memory.like(np.zeros((rows, cols), np.float32))
    c[:] = np.nan
    for part in parts or (None,):
        compiled.run(left.ctypes.data, right.ctypes.data, c.ctypes.data, sizes, part)
    assert registers.problems == []
    assert registers.registers == [], "configured registers were left behind"
    assert memory.problems() == []
    result = c.copy()
    del buffer
    memory.close()
    return result


def stored(a: Array, b: Array, layout: tuple[bool, bool]) -> tuple[Array, Array]:
    left, right = (x.T if t else x for x, t in zip((a, b), layout, strict=True))
    return np.ascontiguousarray(left), np.ascontiguousarray(right)


# --- bits ---


@NEEDS_DOTS
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(
    ("dims", "known"),
    [
        ((1, 1, 1), "MNK"),
        ((13, 3, 9), "MNK"),
        ((40, 1, 31), "MNK"),
        ((33, 53, 321), "MNK"),
        ((4, 48, 0), "MNK"),
        ((64, 64, 64), "MNK"),
        ((3, 70, 70), "NK"),
        ((47, 20, 45), "M"),
        ((50, 33, 33), ""),
    ],
    ids=str,
)
def test_sums_are_what_numpy_makes_of_rounded_factors(
    dims: tuple[int, int, int], known: str, layout: tuple[bool, bool]
) -> None:
    a, b = numbers(dims)
    given = tuple(n if s in known else s for s, n in zip("MNK", dims, strict=True))
    product = amx(product_of(given, layout))  # type: ignore[arg-type]  # three
    side = SIDES[sum(dims) % 2]
    got = run(product, *stored(a, b, layout), dict(zip("MNK", dims, strict=True)), side=side)
    exact = in_bf16(a) @ in_bf16(b)
    slack = (20 + dims[2] / 32) * 2.0**-24 * (abs(in_bf16(a)) @ abs(in_bf16(b)))
    assert (np.abs(got - exact) <= slack).all()
    np.testing.assert_array_equal(got, chained(a, b))


@NEEDS_DOTS
def test_bits_depend_neither_on_other_rows_nor_on_cuts() -> None:
    dims = (40, 52, 300)
    a, b = numbers(dims)
    whole = chained(a, b)
    product = amx(product_of(("M", 52, 300), (False, False)))
    for rows in (1, 16, 31):
        np.testing.assert_array_equal(run(product, a[:rows], b, {"M": rows}), whole[:rows])
    fixed = amx(product_of(dims, (False, False)))
    cut = replace(fixed, split="cols", part=32)
    np.testing.assert_array_equal(run(cut, a, b, {}, parts=((32, 52), (0, 32))), whole)
    cut = replace(fixed, split="rows", part=32)
    np.testing.assert_array_equal(run(cut, a, b, {}, parts=((0, 32), (32, 40))), whole)


@NEEDS_DOTS
@pytest.mark.parametrize("width", [10, 52])
def test_sums_go_on_from_what_c_holds(width: int) -> None:
    """A depth of 256 steps and blocks of 32 rows."""
    dims = (40, width, 300)
    a, b = numbers(dims)
    lanes, vectors = (8, 2) if width < 16 else (16, 2)
    tile = Tiling(32, vectors, lanes, 256, 32, a="packed", b="packed")
    for layout in LAYOUTS[::3]:
        product = replace(amx(product_of(dims, layout)), tile=tile)
        np.testing.assert_array_equal(run(product, *stored(a, b, layout), {}), chained(a, b))


@NEEDS_DOTS
def test_frozen_factors_lie_in_panels() -> None:
    a, b = numbers((40, 70, 45))
    panels = in_pairs(in_panels(b, 32))
    tile = Tiling(32, 2, 16, 48, 64, a="packed", b="panels")
    product = amx(product_of(("M", 70, 45), (False, False)))
    product = replace(product, panel=32, tile=tile, most_m=64)
    np.testing.assert_array_equal(run(product, a, panels, {"M": 40}), chained(a, b))


@NEEDS_DOTS
def test_what_is_no_number_stays_where_it_belongs() -> None:
    a, b = np.ones((17, 3), "f4"), np.ones((3, 20), "f4")
    a[0, 2], b[1, 4], b[2, 5] = np.nan, np.inf, 3.4e38
    got = run(amx(product_of((17, 20, 3), (False, False))), a, b, {})
    assert np.isnan(got[0]).all()
    assert np.isinf(got[1:, [4, 5]]).all()
    assert (np.delete(got[1:], [4, 5], axis=1) == 3).all()


# --- what is executed ---


@NEEDS_DOTS
def test_every_register_is_configured_once_a_call_and_all_are_used() -> None:
    a, b = numbers((64, 64, 64))
    registers = Amx()
    run(amx(product_of((64, 64, 64), (False, False))), a, b, {}, registers=registers)
    # Four tiles of two by two registers, two steps of 32 each.
    assert registers.calls == {
        "ldtilecfg": 1,
        "tilezero": 16,
        "tileloadd64": 32,
        "tdpbf16ps": 32,
        "tilestored64": 16,
        "tilerelease": 1,
    }
    assert (registers.rows[:8], registers.row_bytes[:8]) == ([16] * 8, [64] * 8)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_machine_code_has_the_instructions_and_their_configuration(
    layout: tuple[bool, bool],
) -> None:
    product = product_of((64, 96, 101), layout)
    text = engine.assembly(product_text(amx(product), SAPPHIRE_RAPIDS), SAPPHIRE_RAPIDS)
    names = ("ldtilecfg", "tilezero", "tileloadd", "tdpbf16ps", "tilestored", "tilerelease")
    for name in names:
        assert re.search(rf"\b{name}\b", text), name
    dots = re.findall(r"tdpbf16ps\s+%tmm(\d), %tmm(\d), %tmm(\d)", text)
    assert {(int(c), int(a), int(b)) for b, a, c in dots} == {
        (2 * i + j, 4 + i, 6 + j) for i in (0, 1) for j in (0, 1)
    }
    assert "vdpbf16ps" not in text and not re.search(r"\bvfmadd\w+ps\b", text)
    shape = [1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8]
    assert bytes(shape) == _configuration(product_text(amx(product), SAPPHIRE_RAPIDS))


STEP = """
dim N <= 40
func @f(%x: tensor<Nx70xf32> input, %v: tensor<Nx33xf32> input, %W: tensor<70x33xf32> parameter
       ) -> (y: tensor<Nx33xf32>, g: tensor<70x33xf32>) contraction bf16 {
  %0 = matmul %x, %W : tensor<Nx33xf32>
  %y = mul %0, %v : tensor<Nx33xf32>
  %g = matmul %x, %v {transpose_a = true} : tensor<70x33xf32>
  return %y, %g
}
"""


def step(*, freeze: bool) -> tuple[str, Signature]:
    """LLVM IR of a forward and a backward product."""
    module, machine = parse(STEP), SAPPHIRE_RAPIDS.machine
    passes = [*pipelines.rounding("bf16"), *pipelines.early_parts("rest", (), freeze=freeze)]
    passes += pipelines.kernels(machine, freeze=freeze)
    PassManager(passes, verify=True).run(module, default_context())
    assert "amx = true" in print_module(module)
    assert print_module(parse(print_module(module))) == print_module(module)
    signature = make_signature(module, module.functions[0])
    return emit_function(module.functions[0], signature, RUNNING), signature


@NEEDS_DOTS
@pytest.mark.parametrize("freeze", [False, True])
def test_a_function_asks_the_system_once_a_call(freeze: bool) -> None:
    text, signature = step(freeze=freeze)
    registers = Amx()
    code = engine.object_code(registers.emulated(text), RUNNING)
    function = load_function(code, signature, RUNNING)
    (x, w), v = numbers((40, 33, 70)), numbers((40, 33, 5))[0] @ numbers((40, 33, 5))[1]
    given: dict[str, Array] = {"x": x, "v": v}
    bound = next(a for a in signature.arguments if a.role == "parameter")
    given[bound.name] = in_pairs(in_panels(w, bound.panel)) if freeze else w
    assert bound.pairs == freeze
    found = call(function, signature, given, {"N": 40})
    assert (registers.problems, registers.calls["arch_prctl"]) == ([], 1)
    np.testing.assert_array_equal(found["y"], np.float32(chained(x, w)) * v)
    np.testing.assert_array_equal(found["g"], chained(x.T, v))
    registers.permitted = False
    with pytest.raises(InternalError, match="status 5"):
        call(function, signature, given, {"N": 40})
    assert registers.calls["arch_prctl"] == 2


@pytest.mark.parametrize("rows", [40, 1024])
def test_an_artifact_says_what_is_missing(rows: int) -> None:
    """The second one has a pool of threads, which makes system calls too."""
    module = parse(STEP.replace("dim N <= 40", f"dim N <= {rows}"))
    passes = [*pipelines.rounding("bf16"), *pipelines.kernels(SAPPHIRE_RAPIDS.machine)]
    PassManager(passes).run(module, default_context())
    signature = make_signature(module, module.functions[0])
    assert signature.is_split == (rows > 40)
    request = EmitRequest("net", {"W": numbers((1, 33, 70))[1]}, "{}", "sapphirerapids")
    text = emit_artifact(module.functions[0], signature, SAPPHIRE_RAPIDS, request)
    assert text.count("declare i64 @syscall") == 1
    made = engine.assembly(text, SAPPHIRE_RAPIDS)
    assert "tdpbf16ps" in made and all(text in made for text in AMX_STATUS.values())


def test_a_machine_has_registers_of_amx_with_dot_products() -> None:
    machine = SAPPHIRE_RAPIDS.machine
    assert machine.misfit() == ""
    assert replace(machine, dots_bf16=False).misfit() == (
        "dots_bf16 and vector_bits of 512 of a machine that has_amx"
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": 12, "block": 12}, "16 or 32 rows for registers of AMX, got 12"),
        ({"vectors": 3}, "at most 32 columns for registers of AMX, got 48"),
        ({"b": "in place"}, 'b = "packed" or "panels" and no prefetch_c for registers of AMX'),
        ({"a": "in place"}, 'a = "packed", a depth and a block for pairs'),
    ],
)
def test_a_tiling_that_does_not_fit_registers_is_told_what_is_required(
    change: dict[str, object], message: str
) -> None:
    x = amx(product_of((48, 200, 300), (False, False))).form.call_range()
    made = choose_tiling(SAPPHIRE_RAPIDS.machine, x)
    assert misfit(made, x) == ""
    assert misfit(replace(made, **change), x).startswith(message)  # type: ignore[arg-type]


def test_schedules_for_amx_are_errors_elsewhere() -> None:
    module = parse(STEP)
    passes = [*pipelines.rounding("bf16"), *pipelines.kernels(SAPPHIRE_RAPIDS.machine)]
    PassManager(passes).run(module, default_context())
    signature = make_signature(module, module.functions[0])
    without = replace(RUNNING, machine=replace(RUNNING.machine, has_amx=False))
    with pytest.raises(GraphcError, match="registers of AMX requires a machine that has them"):
        emit_function(module.functions[0], signature, without)
    with pytest.raises(GraphcError, match="requires a machine with dot products of bf16"):
        BACKENDS["c"]().compile(module.functions[0], signature)
    alone = parse(print_module(module).replace("pairs = true, ", ""))
    with pytest.raises(GraphcError, match=r"requires factors in pairs \(pairs = true\)"):
        emit_function(alone.functions[0], signature, RUNNING)


def _configuration(text: str) -> bytes:
    """The 64 bytes that the registers are configured by, as the text has them."""
    name = re.search(r"@llvm\.x86\.ldtilecfg\(ptr (@[\w.]+)\)", text)
    assert name is not None
    found = re.search(rf'^{re.escape(name[1])} = .*\[64 x i8\] c"(.*)", align 64', text, re.M)
    assert found is not None, text[:500]
    parts = re.findall(r"\\([0-9A-F]{2})|(.)", found[1])
    return bytes(int(code, 16) if code else ord(plain) for code, plain in parts)
