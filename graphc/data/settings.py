"""Settings of readers and writers: values by name, in blocks within blocks, as text or as Python.

`Settings` is what a reader's factory is given: a block of a configuration file (`graphc.config`'s
`Scope` is one), or `PythonSettings` made of a dictionary. Keys do not distinguish upper and lower
case; what a block does not have is looked for in the blocks around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

from graphc.support.diagnostics import GraphcError, fail, suggestion

T = TypeVar("T")


class Setting(Protocol):
    """One value. The functions raise GraphcError `bad-value` for a value of another kind."""

    def text(self) -> str: ...

    def integer(self) -> int: ...

    def truth(self) -> bool: ...

    def texts(self) -> list[str]:
        """The elements of a list; one text stands for a list of it."""
        ...

    def fail(self, message: str, slug: str = "bad-value") -> GraphcError:
        """An error about this value, with its place."""
        ...


class Settings(Protocol):
    """One block."""

    @property
    def path(self) -> str:
        """What messages call the block."""
        ...

    def find(self, key: str) -> Setting | None:
        """The value of a key, here or in the blocks around; None where it is absent."""
        ...

    def own(self, key: str) -> Setting | None:
        """The value of a key in this block alone."""
        ...

    def missing(self, key: str) -> GraphcError:
        """The error for a key that is required and absent."""
        ...

    def own_sections(self) -> list[str]:
        """The names of the blocks in this one, in alphabetical order without case."""
        ...

    def section(self, key: str) -> Settings: ...


class PythonSettings:
    """Settings out of a dictionary; dictionaries in it are blocks."""

    def __init__(
        self,
        values: Mapping[str, object],
        path: str = "settings",
        outer: PythonSettings | None = None,
    ) -> None:
        self.values = {key.lower(): value for key, value in values.items()}
        self.names = {key.lower(): key for key in values}
        self.path = path
        self.outer = outer

    def find(self, key: str) -> PythonSetting | None:
        block: PythonSettings | None = self
        while block is not None:
            if (found := block.own(key)) is not None:
                return found
            block = block.outer
        return None

    def own(self, key: str) -> PythonSetting | None:
        value = self.values.get(key.lower())
        return None if value is None else PythonSetting(key, value, self.path)

    def missing(self, key: str) -> GraphcError:
        near = suggestion(key, self.names.values())
        return fail("bad-value", f"{self.path} requires `{key}`, which is absent{near}")

    def own_sections(self) -> list[str]:
        blocks = (key for key, value in self.values.items() if isinstance(value, Mapping))
        return [self.names[key] for key in sorted(blocks)]

    def section(self, key: str) -> PythonSettings:
        found = self.find(key)
        if found is None:
            raise self.missing(key)
        if not isinstance(found.value, Mapping):
            raise found.fail(f"requires a dictionary, got {found.value!r}")
        return PythonSettings(found.value, key, self)


class PythonSetting:
    """A value of a dictionary: a text, a number, a truth value, or a list of texts."""

    def __init__(self, key: str, value: object, path: str) -> None:
        self.key = key
        self.value = value
        self.path = path

    def text(self) -> str:
        if isinstance(self.value, str | Path) or type(self.value) in (int, float):
            return str(self.value)
        raise self._unlike("a text")

    def integer(self) -> int:
        if isinstance(self.value, int) and not isinstance(self.value, bool):
            return self.value
        if isinstance(self.value, str) and self.value.lstrip("-").isdecimal():
            return int(self.value)
        raise self._unlike("a whole number")

    def truth(self) -> bool:
        if isinstance(self.value, bool):
            return self.value
        if isinstance(self.value, str) and self.value.lower() in ("true", "false"):
            return self.value.lower() == "true"
        raise self._unlike("true or false")

    def texts(self) -> list[str]:
        if isinstance(self.value, str | Path):
            return [str(self.value)]
        if isinstance(self.value, Sequence) and all(
            isinstance(item, str | Path) for item in self.value
        ):
            return [str(item) for item in self.value]
        raise self._unlike("a list of texts")

    def fail(self, message: str, slug: str = "bad-value") -> GraphcError:
        return fail(slug, f"`{self.key}` of {self.path}: {message}")

    def _unlike(self, required: str) -> GraphcError:
        return self.fail(f"requires {required}, got {self.value!r}")


def required(settings: Settings, key: str) -> Setting:
    """The value of a key, here or further out."""
    found = settings.find(key)
    if found is None:
        raise settings.missing(key)
    return found


def integer(settings: Settings, key: str, default: int | None = None, *, least: int = 0) -> int:
    """A whole number of at least `least`; without a default the key is required."""
    found = settings.find(key)
    if found is None:
        if default is None:
            raise settings.missing(key)
        return default
    number = found.integer()
    if number < least:
        raise found.fail(f"`{key}` requires at least {least}, got {number}")
    return number


def one_of(settings: Settings, key: str, choices: Mapping[str, T], default: T) -> T:
    """What one of several words stands for, in any case."""
    found = settings.find(key)
    if found is None:
        return default
    word = found.text()
    if word.lower() not in choices:
        known = ", ".join(choices)
        raise found.fail(f"`{key}` requires one of {known}, got `{word}`")
    return choices[word.lower()]


def file_path(found: Setting) -> Path:
    """A path; files of the toolkit write `\\` as well as `/` between folders."""
    chars = found.text()
    if not chars or "\0" in chars:
        raise found.fail(f"a path is required, got `{chars}`")
    return Path(chars.replace("\\", "/"))


def file_paths(found: Setting) -> list[Path]:
    """One path or a list of them."""
    if not all(names := found.texts()) or not names or any("\0" in name for name in names):
        raise found.fail(f"paths are required, got {names!r}")
    return [Path(name.replace("\\", "/")) for name in names]
