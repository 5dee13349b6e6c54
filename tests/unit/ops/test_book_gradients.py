"""Gradients against the formulas that chapter 2 of the book prints after each node.

Each formula is written down as it is printed, with its number, and compared with the gradient that
`synthesize-gradient` makes of the node's expansion. Formulas that are misprinted are in `MISPRINTS`
as well: there the test shows that what is printed is not the gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest

from graphc.ir.core import Array
from tests.support.nodes import Network, gradients, judged, network

Shape = tuple[int, int | str]
Rule = Callable[..., tuple[Array, ...]]
"""(gradient of the node, value of the node, *operands) -> gradients of the first operands."""

SAMPLES = 4


def leaf(shape: Shape) -> str:
    rows, cols = shape
    if cols == "*":
        return f"node.input {{rows = {rows}}}"
    return f"node.parameter {{rows = {rows}, cols = {cols}}}"


def image(width: int, height: int, channels: int) -> str:
    return f"node.input {{width = {width}, height = {height}, channels = {channels}}}"


@dataclass(frozen=True)
class Formula:
    """The gradients of one node.

    equations  their numbers in the book
    leaves     the operands: sizes, or the text of a node with `SAMPLES` columns and its rows
    """

    op: str
    equations: str
    leaves: tuple[Shape | tuple[str, int], ...]
    rule: Rule
    settings: str = ""
    positive: bool = False

    def __str__(self) -> str:
        sizes = "-".join(f"{a}x{b}" for a, b in self.leaves if isinstance(a, int))
        return f"{self.op} {self.equations} {sizes}".strip()

    @property
    def names(self) -> str:
        return "xyzw"[: len(self.leaves)]

    def network(self) -> Network:
        """The node `v`, and `j`, the sum of its elements times those of the input `d`."""
        leaves = {n: self._text(given) for n, given in zip(self.names, self.leaves, strict=True)}
        settings = f" {{{self.settings}}}" if self.settings else ""
        node = f"node.{self.op} {', '.join(f'%{n}' for n in self.names)}{settings}"
        type = network({**leaves, "v": node}).type("v")
        assert type.rows is not None and type.cols is not None
        cotangent = leaf((type.rows, "*" if type.has_samples else int(str(type.cols))))
        weighted = {"u": "node.element_times %v, %d", "j": "node.sum_elements %u"}
        return network({**leaves, "v": node, "d": cotangent, **weighted})

    @staticmethod
    def _text(given: Shape | tuple[str, int]) -> str:
        first, second = given
        return first if isinstance(first, str) else leaf((first, second))

    def values(self, net: Network) -> dict[str, Array]:
        rng = np.random.default_rng(5)
        found: dict[str, Array] = {}
        for name in (*self.names, "d"):
            type = net.type(name)
            assert type.rows is not None
            cols = SAMPLES if type.has_samples else int(str(type.cols))
            numbers = rng.uniform(-2, 2, (type.rows, cols))
            is_positive = self.positive and name != "d"
            found[name] = np.abs(numbers) + 0.25 if is_positive else numbers
        return found


# --- the book's operators ------------------------------------------------------------------------


def column_products(a: Array, b: Array) -> Array:
    """The inner product of columns, a row vector (table 2.1)."""
    return np.sum(a * b, axis=0, keepdims=True)


def row_products(a: Array, b: Array) -> Array:
    """The inner product of rows, a column vector (table 2.1)."""
    return np.sum(a * b, axis=1, keepdims=True)


def ones(rows: int, cols: int) -> Array:
    return np.ones((rows, cols))


def vec(x: Array) -> Array:
    return x.reshape((-1, 1), order="F")


def softmax(x: Array) -> Array:
    e = np.exp(x - x.max(axis=0))
    return e / e.sum(axis=0)


def row_vector(d: Array) -> Array:
    """The second case of 2.79: a row over the same columns."""
    return ones(1, d.shape[0]) @ d


def column_vector(d: Array) -> Array:
    """The third case of 2.79: a column for all columns."""
    return d @ ones(d.shape[1], 1)


def number(d: Array) -> Array:
    """The fourth case of 2.79: one number."""
    return ones(1, d.shape[0]) @ d @ ones(d.shape[1], 1)


def in_columns(rule: Callable[[Array, Array, Array], Array], *matrices: Array) -> Array:
    """A formula for one column, for all."""
    count = matrices[0].shape[1]
    columns = [rule(*(m[:, j : j + 1] for m in matrices)) for j in range(count)]
    return np.concatenate(columns, axis=1)


def khatri_rao(d: Array, _v: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """With [d]_(m,n) as everywhere in the book, columns one after the other."""

    def table(column: Array) -> Array:
        return column.reshape((x.shape[0], y.shape[0]), order="F")

    return (
        in_columns(lambda g, _x, b: table(g) @ b, d, x, y),
        in_columns(lambda g, a, _y: table(g).T @ a, d, x, y),
    )


def cosine(d: Array, v: Array, x: Array, y: Array) -> tuple[Array, Array]:
    a, b = np.sqrt(column_products(x, x)), np.sqrt(column_products(y, y))
    return d * (y / (a * b) - x * v / a**2), d * (x / (a * b) - y * v / b**2)


FORMULAS = (
    Formula("negate", "2.8", ((3, "*"),), lambda d, v, x: (-d,)),
    Formula("sigmoid", "2.12", ((3, "*"),), lambda d, v, x: (d * (v * (1 - v)),)),
    Formula("tanh", "2.16", ((3, "*"),), lambda d, v, x: (d * (1 - v * v),)),
    Formula("rectified_linear", "2.20", ((3, "*"),), lambda d, v, x: (d * (x > 0),)),
    Formula("log", "2.24", ((3, "*"),), lambda d, v, x: (d * (1 / x),), positive=True),
    Formula("exp", "2.28", ((3, "*"),), lambda d, v, x: (d * v,)),
    Formula("softmax", "2.35", ((3, "*"),), lambda d, v, x: ((d - column_products(d, v)) * v,)),
    Formula(
        "log_softmax",
        "2.42",
        ((3, "*"),),
        lambda d, v, x: (d - np.exp(v) @ np.diag(d.sum(axis=0)),),
    ),
    Formula("sum_elements", "2.46", ((3, "*"),), lambda d, v, x: (d + 0 * x,)),
    Formula("matrix_l1_reg", "2.50", ((3, "*"),), lambda d, v, x: (d * np.sign(x),)),
    Formula("matrix_l2_reg", "2.54", ((3, "*"),), lambda d, v, x: (1 / v * d * x,)),
    # 2.58 less its factor X, see MISPRINTS.
    Formula("time_reverse", "2.58", ((3, "*"),), lambda d, v, x: (d[:, ::-1],)),
    Formula(
        "scale",
        "2.60, 2.61",
        ((1, 1), (3, "*")),
        lambda d, v, s, y: (column_products(vec(d), vec(y)), s * d),
    ),
    Formula("times", "2.67, 2.68", ((2, 3), (3, "*")), lambda d, v, x, y: (d @ y.T, x.T @ d)),
    Formula("times", "2.67, 2.68", ((2, 3), (3, 5)), lambda d, v, x, y: (d @ y.T, x.T @ d)),
    Formula("element_times", "2.74, 2.75", ((3, "*"),) * 2, lambda d, v, x, y: (d * y, d * x)),
    # The four cases of sums, on either side.
    Formula("plus", "2.79, 2.80", ((3, "*"), (3, "*")), lambda d, v, x, y: (d, d)),
    Formula("plus", "2.79", ((1, "*"), (3, "*")), lambda d, v, x, y: (row_vector(d), d)),
    Formula("plus", "2.79", ((3, 1), (3, "*")), lambda d, v, x, y: (column_vector(d), d)),
    Formula("plus", "2.79", ((1, 1), (3, "*")), lambda d, v, x, y: (number(d), d)),
    Formula("plus", "2.80", ((3, "*"), (1, "*")), lambda d, v, x, y: (d, row_vector(d))),
    Formula("plus", "2.80", ((3, "*"), (3, 1)), lambda d, v, x, y: (d, column_vector(d))),
    Formula("plus", "2.80", ((3, 5), (1, 1)), lambda d, v, x, y: (d, number(d))),
    Formula("minus", "2.86, 2.87", ((3, "*"), (3, "*")), lambda d, v, x, y: (d, -d)),
    Formula("minus", "2.86", ((1, "*"), (3, "*")), lambda d, v, x, y: (row_vector(d), -d)),
    Formula("minus", "2.86", ((3, 1), (3, "*")), lambda d, v, x, y: (column_vector(d), -d)),
    Formula("minus", "2.86", ((1, 1), (3, "*")), lambda d, v, x, y: (number(d), -d)),
    Formula("minus", "2.87", ((3, "*"), (1, "*")), lambda d, v, x, y: (d, -row_vector(d))),
    Formula("minus", "2.87", ((3, "*"), (3, 1)), lambda d, v, x, y: (d, -column_vector(d))),
    Formula("minus", "2.87", ((3, 5), (1, 1)), lambda d, v, x, y: (d, -number(d))),
    # RowScaling of earlier drafts.
    Formula(
        "diag_times",
        "2.89, 2.90",
        ((3, 1), (3, "*")),
        lambda d, v, s, y: (row_products(d, y), s * d),
    ),
    # Outside training the rate is 0: the first case.
    Formula("dropout", "2.97", ((3, "*"),), lambda d, v, y: (d,)),
    Formula("khatri_rao_product", "2.99, 2.100", ((2, "*"), (3, "*")), khatri_rao),
    Formula("khatri_rao_product", "2.99, 2.100", ((4, 5), (3, 5)), khatri_rao),
    Formula("cos_distance", "2.104, 2.105", ((3, "*"), (3, "*")), cosine),
    Formula(
        "square_error",
        "2.113, 2.114",
        ((3, "*"), (3, "*")),
        lambda d, v, x, y: (d * (x - y), -d * (x - y)),
    ),
    Formula(
        "cross_entropy",
        "2.119, 2.120",
        ((3, "*"), (3, "*")),
        lambda d, v, x, y: (-d * np.log(y), -d * (x / y)),
        positive=True,
    ),
    Formula(
        "cross_entropy_with_softmax",
        "2.128",
        ((3, "*"), (3, "*")),
        lambda d, v, x, y: (-d * np.log(softmax(y)),),
    ),
    Formula(
        "average_pooling",
        "2.173",
        (((image(4, 2, 3)), 24),),
        lambda d, v, x: (
            np.repeat(d.reshape(2, 1, 1, 3, -1) / 4, 4, axis=1)
            .reshape(2, 2, 2, 3, -1)
            .reshape(24, -1),
        ),
        "window_width = 2, window_height = 2, step_width = 2, step_height = 2",
    ),
)


def found_and_expected(formula: Formula, rule: Rule) -> list[tuple[Array, Array]]:
    """The synthesised gradients, and those of the rule, for as many operands as it has."""
    net = formula.network()
    leaves = formula.values(net)
    value = judged(net, "v", leaves)
    operands = [leaves[n] for n in formula.names]
    expected = rule(leaves["d"], value, *operands)
    names = formula.names[: len(expected)]
    found = gradients(net, "j", leaves, SAMPLES, list(names))
    return [(found[n], np.asarray(e)) for n, e in zip(names, expected, strict=True)]


@pytest.mark.parametrize("formula", FORMULAS, ids=str)
def test_a_gradient_is_what_the_book_prints(formula: Formula) -> None:
    for found, expected in found_and_expected(formula, formula.rule):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# --- criteria over labels ------------------------------------------------------------------------

WITH_SOFTMAX = Formula(
    "cross_entropy_with_softmax",
    "2.129",
    ((3, "*"), (3, "*")),
    lambda d, v, x, y: (-d * np.log(softmax(y)), d * (softmax(y) - x)),
)


def test_2_129_holds_for_labels_that_are_distributions() -> None:
    net = WITH_SOFTMAX.network()
    leaves = {**WITH_SOFTMAX.values(net), "x": np.eye(3)[:, [2, 0, 0, 1]]}
    found = gradients(net, "j", leaves, SAMPLES, ["y"])["y"]
    expected = leaves["d"] * (softmax(leaves["y"]) - leaves["x"])
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


def test_2_127_lacks_the_minus_that_its_gradients_have() -> None:
    net = WITH_SOFTMAX.network()
    leaves = {**WITH_SOFTMAX.values(net), "x": np.eye(3)[:, [2, 0, 0, 1]]}
    printed = float(np.sum(leaves["x"] * np.log(softmax(leaves["y"]))))
    assert judged(net, "v", leaves)[0, 0] == pytest.approx(-printed)


def test_class_based_cross_entropy_has_the_gradients_of_2_145_to_2_148() -> None:
    """Of minus the value that 2.142 and 2.144 print; 2.147 prints X for W on its right."""
    starts, ends = (0, 2, 3, 7), (2, 3, 7, 10)
    nodes = {
        "label": "node.input {rows = 4}",
        "x": "node.input {rows = 3}",
        "w": "node.parameter {rows = 3, cols = 10}",
        "q": "node.input {rows = 4}",
        "v": "node.class_based_cross_entropy_with_softmax %label, %x, %w, %q",
    }
    rng = np.random.default_rng(3)
    words, classes = [1, 2, 6, 9, 5], [0, 1, 2, 3, 2]
    label = np.array([[z, c, starts[c], ends[c]] for z, c in zip(words, classes, strict=True)]).T
    leaves = {
        "label": label.astype(float),
        "x": rng.normal(size=(3, 5)),
        "w": rng.normal(size=(3, 10)),
        "q": rng.normal(size=(4, 5)),
    }
    of_q, of_w, of_x = np.zeros((4, 5)), np.zeros((3, 10)), np.zeros((3, 5))
    for t, (z, c) in enumerate(zip(words, classes, strict=True)):
        left, right = starts[c], ends[c]
        x, w = leaves["x"][:, [t]], leaves["w"][:, left:right]
        of_q[:, [t]] += softmax(leaves["q"][:, [t]]) - np.eye(4)[:, [c]]  # 2.145
        of_p = softmax(w.T @ x) - np.eye(right - left)[:, [z - left]]  # 2.146
        of_w[:, left:right] += x @ of_p.T  # 2.147
        of_x[:, [t]] += w @ of_p  # 2.148
    found = gradients(network(nodes), "v", leaves, 5, ["q", "w", "x"])
    for name, expected in {"q": of_q, "w": of_w, "x": of_x}.items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, atol=1e-12, err_msg=name)


def test_a_conditional_random_field_has_the_gradients_of_2_149_to_2_153() -> None:
    """Those are of the log probability R, which is maximised; the node is minus that. What 2.149
    and the last equation call α is what the others call δ, and η is 1."""
    labels, steps = 3, 6
    nodes = {
        "l": f"node.input {{rows = {labels}}}",
        "h": f"node.input {{rows = {labels}}}",
        "a": f"node.parameter {{rows = {labels}, cols = {labels}}}",
        "v": "node.crf %l, %h, %a",
    }
    rng = np.random.default_rng(4)
    leaves = {
        "l": np.eye(labels)[:, rng.integers(0, labels, steps)],
        "h": rng.normal(size=(labels, steps)),
        "a": rng.normal(size=(labels, labels)),
    }
    label, h, a = leaves["l"], leaves["h"], leaves["a"]
    delta = np.zeros((labels, steps))
    delta[:, 0] = h[:, 0]
    for t in range(1, steps):  # 2.149
        delta[:, t] = h[:, t] + np.log(np.sum(np.exp(delta[:, t - 1 : t] + a), axis=0))
    of_delta = np.zeros((labels, steps))
    of_delta[:, -1] = softmax(delta[:, -1])  # 2.151
    of_a = np.zeros((labels, labels))
    for t in range(steps - 1, 0, -1):
        share = softmax(delta[:, t - 1 : t] + a)
        of_delta[:, t - 1] = share @ of_delta[:, t]  # 2.150
        of_a += np.outer(label[:, t - 1], label[:, t]) - of_delta[:, t] * share  # 2.153
    found = gradients(network(nodes), "v", leaves, steps, ["h", "a"])
    np.testing.assert_allclose(found["h"], -(label - of_delta), rtol=1e-11, atol=1e-12)  # 2.152
    np.testing.assert_allclose(found["a"], -of_a, rtol=1e-11, atol=1e-12)


# --- images --------------------------------------------------------------------------------------


def pixel(channel: int, row: int, column: int, height: int, channels: int) -> int:
    """The row of a column that is an image: channel fastest, then row, then column."""
    return channel + channels * (row + height * column)


def test_a_convolution_has_the_gradients_of_2_167_to_2_169() -> None:
    """Pack writes the pixels under each place of the kernel, Unpack adds them up again."""
    width, height, channels, outputs = 4, 3, 2, 3
    kernel_width, kernel_height = 2, 2
    out_width, out_height = width - kernel_width + 1, height - kernel_height + 1
    settings = (
        f"kernel_width = {kernel_width}, kernel_height = {kernel_height}, "
        f"output_channels = {outputs}, horizontal_subsample = 1, vertical_subsample = 1"
    )
    size = kernel_width * kernel_height * channels
    formula = Formula(
        "convolution",
        "2.167",
        ((outputs, size), (image(width, height, channels), 24)),
        lambda d, v, w, y: (w, y),
        settings,
    )
    net = formula.network()
    leaves = formula.values(net)
    weight, y, d = leaves["x"], leaves["y"], leaves["d"]
    of_weight, of_y = np.zeros_like(weight), np.zeros_like(y)
    for column, row in np.ndindex(out_width, out_height):
        places = [
            pixel(c, row + j, column + i, height, channels)
            for c in range(channels)
            for i in range(kernel_width)
            for j in range(kernel_height)
        ]
        begin = outputs * (row + out_height * column)
        of_node = d[begin : begin + outputs]
        of_weight += of_node @ y[places].T  # 2.167 with 2.165
        of_y[places] += weight.T @ of_node  # 2.168, 2.169
    found = gradients(net, "j", leaves, SAMPLES, ["x", "y"])
    np.testing.assert_allclose(found["x"], of_weight, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found["y"], of_y, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("op", ["max_pooling", "average_pooling"])
def test_pooling_has_the_gradients_of_2_171_and_2_173(op: str) -> None:
    """With overlapping windows. Both print the node's gradient at the pixel's index (i_m, j_n)
    or the pixel's at the window's; what is meant is from the window (i, j) to its pixels."""
    width, height, channels = 5, 4, 2
    settings = "window_width = 3, window_height = 2, step_width = 2, step_height = 1"
    leaves_of = ((image(width, height, channels), 40),)
    formula = Formula(op, "2.171, 2.173", leaves_of, lambda d, v, x: (x,), settings)
    net = formula.network()
    leaves = formula.values(net)
    x, d = leaves["x"], leaves["d"]
    expected = np.zeros_like(x)
    out_width, out_height = 2, 3
    for i, j, channel, t in np.ndindex(out_width, out_height, channels, SAMPLES):
        places = [
            pixel(channel, j + n, 2 * i + m, height, channels) for m in range(3) for n in range(2)
        ]
        of_node = d[pixel(channel, j, i, out_height, channels), t]
        if op == "max_pooling":
            expected[places[int(np.argmax(x[places, t]))], t] += of_node
        else:
            expected[places, t] += of_node / 6
    found = gradients(net, "j", leaves, SAMPLES, ["x"])["x"]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)


# --- misprints -----------------------------------------------------------------------------------


def _second_fastest(d: Array, _v: Array, x: Array, y: Array) -> tuple[Array, Array]:
    """2.101 and 2.102: row m of the product belongs to row m / rows(Y) of X."""

    def table(column: Array) -> Array:
        return column.reshape((x.shape[0], y.shape[0]))

    return (
        in_columns(lambda g, _x, b: table(g) @ b, d, x, y),
        in_columns(lambda g, a, _y: table(g).T @ a, d, x, y),
    )


MISPRINTS = (
    # A product with X: nothing that a permutation of columns could have as its gradient.
    Formula("time_reverse", "2.58", ((4, "*"),), lambda d, v, x: ((d @ x)[:, ::-1],)),
    # Contradicts 2.99 about which operand's row varies fastest.
    Formula("khatri_rao_product", "2.102", ((2, "*"), (3, "*")), _second_fastest),
    # Holds only where each column of X sums to 1, which the book requires of X, and its toolkit
    # does not: in general it is P(Y) times the column's sum, less X.
    WITH_SOFTMAX,
    # The pixel's gradient is the window's at the same index.
    Formula(
        "average_pooling",
        "2.173",
        ((image(2, 2, 1), 4),),
        lambda d, v, x: (np.concatenate([d / 4, np.zeros((3, SAMPLES))]),),
        "window_width = 2, window_height = 2, step_width = 1, step_height = 1",
    ),
)


@pytest.mark.parametrize("formula", MISPRINTS, ids=str)
def test_what_is_misprinted_in_the_book_is_not_the_gradient(formula: Formula) -> None:
    pairs = found_and_expected(formula, formula.rule)
    assert any(not np.allclose(found, printed) for found, printed in pairs)
