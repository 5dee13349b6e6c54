"""Every backend computes what each node's own reference says, on all shapes and values."""

from __future__ import annotations

import pytest

from graphc.builder import GraphBuilder
from graphc.driver.compile import bind
from graphc.driver.options import CompileOptions
from graphc.ir.types import DType
from graphc.ops.nodes import OPS
from graphc.passes.expand_nodes import ExpandNodes
from graphc.passes.infer_shapes import InferShapes
from graphc.passes.manager import Pass
from graphc.support.diagnostics import GraphcError
from tests.conformance.check import BACKEND_NAMES
from tests.conformance.node_check import FLOATS, check_node
from tests.conformance.node_table import ROWS, NodeRow
from tests.support.compiling import load_backend

COMPUTED = [row for row in ROWS if row.kind != "delay"]
LEAST_CLASSES = 12


def name(row: NodeRow) -> str:
    return row.op


def test_every_node_has_a_row() -> None:
    names = [op.name.removeprefix("node.") for op in OPS]
    assert sorted(row.op for row in ROWS) == sorted(names)


# A GPU is emulated slowly; operations are judged there in every type.
TYPED = [(d, b) for d in FLOATS for b in BACKEND_NAMES if (d, b) != (DType.F64, "cuda")]


@pytest.mark.parametrize(("dtype", "backend"), TYPED, ids=str)
@pytest.mark.parametrize("row", COMPUTED, ids=name)
def test_a_backend_agrees_with_the_node_reference(row: NodeRow, dtype: DType, backend: str) -> None:
    problem = load_backend(backend)
    if isinstance(problem, str):
        pytest.skip(problem)
    outcome = check_node(row, dtype, backend)
    assert outcome.failures == []
    assert outcome.classes >= LEAST_CLASSES
    if row.kind == "plain" and row.op != "constant":
        assert outcome.kinds["views"] > 0


@pytest.mark.parametrize("backend", BACKEND_NAMES)
@pytest.mark.parametrize("row", [row for row in ROWS if row.kind == "delay"], ids=name)
def test_a_delay_is_refused_where_samples_are_no_steps_of_sequences(
    row: NodeRow, backend: str
) -> None:
    """What it computes of sequences is judged by `test_sequences.py`."""
    builder = GraphBuilder()
    x = builder.apply("input", settings={"rows": 2}, name="x")
    builder.apply(row.op, [x], name="v")
    options = CompileOptions(backend)
    passes: list[Pass] = [InferShapes(), ExpandNodes(("v",))]
    with pytest.raises(GraphcError) as caught:
        bind(builder.model, lambda _m, _o: passes, options)
    assert [d.slug for d in caught.value.diagnostics] == ["bad-option"]
