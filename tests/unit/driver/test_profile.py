"""Profiles: the time of each operation, with its work and its source."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.backends import BACKENDS
from graphc.driver.compile import bind, evaluation_passes
from graphc.driver.options import CompileOptions
from graphc.driver.profile import Profile, ProfileRow
from graphc.learn.step import compile_training_step
from graphc.support.diagnostics import GraphcError

pytestmark = pytest.mark.llvm

NETWORK = """x = Input(3, tag=feature)
t = Input(2, tag=label)
W = Parameter(2, 3)
z = Tanh(Times(W, x), tag=output)
c = SquareError(t, z, tag=criterion)
"""
RECURRENT = """x = Input(3)
W = Parameter(4, 3)
R = Parameter(4, 4)
p = PastValue(4, 1, h)
h = Tanh(Plus(Times(W, x), Times(R, p)))
z = Scale(Constant(2), h, tag=output)
"""
RANDOM = np.random.default_rng(4)
X = RANDOM.standard_normal((9, 3)).astype(np.float32)
T = RANDOM.standard_normal((9, 2)).astype(np.float32)


def profiled(text: str, profile: Profile | None, **options: Any) -> Any:
    chosen = CompileOptions(profile=profile, **options)
    return bind(gc.loads(text).model, lambda m, o: evaluation_passes(m, ["z"], (), o), chosen)


def row_of(profile: Profile, start: str) -> ProfileRow:
    (found,) = [row for row in profile.rows() if row.operation.startswith(start)]
    return found


def test_a_profiled_function_computes_the_same_bits() -> None:
    profile = Profile()
    np.testing.assert_array_equal(
        profiled(NETWORK, profile)(x=X)["z"], profiled(NETWORK, None)(x=X)["z"]
    )
    assert profile.calls == 1


def test_rows_say_what_ran_how_often_and_where_it_was_written() -> None:
    profile = Profile()
    function = profiled(NETWORK, profile)
    function(x=X)
    function(x=X[:4])
    product = row_of(profile, "gemm")
    assert (product.operation, product.calls) == ("gemm N x 2 x 3", 2)
    assert product.nodes == ("Times in z",)
    assert product.lines == ("<text>:4",)
    assert product.cost.flops == 2 * (9 + 4) * 2 * 3
    kernel = row_of(profile, "kernel")
    assert (kernel.nodes, kernel.cost.flops, kernel.dtype) == (("z",), (9 + 4) * 2, "f32")
    assert 0 < product.seconds < profile.seconds


def test_a_reset_forgets_the_calls() -> None:
    profile = Profile(keep_events=True)
    function = profiled(NETWORK, profile)
    function(x=X)
    profile.reset()
    assert (profile.calls, profile.seconds, profile.rows(), profile.events()) == (0, 0, [], [])
    function(x=X)
    assert profile.calls == 1


def test_a_training_step_has_rows_for_updates() -> None:
    profile = Profile()
    options = CompileOptions(profile=profile, batch=8)
    step = compile_training_step(gc.loads(NETWORK).model, gc.SGD(0.1, momentum=0.9), options)
    for part in (slice(0, 8), slice(8, 9)):
        step(x=X[part], t=T[part])
    nodes = {node for row in profile.rows() for node in row.nodes}
    assert nodes == {"Times in z", "z", "c", "d.W", "update of W"}


def test_an_epoch_in_one_call_counts_its_minibatches() -> None:
    profile = Profile()
    options = CompileOptions(profile=profile, batch=4)
    step = compile_training_step(gc.loads(NETWORK).model, gc.SGD(0.1), options)
    step.run_epoch({"x": X, "t": T}, minibatch=4)
    assert profile.calls == 3
    forward = next(r for r in profile.rows() if r.operation == "gemm N x 2 x 3")
    assert (forward.calls, forward.cost.flops) == (3, 2 * 9 * 2 * 3)


def test_operations_in_a_loop_are_added_up_over_its_steps() -> None:
    profile = Profile(keep_events=True)
    profiled(RECURRENT, profile, time=8)(x=[X[:5]])
    rows = profile.rows()
    inside = [row for row in rows if row.depth == 1]
    assert {row.calls for row in inside} == {5}
    assert {row.calls for row in rows if row.depth == 0} == {1}
    product = next(row for row in inside if row.operation.startswith("gemm"))
    assert product.nodes == ("Times in h",)
    assert product.cost.flops == 5 * 2 * 4 * 4
    assert row_of(profile, "loop").seconds >= 0
    by_row = [e.row for e in profile.events()]
    assert by_row.count(rows.index(product)) == 5


def test_events_lie_inside_their_call_and_in_order() -> None:
    profile = Profile(keep_events=True)
    function = profiled(NETWORK, profile)
    function(x=X)
    function(x=X)
    events = profile.events()
    assert [e.row for e in events] == [None, 0, 1, None, 0, 1]
    assert all(a.start <= b.start for a, b in pairwise(events))
    call, *inner = events[:3]
    assert all(e.start + e.seconds <= call.start + call.seconds for e in inner)


def test_without_a_trace_no_events_are_kept() -> None:
    profile = Profile()
    profiled(NETWORK, profile)(x=X)
    assert [e.row for e in profile.events()] == [None]


def test_a_larger_call_is_a_function_of_its_own() -> None:
    profile = Profile(keep_events=True)
    function = profiled(NETWORK, profile, batch=4)
    function(x=X[:4])
    function(x=X)
    assert profile.calls == 2
    assert len(profile.rows()) == 4
    assert {e.row for e in profile.events()} == {None, 0, 1, 2, 3}


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_other_backends_take_no_times(backend: str) -> None:
    with pytest.raises(GraphcError, match=f"the backend {backend} takes no times"):
        profiled(NETWORK, Profile(), backend=backend)


def test_the_peak_is_more_than_nothing() -> None:
    offered = BACKENDS["llvm"]().profile
    assert offered is not None
    peak = offered.peak()
    assert peak.flops > 1e8
    assert peak.bytes > 1e7
