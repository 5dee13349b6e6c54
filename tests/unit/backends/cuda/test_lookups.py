"""Lookups on a GPU, emulated: rows that many entries share, few entries and many, long rows."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from graphc.backends.cuda.module import CudaModule
from graphc.backends.cuda.program import write_program
from graphc.backends.cuda.row_sums import FEW
from graphc.backends.signature import make_signature
from graphc.ir.core import Function, Module
from graphc.ir.evaluate import evaluate
from graphc.ir.machine import GPUS
from graphc.ir.types import DType
from graphc.ops import default_context
from graphc.passes import pipeline
from graphc.passes.manager import PassManager
from graphc.runtime.compiled import CompiledFunction
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError
from tests.support import row_updates
from tests.support.compiling import KERNEL_PIPELINE, call, load_backend, parse
from tests.support.cuda.building import missing
from tests.support.cuda.functions import CheckedFunction, compile_together

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Array = np.ndarray
Fill = str
FILLS: tuple[Fill, ...] = ("any", "one row", "outside", "runs")
ROWS = 300
MANY = (80, 64)
"""More entries than are compared with each other."""
assert FEW < 80 * 64

PRODUCTS = """\
dim N <= 80
dim K <= 64

func @f(%x: tensor<NxKxf32> input, %y: tensor<Nx{width}xf32> input, %i: tensor<NxKxi32> input)
    -> (z: tensor<{table}xf32>) {{
  %z = transposed_sparse_product %x, %y, %i {{size = {rows}, columns = {columns}}}
      : tensor<{table}xf32>
  return %z
}}
"""
TOP = """\
dim N <= 9

func @f(%x: tensor<Nx{columns}xf32> input) -> (z: tensor<Nx{count}xi32>) {{
  %z = top_indices %x {{count = {count}}} : tensor<Nx{count}xi32>
  return %z
}}
"""
Planned = tuple[Function, Signature]


def planned(module: Module) -> Planned:
    PassManager(pipeline(KERNEL_PIPELINE), verify=True).run(module, default_context())
    return module.functions[0], make_signature(module, module.functions[0])


def product(width: int, *, columns: bool) -> Module:
    table = f"{width}x{ROWS}" if columns else f"{ROWS}x{width}"
    said = str(columns).lower()
    return parse(PRODUCTS.format(width=width, rows=ROWS, table=table, columns=said))


def update(width: int, *, columns: bool, lookups: int) -> Module:
    """With bounds that leave open how many entries there are."""
    dims = row_updates.N, row_updates.K
    module = row_updates.step(ROWS, width, DType.F32, columns=columns, lookups=lookups)
    text = str(module)
    for dim, bound in zip(dims, MANY, strict=True):
        text = text.replace(f"dim {dim.name} <= {dim.bound}", f"dim {dim.name} <= {bound}")
    return parse(text)


@cache
def functions() -> list[tuple[Planned, CheckedFunction]]:
    """All at once: a compiler takes long to start."""
    made = [product(width, columns=c) for width in (1, 130) for c in (False, True)]
    made += [update(w, columns=c, lookups=n) for w, c, n in ((5, False, 2), (40, True, 1))]
    made += [parse(TOP.format(columns=c, count=n)) for c, n in ((1500, 20), (33, 33))]
    plans = [planned(module) for module in made]
    return list(zip(plans, compile_together(plans), strict=True))


@cache
def native() -> list[CompiledFunction]:
    """Those that have rows, for this machine."""
    llvm = load_backend("llvm")
    if isinstance(llvm, str):
        pytest.skip(llvm)
    return [llvm.compile(function, signature) for (function, signature), _ in functions()[:6]]


def lookup(fill: Fill, shape: tuple[int, int]) -> Array:
    rng = np.random.default_rng(5)
    match fill:
        case "any":
            return rng.integers(-2, ROWS + 2, shape, dtype=np.int32)
        case "one row":
            return np.full(shape, ROWS - 1, np.int32)
        case "outside":
            return np.full(shape, -7, np.int32)
        case _:
            starts = rng.integers(0, ROWS, (shape[0], 1))
            return (starts + np.arange(shape[1])).astype(np.int32)


def arguments(signature: Signature, sizes: dict[str, int], fill: Fill) -> dict[str, Array]:
    rng = np.random.default_rng(11)
    made: dict[str, Array] = {}
    for argument in signature.arguments:
        shape = tuple(sizes[d] if isinstance(d, str) else d for d in argument.shape)
        if argument.dtype == "i32":
            made[argument.name] = lookup(fill, (shape[0], shape[1]))
        else:
            made[argument.name] = rng.standard_normal(shape).astype(np.float32)
    return made


@pytest.mark.parametrize("shape", [(0, 3), (1, 1), (7, 5), (64, 64), MANY], ids=str)
@pytest.mark.parametrize("fill", FILLS)
def test_rows_have_the_bits_of_native_code(fill: Fill, shape: tuple[int, int]) -> None:
    """On processors, too, entries are added to their row in order, from 0."""
    sizes = dict(zip("NK", shape, strict=True))
    for ((function, signature), checked), plain in zip(functions(), native(), strict=False):
        given = arguments(signature, sizes, fill)
        got = call(checked, signature, given, sizes)
        for name, expected in call(plain, signature, given, sizes).items():
            np.testing.assert_array_equal(got[name], expected, err_msg=str(function))


def test_entries_are_sorted_only_where_there_are_many() -> None:
    """Which kernels have tiles follows from the sizes of a call; of a known number, beforehand."""
    machine = GPUS["sm_90"]

    def launched(module: Module, sizes: dict[str, int]) -> set[str]:
        function, signature = planned(module)
        program = write_program(CudaModule(machine), function, signature, machine)
        kernels = program.kernels.values()
        return {k.name.rstrip("0123456789") for k in kernels if k.tiles.count(sizes)}

    few, many = ({"N": n, "K": 64} for n in (FEW // 64, FEW // 64 + 1))
    sorting = {"list_rows", "sort_count", "sort_places", "sort_move"}
    assert launched(product(7, columns=False), few) == {"clear", "rows"}
    assert launched(product(7, columns=False), many) == {"clear", "rows", *sorting}
    text = PRODUCTS.format(width=7, rows=ROWS, table=f"{ROWS}x7", columns="false")
    text = text.replace("NxK", "30x20").replace("Nx7", "30x7")
    assert launched(parse(text), {}) == {"clear", "rows"}


def test_more_entries_than_32_bits_count_are_refused() -> None:
    text = PRODUCTS.format(width=1, rows=ROWS, table=f"{ROWS}x1", columns="false")
    text = text.replace("N <= 80", "N <= 65536").replace("K <= 64", "K <= 32768")
    function, signature = planned(parse(text))
    machine = GPUS["sm_90"]
    with pytest.raises(GraphcError) as raised:
        write_program(CudaModule(machine), function, signature, machine)
    assert [d.slug for d in raised.value.diagnostics] == ["limit"]


@pytest.mark.parametrize("samples", [1, 9])
def test_the_largest_of_long_rows(samples: int) -> None:
    rng = np.random.default_rng(2)
    for (function, signature), checked in functions()[6:]:
        columns = signature.arguments[0].shape[1]
        assert isinstance(columns, int)
        x = rng.integers(-9, 9, (samples, columns)).astype(np.float32)
        x[:, 3::7] = np.nan
        x[:, 2::5] = np.copysign(0.0, x[:, 2::5])
        sizes = {"N": samples}
        expected = evaluate(function, {"x": x}, sizes)["z"]
        np.testing.assert_array_equal(call(checked, signature, {"x": x}, sizes)["z"], expected)
