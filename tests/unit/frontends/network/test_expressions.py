"""Python's operators on nodes, judged by numpy on matrices rows x columns; sizes and pictures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

import graphc as gc
from graphc.support.diagnostics import GraphcError
from graphc_frontends.network import Network, NetworkNode
from tests.support.compiling import JUDGED

Array = np.ndarray

RNG = np.random.default_rng(3)
X, Y = RNG.uniform(0.5, 2, (7, 6)), RNG.uniform(-2, 2, (7, 6))  # 7 samples of 6 rows
B = RNG.uniform(0.5, 2, (6, 1))

EXPRESSIONS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "x / y": lambda x, y, b: x / y,
    "x / column": lambda x, y, b: y / b,
    "column / x": lambda x, y, b: b / y,
    "x / 3": lambda x, y, b: y / 3,
    "1 / x": lambda x, y, b: 1 / y,
    "numpy's number / x": lambda x, y, b: np.float64(2) / y,
    "x ** y": lambda x, y, b: x**y,
    "x ** column": lambda x, y, b: x**b,
    "x ** 2": lambda x, y, b: y**2,
    "x ** 0.5": lambda x, y, b: x**0.5,
    "x ** -1": lambda x, y, b: y**-1,
    "2 ** x": lambda x, y, b: 2**y,
    "abs": lambda x, y, b: abs(y),
    "all together": lambda x, y, b: abs(x - 2 * y) / (1 + y**2) - (-b),
    "a row": lambda x, y, b: y[2:3] if isinstance(y, np.ndarray) else y[2],
    "the last row": lambda x, y, b: y[-1:] if isinstance(y, np.ndarray) else y[-1],
    "rows": lambda x, y, b: y[1:4],
    "rows from": lambda x, y, b: y[2:],
    "rows up to": lambda x, y, b: y[:-2],
    "all rows": lambda x, y, b: y[:],
    "rows from the end": lambda x, y, b: y[-3:-1],
    "a list of rows": lambda x, y, b: y[[4, 0, 1, 2, -1, 4]],
    "a list of one": lambda x, y, b: y[[3]],
    "a range of rows": lambda x, y, b: y[range(5, -1, -2)],
    "an array of rows": lambda x, y, b: y[np.array([5, 1])],
    "rows of rows": lambda x, y, b: (x / y)[1:5][2:],
    "rows of a column": lambda x, y, b: x[:2] / b[4:],
}


def network() -> tuple[Network, list[NetworkNode]]:
    net = Network()
    nodes = [net.input("x", 6), net.input("y", 6), net.parameter("b", 6)]
    net.parameters["b"] = B
    return net, nodes


def test_expressions_are_what_numpy_says_and_so_are_their_sizes() -> None:
    net, nodes = network()
    made = {name: expression(*nodes) for name, expression in EXPRESSIONS.items()}
    for i, node in enumerate(made.values()):
        net.rename(node, f"v{i}") if node.name.startswith("unnamed") else None
    found = gc.compile(net, [node.name for node in made.values()], precision="f64")(x=X, y=Y)
    for name, node in made.items():
        expected = EXPRESSIONS[name](X.T, Y.T, B)
        np.testing.assert_allclose(found[node.name], expected.T, rtol=1e-14, err_msg=name)
        assert (node.rows, node.cols) == (expected.shape[0], "*"), name


def test_slopes_of_quotients_and_powers_are_what_calculus_says() -> None:
    net, (x, y, b) = network()
    net.sum_elements(x / b, name="divided", tag="output")
    net.sum_elements(x ** (y + 3) + b**2, name="raised", tag="output")
    of = ["b", "x", "y"]
    found = gc.compile(net, ["divided"], gradients=of[:2], precision="f64")(x=X).gradients
    np.testing.assert_allclose(found["b"], -X.sum(0)[:, None] / B**2, rtol=1e-13)
    np.testing.assert_allclose(found["x"], np.broadcast_to(1 / B.T, X.shape), rtol=1e-13)
    found = gc.compile(net, ["raised"], gradients=of, precision="f64")(x=X, y=Y).gradients
    np.testing.assert_allclose(found["b"], 7 * 2 * B, rtol=1e-13)
    np.testing.assert_allclose(found["x"], (Y + 3) * X ** (Y + 2), rtol=1e-13)
    np.testing.assert_allclose(found["y"], np.log(X) * X ** (Y + 3), rtol=1e-12)


@pytest.mark.parametrize("backend", JUDGED)
def test_what_stands_in_gaps_between_sequences_reaches_no_gradient(backend: str) -> None:
    """A gap holds zeros: 0 / 0, a root of a negative number and infinity would make slopes nan."""
    net = Network()
    x, w = net.input("x", 2), net.parameter("w", 2)
    net.parameters["w"] = np.array([[0.5], [2.0]])
    weighted = net.diag_times(w, x)
    made = weighted / x + w / x + (8 * x - w) ** w
    huge = 1e300 * net.less(x, 0.25)  # only there
    spoiled = x + huge * huge
    made = made + net.attention(weighted, spoiled, spoiled)
    net.sum_elements(made + net.column_times(spoiled, weighted, inner=2), name="s", tag="output")
    options: Any = {"backend": backend, "precision": "f64", "time": 5, "sequences": 2}
    run = gc.compile(net, ["s"], gradients=["w", "x"], **options)
    sequences = [X[:5, :2], X[5:, :2]]
    together = run(x=sequences)
    apart = [run(x=[each]) for each in sequences]
    assert np.isfinite(together["s"])
    slopes = together.gradients["w"]
    np.testing.assert_allclose(slopes, sum(each.gradients["w"] for each in apart), rtol=1e-12)
    for got, each in zip(together.gradients["x"], apart, strict=True):
        np.testing.assert_allclose(got, each.gradients["x"][0], rtol=1e-12)


WRONG_ROWS = [
    (6, "bad-value", "rows of `x`: requires a row from 0 to 5, got 6"),
    (-7, "bad-value", "requires a row from 0 to 5, got -7"),
    ([0, 6], "bad-value", "requires a row from 0 to 5, got 6"),
    (slice(0, 7), "bad-value", "requires at least one row of its 6, got rows 0 to 6"),
    (slice(3, 3), "bad-value", "requires at least one row of its 6, got rows 3 to 2"),
    (slice(-9, 2), "bad-value", "requires at least one row of its 6, got rows -3 to 1"),
    (slice(None, None, 2), "bad-value", "requires a slice of step 1, got step 2"),
    ([], "bad-value", "requires at least one row, got none"),
    ((1, 2), "argument-type", "a list of rows, in whole numbers, got (1, 2)"),
    ("ab", "argument-type", "a list of rows, in whole numbers, got 'ab'"),
    (1.5, "argument-type", "a list of rows, in whole numbers, got 1.5"),
    (slice("a", None), "argument-type", "a list of rows, in whole numbers, got slice('a'"),
    (None, "argument-type", "a list of rows, in whole numbers, got None"),
]


@pytest.mark.parametrize(("rows", "slug", "said"), WRONG_ROWS, ids=lambda v: str(v)[:30])
def test_rows_that_there_are_not_are_refused_at_their_place(
    rows: Any, slug: str, said: str
) -> None:
    net, (x, _, _) = network()
    count = len(net.nodes)
    with pytest.raises(GraphcError) as caught:
        x[rows]
    (problem,) = caught.value.diagnostics
    assert problem.slug == slug
    assert said in problem.message
    assert problem.span is not None
    assert problem.span.file == __file__
    assert len(net.nodes) == count


def test_rows_are_counted_from_the_end_only_where_the_end_is_known() -> None:
    net = Network()
    later = net.past_value()
    assert (later.rows, later.cols) == (None, "*")
    assert later[1:3].rows == 2
    with pytest.raises(GraphcError, match="requires a number of rows that follows from the nodes"):
        later[-1]


def test_a_node_is_no_list_of_rows() -> None:
    _, (x, _, _) = network()
    with pytest.raises(TypeError, match="not iterable"):
        list(x)  # type: ignore[call-overload]


def test_sizes_show_as_soon_as_they_follow() -> None:
    net = Network()
    x, W, R = net.input("x", 3), net.parameter("W", 8, 0), net.parameter("R", 8, 0)
    before = net.past_value()
    z = net.plus(W @ x, R @ before, name="z")
    assert (W.rows, W.cols, R.cols, z.rows, before.rows) == (8, 3, None, 8, None)
    h = before.bind(net.tanh(z, name="h"))
    assert repr(h) == "<Node h: Tanh matrix<8x*>>"
    assert "?" not in repr(z) + repr(before) + repr(W)
    assert R.cols == 8
    assert net.constant(2.0).cols == 1
    assert net.reshape(x, 1).cols == "3*"
    assert "?" in repr(net.plus(x, net.input("y", 4)))  # no size fits both


def test_a_printed_network_has_the_sizes_that_follow() -> None:
    net = Network()
    assert repr(net) == "<Network of 0 nodes>"
    image = net.image_input("image", 8, 8, 2)
    maps = net.convolution(net.parameter("K", 4, 0), image, 3, 3, 4, zero_padding=True)
    before = net.past_value(8)
    h = before.bind(net.tanh(net.parameter("R", 8, 8) @ before + net.parameter("V", 8, 0) @ maps))
    assert "?" not in str(net)
    assert "node.parameter {rows = 4, cols = 18} : matrix<4x18>" in str(net)
    assert repr(net) == "<Network of 10 nodes>"
    assert h.operation.result.type != h.type  # looking changed nothing


def test_arrays_next_to_nodes_are_refused_as_they_are() -> None:
    net = Network()
    x = net.input("x", 3)
    for name, wrong in {
        "times requires .* as A, got array": lambda: np.ones((2, 3)) @ x,
        "times requires .* as B, got array": lambda: x @ np.ones((3, 2)),
        "plus requires .* as a, got array": lambda: np.ones(3) + x,
        "pow requires .* got array": lambda: np.ones(3) ** x,
    }.items():
        with pytest.raises(gc.GraphcError, match=name) as caught:
            wrong()
        assert caught.value.diagnostics[0].slug == "argument-type"
    assert len(net.nodes) == 1
    assert repr(np.float32(2) * x) == "<Node unnamed1: Scale matrix<3x*>>"


def test_a_size_follows_an_edit() -> None:
    net = Network()
    x, y = net.input("x", 3), net.input("y", 5)
    h = net.tanh(x, name="h")
    net.set_operand(h, 0, y)
    assert h.rows == 5


def test_a_notebook_shows_a_network_as_a_picture(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Network()
    before = net.past_value()
    h = before.bind(net.tanh(net.parameter("W", 8, 0) @ net.input("x", 3) + before, name="hidden"))
    pictures = [net._repr_svg_()]
    monkeypatch.setenv("PATH", "")  # no Graphviz
    pictures.append(net._repr_svg_())
    for picture in pictures:
        assert picture is not None
        texts = ["".join(element.itertext()) for element in ElementTree.fromstring(picture).iter()]
        assert "hidden" in texts
        assert "Tanh 8x*" in texts
        assert not any("?" in text for text in texts)
    assert h.operation.result.type != h.type  # looking changed nothing
    for _ in range(300):
        net.tanh(h)
    assert net._repr_svg_() is None


@pytest.mark.parametrize("backend", JUDGED)
def test_attention_has_heads_and_sees_its_own_sequence(backend: str) -> None:
    net = Network()
    x = net.input("x", 4)
    parts = [net.parameter(name, 4, 4) @ x for name in "QKV"]
    net.attention(*parts, heads=2, causal=True, name="y", tag="output")
    sequences = [RNG.standard_normal((n, 4)) for n in (5, 1, 3)]
    run = gc.compile(net, backend=backend, precision="f64", time=8, sequences=4)
    found = run(x=sequences)["y"]
    for got, rows in zip(found, sequences, strict=True):
        q, k, v = (rows @ net.parameters[name].T for name in "QKV")
        expected = np.zeros_like(v)
        for head in (slice(0, 2), slice(2, 4)):
            scores = q[:, head] @ k[:, head].T / np.sqrt(2)
            weights = np.tril(np.exp(scores - scores.max()))
            expected[:, head] = weights / weights.sum(axis=1, keepdims=True) @ v[:, head]
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_columns_of_two_nodes_are_multiplied_as_matrices() -> None:
    net = Network()
    a, b = net.input("a", 6), net.input("b", 6)
    net.column_times(a, b, inner=3, name="c", tag="output")  # 2x3 times 3x2
    net.column_times(a, b, inner=6, name="dot", tag="output")
    found = gc.compile(net, precision="f64")(a=X, b=Y)
    for n in range(len(X)):
        left, right = X[n].reshape(2, 3, order="F"), Y[n].reshape(3, 2, order="F")
        np.testing.assert_allclose(found["c"][n], (left @ right).ravel(order="F"), rtol=1e-13)
    np.testing.assert_allclose(found["dot"][:, 0], np.sum(X * Y, axis=1), rtol=1e-13)
