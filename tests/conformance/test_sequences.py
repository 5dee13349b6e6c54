"""Nodes over minibatches of sequences: what stands in a gap never reaches a real column.

Every node of the node table runs twice: with sequences of several lengths side by side, several in
a slot, and nan in every gap; and with the same sequences one after the other, without gaps. Values
are compared with the node's own reference too, gradients with those without gaps. The two differ in
the order of sums, so by no more than a few roundings of the largest number.
"""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from graphc.builder import GraphBuilder, Node
from graphc.driver.prepare import prepare
from graphc.ops.nodes.layout import node_type
from graphc.support.diagnostics import render
from tests.conformance.node_table import ROWS, NodeRow, Use
from tests.support.sequences import (
    Packing,
    compiled_for_sequences,
    evaluate_sequences,
    in_one_slot,
    side_by_side,
)

Array = np.ndarray

LENGTHS = (4, 1, 7, 2, 5, 3, 1)
TOLERANCE = 1e-12
MOST_ROWS = 20
BACKENDS = ("reference", "numpy", "llvm")
_LEAVES = ("input", "sparse_input")
TESTED = [row for row in ROWS if row.kind != "statistic" and any(u.has_samples for u in row.uses)]


def uses_of(row: NodeRow) -> list[Use]:
    sampled = [use for use in row.uses if use.has_samples and use.keeps_columns]
    small = [use for use in sampled if all(leaf.rows <= MOST_ROWS for leaf in use.leaves)]
    return (small or sampled)[:3]


def network_of(row: NodeRow, rng: np.random.Generator) -> tuple[GraphBuilder, dict[str, Array]]:
    """Every use, and the criterion `total`: the weighted sum of all that they compute."""
    builder = GraphBuilder()
    leaves: dict[str, Array] = {}
    columns = sum(LENGTHS)

    def leaf(name: str, op: str, settings: dict[str, object], value: Array) -> Node:
        leaves[name] = value
        return builder.apply(op, settings=settings, name=name)

    terms: list[Node] = []
    for index, use in enumerate(uses_of(row)):
        operands: list[Node] = []
        for place, each in enumerate(use.leaves):
            cols = columns if each.cols is None else each.cols
            value = row.numbers_of(place)(rng, each.rows, cols)
            operands.append(leaf(f"u{index}x{place}", each.op, each.arguments, value))
        node = operands[0]
        if row.op not in _LEAVES:
            node = builder.apply(row.op, operands, dict(use.settings), name=f"v{index}")
        prepare(builder.model)
        type = node_type(node.operation)
        if type.has_samples:
            rows = type.rows or 0
            weight = rng.normal(size=(rows, columns))
            scale = leaf(f"w{index}", "input", {"rows": rows}, weight)
            node = builder.apply("sum_elements", [builder.apply("element_times", [node, scale])])
        terms.append(node)
    total = terms[0]
    for term in terms[1:]:
        total = builder.apply("plus", [total, term])
    builder.rename(builder.apply("plus", [total, total]), "total")
    assert not builder.sink.diagnostics, render(builder.sink.diagnostics)
    prepare(builder.model)
    return builder, leaves


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("row", TESTED, ids=lambda row: row.op)
def test_a_gap_never_reaches_a_real_column(row: NodeRow, backend: str) -> None:
    rng = np.random.default_rng(zlib.crc32(row.op.encode()))
    builder, leaves = network_of(row, rng)
    values = [n for n in ("v0", "v1", "v2") if builder.find(n) is not None]
    wrt = [n for n in leaves if not n.startswith("w")]
    wrt = [n for n in wrt if builder.find(n).op != "sparse_input"]  # type: ignore[union-attr]
    outputs = ("total", *values)
    call = compiled_for_sequences(builder.model, outputs, wrt, backend=backend)
    plain = call(in_one_slot(LENGTHS), leaves)
    judged = evaluate_sequences(builder.model.graph, leaves, LENGTHS)
    for slots in (1, 3):
        found = call(side_by_side(LENGTHS, slots, rng), leaves)
        for name in outputs:
            assert_equal(name, found[name], judged[name])
        for name, value in plain.items():
            assert_equal(name, found[name], value)


def assert_equal(name: str, found: Array, wanted: Array) -> None:
    assert found.shape == wanted.shape, name
    largest = float(np.max(np.abs(wanted), initial=1.0))
    error = float(np.max(np.abs(found - wanted), initial=0.0))
    assert error <= TOLERANCE * largest, (name, error, largest)


def test_the_packings_hold_what_the_test_is_about() -> None:
    packing = side_by_side(LENGTHS, 3, np.random.default_rng(0))
    assert packing.lengths == list(LENGTHS)
    assert max(map(len, packing.slots)) > 1
    assert len(packing.places[0]) < packing.time * len(packing.slots)
    matrix = np.arange(2.0 * sum(LENGTHS)).reshape(2, -1)
    assert np.array_equal(packing.unpack(packing.pack(matrix)), matrix)
    assert np.isnan(packing.pack(matrix)).any()
    assert in_one_slot(LENGTHS) == Packing(23, (tuple(packing_spans()),))


def packing_spans() -> list[tuple[int, int]]:
    return [(sum(LENGTHS[:i]), n) for i, n in enumerate(LENGTHS)]
