"""Arguments of the wrong kind, from callers without a type checker: one clear error for each.

Each function gives back what it was given, with the type that it then has. `what` is the argument's
name for the message: GraphcError `argument-type` says what it requires and what came.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from graphc.support.diagnostics import GraphcError, fail

T = TypeVar("T")


def kind_error(what: str, required: str, given: object) -> GraphcError:
    """The error for `given`: what requires what, and what came instead."""
    return fail("argument-type", f"{what} requires {required}, got {kind_of(given)}")


def kind_of(given: object) -> str:
    """What messages call the kind of a value."""
    if given is None:
        return "None"
    return f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__


def instance(given: object, kind: type[T], what: str, required: str) -> T:
    """An instance of a class, which messages call `required`."""
    if not isinstance(given, kind):
        raise kind_error(what, required, given)
    return given


def text(given: object, what: str) -> str:
    """A text."""
    return instance(given, str, what, "a text")


def texts(given: object, what: str) -> list[str]:
    """Several texts; one alone stands for a list of it."""
    if isinstance(given, str):
        return [given]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise kind_error(what, "a text or a list of them", given)
    return [text(item, f"each of {what}") for item in _items(given, what)]


def path(given: object, what: str) -> Path:
    """The path of a file."""
    if not isinstance(given, str | Path):
        raise kind_error(what, "a path (text or pathlib.Path)", given)
    return Path(given)


def paths(given: object, what: str) -> list[Path]:
    """Several paths; one alone stands for a list of it."""
    if isinstance(given, str | Path):
        return [Path(given)]
    if isinstance(given, bytes) or not isinstance(given, Iterable):
        raise kind_error(what, "a path or a list of them", given)
    return [path(item, f"each of {what}") for item in _items(given, what)]


def table(given: object, what: str, values: str) -> Mapping[str, object]:
    """Values by name, such as a dict; messages call the `values` what they are."""
    if not isinstance(given, Mapping):
        raise kind_error(what, f"{values} by name", given)
    for name in given:
        if not isinstance(name, str):
            raise fail("argument-type", f"{what} requires names that are texts, got {name!r}")
    return given


def function(given: object, what: str) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(given):
        raise kind_error(what, "a function", given)
    return given


def number(given: object, what: str) -> float:
    """A number, of Python or numpy."""
    if not isinstance(given, int | float | np.integer | np.floating) or isinstance(given, bool):
        raise kind_error(what, "a number", given)
    try:
        return float(given)
    except OverflowError as problem:
        raise fail("bad-value", f"{what} requires a smaller number: {problem}") from None


def whole(given: object, what: str) -> int:
    """A whole number that is not below 0."""
    if not isinstance(given, int | np.integer) or isinstance(given, bool):
        raise kind_error(what, "a whole number", given)
    if given < 0:
        raise fail("bad-value", f"{what} requires a whole number of at least 0, got {given}")
    return int(given)


def truth(given: object, what: str) -> bool:
    """True or False, or 1 or 0."""
    if not isinstance(given, int | np.bool_) or given not in (0, 1):
        raise kind_error(what, "True or False", given)
    return bool(given)


def _items(given: Iterable[object], what: str) -> list[object]:
    try:
        return list(given)
    except TypeError as problem:  # an array without a dimension says so only now
        raise fail("argument-type", f"{what} requires a list: {problem}") from None
