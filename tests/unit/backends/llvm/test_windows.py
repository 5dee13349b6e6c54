"""Nests computed in parts: any parts that cover a dim once give the bits of the whole."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from graphc.backends.llvm import engine
from graphc.backends.llvm.target import Target
from graphc.backends.llvm.text import Module
from graphc.backends.loops.nests import emit_nest
from graphc.passes.analysis.loopnest import Nest
from graphc.passes.analysis.nestplan import nests_of
from graphc.support.diagnostics import InternalError
from tests.support.compiling import parse
from tests.support.native import runnable_targets

N, A, B = 7, 3, 21

KERNEL = """
dim N <= 20
func @f(%x: tensor<Nx3x21xf32> input, %b: tensor<1x1x21xf32> input) -> (y: tensor<{Y}xf32>) {{
  %y = kernel %x, %b : tensor<{Y}xf32> {{
  ^(%p: tensor<Nx3x21xf32>, %q: tensor<1x1x21xf32>):
    %c = broadcast %q {{dims = [N, 3, 21]}} : tensor<Nx3x21xf32>
{BODY}
    yield %r
  }}
  return %y
}}
"""
FORMULA = """
    %0 = iota {axis = 2, type = tensor<Nx3x21xf32>} : tensor<Nx3x21xf32>
    %1 = iota {axis = 0, type = tensor<Nx3x21xf32>} : tensor<Nx3x21xf32>
    %2 = mul %p, %0 : tensor<Nx3x21xf32>
    %3 = add %2, %1 : tensor<Nx3x21xf32>
    %4 = tanh %3 : tensor<Nx3x21xf32>
    %r = add %4, %c : tensor<Nx3x21xf32>"""
SOFTMAX = """
    %0 = add %p, %c : tensor<Nx3x21xf32>
    %1 = exp %0 : tensor<Nx3x21xf32>
    %2 = reduce_sum %1 {axes = [2]} : tensor<Nx3x1xf32>
    %3 = broadcast %2 {dims = [N, 3, 21]} : tensor<Nx3x21xf32>
    %r = div %1, %3 : tensor<Nx3x21xf32>"""
COLUMNS = """
    %0 = add %p, %c : tensor<Nx3x21xf32>
    %r = reduce_sum %0 {axes = [0]} : tensor<1x3x21xf32>"""
SOME_COLUMNS = """
    %0 = add %p, %c : tensor<Nx3x21xf32>
    %r = reduce_sum %0 {axes = [1]} : tensor<Nx1x21xf32>"""

CASES = {
    "formula": ("Nx3x21", FORMULA, (N, A, B), [(0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)]),
    "rows": ("Nx3x21", SOFTMAX, (N, A, B), [(0,)]),
    "columns": ("1x3x21", COLUMNS, (1, A, B), [(1,), (2,), (1, 2)]),
    "some columns": ("Nx1x21", SOME_COLUMNS, (N, 1, B), [(0,), (2,), (0, 2)]),
}


def _nest(result: str, body: str) -> Nest:
    module = parse(KERNEL.format(Y=result, BODY=body))
    first = module.functions[0].block.first
    assert first is not None
    (nest,) = nests_of(first)
    return nest


def _computed(
    nest: Nest,
    target: Target,
    window: tuple[int, ...],
    parts: Sequence[Sequence[tuple[int, int]]],
    shape: tuple[int, ...],
) -> np.ndarray:
    """The result after a call for each combination of parts of the windowed dims."""
    module = Module(target.triple)
    made = emit_nest(module, target.machine, nest, {}, window)
    given = [f"ptr %p{i}" for i in range(len(made.accesses))] + ["i64 %d"] * len(made.symbols)
    bounds = [f"i64 %{end}{d}" for d in window for end in ("begin", "end")]
    arguments = ", ".join([*given, *bounds])
    taken = ", ".join(dict.fromkeys([*given, "i64 %d", *bounds]))
    text = f"define void @go({taken}) {{\n  call void {made.name}({arguments})\n  ret void\n}}\n"
    loaded = engine.load(engine.object_code(module.text() + text, target), ["go"], target)
    pointers = [ctypes.c_void_p] * len(made.accesses)
    go = engine.function(loaded, "go", None, *pointers, *[ctypes.c_int64] * (1 + len(bounds)))
    rng = np.random.default_rng(1)
    x = rng.standard_normal((N, A, B)).astype(np.float32)
    b = rng.standard_normal((1, 1, B)).astype(np.float32)
    y = np.full(shape, np.nan, np.float32)
    places = {("operand", 0): x, ("operand", 1): b, ("result", 0): y}
    addresses = [places[key].ctypes.data for key in made.accesses]
    for part in itertools.product(*parts):
        go(*addresses, N, *(edge for pair in part for edge in pair))
    return y


def _cuts(extent: int, edges: Sequence[int]) -> list[tuple[int, int]]:
    """Parts between these edges, the last first, one of them empty."""
    ends = sorted({0, extent, *(e for e in edges if e < extent)})
    return [*reversed(list(itertools.pairwise(ends))), (1, 1)]


@pytest.mark.parametrize("target", runnable_targets(), ids=lambda t: t.isa)
@pytest.mark.parametrize(
    ("case", "window"), [(name, w) for name, (*_, windows) in CASES.items() for w in windows]
)
def test_parts_in_any_order_give_the_bits_of_the_whole(
    case: str, window: tuple[int, ...], target: Target
) -> None:
    result, body, shape, _ = CASES[case]
    nest = _nest(result, body)
    extents = [size.factor * N ** len(size.symbols) for size in nest.dims]
    parts = [_cuts(extents[d], (1, 2, 8, 13)) for d in window]
    whole = _computed(nest, target, (), [], shape)
    assert np.isfinite(whole).all()
    np.testing.assert_array_equal(_computed(nest, target, window, parts, shape), whole)


@pytest.mark.parametrize(("case", "dim"), [("rows", 1), ("columns", 0), ("some columns", 1)])
def test_a_dim_that_something_is_folded_over_cannot_be_cut(case: str, dim: int) -> None:
    result, body, *_ = CASES[case]
    nest = _nest(result, body)
    assert [d for d in range(len(nest.dims)) if not nest.can_chunk(d)] == [dim]
    with pytest.raises(InternalError, match=f"parts of its dim {dim}"):
        emit_nest(
            Module("x86_64-unknown-linux-gnu"), runnable_targets()[0].machine, nest, {}, (dim,)
        )
