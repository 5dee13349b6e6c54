"""Two nodes: an element-wise one of two operands with a setting, and a criterion.

Each is a function of one column of its operands, written with numpy's operators and the functions
of `gc`, and a reference: the same in numpy on whole matrices, a column for each sample, which
shares nothing with the function and judges it (tests/test_nodes.py).
"""

from typing import Any

import numpy as np

import graphc as gc


def gated(x: Any, gate: Any, *, sharpness: float = 1.0) -> Any:
    """x ∘ σ(β gate), where σ is the logistic function."""
    return x / (1 + gc.exp(-sharpness * gate))


def gated_reference(x: np.ndarray, gate: np.ndarray, *, sharpness: float) -> np.ndarray:
    return x * (0.5 + 0.5 * np.tanh(0.5 * sharpness * gate))


GATED = gc.NodeType(
    name="Gated",
    compute=gated,
    reference=gated_reference,
    summary="each element times how far its gate is open, a number from 0 to 1",
    equal_rows=True,
    equation="V = X ∘ σ(β G)",
    source="Dauphin et al., Language Modeling with Gated Convolutional Networks, 2017",
)


def huber(target: Any, x: Any, *, width: float = 1.0) -> Any:
    """d²/2 where |d| <= width, and width (|d| - width/2) beyond, added over the rows."""
    distance = abs(target - x)
    near = gc.minimum(distance, width)
    return gc.sum(near * (distance - 0.5 * near))


def huber_reference(target: np.ndarray, x: np.ndarray, *, width: float) -> np.ndarray:
    distance = np.abs(target - x)
    inside, outside = distance**2 / 2, width * (distance - width / 2)
    return np.sum(np.where(distance <= width, inside, outside)).reshape(1, 1)


HUBER = gc.NodeType(
    name="Huber",
    compute=huber,
    reference=huber_reference,
    summary="a distance that grows only linearly where it is large, added over all samples",
    criterion=True,
    equal_rows=True,
    equation="V = Σ h(|T - X|)",
    source="Huber, Robust Estimation of a Location Parameter, 1964",
)
