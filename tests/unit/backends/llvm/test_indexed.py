"""Looked up sums on every target that runs here: widths of d, places that are met again, ends."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.emit import emit_function
from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import TARGETS, Target
from graphc.backends.signature import make_signature
from graphc.ir.evaluate import evaluate
from tests.support.compiling import call, parse
from tests.support.judges import make_index
from tests.support.native import runnable_targets

Array = np.ndarray

FORMS = {
    "sum": ("NxK", "VxD", "NxD", "sparse_product", ""),
    "sum of columns": ("NxK", "DxV", "NxD", "sparse_product", "{columns = true}"),
    "dot": ("NxD", "VxD", "NxK", "sampled_product", ""),
    "dot of columns": ("NxD", "DxV", "NxK", "sampled_product", "{columns = true}"),
    "outer": ("NxK", "NxD", "VxD", "transposed_sparse_product", "{size = V}"),
    "outer of columns": (
        "NxK",
        "NxD",
        "DxV",
        "transposed_sparse_product",
        "{size = V, columns = true}",
    ),
}
DIMS = "dim N <= 9\ndim K <= 40\ndim V <= 40\ndim D <= 200\n"


def text_of(
    form: str, dtype: str, fixed: Mapping[str, int] | None = None, schedule: str = ""
) -> str:
    """One sum; its dims are decided at the call but for those that are fixed."""
    x, y, z, name, flags = FORMS[form]
    text = (
        f"func @f(%x: tensor<{x}x{dtype}> input, %y: tensor<{y}x{dtype}> input,"
        f" %i: tensor<NxKxi32> input) -> (z: tensor<{z}x{dtype}>) arena 0 {{\n"
        f"  %z = index.{name} %x, %y, %i {flags} {schedule} at result:0 : tensor<{z}x{dtype}>\n"
        "  return %z\n}\n"
    )
    for dim, size in (fixed or {}).items():
        text = text.replace(f"{dim}x", f"{size}x").replace(f"size = {dim}", f"size = {size}")
    return DIMS + text


def operands(form: str, sizes: Mapping[str, int], dtype: str) -> dict[str, Array]:
    rng = np.random.default_rng(5)
    numpy = {"f32": np.float32, "f64": np.float64}[dtype]
    x, y = (
        rng.standard_normal([sizes[d] for d in dims.split("x")]).astype(numpy)
        for dims in FORMS[form][:2]
    )
    return {"x": x, "y": y, "i": make_index(rng, (sizes["N"], sizes["K"]), sizes["V"], "special")}


def check(
    text: str, form: str, sizes: Mapping[str, int], dtype: str, index: Array | None = None
) -> None:
    (function,) = (module := parse(text)).functions
    signature = make_signature(module, function)
    given = operands(form, sizes, dtype)
    if index is not None:
        given["i"] = index
    expected = evaluate(function, given, sizes)["z"]
    tolerance = {"f32": 2e-5, "f64": 1e-12}[dtype]
    for target in runnable_targets():
        compiled = compile_function(function, signature, target)
        got = call(compiled, signature, given, sizes)["z"]
        np.testing.assert_allclose(got, expected, tolerance, tolerance, err_msg=target.isa)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [0, 1, 7, 8, 9, 16, 63, 64, 65, 127, 200])
def test_every_width_of_d(form: str, width: int, dtype: str) -> None:
    sizes = {"N": 5, "K": 4, "V": 6, "D": width}
    check(text_of(form, dtype), form, sizes, dtype)
    check(text_of(form, dtype, sizes), form, sizes, dtype)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("form", [form for form in FORMS if "columns" in form])
@pytest.mark.parametrize("width", [1, 8, 21])
def test_runs_of_neighbours(form: str, width: int, dtype: str) -> None:
    """Within the table, beyond both of its ends, with a gap, and next to what is no run."""
    sizes = {"N": 6, "K": 37, "V": 40, "D": width}
    index = np.array([0, 3, -4, 30, 1, 2])[:, None] + np.arange(37)
    index[4, 5] = -1
    index[5] = index[5, ::-1]
    check(text_of(form, dtype), form, sizes, dtype, index.astype(np.int32))
    check(text_of(form, dtype, sizes), form, sizes, dtype, index.astype(np.int32))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("empty", ["N", "K", "V", "D"])
def test_an_empty_extent_gives_nothing_or_zeros(form: str, empty: str) -> None:
    sizes = {"N": 3, "K": 2, "V": 4, "D": 9} | {empty: 0}
    check(text_of(form, "f32"), form, sizes, "f32")
    check(text_of(form, "f32", sizes), form, sizes, "f32")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("rows", "width", "fixed"),
    [(0, 21, False), (2, 21, False), (7, 21, False), (7, 200, True), (1, 21, True)],
)
def test_neither_chunks_nor_threads_change_a_bit(
    form: str, rows: int, width: int, fixed: bool
) -> None:
    sizes = {"N": rows, "K": 37, "V": 40, "D": width}
    given = operands(form, sizes, "f32")
    given["i"][:, :20] = np.arange(20)  # a run of neighbours
    found: list[Array] = []
    for schedule in ("", 'schedule {parallel = "rows", chunk = 3}'):
        text = text_of(form, "f32", sizes if fixed else None, schedule)
        (function,) = (module := parse(text)).functions
        signature = make_signature(module, function)
        compiled = compile_function(function, signature)
        for threads in (1, 2, 3):
            compiled.threads = threads
            found.append(call(compiled, signature, given, sizes)["z"])
    for other in found[1:]:
        np.testing.assert_array_equal(found[0], other)


@pytest.mark.parametrize("form", FORMS)
def test_what_is_not_looked_up_is_not_read_into_the_result(form: str) -> None:
    sizes = {"N": 2, "K": 2, "V": 3, "D": 11}
    (function,) = (module := parse(text_of(form, "f32"))).functions
    signature = make_signature(module, function)
    given = operands(form, sizes, "f32")
    given["i"] = np.array([[1, -1], [3, 1]], np.int32)
    if "outer" not in form:
        table = given["y"].T if "columns" in form else given["y"]
        table[0], table[2] = np.nan, np.inf
    if form.startswith(("sum", "outer")):
        given["x"][0, 1] = given["x"][1, 0] = np.nan  # beside an index that is outside
    for target in runnable_targets():
        compiled = compile_function(function, signature, target)
        got = call(compiled, signature, given, sizes)["z"]
        assert np.isfinite(got).all()


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda t: t.isa)
@pytest.mark.parametrize("form", FORMS)
def test_every_target_compiles_every_form(form: str, target: Target) -> None:
    module = parse(text_of(form, "f32"))
    signature = make_signature(module, module.functions[0])
    assert engine.object_code(emit_function(module.functions[0], signature, target), target)


def test_sums_over_k_stay_in_registers() -> None:
    target = TARGETS["x86-64-v3"]
    module = parse(text_of("sum", "f32", {"D": 64}))
    signature = make_signature(module, module.functions[0])
    text = engine.assembly(emit_function(module.functions[0], signature, target), target)
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if line.startswith("\t"):
            blocks[-1].append(line)
        else:
            blocks.append([])
    loop = max(blocks, key=lambda b: sum("vfmadd" in i for i in b))
    assert sum("vfmadd" in i for i in loop) == 8
    assert not any("vmovup" in i and i.rstrip().endswith(")") for i in loop)  # no stores
