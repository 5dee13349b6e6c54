"""Nested tuples, lists and dicts taken apart into leaves and put together again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Leaf:
    """A place for one value."""


@dataclass(frozen=True, slots=True)
class Node:
    """A container: its kind, a dict's keys in their order, and what its places hold."""

    kind: type
    keys: tuple[object, ...]
    children: tuple[Structure, ...]


Structure = Leaf | Node
LEAF = Leaf()


def flatten(tree: object) -> tuple[list[object], Structure]:
    """The leaves of `tree`, left to right, and its structure, which can be compared and hashed."""
    if isinstance(tree, dict):
        keys, parts = tuple(tree), tuple(tree.values())
    elif isinstance(tree, tuple | list):
        keys, parts = (), tuple(tree)
    else:
        return [tree], LEAF
    flat = [flatten(part) for part in parts]
    named = isinstance(tree, tuple) and hasattr(tree, "_fields")
    kind = dict if isinstance(tree, dict) else tuple if isinstance(tree, tuple) else list
    kind = type(tree) if named else kind
    leaves = [leaf for part, _ in flat for leaf in part]
    return leaves, Node(kind, keys, tuple(structure for _, structure in flat))


def leaf_names(tree: object, name: str) -> list[str]:
    """The place of each leaf of `tree` in words, as `layers.0.w`; of one that is a leaf `name`."""
    if isinstance(tree, dict):
        parts = {str(key): part for key, part in tree.items()}
    elif isinstance(tree, tuple | list):
        fields = getattr(tree, "_fields", range(len(tree)))
        parts = dict(zip(map(str, fields), tree, strict=True))
    else:
        return [name]
    return [
        n for key, part in parts.items() for n in leaf_names(part, f"{name}.{key}" if name else key)
    ]


def unflatten(structure: Structure, leaves: Sequence[object]) -> object:
    """The tree of this structure with these leaves."""
    return _take(structure, iter(leaves))


def _take(structure: Structure, leaves: Iterator[object]) -> object:
    if isinstance(structure, Leaf):
        return next(leaves)
    parts = [_take(child, leaves) for child in structure.children]
    if structure.kind is dict:
        return dict(zip(structure.keys, parts, strict=True))
    return structure.kind(parts) if structure.kind in (tuple, list) else structure.kind(*parts)


def assembler(structure: Structure) -> Callable[[list[Any]], object]:
    """`unflatten` for one structure, quick for one leaf, a tuple and a list."""
    if isinstance(structure, Leaf):
        return lambda leaves: leaves[0]
    if structure.kind in (tuple, list) and all(isinstance(c, Leaf) for c in structure.children):
        return structure.kind
    return lambda leaves: unflatten(structure, leaves)


def leaf_count(structure: Structure) -> int:
    """How many leaves a tree of this structure has."""
    if isinstance(structure, Leaf):
        return 1
    return sum(leaf_count(child) for child in structure.children)
