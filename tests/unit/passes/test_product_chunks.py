"""Chunks of products that suit a machine better, which change no bit of a result."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from graphc.backends import BACKENDS
from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import load_function
from graphc.backends.llvm.target import host_target
from graphc.backends.signature import make_signature
from graphc.driver import pipelines
from graphc.ir.core import Module
from graphc.ir.machine import MACHINES, Machine
from graphc.ir.types import DType
from graphc.ops import default_context
from graphc.ops.schedules import ProductSchedule, Tiling
from graphc.passes import pipeline
from graphc.passes.analysis.product_schedules import misfit
from graphc.passes.analysis.product_tiles import ProductForm
from graphc.passes.choose_schedule import ChooseSchedule
from graphc.passes.manager import PassManager
from tests.support.compiling import call, parse

WIDE = replace(MACHINES["sapphirerapids"], has_amx=False, dots_bf16=False)
USUAL = MACHINES["x86-64-v4"]
TEXT = """
dim N <= 300
func @f(%a: tensor<Nx140xf32> input, %b: tensor<{b}xf32> parameter
       ) -> (y: tensor<Nx{n}xf32>, s: tensor<1x{n}xf32>) {{
  %y, %s = gemm.fused %a, %b {{transpose_b = {turned}}}
      schedule {{parallel = "cols", chunk = {chunk}}} : tensor<Nx{n}xf32>, tensor<1x{n}xf32> {{
    ^(%p: tensor<Nx{n}xf32>):
      %0 = mul %p, %p : tensor<Nx{n}xf32>
      %1 = reduce_sum %p {{axes = [0]}} : tensor<1x{n}xf32>
      yield %0, %1
  }}
  return %y, %s
}}
"""


def chosen(text: str, machine: Machine) -> tuple[Module, ProductSchedule]:
    module = parse(text)
    passes = [ChooseSchedule(machine), *pipeline("plan-memory")]
    PassManager(passes, verify=True).run(module, default_context())
    product = next(iter(module.functions[0].block))
    return module, product.schedule_as(ProductSchedule)


def text(n: int, chunk: int, *, turned: bool) -> str:
    b = f"{n}x140" if turned else f"140x{n}"
    return TEXT.format(n=n, chunk=chunk, b=b, turned=str(turned).lower())


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("n", "chunk", "wide", "rest"), [(512, 32, 48, 32), (512, 64, 96, 32), (480, 96, 96, 0)]
)
def test_chunks_of_columns_are_wide_tiles(
    n: int, chunk: int, wide: int, rest: int, turned: bool
) -> None:
    module, schedule = chosen(text(n, chunk, turned=turned), WIDE)
    assert schedule.tile is not None
    assert (schedule.chunk, schedule.tile.rows, schedule.tile.vectors) == (wide, 8, 3)
    assert (schedule.last is not None) == bool(rest)
    other, usual = chosen(text(n, chunk, turned=turned), USUAL)
    assert usual.tile is not None
    assert (usual.chunk, usual.tile.rows, usual.tile.vectors) == (chunk, 12, 2)
    rng = np.random.default_rng(n + chunk)
    for rows in (0, 1, 2, 61, 300):
        a = rng.standard_normal((rows, 140)).astype(np.float32)
        b = rng.standard_normal((n, 140) if turned else (140, n)).astype(np.float32)
        found, wanted = (run(m, k, a, b) for m, k in ((module, WIDE), (other, USUAL)))
        exact = a.astype(np.float64) @ (b.T if turned else b).astype(np.float64)
        np.testing.assert_allclose(found["y"], exact**2, rtol=1e-3, atol=1e-3)
        np.testing.assert_array_equal(found["y"], wanted["y"])
        np.testing.assert_allclose(found["s"][0], exact.sum(axis=0), atol=1e-3)


def run(module: Module, machine: Machine, a: np.ndarray, b: np.ndarray) -> dict[str, np.ndarray]:
    """Code for wide vectors runs anywhere."""
    function, target = module.functions[0], replace(host_target(), machine=machine)
    signature = make_signature(module, function)
    code = engine.object_code(emit_function(function, signature, target), target)
    return call(load_function(code, signature, target), signature, {"a": a, "b": b}, {"N": len(a)})


@pytest.mark.parametrize("turned", [False, True])
def test_wide_tiles_of_f64_have_the_bits_of_others(turned: bool) -> None:
    source = text(512, 32, turned=turned).replace("f32", "f64")
    (wide, schedule), (usual, _) = (chosen(source, machine) for machine in (WIDE, USUAL))
    assert schedule.tile is not None and (schedule.chunk, schedule.tile.vectors) == (48, 3)
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((61, 140)), rng.standard_normal((512, 140) if turned else (140, 512))
    found, wanted = run(wide, WIDE, a, b), run(usual, USUAL, a, b)
    np.testing.assert_array_equal(found["y"], wanted["y"])
    np.testing.assert_allclose(found["y"], (a @ (b.T if turned else b)) ** 2, 1e-9, 1e-9)


def test_narrow_products_keep_their_chunks() -> None:
    _, schedule = chosen(text(100, 64, turned=True), WIDE)
    assert schedule.chunk == 64 and schedule.tile is not None and schedule.tile.vectors == 2


COPIED = """
dim N <= 530
func @f(%a: tensor<{m}x140x{t}> input, %b: tensor<{b}x{t}> parameter
       ) -> (y: tensor<{m}x{n}x{t}>) {{
  %y = gemm %a, %b {{transpose_b = {turned}}}
      schedule {{parallel = "cols", chunk = 64}} : tensor<{m}x{n}x{t}>
  return %y
}}
"""
BODY = """{{
    ^(%p: tensor<{m}x{n}x{t}>):
      %0 = mul %p, %p : tensor<{m}x{n}x{t}>
      yield %0
  }}"""


def copied_text(m: str, n: int, t: str, *, turned: bool, fused: bool) -> str:
    given = COPIED if m == "N" else COPIED.replace("dim N <= 530\n", "")
    if fused:
        given = given.replace("gemm", "gemm.fused").replace("\n  return", f" {BODY}\n  return")
    b = f"{n}x140" if turned else f"140x{n}"
    return given.format(m=m, n=n, t=t, b=b, turned=str(turned).lower())


@pytest.mark.parametrize("backend", ["llvm", "c"])
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize(
    ("m", "n", "t", "fused"),
    [
        *(("N", 512, "f32", fused) for fused in (False, True)),
        # what is left over at the right: in a panel that begins earlier
        *(("N", 500, "f32", False), ("530", 500, "f64", True)),
    ],
)
def test_products_of_many_rows_copy_b_once(
    m: str, n: int, t: str, backend: str, *, fused: bool, turned: bool
) -> None:
    source, made = copied_text(m, n, t, turned=turned, fused=fused), []
    for machine in (WIDE, USUAL):
        module, schedule = chosen(source, machine)
        assert schedule.tile is not None
        function = module.functions[0]
        workspace = [w.type for op in function.block for w in op.workspace]
        is_copied = machine is WIDE
        assert (schedule.tile.b == "prepacked") == is_copied == bool(workspace)
        assert schedule.parallel == ("rows" if is_copied else "cols")
        signature = make_signature(module, function)
        assert not any(a.panel for a in signature.arguments)
        made.append((BACKENDS[backend]().compile(function, signature), signature))
    rng, dtype = np.random.default_rng(n), np.dtype({"f32": "f4", "f64": "f8"}[t])
    b = rng.standard_normal((n, 140) if turned else (140, n)).astype(dtype)
    for rows in (0, 1, 2, 3, 65, 530) if m == "N" else (530,):
        a = rng.standard_normal((rows, 140)).astype(dtype)
        sizes = {"N": rows} if m == "N" else {}
        copied, usual = (call(f, s, {"a": a, "b": b}, sizes)["y"] for f, s in made)
        np.testing.assert_array_equal(copied, usual)
        exact = a.astype(np.float64) @ (b.T if turned else b).astype(np.float64)
        np.testing.assert_allclose(copied, exact**2 if fused else exact, rtol=1e-3, atol=1e-3)


GRADIENT = """
dim N <= 1100
func @f(%a: tensor<Nx520xf32> input, %b: tensor<Nx500xf32> input) -> (y: tensor<520x500xf32>) {
  %y = gemm %a, %b {transpose_a = true} schedule {parallel = "rows", chunk = 64}
      : tensor<520x500xf32>
  return %y
}
"""


def test_gradients_of_weights_copy_a_far_b_once() -> None:
    (copied, schedule), (usual, _) = (chosen(GRADIENT, machine) for machine in (WIDE, USUAL))
    assert (schedule.parallel, schedule.chunk) == ("rows", 64) and schedule.tile is not None
    assert (schedule.tile.a, schedule.tile.b) == ("packed", "prepacked")
    _, near = chosen(GRADIENT.replace("1100", "1000"), WIDE)
    assert near.tile is not None and near.tile.b == "packed by tiles"
    rng = np.random.default_rng(1)
    for steps in (0, 1, 37, 257, 1100):
        a, b = (rng.standard_normal((steps, n)).astype(np.float32) for n in (520, 500))
        found, wanted = (run(m, k, a, b) for m, k in ((copied, WIDE), (usual, USUAL)))
        np.testing.assert_array_equal(found["y"], wanted["y"])
        exact = a.astype(np.float64).T @ b.astype(np.float64)
        np.testing.assert_allclose(found["y"], exact, atol=1e-3)


def test_few_rows_and_sums_over_rows_stay_in_columns() -> None:
    few = copied_text("N", 512, "f32", turned=False, fused=True).replace("530", "511")
    for source in (few, text(512, 64, turned=False).replace("300", "530")):
        _, schedule = chosen(source, WIDE)
        assert schedule.tile is not None
        assert (schedule.parallel, schedule.tile.b) == ("cols", "packed by tiles")


FROZEN = """
dim N <= 300
func @f(%x: tensor<Nx530x{dtype}> input, %W: tensor<530x{n}x{dtype}> parameter
       ) -> (y: tensor<Nx{n}x{dtype}>) {{
  %y = matmul %x, %W : tensor<Nx{n}x{dtype}>
  return %y
}}
"""


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize(
    ("n", "machine", "chunk", "rest"),
    [
        # whole vectors of a last panel in a chunk of their own; columns that are none; whole panels
        *((512, WIDE, 48, 2), (500, WIDE, 144, 0), (480, WIDE, 48, 0)),
        *((512, USUAL, 64, 0), (492, USUAL, 64, 0), (496, USUAL, 96, 1)),
    ],
)
def test_frozen_weights_lie_in_panels_as_wide_as_tiles(
    n: int, machine: Machine, chunk: int, rest: int, dtype: str
) -> None:
    tiles, made = (8, 3) if machine is WIDE else (12, 2), {}
    rng = np.random.default_rng(n)
    element = np.dtype({"f32": np.float32, "f64": np.float64}[dtype])
    w = rng.standard_normal((530, n)).astype(element)
    for freeze in (False, True):
        module = parse(FROZEN.format(n=n, dtype=dtype))
        passes = pipelines.kernels(machine, freeze=freeze)
        PassManager(passes, verify=True).run(module, default_context())
        function, target = module.functions[0], replace(host_target(), machine=machine)
        signature = make_signature(module, function)
        schedule = next(iter(function.block)).schedule_as(ProductSchedule)
        if freeze and dtype == "f32":
            assert schedule.tile is not None
            assert (schedule.tile.rows, schedule.tile.vectors) == tiles
            assert signature.arguments[1].panel == tiles[1] * 16
            assert schedule.tile.prefetch == (machine is WIDE)
            assert schedule.chunk == chunk
            assert (0 if schedule.last is None else schedule.last.vectors % tiles[1]) == rest
        code = engine.object_code(emit_function(function, signature, target), target)
        made[freeze] = load_function(code, signature, target), signature
    for rows in (0, 1, 2, 3, 8, 61, 300):
        x = rng.standard_normal((rows, 530)).astype(element)
        live, frozen = (
            call(f, s, {"x": x, **s.model_arrays({"W": w})}, {"N": rows})["y"]
            for f, s in made.values()
        )
        np.testing.assert_array_equal(frozen, live)
        np.testing.assert_allclose(live, x @ w, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(
    ("change", "n", "message"),
    [
        ({"prefetch": 4}, 96, "a prefetch of at most the 3 lines that a step reads, got 4"),
        ({"vectors": 2}, 96, "a B stored by rows and tiles of whole panels of 48 columns, got 32"),
        ({"vectors": 2}, 40, "a B stored by rows and tiles of whole panels of 48 columns, got 32"),
        ({"vectors": 2, "prefetch": 2}, 32, ""),
        ({"vectors": 3}, 40, "48 columns or more for panels of as many, got 40"),
        ({"b": "in place"}, 96, 'b = "panels" of all tilings or of none'),
    ],
)
def test_tiles_of_panels_are_told_what_is_required(
    change: dict[str, object], n: int, message: str
) -> None:
    x = ProductForm(DType.F32, 64, n, 530, False, False, panel=48).call_range()
    tile = Tiling(8, 3, 16, b="panels", prefetch=3)
    found = misfit(replace(tile, **change), x)  # type: ignore[arg-type]  # of several types
    assert found.startswith(message) and bool(found) == bool(message)


def test_registers_of_amx_ask_for_nothing() -> None:
    form = ProductForm(DType.F32, 64, 96, 530, False, False, panel=32, pairs=True, amx=True)
    tile = Tiling(32, 2, 16, depth=512, block=64, a="packed", b="panels")
    assert misfit(tile, form.call_range()) == ""
    found = misfit(replace(tile, prefetch=1), form.call_range())
    assert found == "no prefetch of panels for registers of AMX, got 1"
