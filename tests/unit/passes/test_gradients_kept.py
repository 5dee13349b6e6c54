"""Passes that may run before differentiation keep the gradient, also where there are several.

Values that tie, zeros and infinities are where two functions with the same values can differ in
their gradients. The judge differentiates the function as it was, by the operations' own rules, and
evaluates that operation by operation: no pass runs in it.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from graphc.ir.clone import clone_module
from graphc.ir.core import Array, Function, Module, ResultInfo
from graphc.ir.evaluate import evaluate
from graphc.ir.types import TensorType
from graphc.ops import default_context
from graphc.passes import PASSES, pipeline
from graphc.passes.manager import PassManager
from graphc.support.diagnostics import GraphcError
from tests.support.compiling import parse
from tests.support.differentiate import differentiate
from tests.support.random_functions import RandomFunction, make_function

KEEPING = ["simplify", "fold-constants", "cse", "dce", "simplify,fold-constants,simplify,cse,dce"]

Numbers = dict[str, Array]


def gradients(module: Module, given: Numbers, sizes: dict[str, int]) -> Numbers:
    """Of Σ result over all results, with respect to every argument that it depends on."""
    (function,) = clone_module(module).functions
    differentiate(function)
    return evaluate(function, given | seeds(function, given, sizes), sizes)


def seeds(function: Function, given: Numbers, sizes: dict[str, int]) -> Numbers:
    """Ones for the cotangents, which `differentiate` has made further arguments."""
    types = {a.name or "": a.type for a in function.arguments if a.name not in given}
    return {
        n: np.ones(t.shape(sizes), t.dtype.numpy)
        for n, t in types.items()
        if isinstance(t, TensorType)
    }


def has_nan(module: Module, given: Numbers, sizes: dict[str, int]) -> bool:
    """Whether any value on the way to the results is nan."""
    (function,) = clone_module(module).functions
    terminator = function.block.terminator
    assert terminator is not None
    values = [v for op in function.block for v in op.results]
    terminator.set_operands(values)
    function.results[:] = [ResultInfo(f"v{i}") for i in range(len(values))]
    arrays = evaluate(function, given, sizes).values()
    return any(x.dtype.kind == "f" and bool(np.isnan(x).any()) for x in arrays)


def with_ties(arrays: Numbers, seed: int, infinite: bool) -> Numbers:
    """Floats replaced by a few whole numbers, among which most tie, or by infinities too."""
    rng = np.random.default_rng(seed)
    choices = [-2.0, -1.0, -0.0, 0.0, 0.0, 1.0, 2.0]
    choices += [np.inf, -np.inf] if infinite else []
    return {
        n: rng.choice(choices, x.shape).astype(x.dtype) if x.dtype.kind == "f" else x
        for n, x in arrays.items()
    }


def assert_gradients_kept(module: Module, text: str, given: Numbers, sizes: dict[str, int]) -> None:
    """Compares gradients before and after.

    What is nan before may be anything after: 0 * inf can be left out.
    """
    rewritten = clone_module(module)
    PassManager(pipeline(text), verify=True, check_claim=True).run(rewritten, default_context())
    expected, found = (gradients(m, given, sizes) for m in (module, rewritten))
    for name, wanted in expected.items():
        got = found.get(name, np.zeros_like(wanted))
        told = ~np.isnan(wanted)
        # Rounding alone: sums of contributions go in another order where operations were merged.
        finite = wanted[told & np.isfinite(wanted)]
        scale = 1e-4 * max(1.0, float(np.max(np.abs(finite), initial=0.0)))
        np.testing.assert_allclose(got[told], wanted[told], rtol=1e-4, atol=scale, err_msg=name)


@pytest.mark.parametrize("infinite", [False, True])
@pytest.mark.parametrize("text", KEEPING)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])
@given(seed=st.integers(0, 2**32))
def test_a_pass_keeps_gradients_where_values_tie(text: str, infinite: bool, seed: int) -> None:
    made: RandomFunction = make_function(seed)
    given = with_ties(made.arguments, seed, infinite)
    # No element of a row equals an extreme that is nan, and what is computed of one element in
    # place of none has a slope, which may be infinite: neither has a gradient to keep.
    assume(all(made.sizes.values()) and not has_nan(made.module, given, made.sizes))
    assert_gradients_kept(made.module, text, given, made.sizes)


POOLED_BIAS = """
func @f(%x: tensor<1x4x1xf32> input, %b: tensor<1x1x1xf32> parameter) -> (y: tensor<1x1x1x1xf32>) {
  %0 = broadcast %b {dims = [1, 4, 1]} : tensor<1x4x1xf32>
  %1 = add %x, %0 : tensor<1x4x1xf32>
  %2 = patches %1 {axis = 1, sizes = [4], strides = [4]} : tensor<1x1x4x1xf32>
  %y = reduce_max %2 {axes = [2]} : tensor<1x1x1x1xf32>
  return %y
}
"""


def test_this_test_would_see_that_pool_early_changes_gradients() -> None:
    """Four equal elements: the bias moves the extreme once, but each of the four hands on a slope,
    as the toolkit defines it."""
    given = {
        "x": np.zeros((1, 4, 1), np.float32),
        "b": np.zeros((1, 1, 1), np.float32),
    }
    module = parse(POOLED_BIAS)
    assert gradients(module, given, {})["db"].item() == 4
    with pytest.raises(AssertionError):
        assert_gradients_kept(module, "hoist-pooling", given, {})


@pytest.mark.parametrize("text", KEEPING)
def test_passes_that_keep_gradients_say_so(text: str) -> None:
    assert not any(p.changes_gradients for p in pipeline(text))


@pytest.mark.parametrize(
    "last", ['synthesize-gradient{of = "y", wrt = ["b"]}', 'synthesize-tangent{wrt = ["b"]}']
)
def test_a_pass_that_changes_gradients_is_refused_before_differentiation(last: str) -> None:
    changing = [name for name, p in PASSES.items() if p.changes_gradients]
    assert changing == ["hoist-pooling", "fold-scales", "round-factors"]
    for name in changing:
        manager = PassManager(pipeline(f"simplify,{name},cse,{last}"))
        with pytest.raises(GraphcError, match=f"run `{name}` after it"):
            manager.run(parse(POOLED_BIAS), default_context())
