"""Preparing a network: sizes without values, and the limit on values that are drawn."""

from __future__ import annotations

import numpy as np
import pytest

import graphc.driver.prepare as module
from frontends.network import Network
from graphc.driver.prepare import infer, prepare
from graphc.model.initialise import MAX_ELEMENTS
from graphc.model.model import Model
from graphc.support.diagnostics import GraphcError


def network(rows: int, cols: int) -> Network:
    net = Network()
    net.times(net.parameter("W", rows, 0), net.input("x", cols), name="y")
    return net


def test_sizes_are_found_without_drawing_anything() -> None:
    model = network(2, 3).model
    infer(model)
    assert str(model.find("W").result.type) == "matrix<2x3>"  # type: ignore[union-attr]
    assert not model.values


def test_a_parameter_too_large_to_draw_is_an_error_at_its_place() -> None:
    model = network(MAX_ELEMENTS // 2, 3).model
    with pytest.raises(GraphcError, match="`W` is 1073741824 x 3 = 3221225472") as caught:
        prepare(model)
    (problem,) = caught.value.diagnostics
    assert problem.slug == "limit"
    assert problem.span is not None
    assert problem.span.file == __file__


def test_a_large_parameter_that_has_its_value_is_not_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    model = network(2, 3).model
    model.values["W"] = np.ones((2, 3), np.float32)
    monkeypatch.setattr("graphc.model.initialise.MAX_ELEMENTS", 1)
    prepare(model)
    assert model.values["W"].sum() == 6


def test_no_memory_for_initial_values_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(self: Model) -> None:
        raise MemoryError

    monkeypatch.setattr(module.Model, "initialise", exhausted)
    with pytest.raises(GraphcError, match="more memory than there is") as caught:
        prepare(network(2, 3).model)
    assert caught.value.diagnostics[0].slug == "limit"
