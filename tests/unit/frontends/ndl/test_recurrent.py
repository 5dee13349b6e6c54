"""Recurrent networks written in NDL, as the reference shows them, computed step by step."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from graphc.builder import GraphBuilder
from graphc.driver.prepare import prepare
from graphc.ir.core import Operation
from graphc.ops.nodes.layout import node_type
from graphc_frontends import ndl
from tests.support.sequences import compiled_for_sequences, evaluate_sequences, side_by_side

PAGE = Path(__file__).parents[4] / "docs" / "ndl.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## 9. ")[2].partition("\n## ")[0]
PROGRAMS: dict[str, str] = dict(
    zip(
        ("plain", "lstm"),
        re.findall(r"^```ndl\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL),
        strict=True,
    )
)
LENGTHS = (4, 1, 6, 3)
BACKENDS = ("reference", "numpy", "llvm")


def loaded(text: str) -> GraphBuilder:
    builder = GraphBuilder()
    ndl.load(builder, text, file="net.ndl")
    builder.sink.raise_if_errors()
    prepare(builder.model)
    return builder


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_recurrent_network_of_the_reference_is_computed(name: str, backend: str) -> None:
    builder = loaded(PROGRAMS[name])
    rng = np.random.default_rng(0)
    leaves = {
        op.result.name or "": rng.normal(0, 0.4, size_of(op))
        for op in builder.model.graph.block
        if op.opdef.name == "node.parameter"
    }
    columns = sum(LENGTHS)
    leaves["features"] = rng.normal(size=(rows_of(builder, "features"), columns))
    labels = rows_of(builder, "labels")
    leaves["labels"] = np.eye(labels)[:, rng.integers(0, labels, columns)]
    judged = evaluate_sequences(builder.model.graph, leaves, LENGTHS)
    call = compiled_for_sequences(builder.model, ("ce", "z"), backend=backend)
    found = call(side_by_side(LENGTHS, 2, rng), leaves)
    assert np.allclose(found["ce"], judged["ce"], rtol=1e-12)
    assert np.allclose(found["z"], judged["z"], rtol=1e-12, atol=1e-13)


def size_of(op: Operation) -> tuple[int, int]:
    type = node_type(op)
    assert isinstance(type.rows, int) and isinstance(type.cols, int)
    return type.rows, type.cols


def rows_of(builder: GraphBuilder, name: str) -> int:
    node = builder.find(name)
    assert node is not None
    return node_type(node.operation).rows or 0


def test_rows_of_a_delay_that_are_left_open_follow_from_the_cycle() -> None:
    text = "x = Input(4)\nR = Parameter(4, 0)\np = PastValue(0, h)\nu = Times(R, p)\n"
    builder = loaded(text + "h = ElementTimes(u, x)\n")
    assert str(node_type(builder.find("p").operation)) == "matrix<4x*>"  # type: ignore[union-attr]
    assert str(node_type(builder.find("R").operation)) == "matrix<4x4>"  # type: ignore[union-attr]
