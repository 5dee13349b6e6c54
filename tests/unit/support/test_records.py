"""Dataclasses as plain data: unions of records, sets, mappings, tuples of fixed length."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

from graphc.support.records import read_record, record_of


@dataclass(frozen=True)
class Leaf:
    sign: Literal[-1, 0, 1]
    marks: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Pair:
    parts: tuple[tuple[Leaf, int], ...]


@dataclass(frozen=True)
class Tree:
    inner: Tree | Leaf | Pair | None
    named: Mapping[str, Leaf] = field(default_factory=dict)


TREES = [
    Tree(None),
    Tree(Tree(Leaf(-1, frozenset({3, 1})))),
    Tree(Pair(((Leaf(0), 3), (Leaf(1), 4))), {"a": Leaf(0), "b": Leaf(1)}),
]


def through_json(value: object) -> Any:
    return json.loads(json.dumps(record_of(value)))


@pytest.mark.parametrize("tree", TREES)
def test_a_record_comes_back_from_json_as_it_was(tree: Tree) -> None:
    assert read_record(Tree, through_json(tree)) == tree


def test_a_set_is_written_in_order() -> None:
    assert record_of(Leaf(0, frozenset({30, 1, 20})))["marks"] == [1, 20, 30]


@pytest.mark.parametrize(
    "record",
    [
        {"inner": {"sign": True, "marks": []}, "named": {}},
        {"inner": {"sign": 2, "marks": []}, "named": {}},
        {"inner": {"sign": 0, "marks": ["a"]}, "named": {}},
        {"inner": {"sign": 0}, "named": {}},
        {"inner": {"parts": [[{"sign": 0, "marks": []}]]}, "named": {}},
        {"inner": None, "named": {"a": 3}},
        {"inner": None, "named": []},
        {"inner": 3, "named": {}},
    ],
)
def test_a_value_of_another_kind_is_refused(record: object) -> None:
    with pytest.raises(ValueError, match=r"required|requires"):
        read_record(Tree, record)
