"""Delays of the Python builder: forward references, and what goes wrong with them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

import graphc as gc
from graphc.driver.prepare import prepare
from graphc.ops.nodes.delays import DelayParams
from graphc.support.diagnostics import GraphcError
from graphc_frontends.network import Network, NetworkNode

NDL = """
x = Input(3, tag=feature)
W = Parameter(2, 3)
R = Parameter(2, 2)
before = PastValue(2, h)
h = Tanh(Plus(Times(W, x), Times(R, before)))
"""


def recurrent(rows: int) -> Network:
    net = Network()
    x = net.input("x", 3, tag="feature")
    w, r = net.parameter("W", 2, 3), net.parameter("R", 2, 2)
    before = net.past_value(rows, name="before")
    before.bind(net.tanh(w @ x + r @ before, name="h"))
    return net


def test_a_bound_delay_is_the_cycle_that_ndl_writes() -> None:
    written = gc.loads(NDL)
    edges = {
        n.name: [v.name for v in n.operation.operands if "unnamed" not in (v.name or "")]
        for n in recurrent(2).nodes
    }
    wanted = {
        n.name: [v.name for v in n.operation.operands if "unnamed" not in (v.name or "")]
        for n in written.nodes
    }
    assert {k: v for k, v in edges.items() if "unnamed" not in k} == {
        k: v for k, v in wanted.items() if "unnamed" not in k
    }
    assert edges["before"] == ["h"]


def test_rows_that_are_not_given_are_those_of_the_node_that_it_is_bound_to() -> None:
    net = recurrent(0)
    prepare(net.model)
    before = net.find("before")
    assert before is not None
    assert str(before.operation.result.type) == "matrix<2x*>"


def test_binding_gives_the_node_that_is_bound() -> None:
    net = Network()
    before = net.past_value(3)
    h = net.tanh(net.input("x", 3) + before)
    assert before.bind(h) is h


@pytest.mark.parametrize("kind", ["past_value", "future_value"])
def test_a_delay_has_its_settings(kind: str) -> None:
    net = Network()
    delay = getattr(net, kind)(4, time_step=3, default_hidden_activity=0.5, name="d", tag="output")
    assert delay.op == kind
    assert delay.operation.params == DelayParams(4, 3, 0.5, ("output",))


def test_a_delay_of_a_node_needs_no_binding() -> None:
    net = Network()
    x = net.input("x", 3)
    delay = net.past_value(x, rows=3)
    assert delay.operation.operands == (x.operation.result,)
    assert delay.operation.params == DelayParams(rows=3)


def _not_a_delay(net: Network, x: NetworkNode) -> object:
    return net.tanh(x, name="t").bind(x)


def _bound_twice(net: Network, x: NetworkNode) -> object:
    before = net.past_value(3, name="before")
    before.bind(x)
    return before.bind(x)


def _bound_to_itself(net: Network, x: NetworkNode) -> object:
    before = net.past_value(3, name="before")
    return before.bind(before)


def _bound_to_a_number(net: Network, x: NetworkNode) -> object:
    return net.past_value(3).bind(2.0)  # type: ignore[arg-type]


def _bound_elsewhere(net: Network, x: NetworkNode) -> object:
    return net.past_value(3).bind(Network().input("y", 3))


def _a_delay_of_a_number(net: Network, x: NetworkNode) -> object:
    return net.past_value(2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "slug", "message"),
    [
        (_not_a_delay, "argument-type", "bind requires a past_value or future_value, `t` is tanh"),
        (_bound_twice, "bad-value", "`before` is bound to `x` already"),
        (_bound_to_itself, "bad-value", "another node than `before` itself"),
        (_bound_to_a_number, "argument-type", "bind requires nodes of this network, got 2.0"),
        (_bound_elsewhere, "argument-type", "bind requires nodes of this network"),
        (_a_delay_of_a_number, "argument-type", "past_value requires nodes of this network"),
        (lambda n, _: n.past_value(-2), "bad-value", "rows of at least 0"),
        (lambda n, _: n.past_value(2, time_step=0), "bad-value", "a time step of at least 1"),
    ],
)
def test_a_mistake_is_an_error_at_its_line(
    make: Callable[[Network, NetworkNode], object], slug: str, message: str
) -> None:
    net = Network()
    with pytest.raises(GraphcError, match=re.escape(message)) as caught:
        make(net, net.input("x", 3))
    (problem,) = caught.value.diagnostics
    assert problem.slug == slug
    assert problem.span is not None
    assert problem.span.file == __file__


@pytest.mark.parametrize("rows", [0, 2])
def test_a_delay_that_is_never_bound_is_an_error_where_it_was_made(rows: int) -> None:
    net = Network()
    before = net.past_value(rows, name="before")
    net.tanh(net.input("x", 2) + before, name="h", tag="output")
    with pytest.raises(GraphcError, match="`before` requires the node that it is the") as caught:
        gc.compile(net, outputs=["h"])
    (problem,) = caught.value.diagnostics
    assert problem.slug == "missing-node"
    assert problem.span == before.location.span
