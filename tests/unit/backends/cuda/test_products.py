"""Matrix products on a GPU, emulated: the very bits of native code, whatever the tiles."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest

from graphc.backends.cuda.compiler import compile_text
from graphc.backends.cuda.source import write_source
from graphc.backends.cuda.steps import launches
from graphc.backends.signature import make_signature
from graphc.ir.core import Module
from graphc.ir.evaluate import evaluate
from graphc.ir.machine import GPUS
from graphc.ops import default_context
from graphc.ops.schedules import GPU_TILES
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from tests.support.compiling import call, compile_for, load_backend, parse
from tests.support.cuda.building import missing
from tests.support.cuda.functions import compile_together
from tests.support.cuda.tools import needs_nvrtc
from tests.support.native import TOLERANCE, random_arguments
from tests.support.product_bodies import LAYOUTS as LAYOUTS_OF_BODIES
from tests.support.product_bodies import product_with_body

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Sizes = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """A product of these extents, those of the call named by `dims` (of "MNK")."""

    sizes: Sizes
    transposes: tuple[bool, bool] = (False, False)
    dtype: str = "f32"
    schedule: str = ""
    dims: str = ""
    batch: int = 0
    contraction: str = "fma"

    def text(self, *, on_gpu: bool) -> str:
        m, n, k = (
            name if name in self.dims else str(size)
            for name, size in zip("MNK", self.sizes, strict=True)
        )
        (ta, tb), lead = self.transposes, f"{self.batch}x" if self.batch else ""
        a = f"tensor<{lead}{k}x{m}x{self.dtype}>" if ta else f"tensor<{lead}{m}x{k}x{self.dtype}>"
        b = f"tensor<{lead}{n}x{k}x{self.dtype}>" if tb else f"tensor<{lead}{k}x{n}x{self.dtype}>"
        c = f"tensor<{lead}{m}x{n}x{self.dtype}>"
        settings = f"transpose_a = {str(ta).lower()}, transpose_b = {str(tb).lower()}"
        settings += f", batch = {1 if self.batch else 0}"
        schedule = f" schedule {{grid = {{{self.schedule}}}}}" if self.schedule and on_gpu else ""
        mode = f" contraction {self.contraction}" if self.contraction != "fma" else ""
        dims = "".join(
            f"dim {d} <= {s + 3}\n"
            for d, s in zip("MNK", self.sizes, strict=True)
            if d in self.dims
        )
        return (
            f"{dims}func @f(%a: {a} input, %b: {b} input) -> (y: {c}){mode} {{\n"
            f"  %y = gemm %a, %b {{{settings}}}{schedule} : {c}\n  return %y\n}}\n"
        )

    def named_sizes(self) -> dict[str, int]:
        return {d: s for d, s in zip("MNK", self.sizes, strict=True) if d in self.dims}

    def operands(self) -> dict[str, np.ndarray]:
        m, n, k = self.sizes
        rng = np.random.default_rng(sum(self.sizes))
        lead = (self.batch,) if self.batch else ()
        ta, tb = self.transposes
        shapes = {"a": (k, m) if ta else (m, k), "b": (n, k) if tb else (k, n)}
        kind = np.float32 if self.dtype == "f32" else np.float64
        return {x: rng.standard_normal(lead + s).astype(kind) for x, s in shapes.items()}


def planned(text: str) -> Module:
    module = parse(text)
    PassManager(pipeline("plan-memory"), verify=True).run(module, default_context())
    return module


def on_gpu(cases: Sequence[Case]) -> Iterator[tuple[Case, np.ndarray]]:
    """The cases with what the emulated GPU computes, all compiled together."""
    functions = []
    for case in cases:
        module = planned(case.text(on_gpu=True))
        functions.append((module.functions[0], make_signature(module, module.functions[0])))
    compiled = compile_together(functions, GPUS["sm_90"])
    for case, made, (_, signature) in zip(cases, compiled, functions, strict=True):
        yield case, call(made, signature, case.operands(), case.named_sizes())["y"]


def on_cpu(case: Case) -> np.ndarray:
    backend = load_backend("llvm")
    assert not isinstance(backend, str)
    compiled, signature = compile_for(backend, planned(case.text(on_gpu=False)))
    return call(compiled, signature, case.operands(), case.named_sizes())["y"]


def assert_same_bits(cases: Sequence[Case]) -> None:
    for case, got in on_gpu(cases):
        wanted = on_cpu(case)
        assert got.tobytes() == wanted.tobytes(), case


LAYOUTS = [(a, b) for a in (False, True) for b in (False, True)]
SHAPES: list[Sizes] = [
    (1, 1, 1),
    (5, 7, 3),
    (33, 40, 20),
    (64, 96, 64),
    (3, 130, 600),
    (70, 2, 300),
    (40, 1, 300),
    (1, 36, 300),
]


def test_chosen_tiles_compute_the_bits_of_native_code() -> None:
    wide = [Case(s, LAYOUTS[at % 4], "f64") for at, s in enumerate(SHAPES)]
    assert_same_bits([*(Case(s, t) for s in SHAPES for t in LAYOUTS), *wide])


def test_extents_of_the_call_from_none_to_many() -> None:
    shapes: list[Sizes] = [(0, 5, 4), (4, 0, 5), (6, 5, 0), (1, 9, 700), (65, 33, 515)]
    every = [
        Case(s, LAYOUTS[(at + i) % 4], dims="MNK") for at, s in enumerate(shapes) for i in (0, 1)
    ]
    assert_same_bits([*every, *(Case(s, dims="M") for s in shapes)])


def test_batches() -> None:
    assert_same_bits([Case((9, 20, 300), t, batch=3) for t in LAYOUTS])


def test_a_product_and_its_sum_are_rounded_apart_where_contraction_is_off() -> None:
    cases = [Case((20, 36, 270), t, contraction="off") for t in LAYOUTS]
    assert_same_bits(cases)
    contracted = dict(on_gpu([Case((20, 36, 270))]))
    assert all(
        got.tobytes() != next(iter(contracted.values())).tobytes() for _, got in on_gpu(cases[:1])
    )


@pytest.mark.parametrize("split", [False, True])
def test_forced_tiles_change_no_bit(split: bool) -> None:
    rng = np.random.default_rng(7)
    cases: list[Case] = []
    for at, (rows, cols) in enumerate(GPU_TILES):
        depth, stages = (
            rng.choice([8, 16, 32] if rows * cols < 8192 else [8, 16]),
            rng.integers(2, 5),
        )
        forced = f"rows = {rows}, cols = {cols}, depth = {depth}, stages = {stages}"
        m, n, k = (int(rng.integers(1, 2 * size)) for size in (rows, cols, 400))
        sizes = (m, n, k + 257)
        dtype = "f64" if at % 3 == 1 and rows * cols <= 8192 else "f32"
        cases.append(Case(sizes, LAYOUTS[at % 4], dtype, f"{forced}, split = {str(split).lower()}"))
    assert_same_bits(cases)


def test_bodies_and_their_sums_over_rows() -> None:
    """Whatever the layout, with and without split sums of k, from no rows to many."""
    schedules = {
        (9, 45): ["", "rows = 32, cols = 32, depth = 8, stages = 2"],
        (300, 16): [
            "",
            "rows = 4, cols = 32, depth = 64, stages = 3, split = true",
            "rows = 64, cols = 64, depth = 16, stages = 3",
        ],
        (0, 3): [""],
        (1, 1): [""],
        (3, 0): [""],
        (260, 70): ["rows = 32, cols = 64, depth = 32, stages = 2, split = true"],
    }
    texts = [
        (
            product_with_body(
                layout, f"schedule {{grid = {{{grid}}}}}" if grid else "", e, d, has_sum=s
            ),
            d,
        )
        for at, layout in enumerate(LAYOUTS_OF_BODIES)
        for e, grids in schedules.items()
        for i, grid in enumerate(grids)
        for d, s in [(("f32", True), ("f64", True), ("f32", False))[(at + i + e[1]) % 3]]
    ]
    modules = [planned(text) for text, _ in texts]
    functions = [(m.functions[0], make_signature(m, m.functions[0])) for m in modules]
    compiled = compile_together(functions, GPUS["sm_90"])
    for (text, dtype), made, (function, signature) in zip(texts, compiled, functions, strict=True):
        for rows in (0, 1, 33, 70):
            arguments = random_arguments(signature, {"N": rows})
            expected = evaluate(function, arguments, {"N": rows})
            got = call(made, signature, arguments, {"N": rows})
            for name, array in expected.items():
                np.testing.assert_allclose(
                    got[name], array, TOLERANCE[dtype], 10 * TOLERANCE[dtype], err_msg=text
                )


def rounded_to_tf32(x: np.ndarray) -> np.ndarray:
    """The nearest numbers with 10 bits of fraction; of two the one further from 0."""
    return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def test_tf32_rounds_the_factors_of_f32_and_nothing_else() -> None:
    tiles = [t for t in GPU_TILES if min(t) >= 32]
    grids = [f"rows = {r}, cols = {c}, depth = 16, stages = 3" for r, c in tiles]
    cases = [
        Case((70 + 9 * at, 83, 300), LAYOUTS[at % 4], schedule=grid, contraction="tf32")
        for at, grid in enumerate(grids)
    ]
    cases.append(
        Case(
            (70, 83, 300), (True, False), schedule=f"{grids[-1]}, split = true", contraction="tf32"
        )
    )
    for case, got in on_gpu(cases):
        ta, tb = case.transposes
        a, b = (case.operands()[name] for name in "ab")
        a, b = a.T if ta else a, b.T if tb else b
        sums = np.abs(a).astype(np.float64) @ np.abs(b)
        exact = rounded_to_tf32(np.ascontiguousarray(a)).astype(np.float64) @ rounded_to_tf32(
            np.ascontiguousarray(b)
        )
        assert (np.abs(got - exact) / sums).max() < 1e-6, case
        unrounded = np.abs(got - a.astype(np.float64) @ b) / sums
        assert 1e-6 < unrounded.max() < 2**-10, case
    assert_same_bits([Case((70, 83, 300), dtype="f64", contraction="tf32")])


def test_tf32_of_few_rows_is_f32() -> None:
    assert_same_bits([Case((3, 83, 300), contraction="tf32")])


@needs_nvrtc
def test_every_tile_keeps_its_sums_in_registers() -> None:
    """Two blocks to a multiprocessor find room, but for the tile with most sums."""
    cases: list[Case] = []
    for at, (rows, cols) in enumerate(GPU_TILES):
        depth = 8 if rows * cols == 16384 else 16
        forced = f"rows = {rows}, cols = {cols}, depth = {depth}, stages = 3"
        cases.append(Case((512, 512, 512), LAYOUTS[at % 4], schedule=forced))
        if min(rows, cols) >= 64:
            cases.append(
                Case((512, 512, 512), LAYOUTS[at % 4], schedule=forced, contraction="tf32")
            )
    functions = [
        (m.functions[0], make_signature(m, m.functions[0]))
        for m in (planned(case.text(on_gpu=True)) for case in cases)
    ]
    source = write_source(functions, GPUS["sm_80"])
    resources = compile_text(source.text, "sm_80").resources
    for case, program in zip(cases, source.programs, strict=True):
        (launch,) = launches(program.steps)
        found = resources[f"run_{launch.kernel}"]
        is_largest = "rows = 128, cols = 128" in case.schedule and case.contraction == "fma"
        assert (found.stack, found.spills) == (0, 0), case
        assert found.registers <= (255 if is_largest else 128), (case, found)
