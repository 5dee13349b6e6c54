"""Derivatives at kinks, ties and poles, next to PyTorch's.

Where they differ on purpose, the table of docs/tensor.md says so: `maximum` and `minimum` of equal
operands (half to each there), and `top_k`, which has no order of equal elements there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gc
from tests.torch.tensor_functions import functional, torch
from tests.unit.tensor.test_kinks import KINKS, TIED, slopes

THEIRS: dict[str, Callable[[Any], Any]] = {
    "absolute": torch.abs,
    "relu": torch.relu,
    "elu": functional.elu,
    "floor": torch.floor,
    "clip": lambda x: torch.clamp(x, -1, 1),
    "clip of no room": lambda x: torch.clamp(x, 1, 1),
    "sqrt": torch.sqrt,
    "log": torch.log,
    "reciprocal": lambda x: 1 / x,
    "power 0": lambda x: torch.pow(x, 0),
    "power 0.5": lambda x: torch.pow(x, 0.5),
    "power 1": lambda x: torch.pow(x, 1),
    "power 1.5": lambda x: torch.pow(x, 1.5),
    "power -1": lambda x: torch.pow(x, -1),
    "a power as it comes": lambda x: torch.pow(torch.zeros_like(x), x),
    "norm": lambda x: torch.sqrt(torch.sum(torch.square(x))),
}
ROWS = [kink for kink in KINKS if kink[0] in THEIRS]


def their_slopes(f: Callable[[Any], Any], x: np.ndarray) -> np.ndarray:
    leaf = torch.tensor(x, requires_grad=True)
    f(leaf).sum().backward()
    return leaf.grad.numpy()


def test_every_kink_but_top_k_has_a_row() -> None:
    assert {kink[0] for kink in KINKS} - set(THEIRS) == {"top_k"}


@pytest.mark.parametrize(("name", "f", "x"), [k[:3] for k in ROWS], ids=[k[0] for k in ROWS])
def test_slopes_at_kinks(name: str, f: Callable[[Any], Any], x: list[float]) -> None:
    wanted = their_slopes(THEIRS[name], np.array(x, float))
    np.testing.assert_array_equal(slopes(f, np.array(x, float), "numpy"), wanted)


@pytest.mark.parametrize("axis", range(3))
def test_the_first_of_equal_elements(axis: int) -> None:
    x = TIED.astype(float)
    for ours, theirs in ((gc.max, torch.max), (gc.min, torch.min)):
        wanted = their_slopes(lambda v, f=theirs: f(v, dim=axis).values, x)
        np.testing.assert_array_equal(slopes(lambda v, f=ours: f(v, axis), x, "numpy"), wanted)
