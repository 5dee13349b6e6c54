"""What `pickle` and `copy.deepcopy` make of what users hold: the same again, or one clear error."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import pytest

import graphc as gc
from graphc.builder import GraphBuilder

CYCLE = """
x = Input(2, tag=feature)
W = Parameter(2, 2)
h = Tanh(Plus(x, Times(W, PastValue(2, h))), tag=output)
"""
T = TypeVar("T")
STEPS = [np.arange(6, dtype=np.float32).reshape(3, 2) / 5]


def pickled(given: T) -> T:
    return pickle.loads(pickle.dumps(given))  # noqa: S301  # made here


WAYS = pytest.mark.parametrize("again", [pickled, copy.deepcopy])
Again = Callable[[object], object]


@gc.function
def doubled(x: gc.Tensor) -> gc.Tensor:
    return x * 2


def same_network(one: GraphBuilder, other: GraphBuilder) -> None:
    assert type(one) is type(other)
    assert str(one) == str(other)
    assert [n.location for n in one.nodes] == [n.location for n in other.nodes]


@WAYS
def test_a_network_with_a_cycle_computes_the_same(again: Again) -> None:
    """Its kinds of nodes were copied too, and a copied PastValue is none."""
    net = gc.loads(CYCLE)
    made = again(net)
    assert isinstance(made, GraphBuilder)
    same_network(made, net)
    one, other = (gc.compile(n)(x=STEPS)["h"][0] for n in (made, net))
    np.testing.assert_array_equal(one, other)


@WAYS
def test_values_are_its_own_and_have_all_their_digits(again: Again) -> None:
    net = gc.loads(CYCLE)
    net.parameters["W"] = np.full((2, 2), 1 / 3)
    made = again(net)
    assert isinstance(made, GraphBuilder)
    wanted = gc.compile(net, precision="f64")(x=STEPS)["h"][0]
    net.parameters["W"][...] = 7
    found = gc.compile(made, precision="f64")(x=STEPS)["h"][0]
    np.testing.assert_array_equal(found, wanted)


@WAYS
def test_a_network_that_is_not_finished_and_its_nodes(again: Again) -> None:
    net = gc.Network()
    x = net.input("x", 2)
    late = net.past_value(2)
    h = net.tanh(net.plus(x, net.parameter("W", 2, 0) @ late), name="h", tag="output")
    net.model.seed = 3
    copied, also_late, also_x = again([net, late, x])  # type: ignore[misc]  # an object
    assert also_x is copied.find("x")
    with pytest.raises(gc.GraphcError, match="requires the node that it is the delay of"):
        gc.compile(copied)
    also_late.bind(copied.find("h"))
    late.bind(h)
    same_network(copied, net)
    np.testing.assert_array_equal(copied.parameters["W"], net.parameters["W"])


def test_a_deep_network() -> None:
    net = gc.Network()
    x = net.input("x", 2)
    for _ in range(1500):
        x = net.tanh(x)
    for made in (pickled(net), copy.deepcopy(net)):
        assert len(made.nodes) == 1501


class Named(gc.Network):
    """A network with an attribute of the user's."""

    def __init__(self, rows: int) -> None:
        super().__init__()
        self.first = self.input("x", rows)


@WAYS
def test_a_class_of_the_users(again: Again) -> None:
    made = again(Named(3))
    assert isinstance(made, Named)
    assert made.first is made.find("x")
    made.tanh(made.first)


def test_a_removed_node_is_refused() -> None:
    net = gc.Network()
    x = net.input("x", 2)
    net.remove(x)
    with pytest.raises(gc.GraphcError, match="node `x` was removed"):
        pickle.dumps(x)


@WAYS
def test_a_program(again: Again) -> None:
    def scaled(x: gc.Tensor, w: gc.Tensor) -> dict[str, gc.Tensor]:
        return {"y": x * w}

    program = gc.program(scaled, {"x": "Nx2xf64"}, parameters={"w": np.array([1.5, -2.0])})
    made = again(program)
    assert isinstance(made, gc.Program)
    program.parameters["w"] = np.zeros(2)
    found = gc.compile(made)(x=np.ones((3, 2)))["y"]
    np.testing.assert_array_equal(found, np.tile([1.5, -2.0], (3, 1)))


def test_a_function_of_arrays_goes_by_its_name() -> None:
    doubled(np.ones(2))
    for made in (pickled(doubled), copy.deepcopy(doubled), copy.copy(doubled)):
        assert made is doubled


@pytest.mark.parametrize("made", [gc.grad(doubled), gc.function(lambda x: x), gc.function(np.sum)])
def test_a_function_of_arrays_that_no_module_has(made: object) -> None:
    with pytest.raises(gc.GraphcError, match=r"cannot be pickled, its module"):
        pickle.dumps(made)
    assert copy.deepcopy(made) is made


@pytest.mark.parametrize("way", [pickle.dumps, copy.deepcopy, copy.copy])
def test_compiled_code_is_refused(way: Callable[[object], object]) -> None:
    net = gc.loads("x = Input(2)\nt = Input(2)\nCE = SquareError(t, Times(Parameter(2, 2), x))")
    with pytest.raises(gc.GraphcError, match=r"a compiled function cannot .* network or program"):
        way(gc.compile(net, "CE"))
    net.add_tag(net.find("CE"), "criterion")  # type: ignore[arg-type]  # it is there
    with pytest.raises(gc.GraphcError, match=r"a training step cannot .* checkpoint"):
        way(gc.compile_training(net, learner=gc.SGD(0.1)))


def test_results_learners_and_readers() -> None:
    net = gc.loads(CYCLE)
    results = pickled(gc.compile(net)(x=STEPS))
    assert results["H"][0].shape == (3, 2)
    assert pickled(gc.Adam(0.1)) == gc.Adam(0.1)
    reader = pickled(gc.readers.from_arrays({"x": np.ones((4, 3))}))
    assert reader.fingerprint.endswith("4 samples")
