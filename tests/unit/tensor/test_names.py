"""What is suggested in place of numpy's functions."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.tensor.functions import FUNCTIONS
from graphc.tensor.names import INSTEAD, in_place_of, numpy_name


def test_a_function_of_the_same_name_comes_first() -> None:
    assert in_place_of("exp") == "use gc.exp"
    assert not FUNCTIONS.keys() & INSTEAD.keys()


def test_an_unknown_name_leads_to_the_documents() -> None:
    assert "docs/tensor.md" in in_place_of("einsum")
    assert "docs/tensor.md" in in_place_of("exp", "outer")


def test_reductions_of_operators_are_the_reductions() -> None:
    assert in_place_of("maximum", "reduce") == "use gc.max"


def test_numpy_s_namespaces_are_part_of_a_name() -> None:
    assert numpy_name(np.linalg.norm) == "linalg.norm"
    assert numpy_name(np.sum) == "sum"


Y = np.array([2.0, -3.0, 0.5])
MORE: dict[str, dict[str, Any]] = {
    "dot": {"y": Y},
    "floor_divide": {"y": Y},
    "full_like": {"value": 2.0},
    "outer": {"y": Y},
    "remainder": {"y": Y},
}
"""What the expressions use beside x, in the order of numpy's arguments."""
FUNCTION_NAMES = {"gc.concatenate", "gc.transpose"}


@pytest.mark.parametrize("name", [n for n, text in INSTEAD.items() if text not in FUNCTION_NAMES])
def test_what_is_suggested_computes_what_numpy_does(name: str) -> None:
    x = np.array([0.5, 0.25, 3.0])
    more = MORE.get(name, {})

    def suggested(v: Any) -> Any:
        found = eval(INSTEAD[name], {"gc": gc, "x": v, **more})  # noqa: S307  # our own text
        return found(v) if callable(found) else found

    numpy_function = operator.attrgetter(name)(np)
    got = gc.function(suggested, backend="reference")(x)
    np.testing.assert_allclose(got, numpy_function(x, *more.values()), 1e-14)
