"""Sizes that do not fit matter where a result needs them, and are warned of elsewhere."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import graphc as gc
from graphc.support.diagnostics import Severity

GOOD = """
x = Input(3, tag=feature)
W = Parameter(2, 0, init=fixedValue, value=1)
z = Times(W, x)
J = SumElements(z, tag=criteria)
"""

ASIDE = {
    "a product": "V = Parameter(2, 4); b = Times(V, x)",
    "a sum": "b = Plus(z, x)",
    "an unknown size": "b = Parameter(0, 2)",
    "and what reads it": "V = Parameter(2, 4); b = Times(V, x); c = Tanh(b); d = Plus(c, z)",
    "a bad setting": "b = RowSlice(2, 5, x)",
    "a cycle of unknown sizes": "b = Sigmoid(d); d = PastValue(0, 1, b)",
    "a statistic of it": "V = Parameter(2, 4); b = Times(V, x); m = Mean(b)",
    "the same parameter": "y = Input(7); b = Times(W, y)",
}


def warned_of(text: str) -> tuple[list[str], gc.Network]:
    """The warnings of finding sizes, and the network."""
    net = gc.loads(text)
    with pytest.warns(gc.GraphcWarning) as caught:
        _ = net.parameters
    messages: list[str] = []
    for warning in caught:
        assert isinstance(warning.message, gc.GraphcWarning)
        messages += [d.message for d in warning.message.diagnostics]
    return messages, net  # type: ignore[return-value]


@pytest.mark.parametrize("aside", ASIDE.values(), ids=ASIDE)
@pytest.mark.parametrize("order", [1, -1], ids=["after", "before"])
@pytest.mark.filterwarnings("ignore::graphc.GraphcWarning")
def test_what_nobody_needs_does_not_stop_a_network(aside: str, order: int, tmp_path: Path) -> None:
    text = "\n".join([GOOD, aside][::order])
    net = gc.loads(text)
    assert net.parameters["W"].shape == (2, 3)
    net.precompute(x=np.ones((4, 3)))
    results = gc.compile(net, "J", gradients="W", verify=True)(x=np.ones((4, 3)))
    assert results["J"] == 24
    assert results["gradient.W"].tolist() == [[4.0] * 3] * 2
    step = gc.compile_training(net, learner=gc.SGD(learning_rate=0.0), verify=True)
    step(x=np.ones((4, 3)))
    net.save(tmp_path / "net.safetensors")
    again = gc.load(tmp_path / "net.safetensors")
    assert gc.compile(again, "J")(x=np.ones((4, 3)))["J"] == 24
    assert all(value.size for value in dict(again.parameters).values())


@pytest.mark.parametrize("aside", ASIDE.values(), ids=ASIDE)
def test_what_nobody_needs_is_one_warning(aside: str) -> None:
    (message,), _ = warned_of(f"{GOOD}\n{aside}")
    assert "requires" in message or "cannot be inferred" in message


@pytest.mark.parametrize("aside", ASIDE.values(), ids=ASIDE)
@pytest.mark.filterwarnings("ignore::graphc.GraphcWarning")
def test_whoever_asks_for_it_gets_the_error(aside: str) -> None:
    net = gc.loads(f"{GOOD}\n{aside}")
    with pytest.raises(gc.GraphcError) as caught:
        gc.compile(net, ["J", "b"], time=4 if "PastValue" in aside else 0)
    assert {d.severity for d in caught.value.diagnostics} == {Severity.ERROR}
    assert caught.value.diagnostics[0].slug in ("shape-mismatch", "ill-typed")


@pytest.mark.parametrize("aside", ASIDE.values(), ids=ASIDE)
@pytest.mark.parametrize("tag", ["output", "eval", "criteria"])
def test_a_tag_makes_it_an_error(aside: str, tag: str) -> None:
    arrays = {"output": "OutputNodes", "eval": "EvalNodes", "criteria": "CriteriaNodes"}
    net = gc.loads(f"{GOOD}\n{aside}\n{arrays[tag]}=(b)")
    with pytest.raises(gc.GraphcError):
        _ = net.parameters


def test_without_results_every_node_counts() -> None:
    net = gc.loads("x = Input(3, tag=feature)\nW = Parameter(2, 4)\nz = Times(W, x)")
    with pytest.raises(gc.GraphcError, match="Times requires"):
        _ = net.parameters


def test_a_node_that_nobody_needs_decides_no_size_that_a_result_needs() -> None:
    """In the order of the text `b` would come first, and the error at `z`."""
    before = "y = Input(7)\nW = Parameter(2, 0)\nb = Times(W, y)\n"
    (message,), net = warned_of(f"{before}x = Input(3)\nz = Times(W, x, tag=output)")
    assert net.parameters["W"].shape == (2, 3)
    assert "the columns of A to match the rows of B, got 3 and 7" in message


def test_it_still_decides_where_nothing_else_does() -> None:
    net = gc.loads("W = Parameter(2, 0)\nx = Input(3)\nb = Times(W, x)\nr = Negate(W, tag=output)")
    assert net.parameters["W"].shape == (2, 3)
