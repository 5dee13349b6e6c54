"""`gc.check_node`: passes what is right, and finds each kind of mistake."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import graphc as gc
from graphc.ops.nodes.delays import PAST_VALUE
from graphc.ops.nodes.layout import node_def, unary
from tests.support.compiling import load_backend

BACKENDS = [b for b in ("reference", "numpy", "llvm", "c") if not isinstance(load_backend(b), str)]


def gated(x: Any, gate: Any, *, scale: float = 1.0) -> Any:
    return scale * x / (1 + gc.exp(-gate))


def gated_reference(x: np.ndarray, gate: np.ndarray, *, scale: float) -> np.ndarray:
    return scale * x / (1 + np.exp(-gate))


GATED = gc.NodeType("Gated", gated, gated_reference, "x times the sigmoid of the gate")
ROOT = gc.NodeType("Root", gc.sqrt, np.sqrt, "square root")  # its slope is infinite in gaps
DISTANCE = gc.NodeType(
    "Distance",
    lambda x, y: gc.sum((x - y) ** 2),
    lambda x, y: np.sum((x - y) ** 2).reshape(1, 1),
    "squared distance",
    criterion=True,
)


def positive(rng: np.random.Generator, rows: int, columns: int) -> np.ndarray:
    return rng.uniform(0.5, 2, (rows, columns))


def test_what_is_right_passes_on_every_backend() -> None:
    report = gc.check_node(GATED, (3, None), (3, 1), settings={"scale": 0.5})
    assert report.passed
    assert {check.backend for check in report.checks} == {*BACKENDS}
    whats = {check.what for check in report.checks}
    sequences = {"in a cycle", "gradient over sequences"}
    assert whats == {"value", "gradient of x0", "gradient of x1", *sequences}
    assert str(report).splitlines()[0] == "Gated"
    assert "passed" in str(report)


def test_criteria_roots_and_columns_that_are_no_samples_pass() -> None:
    report = gc.check_node(DISTANCE, (3, None), (3, None), backends=["llvm"])
    assert "sum over sequences" in {check.what for check in report.checks}
    assert gc.check_node(ROOT, (2, None), draw=positive, backends=["llvm"]).passed
    report = gc.check_node(GATED, (3, 4), (3, 4), backends=["numpy"])
    assert {check.what for check in report.checks} == {"value", "gradient of x0", "gradient of x1"}


@pytest.mark.parametrize(
    "compute", [lambda x: x * 1.00001, lambda x: x[:1], lambda x: x + 0 * gc.log(x - x)]
)
def test_another_value_than_the_reference_is_found(compute: Callable[..., Any]) -> None:
    """Another number, another shape, nan."""
    record = gc.NodeType("Tried", compute, lambda x: x, "tried")
    with pytest.raises(gc.GraphcError, match=r"Tried is not what .*: value numpy f") as caught:
        gc.check_node(record, (2, None), backends=["numpy"])
    assert caught.value.diagnostics[0].slug == "plug-in"


def test_a_wrong_gradient_is_found() -> None:
    """The function rounds its slope away where the reference has one."""
    record = gc.NodeType(
        "Stepped",
        lambda x: 0.5 * x + (0.5 * x * 2.0**60).astype("i64") * 2.0**-60,
        lambda x: x.astype(np.float64),
        "the same value with half of the slope",
    )
    with pytest.raises(gc.GraphcError, match="gradient of x0 reference f64 FAILED"):
        gc.check_node(record, (2, None), backends=["reference"])
    assert gc.check_node(record, (2, None), backends=["reference"], gradient=False).passed


def test_a_node_that_mixes_columns_is_found_by_sequences() -> None:
    """An expansion over all columns, gaps included, that knows nothing of sequences."""

    def expand(b: Any, _op: Any, operands: Any, _dtype: Any) -> Any:
        from graphc.ops.elementwise import sub
        from graphc.ops.reduction import broadcast, reduce_sum

        (x,) = operands
        return sub(b, x, broadcast(b, reduce_sum(b, x, (0,)), x.tensor.dims))

    mixing = node_def(
        "mixing",
        "less the sum of all columns",
        ("x",),
        infer=unary,
        expand=expand,
        reference=lambda _p, x: x - np.sum(x, axis=1, keepdims=True),
        ndl=("Mixing",),
    )
    with pytest.raises(gc.GraphcError, match="in a cycle numpy f64 FAILED") as caught:
        gc.check_node(mixing, (2, None), backends=["numpy"])
    assert "value numpy" not in str(caught.value)


def test_wrong_uses() -> None:
    with pytest.raises(gc.GraphcError, match="requires a size for each of x, gate, got 1"):
        gc.check_node(GATED, (3, None))
    with pytest.raises(gc.GraphcError, match="no parameter `scal`"):
        gc.check_node(GATED, (3, None), (3, None), settings={"scal": 1})
    with pytest.raises(gc.GraphcError, match="requires a node that is an expansion, got PastValue"):
        gc.check_node(PAST_VALUE, (3, None))
    with pytest.raises(gc.GraphcError, match=r"one of .* is required, got `lvm`"):
        gc.check_node(GATED, (3, None), (3, None), backends=["lvm"])
