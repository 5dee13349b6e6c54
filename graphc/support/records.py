"""Frozen dataclasses as plain data and back, for files that keep them.

Their fields are texts, numbers, truth values, other such records, tuples, sets, mappings from
texts, and unions of those; of several records in a union the names of the fields decide. Reading
takes exactly what writing gives, after a way through JSON: a field too many, too few or of another
kind is refused.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")

SHOWN = 200
"""Characters of a wrong value in a message."""


def record_of(value: object) -> Any:
    """The value as dicts, lists, texts and numbers, ready for `json.dumps`."""
    if is_dataclass(value):
        return {f.name: record_of(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Mapping):
        return {name: record_of(item) for name, item in value.items()}
    if isinstance(value, frozenset):
        return sorted(map(record_of, value))
    if isinstance(value, tuple | list):
        return [record_of(item) for item in value]
    return value


def read_record(kind: type[T], record: object) -> T:
    """The inverse of `record_of`. ValueError for anything else."""
    made = _read(kind, record)
    assert isinstance(made, kind)
    return made


def _read(kind: Any, value: object) -> object:
    """`value` as the annotation `kind` says; ValueError where it is something else."""
    if is_dataclass(kind):
        return _read_fields(kind, value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_one_of(inner, value)
    if origin is Literal and any(type(value) is type(i) and value == i for i in inner):
        return value
    if origin is Mapping and isinstance(value, Mapping):
        return {str(name): _read(inner[1], item) for name, item in value.items()}
    if origin in (tuple, frozenset) and isinstance(value, list | tuple):
        return _read_items(origin, inner, value)
    if isinstance(kind, type) and type(value) is kind:
        return value
    raise ValueError(f"{kind} is required, got {_short(value)}")


def _read_items(origin: Any, inner: tuple[Any, ...], value: list[Any] | tuple[Any, ...]) -> object:
    if origin is frozenset or inner[1:] == (...,):
        return origin(_read(inner[0], item) for item in value)
    if len(inner) != len(value):
        raise ValueError(f"{len(inner)} items are required, got {_short(value)}")
    return tuple(_read(kind, item) for kind, item in zip(inner, value, strict=True))


def _read_one_of(kinds: tuple[Any, ...], value: object) -> object:
    """A record is the one with its fields, anything else what can be read."""
    if isinstance(value, Mapping):
        kinds = tuple(k for k in kinds if not is_dataclass(k) or set(_kinds(k)) == set(value))
    for kind in kinds:
        if kind is type(None):
            if value is None:
                return None
            continue
        if len(kinds) == 1:
            return _read(kind, value)
        try:
            return _read(kind, value)
        except ValueError:
            continue
    raise ValueError(f"one of {kinds} is required, got {_short(value)}")


def _read_fields(kind: Any, value: object) -> object:
    kinds = _kinds(kind)
    if not isinstance(value, Mapping) or set(value) != set(kinds):
        got = sorted(map(str, value)) if isinstance(value, Mapping) else value
        message = f"{kind.__name__} requires the fields {sorted(kinds)}, got {_short(got)}"
        raise ValueError(message)
    return kind(**{name: _read(k, value[name]) for name, k in kinds.items()})


def _short(value: object) -> str:
    """A value in a message: of a whole record its beginning."""
    text = repr(value)
    return text if len(text) <= SHOWN else text[: SHOWN - 1] + "…"


@lru_cache(maxsize=64)
def _kinds(kind: type) -> dict[str, Any]:
    """The annotation of each field; to find them out takes longer than all the rest."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}
