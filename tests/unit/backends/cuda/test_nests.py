"""Loop nests on a GPU, emulated: maps, rows of all lengths, sums over rows, ends and empty extents.

Every function is compiled in one image, and each call runs with the threads in several orders.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pytest

from graphc.backends.base import CompiledFunction
from graphc.backends.llvm.target import host_target
from graphc.ir.core import Function
from graphc.ir.evaluate import evaluate
from graphc.ir.machine import GPUS
from graphc.ir.verifier import verify_module
from graphc.ops import default_context
from graphc.ops.kernel import KERNEL
from graphc.ops.schedules import KernelSchedule, NestSpread
from graphc.passes.analysis.gpu_nests import complete_kernel
from graphc.runtime.signature import Signature
from graphc.support.diagnostics import GraphcError
from tests.conformance.test_sums import check_sum, sum_text
from tests.support.compiling import call, compile_for, load_backend, parse
from tests.support.cuda.building import missing
from tests.support.cuda.functions import compile_together
from tests.support.cuda.sample import planned
from tests.support.native import random_arguments

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A function, the sizes that it is called with, and how far from the reference it may be.

    spread  of its only nest, where that is not left to the compiler
    """

    text: str
    sizes: tuple[Sizes, ...] = ({},)
    tolerance: float = 2e-5
    spread: NestSpread | None = None


def rows(*numbers: int) -> tuple[Sizes, ...]:
    return tuple({"N": n} for n in numbers)


def softmax(lanes: int, most: int = 40, dtype: str = "f32", schedule: str = "") -> str:
    t, r = f"tensor<Nx{lanes}x{dtype}>", f"tensor<Nx1x{dtype}>"
    return f"""
dim N <= {most}
func @f(%x: {t} input) -> (y: {t}) {{
  %m = reduce_max %x {{axes = [1]}} : {r}
  %mb = broadcast %m {{dims = [N, {lanes}]}} : {t}
  %d = sub %x, %mb : {t}
  %e = exp %d : {t}
  %s = reduce_sum %e {{axes = [1]}} : {r}
  %sb = broadcast %s {{dims = [N, {lanes}]}} : {t}
  %y = div %e, %sb : {t}
  return %y
}}
"""


def normed(lanes: int, most: int = 40) -> str:
    """Rows less their means, and sums over rows of what is made of them: as a gradient has it."""
    t, r, c = f"tensor<Nx{lanes}xf32>", "tensor<Nx1xf32>", f"tensor<1x{lanes}xf32>"
    return f"""
dim N <= {most}
func @f(%x: {t} input, %w: {c} input) -> (y: {t}, g: {c}, b: {c}, s: {r}, all: tensor<1x1xf32>) {{
  %s = reduce_sum %x {{axes = [1]}} : {r}
  %sb = broadcast %s {{dims = [N, {lanes}]}} : {t}
  %wb = broadcast %w {{dims = [N, {lanes}]}} : {t}
  %d = sub %x, %sb : {t}
  %h = tanh %d : {t}
  %y = mul %h, %wb : {t}
  %g = reduce_sum %y {{axes = [0]}} : {c}
  %b = reduce_max %h {{axes = [0]}} : {c}
  %all = reduce_sum %h {{axes = [0, 1]}} : tensor<1x1xf32>
  return %y, %g, %b, %s, %all
}}
"""


def reduction(kind: str, dims: str, axes: list[int], dtype: str = "f32", most: int = 40) -> str:
    """Over some axes of an array, whose extents are numbers or N."""
    named = dims.split("x")
    result = "x".join("1" if i in axes else d for i, d in enumerate(named))
    t, r = f"tensor<{dims}x{dtype}>", f"tensor<{result}x{dtype}>"
    return f"""
dim N <= {most}
func @f(%x: {t} input) -> (y: {r}) {{
  %y = reduce_{kind} %x {{axes = {axes}}} : {r}
  return %y
}}
"""


def mapped(dims: str, bias: str, most: int = 5000, dtype: str = "f32") -> str:
    """Sums with what is broadcast, where they are positive."""
    listed = ", ".join(dims.split("x"))
    t = f"tensor<{dims}x{dtype}>"
    return f"""
dim N <= {most}
func @f(%x: {t} input, %b: tensor<{bias}x{dtype}> input) -> (y: {t}, p: tensor<{dims}xi1>) {{
  %bb = broadcast %b {{dims = [{listed}]}} : {t}
  %0 = add %x, %bb : {t}
  %z = constant {{type = tensor<{"x".join("1" for _ in dims.split("x"))}x{dtype}>, value = [0.0]}}
      : tensor<{"x".join("1" for _ in dims.split("x"))}x{dtype}>
  %zb = broadcast %z {{dims = [{listed}]}} : {t}
  %p = greater %0, %zb : tensor<{dims}xi1>
  %y = select %p, %0, %zb : {t}
  return %y, %p
}}
"""


POSITIONS = """
dim N <= 3000
func @f(%x: tensor<Nx12xf32> input) -> (y: tensor<Nx12xf32>, s: tensor<1x12xf32>) {
  %n = extent {dim = N, type = tensor<1x1xf32>} : tensor<1x1xf32>
  %nb = broadcast %n {dims = [N, 12]} : tensor<Nx12xf32>
  %c = constant {type = tensor<1x12xf32>,
    value = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0]} : tensor<1x12xf32>
  %cb = broadcast %c {dims = [N, 12]} : tensor<Nx12xf32>
  %r = iota {type = tensor<Nx12xf32>, axis = 0} : tensor<Nx12xf32>
  %k = iota {type = tensor<Nx12xi64>, axis = 1} : tensor<Nx12xi64>
  %kf = cast %k {dtype = f32} : tensor<Nx12xf32>
  %0 = div %x, %nb : tensor<Nx12xf32>
  %1 = mul %0, %cb : tensor<Nx12xf32>
  %2 = div %1, %nb : tensor<Nx12xf32>
  %3 = mul %2, %kf : tensor<Nx12xf32>
  %y = add %3, %r : tensor<Nx12xf32>
  %s = reduce_sum %3 {axes = [0]} : tensor<1x12xf32>
  return %y, %s
}
"""

TABLES = """
func @f(%x: tensor<17xf64> input) -> (y: tensor<17xf64>) {
  %a = constant {type = tensor<17xf64>, value = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0,
    10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]} : tensor<17xf64>
  %b = constant {type = tensor<17xf64>, value = [9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0,
    10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0]} : tensor<17xf64>
  %0 = mul %x, %a : tensor<17xf64>
  %y = add %0, %b : tensor<17xf64>
  return %y
}
"""

RANK_ZERO = """
func @f(%x: tensor<f32> input) -> (y: tensor<f32>) {
  %y = tanh %x : tensor<f32>
  return %y
}
"""

IN_PLACE = """
dim N <= 5000
func @f(%w: tensor<Nx3xf32> parameter, %g: tensor<Nx3xf32> input, %b: tensor<1x3xf32> input)
    -> (v: tensor<Nx3xf32> updates %w) {
  %bb = broadcast %b {dims = [N, 3]} : tensor<Nx3xf32>
  %0 = mul %g, %bb : tensor<Nx3xf32>
  %v = sub %w, %0 : tensor<Nx3xf32>
  return %v
}
"""

CASES: dict[str, Case] = {
    **{f"softmax {c}": Case(softmax(c), rows(0, 1, 7, 40)) for c in (1, 3, 10, 16, 33, 64, 130)},
    **{f"softmax {c}": Case(softmax(c), rows(1, 3)) for c in (0, 257, 1024, 1500, 4096, 17001)},
    "softmax f64": Case(softmax(36, dtype="f64"), rows(1, 40)),
    "one long softmax": Case(softmax(70001, 2), rows(0, 1, 2)),
    **{f"normed {c}": Case(normed(c), rows(0, 1, 2, 37), 2e-4) for c in (1, 6, 48, 512)},
    "normed 1100": Case(normed(1100), rows(0, 3, 40), 1e-3),
    "normed 17001": Case(normed(17001, 300), rows(0, 290), 1e-2),
    "normed in parts": Case(normed(8, 9000), rows(0, 8191), 1e-3),
    **{
        f"{kind} {axes} {dtype}": Case(
            reduction(kind, "Nx3x19", axes, dtype), rows(0, 1, 2, 40), 1e-4
        )
        for kind, dtype in (("sum", "f32"), ("max", "f64"), ("min", "i32"), ("sum", "i64"))
        for axes in ([0], [1], [2], [0, 1], [0, 2], [1, 2], [0, 1, 2])
    },
    **{
        f"columns {c}": Case(reduction("sum", f"Nx{c}", [0], most=20000), rows(0, 1, 17000), 1e-3)
        for c in (1, 3, 10, 128, 130)
    },
    "middle": Case(reduction("sum", "3xNx40", [1], most=9000), rows(0, 8000), 1e-3),
    "all": Case(reduction("sum", "Nx3", [0, 1], most=300000), rows(0, 1, 299999), 5e-3),
    "long rows": Case(reduction("max", "5xN", [1], most=300000), rows(0, 1, 299999)),
    "lanes of the call": Case(reduction("sum", "5xN", [1], most=3000), rows(0, 1, 2999), 1e-3),
    "empty columns": Case(reduction("sum", "Nx0", [0]), rows(0, 40)),
    "map": Case(mapped("N", "1"), rows(0, 1, 3, 4, 1023, 5000)),
    "rows and a bias": Case(mapped("Nx40", "1x40"), rows(0, 1, 500)),
    "short rows and a bias": Case(mapped("Nx3", "1x3"), rows(0, 1, 2, 5000)),
    "columns and a bias": Case(mapped("Nx5x3", "1x5x1"), rows(0, 1, 200)),
    "a bias for each row": Case(mapped("NxNx3", "Nx1x1", 30), rows(0, 1, 30)),
    "a map in f64": Case(mapped("Nx6", "1x6", dtype="f64"), rows(0, 1, 500)),
    "positions": Case(POSITIONS, rows(1, 2999)),
    "rank zero": Case(RANK_ZERO),
    "tables by the widest vectors": Case(TABLES, spread=NestSpread(16)),
    "in place": Case(IN_PLACE, rows(0, 1, 4999)),
    **{
        f"softmax {c} by {threads}, {lanes} at once": Case(
            softmax(c), rows(0, 1, 7), spread=NestSpread(lanes, threads)
        )
        for c, threads, lanes in ((130, 1, 1), (64, 2, 4), (33, 8, 4), (256, 256, 2), (9, 256, 1))
    },
    **{
        f"softmax {c} in {parts} parts": Case(
            softmax(c), rows(0, 1, 7), spread=NestSpread(lanes, 8, parts=parts)
        )
        for c, parts, lanes in ((10, 3, 1), (2000, 2, 4), (1025, 1, 1))
    },
    **{
        f"normed {c} by {threads}, {length} rows": Case(
            normed(c), rows(0, 1, 39), 2e-4, NestSpread(4, threads, length)
        )
        for c, threads, length in ((48, 1, 1), (48, 32, 2), (48, 256, 7), (6, 2, 128), (500, 1, 3))
    },
    "normed 300 in parts": Case(normed(300), rows(0, 1, 39), 2e-4, NestSpread(4, 256, 5, 4)),
    # Compiled only: what runs them makes room for all that may be.
    "a map that may be huge": Case(mapped("Nx3", "1x3", 2**31), sizes=()),
    "rows that may be huge": Case(softmax(10, 2**31), sizes=()),
    "sums that may be huge": Case(normed(6, 2**31), sizes=()),
    "columns by many": Case(
        reduction("sum", "Nx40", [0], most=700), rows(0, 1, 650), 1e-4, NestSpread(1, 256, 3)
    ),
}

SUMS = [
    ((1_000_003,), (0,)),
    ((1, 500_000), (1,)),
    ((700_001, 3), (0,)),
    ((40_000, 5), (0, 1)),
    ((3, 9_000, 17), (1,)),
    ((300, 7, 150), (0, 2)),
    ((129, 33), (0,)),
]
"""Of numbers whose sum in one chain is far from the exact one."""


WORDS = ("exp", "expm1", "log", "log1p", "tanh", "sigmoid", "erf", "sin", "cos", "arctan")


def words(dtype: str, contraction: str) -> str:
    """Every function of the scalar vocabulary, of the same numbers."""
    t = f"tensor<1200x{dtype}>"
    results = ", ".join(f"{w}: {t}" for w in (*WORDS, "power"))
    lines = "\n".join(f"  %{w} = {w} %x : {t}" for w in WORDS)
    return f"""
func @f(%x: {t} input, %z: {t} input) -> ({results}) contraction {contraction} {{
{lines}
  %power = power %x, %z : {t}
  return {", ".join(f"%{w}" for w in (*WORDS, "power"))}
}}
"""


MODES = [(dtype, mode) for dtype in ("f32", "f64") for mode in ("fma", "off")]
Made = dict[object, tuple[Function, CompiledFunction, Signature]]


@pytest.fixture(scope="module")
def made() -> Made:
    """All functions, in one image."""
    texts: dict[object, tuple[str, NestSpread | None]] = {
        name: (case.text, case.spread) for name, case in CASES.items()
    }
    texts.update((mode, (words(*mode), None)) for mode in MODES)
    texts.update((what, (sum_text(*what, "f32"), None)) for what in SUMS)
    lowered = [planned(parse(text), GPUS["sm_90"]) for text, _ in texts.values()]
    for (function, _), (_, spread) in zip(lowered, texts.values(), strict=True):
        if spread is not None:
            (kernel,) = (op for op in function.block if op.opdef is KERNEL)
            kernel.schedule = replace(kernel.schedule_as(KernelSchedule), spread=(spread,))
    compiled = compile_together(lowered)
    return {
        key: (parse(text).functions[0], function, signature)
        for (key, (text, _)), (_, signature), function in zip(
            texts.items(), lowered, compiled, strict=True
        )
    }


@pytest.mark.parametrize("name", CASES)
def test_a_nest_is_what_the_reference_is(made: Made, name: str) -> None:
    reference, compiled, signature = made[name]
    case = CASES[name]
    for sizes in case.sizes:
        arguments = random_arguments(signature, sizes, seed=len(name))
        expected = evaluate(reference, arguments, sizes)
        got = call(compiled, signature, arguments, sizes)
        for result in signature.results:
            np.testing.assert_allclose(
                got[result.name],
                expected[result.name],
                rtol=case.tolerance,
                atol=case.tolerance,
                err_msg=f"{result.name} with {dict(sizes)}",
            )


@pytest.mark.parametrize(("shape", "axes"), SUMS, ids=str)
def test_long_sums_are_as_near_as_promised(
    made: Made, shape: tuple[int, ...], axes: tuple[int, ...]
) -> None:
    _, compiled, signature = made[shape, axes]
    for terms in (np.full(shape, 0.1, np.float32), _random(shape)):
        check_sum(call(compiled, signature, {"x": terms}, {})["y"], terms, axes)


def _random(shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(3).random(shape, np.float32)


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_functions_have_the_bits_of_native_code(made: Made, mode: tuple[str, str]) -> None:
    """Ordinary numbers, random bit patterns, and the ends of the range."""
    native = load_backend("llvm")
    if isinstance(native, str) or not host_target().machine.has_fma:
        pytest.skip("requires native code with fused multiply-adds to compare with")
    _, compiled, signature = made[mode]
    x, z = _hard_numbers(np.dtype({"f32": np.float32, "f64": np.float64}[mode[0]]))
    expected = call(*compile_for(native, parse(words(*mode))), {"x": x, "z": z}, {})
    got = call(compiled, signature, {"x": x, "z": z}, {})
    for name, numbers in expected.items():
        same = (got[name] == numbers) | (np.isnan(got[name]) & np.isnan(numbers))
        same &= (np.signbit(got[name]) == np.signbit(numbers)) | np.isnan(numbers)
        assert same.all(), f"{name} of {x[~same][:3]}: {got[name][~same][:3]}"


def _hard_numbers(dtype: np.dtype[np.floating]) -> tuple[np.ndarray, np.ndarray]:
    rng, info = np.random.default_rng(4), np.finfo(dtype)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = rng.integers(0, np.iinfo(unsigned).max, 800, unsigned, endpoint=True).view(dtype)
    ends = [0.0, 1.0, 0.5, np.inf, np.nan, info.max, info.tiny, info.smallest_subnormal, 1e-20, 90]
    special = np.array([*ends, *(-e for e in ends), np.pi / 2, 1e6, 4e6, 1e15], dtype)
    with np.errstate(over="ignore"):
        ordinary = (rng.standard_normal(1200 - 800 - special.size) * 8).astype(dtype)
    x = np.concatenate([bits, special, ordinary])
    return x, rng.permutation(x)


def test_a_spread_that_does_not_fit_is_refused() -> None:
    function, _ = planned(parse(CASES["map"].text), GPUS["sm_90"])
    (kernel,) = (op for op in function.block if op.opdef is KERNEL)
    for spread, said in (
        ((NestSpread(), NestSpread()), "a spread for each of 1 nests, got 2"),
        ((NestSpread(parts=3),), "parts = 0 for rows that are not folded, got 3"),
    ):
        kernel.schedule = KernelSchedule(spread=spread)
        with pytest.raises(GraphcError, match=said):
            complete_kernel(kernel, GPUS["sm_90"])


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("lanes = 3", "1, 2, 4, 8 or 16 lanes, got 3"),
        ("threads = 64", "1, 2, 4, 8, 16, 32 or 256 threads, got 64"),
        ("rows = 129", "0 to 128 rows, got 129"),
        ("parts = -1", "0 to 1024 parts, got -1"),
    ],
)
def test_a_spread_that_no_gpu_has_is_an_error_of_the_text(written: str, said: str) -> None:
    module = parse(CASES["map"].text)
    planned(module, GPUS["sm_90"])
    schedule = f"schedule {{spread = [{{{written}}}]}}"
    wrong = re.sub(r"schedule \{spread = \[[^]]*\]\}", schedule, str(module))
    sink = default_context().sink
    verify_module(parse(wrong), sink)
    with pytest.raises(GraphcError, match=f"a spread requires {said}"):
        sink.raise_if_errors()
