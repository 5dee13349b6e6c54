"""Operands of every method: numbers are constants, as in NDL, anything else is refused at once."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest

from graphc.builder import Node
from graphc.ops.nodes.leaves import ConstantParams
from graphc.support.diagnostics import GraphcError
from graphc_frontends.network import Network, NetworkNode

METHODS = [
    (name, place)
    for name, method in inspect.getmembers(Network, inspect.isfunction)
    if not name.startswith("_")
    for place in inspect.signature(method).parameters.values()
    if "Operand" in str(place.annotation)
]
"""Every method with each of its places for a node."""


def arguments(net: Network, method: str, place: inspect.Parameter, given: object) -> list[object]:
    """A call's positional arguments: nodes, small numbers, and `given` in its place."""
    places = inspect.signature(getattr(net, method)).parameters.values()
    needed = [p for p in places if p.kind is not p.KEYWORD_ONLY]
    x = net.input("x", 4)
    made: list[object] = []
    for p in needed:
        if p.name == place.name:
            made.append(given)
        elif "Operand" in str(p.annotation):
            made.append(x)
        elif p.default is p.empty:
            made.append(1)
    return made


def test_there_are_methods_to_try() -> None:
    assert len(METHODS) > 50
    assert {"plus", "scale", "crf", "batch_normalization"} <= {name for name, _ in METHODS}


@pytest.mark.parametrize(("method", "place"), METHODS, ids=lambda v: getattr(v, "name", v))
def test_a_number_is_a_constant(method: str, place: inspect.Parameter) -> None:
    net = Network()
    node = getattr(net, method)(*arguments(net, method, place, 0.5))
    assert isinstance(node, NetworkNode)
    (constant,) = [n for n in net.nodes if n.op == "constant"]
    assert value_of(constant) == 0.5
    assert constant.operation.result in node.operation.operands


@pytest.mark.parametrize("wrong", ["x", True, [1.0], object, np.ones(3)], ids=str)
@pytest.mark.parametrize(("method", "place"), METHODS, ids=lambda v: getattr(v, "name", v))
def test_nothing_else_is_an_operand(method: str, place: inspect.Parameter, wrong: object) -> None:
    net = Network()
    given = arguments(net, method, place, wrong)
    refuses(net, lambda: getattr(net, method)(*given), method)


@pytest.mark.parametrize(("method", "place"), METHODS, ids=lambda v: getattr(v, "name", v))
def test_none_is_no_operand(method: str, place: inspect.Parameter) -> None:
    if place.default is None:
        return  # it may be left out
    net = Network()
    given = arguments(net, method, place, None)
    refuses(net, lambda: getattr(net, method)(*given), method)


@pytest.mark.parametrize("given", [None, 2.5, "x", True, np.int64(3)], ids=str)
@pytest.mark.parametrize("method", ["past_value", "future_value"])
def test_a_delay_is_of_a_node_or_of_so_many_rows(method: str, given: object) -> None:
    net = Network()
    net.input("x", 4)
    refuses(net, lambda: getattr(net, method)(given), method)


def value_of(constant: Node) -> float:
    params = constant.operation.params
    assert isinstance(params, ConstantParams)
    return params.value


def refuses(net: Network, make: Callable[[], object], method: str) -> None:
    """The call is an error at its line here, and leaves the network as it was."""
    before = [node.name for node in net.nodes]
    with pytest.raises(GraphcError) as caught:
        make()
    (problem,) = caught.value.diagnostics
    assert problem.slug == "argument-type"
    assert problem.message.startswith(f"{method} requires ")
    assert ", got " in problem.message
    assert problem.span is not None
    assert problem.span.file == __file__
    assert [node.name for node in net.nodes] == before


NUMBERS = (2, 2.0, np.float32(2), np.float64(2), np.int32(2))


@pytest.mark.parametrize("number", NUMBERS, ids=lambda n: type(n).__name__)
def test_any_kind_of_number_will_do(number: float) -> None:
    net = Network()
    x = net.input("x", 4)
    made = [net.scale(number, x), x * number, x + number, number - x]
    assert [str(n.operation.result.type) for n in made] == ["matrix<4x*>"] * 4
    assert {value_of(n) for n in net.nodes if n.op == "constant"} == {2.0}


def test_a_node_that_is_refused_leaves_no_constant_behind() -> None:
    net = Network()
    x = net.input("x", 4)
    with pytest.raises(GraphcError, match="the name `x` is taken"):
        net.scale(0.5, x, name="x")
    assert [n.name for n in net.nodes] == ["x"]


def test_a_whole_number_beyond_f64_is_refused() -> None:
    net = Network()
    x = net.input("x", 4)
    with pytest.raises(GraphcError, match="requires a number, got 1000"):
        net.plus(x, 10**400)
    assert [n.name for n in net.nodes] == ["x"]
