"""Gradients where elements tie, as on the background of images, next to formulas written out here.

Max pooling hands the slope of a window to every element that equals its maximum, as the toolkit
does. So a bias before it gets the slope once for each of them. Everything is in whole numbers of
which sums are exact: all backends must agree to the bit.
"""

from __future__ import annotations

import numpy as np
import pytest

import graphc as gc

Array = np.ndarray
BACKENDS = ["reference", "numpy", "llvm"]
TYPES = ["f32", "f64"]


@pytest.mark.parametrize("precision", TYPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_a_bias_before_max_pooling_gets_the_slope_of_every_tied_element(
    backend: str, precision: str
) -> None:
    net = gc.loads("""
        x = ImageInput(2, 2, 1, tag=feature)
        b = Parameter(1, 1, init=fixedValue, value=0)
        J = SumElements(MaxPooling(Plus(x, b), 2, 2, 2, 2), tag=criterion)
    """)
    f = gc.compile(net, "J", gradients=["x", "b"], backend=backend, precision=precision)
    found = f(x=np.zeros((1, 4)))
    assert found["gradient.b"].item() == 4
    np.testing.assert_array_equal(found["gradient.x"], [[1, 1, 1, 1]])


NETWORK = """
x = ImageInput(6, 6, 1, tag=feature)
t = Input(8, tag=label)
K = Parameter(2, 9)
b = Parameter(2, 1)
c = Convolution(K, x, 3, 3, 2, 1, 1, zeroPadding=false)
h = {activation}
p = MaxPooling(h, 2, 2, 2, 2)
J = SumElements(ElementTimes(t, p), tag=criterion)
"""
ACTIVATIONS = ["RectifiedLinear(Plus(c, b))", "Plus(c, b)", "Plus(RectifiedLinear(c), b)"]


def gradients_by_hand(
    x: Array, weight: Array, kernel: Array, bias: Array, activation: str
) -> dict[str, Array]:
    """Images x[n, width, height], the criterion's weights [n, 2, 2, channels], kernel [c, 3, 3]."""
    n = len(x)
    c = np.zeros((n, 4, 4, 2))
    for i in range(4):
        for j in range(4):
            c[:, i, j] = np.einsum("nab,cab->nc", x[:, i : i + 3, j : j + 3], kernel)
    inner = activation == "Plus(RectifiedLinear(c), b)"
    h = np.maximum(c, 0) + bias if inner else c + bias
    h = np.maximum(h, 0) if activation.startswith("RectifiedLinear") else h
    dh = np.zeros_like(h)
    for i in range(2):
        for j in range(2):
            window = h[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2]
            largest = window.max(axis=(1, 2), keepdims=True)
            slope = weight[:, None, None, i, j]
            dh[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2] += (window == largest) * slope
    if activation.startswith("RectifiedLinear"):
        dh = dh * (c + bias > 0)
    dc = dh * (c > 0) if inner else dh
    dk, dx = np.zeros((2, 3, 3)), np.zeros_like(x)
    for i in range(4):
        for j in range(4):
            patch = x[:, i : i + 3, j : j + 3]
            dk += np.einsum("nc,nab->cab", dc[:, i, j], patch)
            dx[:, i : i + 3, j : j + 3] += np.einsum("nc,cab->nab", dc[:, i, j], kernel)
    return {
        "gradient.x": dx.reshape(n, -1),
        "gradient.K": dk.reshape(2, 9),
        "gradient.b": dh.sum(axis=(0, 1, 2)).reshape(2, 1),
    }


@pytest.mark.parametrize("samples", [1, 5])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("precision", TYPES)
@pytest.mark.parametrize("backend", BACKENDS)
def test_convolutions_of_images_with_a_background(
    backend: str, precision: str, activation: str, samples: int
) -> None:
    rng = np.random.default_rng(samples)
    x = np.zeros((samples, 6, 6))
    x[:, 1:3, 3:5] = rng.integers(-2, 3, (samples, 2, 2))
    kernel = rng.integers(-2, 3, (2, 3, 3)).astype(float)
    bias = np.array([1.0, -1.0])
    weight = rng.integers(-3, 4, (samples, 2, 2, 2)).astype(float)
    net = gc.loads(NETWORK.format(activation=activation))
    net.parameters["K"] = kernel.reshape(2, 9)
    net.parameters["b"] = bias.reshape(2, 1)
    wanted = ["x", "K", "b"]
    f = gc.compile(net, "J", gradients=wanted, batch=8, backend=backend, precision=precision)
    found = f(x=x.reshape(samples, -1), t=weight.reshape(samples, -1))
    expected = gradients_by_hand(x, weight, kernel, bias, activation)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
