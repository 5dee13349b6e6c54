"""Signatures as plain data."""

from __future__ import annotations

import json
from typing import Any

import pytest

from graphc.runtime.signature import (
    Argument,
    Dimension,
    Result,
    SequenceTables,
    Signature,
    SparseInput,
)
from graphc.runtime.signature_record import read_signature, signature_record
from graphc.support.size_formula import SizeFormula

FULL = Signature(
    "main",
    (
        Dimension("T", 64),
        Dimension("S", 4),
        Dimension("C", 256, SizeFormula.product(("T", "S"), 2)),
    ),
    (
        Argument("x", "f32", ("C", 3), "input"),
        Argument("w", "f64", (3, 4), "parameter"),
        Argument("rate", "f32", (1, 1), "hyperparameter"),
    ),
    (Result("z", "f32", ("C", 4)), Result("w.new", "f64", (3, 4), "w")),
    4096,
    (SparseInput("x", 10),),
    SequenceTables("begin", "end", multiple=8),
    sums=((Result("sum.0", "f32", (3, 4)), Result("sum.1", "f32", (1, 1))), ()),
)
PLAIN = Signature("f", (), (), (), 0)


def through_json(signature: Signature) -> Any:
    return json.loads(json.dumps(signature_record(signature)))


@pytest.mark.parametrize("signature", [FULL, PLAIN])
def test_a_signature_comes_back_from_json_as_it_was(signature: Signature) -> None:
    assert read_signature(through_json(signature)) == signature


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("name",), 3),
        (("arena_bytes",), "4096"),
        (("arena_bytes",), True),
        (("dims",), {"T": 64}),
        (("dims", 0, "bound"), 1.5),
        (("arguments", 0, "role"), "output"),
        (("arguments", 0, "shape", 0), None),
        (("results", 0, "updates"), 1),
        (("sequences",), []),
    ],
)
def test_a_value_of_another_kind_is_refused(path: tuple[Any, ...], value: object) -> None:
    record = place = through_json(FULL)
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ValueError, match=r"required|requires"):
        read_signature(record)


def test_a_message_shows_no_more_than_the_beginning_of_a_value() -> None:
    record = through_json(PLAIN) | {"arguments": "x" * 10_000, "name": "y" * 10_000, "more": 1}
    for wrong in (record, {**record, "more": ["z" * 10_000]}, ["x" * 10_000]):
        with pytest.raises(ValueError) as caught:
            read_signature(wrong)
        assert len(str(caught.value)) < 400


def test_a_missing_and_an_unknown_field_are_refused() -> None:
    missing, unknown = through_json(PLAIN), through_json(PLAIN)
    del missing["dims"]
    unknown["more"] = 1
    for record in (missing, unknown, [], None):
        with pytest.raises(ValueError, match="requires the fields"):
            read_signature(record)
