"""What random networks found, reduced to the few nodes that show it."""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc

BACKENDS = ("reference", "numpy", "llvm")


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bias_and_an_input_are_differentiated_together(backend: str) -> None:
    """numpy wrote a [1, 3] into a result of shape [3, 1] that is a reshape of it."""
    net = gc.loads("""
        x = Input(3)
        b = Parameter(3, 1)
        a = Plus(x, b)
        h = Sigmoid(a)
        c = SquareError(x, h)
    """)
    x = np.random.default_rng(0).standard_normal((4, 3))
    exe = gc.compile(net, ["c"], gradients=["b", "x"], backend=backend, precision="f64")
    gradients = exe(x=x).gradients
    h = 1 / (1 + np.exp(-(x + net.parameters["b"][:, 0].astype(np.float64))))
    through_h = (h - x) * h * (1 - h)
    np.testing.assert_allclose(gradients["b"][:, 0], through_h.sum(axis=0), rtol=1e-12)
    np.testing.assert_allclose(gradients["x"], x - h + through_h, rtol=1e-12)


def test_a_parameter_is_inferred_before_a_sum_reads_it() -> None:
    """The builder had settled on 2x4 for the sum while W's columns were open."""
    net = gc.Network()
    x, w, b = net.input("x", 8), net.parameter("W", 2, 0), net.parameter("B", 2, 4)
    net.times(w, x, name="t")
    net.sum_elements(net.plus(w, b), name="c")
    c = gc.compile(net, ["c", "t"], backend="reference")(x=np.ones((3, 8)))["c"]
    wanted = net.parameters["W"].sum() + 2 * net.parameters["B"].sum()
    assert c == pytest.approx(wanted, rel=1e-5)


def test_the_order_of_output_nodes_does_not_change_what_is_inferred() -> None:
    net = gc.loads("""
        x = Input(8)
        W = Parameter(2, 0)
        t = Times(W, x)
        B = Parameter(2, 4)
        p = Plus(W, B)
        c = SumElements(p)
        OutputNodes = (c, t)
    """)
    assert net.parameters["W"].shape == (2, 8)
