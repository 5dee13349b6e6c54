"""Long sums in chains: how long these get, and that only bounds and indices say where they end."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import pytest

from graphc.backends.llvm.runtime import compile_function
from graphc.backends.llvm.target import Target
from graphc.backends.loops.chains import CHAIN, MAX_BYTES, blocks_of, steps_of
from graphc.backends.signature import make_signature
from graphc.ir.core import Module
from graphc.passes.analysis.loopnest import Nest
from graphc.passes.analysis.nestplan import nests_of
from tests.support.compiling import call, parse
from tests.support.native import runnable_targets


def kernel(
    dims: Sequence[object],
    axes: Sequence[int],
    *,
    schedule: str = "",
    weights: int = 0,
    bound: int = 0,
) -> Module:
    """Numbers times others that lie along one axis only, which keeps it apart, summed over axes."""
    whole = "x".join(map(str, dims))
    along = "x".join(str(d) if i == weights else "1" for i, d in enumerate(dims))
    summed = "x".join("1" if i in axes else str(d) for i, d in enumerate(dims))
    declared = f"dim N <= {bound}\n" if bound else ""
    return parse(
        f"{declared}func @f(%x: tensor<{whole}xf32> input, %w: tensor<{along}xf32> input)"
        f" -> (y: tensor<{summed}xf32>) arena 0 {{\n"
        f"  %y = kernel %x, %w {schedule}at result:0 : tensor<{summed}xf32> {{\n"
        f"  ^(%p: tensor<{whole}xf32>, %q: tensor<{along}xf32>):\n"
        f"    %0 = broadcast %q {{dims = [{', '.join(map(str, dims))}]}} : tensor<{whole}xf32>\n"
        f"    %1 = mul %p, %0 : tensor<{whole}xf32>\n"
        f"    %2 = reduce_sum %1 {{axes = {list(axes)}}} : tensor<{summed}xf32>\n"
        "    yield %2\n  }\n  return %y\n}\n"
    )


def nest(module: Module) -> Nest:
    first = module.functions[0].block.first
    assert first is not None
    (made,) = nests_of(first)
    return made


def run(module: Module, target: Target, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    (function,) = module.functions
    signature = make_signature(module, function)
    sizes = {"N": len(x)} if module.dims else {}
    compiled = compile_function(function, signature, target)
    return call(compiled, signature, {"x": x, "w": w}, sizes)["y"]


def numbers(shape: Sequence[int], weights: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(5)
    along = [n if i == weights else 1 for i, n in enumerate(shape)]
    return rng.random(shape).astype(np.float32), rng.random(along).astype(np.float32)


@pytest.mark.parametrize("turns", [0, 1, CHAIN, CHAIN + 1, CHAIN**2, CHAIN**2 + 1, 10**9])
def test_loops_over_lanes_have_no_more_than_a_chain_of_turns(turns: int) -> None:
    steps = steps_of(turns, 16)
    assert steps[-1] == 16
    assert all(a == CHAIN * b for a, b in itertools.pairwise(steps))
    assert turns * 16 <= steps[0] * CHAIN
    assert len(steps) == 1 or turns * 16 > steps[0]


@pytest.mark.parametrize(
    ("dims", "axes"),
    [
        ((40, 3), (0,)),
        ((129, 3), (0,)),
        ((10**7, 3), (0,)),
        ((70, 60, 3), (0, 1)),
        ((7, 1000, 3), (0, 1)),
        ((1000, 128, 5), (0, 1)),
        ((1000, 129, 5), (0, 1)),
        ((3, 5000, 40), (1,)),
        ((300, 4, 500), (0, 2)),
    ],
)
def test_no_chain_in_memory_is_long(dims: tuple[int, ...], axes: tuple[int, ...]) -> None:
    """Walks the loops from inside out and counts the additions to the chain at hand."""
    made = nest(kernel(dims, axes))
    blocks = blocks_of(made)
    chain = 1
    for dim in reversed(range(made.lane)):
        if dim in made.stores[0].access.dims:
            continue
        step = 1
        for block in reversed([b for b in blocks if b.dim == dim]):
            assert block.step % step == 0
            chain *= block.step // step
            assert chain <= CHAIN
            chain, step = 1, block.step
        chain *= math.ceil(made.bounds[dim] / step)
    assert chain <= CHAIN


def test_integers_and_extremes_have_no_chains() -> None:
    text = str(kernel((1000, 3), (0,)))
    assert blocks_of(nest(parse(text)))
    assert not blocks_of(nest(parse(text.replace("f32", "i32"))))
    assert not blocks_of(nest(parse(text.replace("reduce_sum", "reduce_max"))))


def test_a_sum_that_is_too_wide_has_one_chain_and_its_parts_have_more() -> None:
    columns = MAX_BYTES // 4 + 16
    assert not blocks_of(nest(kernel((1000, columns), (0,))))
    (block,) = blocks_of(
        nest(kernel((1000, columns), (0,), schedule="schedule {parallel = 1, chunk = 64} "))
    )
    assert block.sizes == (64,)
    (block,) = blocks_of(nest(kernel((1000, columns - 16), (0,))))
    assert block.sizes == (MAX_BYTES // 4,)


@pytest.mark.parametrize("target", runnable_targets(), ids=lambda t: t.isa)
@pytest.mark.parametrize(
    ("shape", "axes", "weights"),
    [
        ((300, 45), (0,), 0),
        ((17_000, 3), (0,), 0),
        ((9, 300, 21), (1,), 0),
        ((300, 3, 21), (0,), 1),
        ((20, 3, 200, 21), (0, 2), 1),
        ((20, 30, 21), (0, 1), 1),
        ((5, 300, 4, 7), (1,), 2),
    ],
)
def test_the_bits_are_the_same_however_the_work_is_cut(
    shape: tuple[int, ...], axes: tuple[int, ...], weights: int, target: Target
) -> None:
    x, w = numbers(shape, weights)
    whole = run(kernel(shape, axes, weights=weights), target, x, w)
    exact = (x.astype(np.float64) * w).sum(axes, keepdims=True)
    np.testing.assert_allclose(whole, exact, rtol=3e-6)
    for axis, length in itertools.product(range(len(shape)), (1, 2, 8, 20)):
        if axis not in axes:
            schedule = f"schedule {{parallel = {axis}, chunk = {length}}} "
            found = run(kernel(shape, axes, weights=weights, schedule=schedule), target, x, w)
            np.testing.assert_array_equal(found, whole)


@pytest.mark.parametrize("target", runnable_targets(), ids=lambda t: t.isa)
@pytest.mark.parametrize(("rest", "axes"), [((21,), (0,)), ((5, 21), (0,)), ((), (0,))])
@pytest.mark.parametrize("samples", [0, 1, 128, 129, 400])
def test_the_bits_do_not_change_with_the_bound_of_the_samples(
    samples: int, rest: tuple[int, ...], axes: tuple[int, ...], target: Target
) -> None:
    x, w = numbers((samples, *rest))
    found = [
        run(kernel(("N", *rest), axes, bound=bound), target, x, w) for bound in (400, 20_000, 10**7)
    ]
    for y in found[1:]:
        np.testing.assert_array_equal(y, found[0])
