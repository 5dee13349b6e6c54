"""Typed descriptions of what a block takes: a key's name, what it reads as, its default, what for.

MAX_EPOCHS = integer("maxEpochs", "epochs to train")
EPOCH_SIZE = integer("epochSize", "samples of an epoch, 0 for all of the data", 0)

MAX_EPOCHS.of(scope)          an int, or an error that names the sets searched
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Generic, TypeVar, cast

from graphc.config.lookup import Scope, Value

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)


class Required(Enum):
    """The default of a key that has none."""

    REQUIRED = "required"


REQUIRED = Required.REQUIRED


@dataclass(frozen=True, slots=True)
class Key(Generic[T_co]):
    """What one key of a block is.

    kind     of its value, for tables
    ignored  it is read and checked and nothing follows from it: why
    written  the default as one would write it, where that does not show
    """

    name: str
    kind: str
    doc: str
    read: Callable[[Value], T_co]
    default: T_co | Required = REQUIRED
    ignored: str = ""
    written: str = ""

    def of(self, scope: Scope) -> T_co:
        """The value in a set or around it."""
        value = scope.find(self.name)
        if value is not None:
            return self.read(value)
        if isinstance(self.default, Required):
            raise scope.missing(self.name)
        return self.default


def text(name: str, doc: str, default: str | Required = REQUIRED) -> Key[str]:
    return Key(name, "text", doc, Value.text, default)


def integer(name: str, doc: str, default: int | Required = REQUIRED, *, least: int = 0) -> Key[int]:
    def read(value: Value) -> int:
        number = value.integer()
        if number < least:
            raise value.fail(f"`{name}` requires at least {least}, got {number}")
        return number

    return Key(name, "integer", doc, read, default)


def number(name: str, doc: str, default: float | Required = REQUIRED) -> Key[float]:
    return Key(name, "number", doc, Value.number, default)


def truth(name: str, doc: str, default: bool | Required = REQUIRED) -> Key[bool]:
    return Key(name, "truth", doc, Value.truth, default)


def texts(
    name: str, doc: str, default: tuple[str, ...] | Required = REQUIRED
) -> Key[tuple[str, ...]]:
    return Key(name, "list", doc, lambda value: tuple(value.texts()), default)


def path(name: str, doc: str) -> Key[Path]:
    return Key(name, "path", doc, read_path)


def one_of(name: str, doc: str, choices: dict[str, T], default: T | Required = REQUIRED) -> Key[T]:
    """One of several words, in any case."""

    def read(value: Value) -> T:
        word = value.text()
        if word.lower() not in choices:
            known = ", ".join(choices)
            raise value.fail(f"`{name}` requires one of {known}, got `{word}`")
        return choices[word.lower()]

    written = next((word for word, value in choices.items() if value == default), "")
    return Key(name, "one of " + ", ".join(choices), doc, read, default, written=written)


def optional(key: Key[T]) -> Key[T | None]:
    """The same key, None where it is absent."""
    wider = cast("Key[T | None]", key)  # reading gives a T, which is a T or None
    return replace(wider, default=None)


def ignored(key: Key[T], reason: str) -> Key[T]:
    """The same key, of which nothing follows here."""
    return replace(key, ignored=reason)


def read_path(value: Value) -> Path:
    """A path; the toolkit's files write `\\` as well as `/` between folders."""
    chars = value.text()
    if not chars or "\0" in chars:
        raise value.fail(f"`{value.key}` requires a path, got `{chars}`")
    return Path(chars.replace("\\", "/"))
