"""Dropout in training: the mask's numbers, what decides them and what does not."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

from graphc.ir.core import Array, Function, Module
from graphc.ir.evaluate import evaluate
from graphc.ir.types import DType, Symbol
from graphc.ir.verifier import verify_module
from graphc.passes.expand_nodes import expand_nodes
from graphc.passes.synthesize_gradient import synthesize_gradient
from graphc.support.diagnostics import DiagnosticSink, render
from tests.support.nodes import network

NODES = {"x": "node.input {rows = 50}", "v": "node.dropout %x"}


def function_of(
    nodes: Mapping[str, str] = NODES, seed: int = 0, dtype: DType = DType.F64
) -> Function:
    sink, dim = DiagnosticSink(), Symbol("N", 64)
    function = expand_nodes(network(dict(nodes)).graph, ["v"], dtype, dim, sink, seed)
    assert function is not None, render(sink.diagnostics)
    assert synthesize_gradient(function, "v", ["x"], sink)
    verify_module(Module([function], [dim]), sink)
    assert not sink.diagnostics, render(sink.diagnostics)
    return function


def mask(
    function: Function, rate: float = 0.4, step: int = 0, samples: int = 40, rows: int = 50
) -> Array:
    """What it makes of ones, and that their gradients are the same."""
    types = [a.type.dtype.numpy for a in function.arguments]  # type: ignore[union-attr]
    given = [np.ones((samples, rows)), np.full((1, 1), rate), np.full((1, 1), step)]
    arguments = {
        a.name or "": value.astype(dtype)
        for a, value, dtype in zip(function.arguments, given, types, strict=True)
    }
    found = evaluate(function, arguments, {"N": samples})
    np.testing.assert_array_equal(found["v"], found["gradient.x"])
    return found["v"]


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_the_share_of_zeros_is_the_rate_and_the_others_are_scaled_up(rate: float) -> None:
    found = mask(function_of(), rate)
    assert set(np.unique(found)) == {0.0, 1 / (1 - rate)}
    deviation = np.sqrt(rate * (1 - rate) / found.size)
    assert abs(np.mean(found == 0) - rate) < 4 * deviation


def test_a_rate_of_zero_keeps_every_element() -> None:
    np.testing.assert_array_equal(mask(function_of(), 0.0), 1.0)


@pytest.mark.parametrize("dtype", [DType.F32, DType.F64])
def test_a_rate_of_nearly_one_gives_numbers(dtype: DType) -> None:
    found = mask(function_of(dtype=dtype), 1 - 1e-12)
    np.testing.assert_array_equal(found, 0.0)


def test_the_mask_is_the_same_in_both_precisions() -> None:
    """Also at a rate that the two precisions round to different numbers."""
    masks = [mask(function_of(dtype=d), 0.7) == 0 for d in (DType.F32, DType.F64)]
    np.testing.assert_array_equal(*masks)


def test_equal_seeds_and_steps_give_equal_masks() -> None:
    np.testing.assert_array_equal(mask(function_of(), step=7), mask(function_of(), step=7))


def test_a_short_minibatch_has_the_first_rows_of_the_whole_mask() -> None:
    function = function_of()
    np.testing.assert_array_equal(mask(function, samples=9), mask(function, samples=40)[:9])


@pytest.mark.parametrize("step", [1, 2**20, 2**31, 2**32 - 1])
def test_every_step_has_a_mask_of_its_own(step: int) -> None:
    function = function_of()
    first, other = mask(function, 0.5) == 0, mask(function, 0.5, step=step) == 0
    assert 0.4 < np.mean(first != other) < 0.6


def test_every_seed_has_a_mask_of_its_own() -> None:
    first, other = mask(function_of(), 0.5) == 0, mask(function_of(seed=1), 0.5) == 0
    assert 0.4 < np.mean(first != other) < 0.6


def test_two_nodes_have_masks_of_their_own() -> None:
    found = mask(function_of({**NODES, "v": "node.dropout %w", "w": "node.dropout %x"}), 0.5)
    assert 0.7 < np.mean(found == 0) < 0.8
    assert set(np.unique(found)) == {0.0, 4.0}


def test_the_name_decides_and_not_the_place() -> None:
    alone = mask(function_of())
    behind = {"x": NODES["x"], "a": "node.negate %x", "w": "node.negate %a", "v": "node.dropout %w"}
    np.testing.assert_array_equal(mask(function_of(behind)), alone)


def test_a_parameter_can_be_dropped_too() -> None:
    nodes = {"x": "node.parameter {rows = 50, cols = 40}", "v": "node.dropout %x"}
    found = mask(function_of(nodes), 0.5, samples=50, rows=40)
    assert 0.4 < np.mean(found == 0) < 0.6
