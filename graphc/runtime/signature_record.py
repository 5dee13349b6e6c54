"""A `Signature` as plain data and back, for files that keep it beside the code that it describes.

Reading takes exactly what writing gives: a field too many, too few or of another kind is refused.
"""

from __future__ import annotations

import types
from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from functools import lru_cache
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from graphc.runtime.signature import Signature

SHOWN = 200
"""Characters of a wrong value in a message."""


def signature_record(signature: Signature) -> dict[str, object]:
    """The signature as dicts, tuples, texts and numbers, ready for `json.dumps`."""
    return asdict(signature)


def read_signature(record: object) -> Signature:
    """The inverse of `signature_record`, after a way through JSON. ValueError for anything else."""
    made = _read(Signature, record)
    assert isinstance(made, Signature)
    return made


def _read(kind: Any, value: object) -> object:
    """`value` as the annotation `kind` says; ValueError where it is something else."""
    if is_dataclass(kind):
        return _read_fields(kind, value)
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _read_one_of(inner, value)
    if origin is tuple and isinstance(value, list | tuple):
        return tuple(_read(inner[0], item) for item in value)
    if origin is Literal and value in inner:
        return value
    if isinstance(kind, type) and type(value) is kind:
        return value
    raise ValueError(f"{kind} is required, got {_short(value)}")


def _read_one_of(kinds: tuple[Any, ...], value: object) -> object:
    for kind in kinds:
        if kind is type(None):
            if value is None:
                return None
            continue
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


@lru_cache(maxsize=16)
def _kinds(kind: type) -> dict[str, Any]:
    """The annotation of each field; to find them out takes longer than all the rest."""
    hints = get_type_hints(kind)
    return {f.name: hints[f.name] for f in fields(kind)}
