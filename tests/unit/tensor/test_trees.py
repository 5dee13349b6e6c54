"""Nested containers are taken apart and put together again."""

from __future__ import annotations

from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

from graphc.tensor.trees import assembler, flatten, leaf_count, unflatten


class Pair(NamedTuple):
    first: Any
    second: Any


TREES: st.SearchStrategy[Any] = st.recursive(
    st.integers() | st.none() | st.text(max_size=2),
    lambda part: (
        st.lists(part, max_size=3)
        | st.lists(part, max_size=3).map(tuple)
        | st.builds(Pair, part, part)
        | st.dictionaries(st.text(max_size=2), part, max_size=3)
    ),
)


@given(TREES)
def test_flatten_and_unflatten_are_inverse(tree: Any) -> None:
    leaves, structure = flatten(tree)
    assert unflatten(structure, leaves) == tree
    assert type(unflatten(structure, leaves)) is type(tree)
    assert assembler(structure)(leaves) == tree
    assert type(assembler(structure)(leaves)) is type(tree)
    assert leaf_count(structure) == len(leaves)
    assert hash(structure) == hash(flatten(tree)[1])


def test_the_structure_tells_containers_apart() -> None:
    trees: list[Any] = [1, [1], (1,), {"a": 1}, {"b": 1}, [[1]], [1, 1], []]
    assert len({flatten(tree)[1] for tree in trees}) == len(trees)
