"""The table of handlers: which function says what an operator of ONNX means.

A handler is a function of the operator's inputs, None for one that is left out, with the attributes
it takes as keywords, or as a record of attributes that several operators have. It computes with
arrays (`values.py`) and gives one output or a tuple of them. Defaults of attributes come from the
operator's schema, so handlers repeat none.
"""

from __future__ import annotations

import inspect
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cache
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

NEWEST_OPSET = 28
"""The newest version of the default operator set that the handlers were written for."""

NO_TEXTS = "texts are not computed with: give the model what comes behind this node"

NEVER = {
    "ImageDecoder": "files of pictures are not read",
    **dict.fromkeys(
        ("StringNormalizer", "StringConcat", "StringSplit", "RegexFullMatch"),
        NO_TEXTS,
    ),
}
"""Operators of the default domain without a handler, and why."""

COUNTED = {"NonMaxSuppression": 0, "NonZero": 1}
"""Operators whose result has an axis, the number, of a size that values decide."""

RANDOM = frozenset(
    (
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
        *("Multinomial", "Bernoulli"),
    )
)
"""Operators that draw random numbers; Dropout does too where it is told that it trains."""

CONTEXT = "context"
"""The keyword by which a handler asks for the node that it is called for."""

SETTINGS = "settings"
"""The keyword by which it takes a record of attributes."""


@dataclass(frozen=True)
class Handler:
    """What an operator means from a version on.

    takes  the attributes that it knows; None: all
    """

    since: int
    function: Callable[..., object]
    takes: frozenset[str]
    wants_context: bool


_TABLE: dict[tuple[str, str], list[Handler]] = {}


def operator(
    name: str, since: int = 1, domain: str = "", *, settings: type | None = None
) -> Callable[[Callable[..., object]], Callable[..., object]]:
    """Make a function the handler of an operator from this version on.

    settings  a dataclass, whose fields are attributes that the handler takes as one record, by the
              keyword of this name
    """
    fields_of = frozenset(f.name for f in fields(settings)) if settings else frozenset[str]()

    def register(function: Callable[..., object]) -> Callable[..., object]:
        def with_record(*inputs: object, **given: Any) -> object:
            own = {name: given.pop(name) for name in fields_of & given.keys()}
            return function(*inputs, **{SETTINGS: settings(**own)} if settings else {}, **given)

        parameters = inspect.signature(function).parameters.values()
        named = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}
        takes = frozenset(named - {CONTEXT, SETTINGS}) | fields_of
        known = _TABLE.setdefault((domain, name), [])
        called = with_record if settings else function
        known.append(Handler(since, called, takes, CONTEXT in named))
        known.sort(key=lambda handler: handler.since)
        return function

    return register


def handler_of(domain: str, name: str, version: int) -> Handler | None:
    """What the operator means, by the version that its schema begins with."""
    _load()
    known = _TABLE.get((domain, name), [])
    place = bisect_right([h.since for h in known], version)
    return known[place - 1] if place else None


def operators() -> list[tuple[str, str]]:
    """Domain and name of every operator that has a handler."""
    _load()
    return sorted(_TABLE)


@cache
def _load() -> None:
    package = import_module("graphc_frontends.onnx.ops")
    for module in iter_modules(package.__path__):
        import_module(f"{package.__name__}.{module.name}")
