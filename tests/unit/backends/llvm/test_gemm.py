"""Matrix products of every layout and awkward extent, static and decided at the call."""

from __future__ import annotations

import itertools
import re
from dataclasses import replace

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import TARGETS, Target, host_target
from graphc.backends.llvm.text import Code, Module
from graphc.backends.loops.shuffles import transposed
from graphc.backends.loops.values import Val, lane_type
from graphc.backends.signature import make_signature
from tests.support.compiling import call, parse
from tests.support.native import check_text
from tests.support.products import compile_product, operands, product_of

LAYOUTS = list(itertools.product((False, True), (False, True)))
LAYOUT_IDS = ["nn", "nt", "tn", "tt"]
TOLERANCE = {"f32": 2e-4, "f64": 1e-11}


def product(
    dims: tuple[object, object, object], layout: tuple[bool, bool], dtype: str, bound: int = 0
) -> str:
    """C = op(A) op(B); a dim that is a letter is a symbol."""
    m, n, k = dims
    ta, tb = layout
    a = f"{k}x{m}" if ta else f"{m}x{k}"
    b = f"{n}x{k}" if tb else f"{k}x{n}"
    symbols = "".join(f"dim {d} <= {bound}\n" for d in dims if isinstance(d, str))
    flags = f"transpose_a = {str(ta).lower()}, transpose_b = {str(tb).lower()}"
    return (
        f"{symbols}func @f(%a: tensor<{a}x{dtype}> input, %b: tensor<{b}x{dtype}> input)"
        f" -> (c: tensor<{m}x{n}x{dtype}>) arena 0 {{\n"
        f"  %c = gemm %a, %b {{{flags}}} at result:0 : tensor<{m}x{n}x{dtype}>\n"
        "  return %c\n}\n"
    )


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(
    "dims",
    [
        (1, 1, 1),
        (5, 3, 7),
        (6, 16, 8),
        (7, 17, 9),
        (13, 10, 33),
        (32, 33, 20),
        (2, 64, 5),
        (9, 2, 4),
    ],
    ids=str,
)
def test_static_extents(dims: tuple[int, int, int], layout: tuple[bool, bool], dtype: str) -> None:
    check_text(product(dims, layout, dtype), tolerance=TOLERANCE[dtype])


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("dims", [(0, 5, 5), (5, 0, 5), (5, 5, 0), (20, 40, 0), (0, 0, 0)], ids=str)
def test_empty_extents_give_nothing_or_zeros(
    dims: tuple[int, int, int], layout: tuple[bool, bool]
) -> None:
    check_text(product(dims, layout, "f32"))


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("symbol", [0, 1, 2], ids=["m", "n", "k"])
def test_one_extent_decided_at_the_call(symbol: int, layout: tuple[bool, bool]) -> None:
    dims: list[object] = [11, 21, 13]
    dims[symbol] = "N"
    text = product((dims[0], dims[1], dims[2]), layout, "f32", bound=40)
    check_text(text, [{"N": n} for n in (0, 1, 2, 5, 6, 12, 15, 16, 40)], tolerance=2e-4)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("columns", [5, 33])
@pytest.mark.parametrize("depth", [700, "K"])
def test_k_longer_than_one_packed_block(
    depth: object, columns: int, layout: tuple[bool, bool]
) -> None:
    sizes = [{"K": 700}, {"K": 0}, {"K": 513}] if depth == "K" else [{}]
    text = product((26, columns, depth), layout, "f32", bound=700)
    check_text(text, sizes, tolerance=1e-3)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
@pytest.mark.parametrize("columns", [5, 70])
def test_few_rows_with_rows_of_b_that_share_lines_of_a_cache(
    columns: int, rows: int, dtype: str
) -> None:
    check_text(product((rows, columns, 1024), (False, True), dtype), tolerance=1e-3)


@pytest.mark.parametrize("rows", [1, 3, "M"])
def test_few_rows_with_many_short_rows_of_b(rows: object) -> None:
    text = product((rows, 470, 301), (False, True), "f32", bound=20)
    check_text(text, [{"M": m} for m in (1, 2, 20)] if rows == "M" else [{}], tolerance=1e-3)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_rows_far_apart_are_packed_once_there_are_many(layout: tuple[bool, bool]) -> None:
    text = product(("M", 300, 20), layout, "f32", bound=50)
    check_text(text, [{"M": 1}, {"M": 50}], tolerance=2e-4)


def test_nan_and_infinity_are_not_spread_to_other_rows() -> None:
    module = parse(product((7, 21, 9), (False, True), "f32"))
    (function,) = module.functions
    signature = make_signature(module, function)
    a, b = np.ones((7, 9), np.float32), np.ones((21, 9), np.float32)
    a[3, 4], b[20, 0] = np.nan, np.inf
    c = call(compile_function(function, signature), signature, {"a": a, "b": b}, {})["c"]
    assert np.isnan(c[3]).all()
    assert np.isinf(np.delete(c[:, 20], 3)).all()
    assert np.isfinite(np.delete(c[:, :20], 3, axis=0)).all()


@pytest.mark.parametrize("schedule", ["", 'schedule {parallel = "batch", chunk = 5} '])
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_a_batch_is_one_product_after_the_other(layout: tuple[bool, bool], schedule: str) -> None:
    ta, tb = layout
    a = "NxMx7x3" if ta else "NxMx3x7"
    b = "NxMx5x7" if tb else "NxMx7x5"
    flags = f"transpose_a = {str(ta).lower()}, transpose_b = {str(tb).lower()}, batch = 2"
    text = (
        "dim N <= 3\ndim M <= 4\n"
        f"func @f(%a: tensor<{a}xf32> input, %b: tensor<{b}xf32> input)"
        " -> (c: tensor<NxMx3x5xf32>) arena 0 {\n"
        f"  %c = gemm %a, %b {{{flags}}} {schedule}at result:0 : tensor<NxMx3x5xf32>\n"
        "  return %c\n}\n"
    )
    check_text(text, [{"N": n, "M": m} for n, m in ((0, 4), (3, 0), (1, 1), (3, 4))])


def inner_loop(text: str, target: Target) -> list[str]:
    """The instructions of the longest stretch between two labels."""
    blocks: list[list[str]] = [[]]
    for line in engine.assembly(text, target).splitlines():
        if line.startswith("\t") and not line.startswith("\t."):
            blocks[-1].append(line)
        elif not line.startswith("\t"):
            blocks.append([])
    fused = [b for b in blocks if any("vfmadd" in i for i in b)]
    return max(fused, key=lambda b: sum("vfmadd" in i for i in b))


@pytest.mark.parametrize(("isa", "accumulators"), [("x86-64-v3", 12), ("x86-64-v4", 24)])
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_the_largest_tile_keeps_its_accumulators_in_registers(
    layout: tuple[bool, bool], isa: str, accumulators: int
) -> None:
    target = TARGETS[isa]
    module = parse(product((48, 64, 64), layout, "f32"))
    signature = make_signature(module, module.functions[0])
    loop = inner_loop(emit_function(module.functions[0], signature, target), target)
    moves = [i for i in loop if "rsp" in i and ("ymm" in i or "zmm" in i)]
    assert sum("vfmadd" in i for i in loop) == accumulators
    assert moves == []
    finding = [i for i in loop if re.match(r"\t(lea|add|sub|inc|cmp|j)", i)]
    assert len(finding) <= 5, "rows of A are found from one another in every step"


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.isa)
@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
def test_every_target_compiles_every_layout(layout: tuple[bool, bool], target: Target) -> None:
    module = parse(product(("M", 10, 64), layout, "f64", bound=64))
    signature = make_signature(module, module.functions[0])
    assert engine.object_code(emit_function(module.functions[0], signature, target), target)


@pytest.mark.parametrize("count", [1, 2, 4, 8, 16])
def test_a_block_is_transposed_by_shuffles(count: int) -> None:
    """Follows each element through the shuffles that are written."""
    code = Code(Module(host_target().triple))
    type_ = lane_type("float", count)
    held = {f"%r{i}": [(i, j) for j in range(count)] for i in range(count)}
    result = transposed(code, [Val(f"%r{i}", type_) for i in range(count)])
    for line in code.text().splitlines()[1:]:
        name, text = line.strip().split(" = ", 1)
        a, b = (part.split()[-1] for part in text.split(", <", 2)[:2])
        b = text.split(", ")[1].split("> ")[-1] if count > 1 else b
        a = text.split("> ", 1)[1].split(",")[0]
        order = [int(p.split()[1]) for p in text.rsplit("<", 1)[1].rstrip(">").split(", ")]
        both = held[a] + held[b]
        held[name] = [both[i] for i in order]
    assert [held[v.ref] for v in result] == [[(i, j) for i in range(count)] for j in range(count)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize("bound", [1, 2, 40, 5000])
def test_the_bits_are_the_same_with_any_bound(bound: int, layout: tuple[bool, bool]) -> None:
    rows = min(bound, 40)
    a, b = operands((rows, 333, 90), layout)
    expected, found = np.full((2, rows, 333), np.nan, np.float32)
    static = product_of((rows, 333, 90), layout)
    compile_product(static).run(a.ctypes.data, b.ctypes.data, expected.ctypes.data)
    bounded = replace(product_of(("M", 333, "K"), layout), most_m=bound, most_k=bound + 90)
    sizes = {"M": rows, "K": 90}
    compile_product(bounded).run(a.ctypes.data, b.ctypes.data, found.ctypes.data, sizes)
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(
    ("columns", "k"), [(10, 600), (25, 600), (40, 600), (300, 600), (70, 1024)]
)
def test_a_row_has_the_same_bits_whatever_other_rows_are_computed(
    columns: int, k: int, layout: tuple[bool, bool]
) -> None:
    module = parse(product(("M", columns, k), layout, "f32", bound=50))
    (function,) = module.functions
    signature = make_signature(module, function)
    compiled = compile_function(function, signature)
    rng = np.random.default_rng(1)
    rows = rng.standard_normal((50, k)).astype(np.float32)
    b = rng.standard_normal((columns, k) if layout[1] else (k, columns)).astype(np.float32)

    def run(a: np.ndarray) -> np.ndarray:
        given = {"a": np.ascontiguousarray(a.T if layout[0] else a), "b": b}
        return call(compiled, signature, given, {"M": len(a)})["c"]

    together = run(rows)
    for count in (1, 5, 13):
        np.testing.assert_array_equal(run(rows[:count]), together[:count])


def test_a_long_block_on_the_stack_is_touched_page_by_page() -> None:
    """A thread with a small stack must end at its guard page, not beyond it."""
    target = TARGETS["x86-64-v3"]
    module = parse(product((512, 64, 512), (True, False), "f32"))
    signature = make_signature(module, module.functions[0])
    text = engine.assembly(emit_function(module.functions[0], signature, target), target)
    assert any("subq\t$4096, %rsp" in line for line in text.splitlines())


@pytest.mark.parametrize("layout", LAYOUTS, ids=LAYOUT_IDS)
@pytest.mark.parametrize(
    ("dims", "symbols"),
    [((300, 70, 600), ""), ((300, 70, 600), "M"), ((300, 70, 600), "N"), ((130, 20, 40), "MNK")],
    ids=str,
)
def test_blocks_of_rows_and_of_k(
    dims: tuple[int, int, int], symbols: str, layout: tuple[bool, bool]
) -> None:
    sizes = dict(zip("MNK", dims, strict=True))
    named = tuple(name if name in symbols else sizes[name] for name in "MNK")
    text = product((named[0], named[1], named[2]), layout, "f32", bound=600)
    check_text(text, [sizes], tolerance=1e-3)
