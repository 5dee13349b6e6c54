"""Loop nests on a GPU, emulated: maps, rows of all lengths, sums over rows, ends and empty extents.

Every function is compiled in one image, and each call runs with the threads in several orders.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import pytest

from graphc.backends.base import CompiledFunction
from graphc.ir.core import Function
from graphc.ir.evaluate import evaluate
from graphc.ir.machine import GPUS
from graphc.runtime.signature import Signature
from tests.support.compiling import call, parse
from tests.support.cuda.building import missing
from tests.support.cuda.functions import compile_together
from tests.support.cuda.sample import planned
from tests.support.native import random_arguments

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Case:
    """A function, the sizes that it is called with, and how far from the reference it may be."""

    text: str
    sizes: tuple[Sizes, ...] = ({},)
    tolerance: float = 2e-5
    low: float = -3.0


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
    "in place": Case(IN_PLACE, rows(0, 1, 4999)),
}


@dataclass
class Made:
    """What the cases were made into, by name."""

    functions: dict[str, tuple[Function, CompiledFunction, Signature]] = field(default_factory=dict)


@pytest.fixture(scope="module")
def made() -> Made:
    """All cases, in one image."""
    lowered = [planned(parse(case.text), GPUS["sm_90"]) for case in CASES.values()]
    compiled = compile_together(lowered)
    found = Made()
    for name, case, (_, signature), function in zip(
        CASES, CASES.values(), lowered, compiled, strict=True
    ):
        found.functions[name] = parse(case.text).functions[0], function, signature
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_nest_is_what_the_reference_is(made: Made, name: str) -> None:
    reference, compiled, signature = made.functions[name]
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
