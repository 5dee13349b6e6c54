"""Preparing a network: sizes without values, and the limit on values that are drawn."""

from __future__ import annotations

from collections.abc import Callable, Set

import numpy as np
import pytest

import graphc as gc
import graphc.driver.prepare as module
from graphc.driver.prepare import infer, prepare
from graphc.model.initialise import MAX_ELEMENTS
from graphc.model.model import Model
from graphc.support.diagnostics import GraphcError
from graphc_frontends.network import Network


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


def test_what_is_not_asked_for_is_not_drawn() -> None:
    net = network(2, 3)
    net.parameter("vast", MAX_ELEMENTS - 1, 5)
    exe = gc.compile(net, ["y"], backend="numpy")
    assert list(net.model.values) == ["W"]
    drawn = exe(x=np.eye(3, dtype=np.float32))["y"]
    assert np.array_equal(drawn, network(2, 3).parameters["W"].T)


@pytest.mark.parametrize("backend", ["numpy", "reference"])
def test_a_parameter_has_the_same_value_whenever_it_is_drawn(backend: str) -> None:
    nets = [network(2, 3), network(2, 3)]
    for net in nets:
        net.times(net.parameter("V", 2, 3), net.input("u", 3), name="z")
    gc.compile(nets[0], ["z"], backend=backend)
    assert list(nets[0].model.values) == ["V"]
    for name in ("V", "W"):
        assert np.array_equal(nets[0].parameters[name], nets[1].parameters[name])


def test_a_frozen_function_does_not_follow_a_parameter_set_after_it() -> None:
    net = network(2, 3)
    exe = gc.compile(net, ["y"], backend="numpy", freeze=True, batch=1)
    before = net.parameters["W"].copy()
    net.parameters["W"] = np.zeros((2, 3))
    for size in (1, 3):  # three are beyond the bound: compiled again
        x = np.eye(3, dtype=np.float32)[:size]
        assert np.array_equal(exe(x=x)["y"], before.T[:size])


@pytest.mark.parametrize(
    "use",
    [
        lambda net: gc.compile(net),
        lambda net: gc.compile_training(net, learner=gc.SGD(learning_rate=1)),
        lambda net: gc.train(net, {"x": np.ones((2, 3))}, learning_rate=1),
        lambda net: gc.evaluate(net, {"x": np.ones((2, 3))}),
    ],
)
def test_a_missing_root_shows_before_any_value_is_drawn(use: Callable[[Network], object]) -> None:
    net = network(MAX_ELEMENTS - 1, 3)  # nothing is tagged
    with pytest.raises(GraphcError, match="nodes are specified"):
        use(net)
    assert not net.model.values


def test_no_memory_for_initial_values_is_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def exhausted(self: Model, names: Set[str]) -> None:
        raise MemoryError

    monkeypatch.setattr(module.Model, "initialise", exhausted)
    with pytest.raises(GraphcError, match="more memory than there is") as caught:
        prepare(network(2, 3).model)
    assert caught.value.diagnostics[0].slug == "limit"
