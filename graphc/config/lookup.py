"""Finds values: a set, then the sets around it, with `$name$` put in when a value is asked for.

A `Scope` is one set with what was asked of it. A key is looked for in its own set first, then in
the sets around, so that `modelPath` may stand beside `SGD=[…]` as well as in it. A set that is
found further out is read as if it stood where it is asked for. The value `default` counts as
absent. Keys and names of variables do not distinguish upper and lower case.

Every question is remembered, for the keys that nobody asked for are likely misspelt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TypeVar

from graphc.config import values
from graphc.config.records import VARIABLE, elements, is_block, records, without_quotes
from graphc.config.text import Text, joined
from graphc.support.diagnostics import (
    Diagnostic,
    GraphcError,
    Note,
    Severity,
    fail,
    make,
    suggestion,
)
from graphc.support.source import Span

MAX_NESTING = 64  # sets in sets
MAX_VARIABLES = 32  # `$a$` in the value of `$b$` in the value of …
MAX_VALUE = 1 << 16  # characters of a value with its variables put in
MAX_ELEMENTS = 1 << 20  # of a list, repeated ones counted each time

TOP = "the top level"
ABSENT = "default"

_MARK = re.compile(rf"{VARIABLE.pattern}|\$")

Users = tuple[tuple[str, str], ...]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A key and its value as written: several texts where sets of one key were merged."""

    key: Text
    parts: tuple[Text, ...]

    @property
    def value(self) -> Text:
        """The value, of merged sets the last part."""
        return self.parts[-1]

    @property
    def is_set(self) -> bool:
        return self.value.chars.startswith("[")


class Scope:
    """A set of keys and values, and the sets around it.

    name    the key that it is the value of, "" for the top
    parent  where keys are looked for next
    """

    def __init__(self, name: str, parts: Sequence[Text], parent: Scope | None = None) -> None:
        self.name = name
        self.parent = parent
        self.parts = tuple(parts)
        self.asked: set[str] = set()
        self.entries = merged(parts)
        self._sections: dict[str, Scope] = {}
        if sum(1 for _ in self.chain()) > MAX_NESTING:
            place = self.parts[0].span(0, 1)
            raise fail("limit", f"sets may be nested {MAX_NESTING} deep at most", place)

    @staticmethod
    def top(text: Text) -> Scope:
        """The set that a whole text is."""
        return Scope("", (text,))

    @property
    def path(self) -> str:
        """The way to this set for messages: `train.SGD`."""
        names = [scope.name for scope in self.chain() if scope.name]
        return ".".join(reversed(names)) or TOP

    def chain(self) -> Iterator[Scope]:
        """This set and the sets around it, from the inside out."""
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.parent

    def ask(self, *keys: str) -> None:
        """Note that these keys mean something here, and so in the sets around."""
        for scope in self.chain():
            scope.asked.update(key.lower() for key in keys)

    def find(self, key: str) -> Value | None:
        """The value of a key here or further out; None if it is absent."""
        self.ask(key)
        for scope in self.chain():
            if (value := scope.own(key)) is not None:
                return replace(value, asked=self)
        return None

    def own(self, key: str) -> Value | None:
        """The value of a key in this set alone."""
        self.asked.add(key.lower())
        entry = self.entries.get(key.lower())
        if entry is None or entry.value.chars.lower() == ABSENT:
            return None
        return Value(entry, self, self)

    def require(self, key: str) -> Value:
        """As `find`. GraphcError `bad-value` that names the sets searched, if it is absent."""
        value = self.find(key)
        if value is None:
            raise self.missing(key)
        return value

    def missing(self, key: str) -> GraphcError:
        """The error for a key that is required and is nowhere."""
        searched = ", ".join(scope.path for scope in self.chain())
        known = [entry.key.chars for scope in self.chain() for entry in scope.entries.values()]
        near = suggestion(key, [k for k in known if k.lower() not in self.asked])
        message = f"the key `{key}` is required; searched in {searched}{near}"
        return fail("bad-value", message, self.parts[-1].span(0, 1))

    def section(self, key: str) -> Scope:
        """The set of that key, as if it stood in this one. GraphcError `bad-value` if it is absent
        or no set."""
        found = self.find_section(key)
        if found is None:
            raise self.missing(key)
        return found

    def find_section(self, key: str) -> Scope | None:
        """As `section`; None if it is absent."""
        value = self.find(key)
        return None if value is None else self._section_of(value)

    def own_section(self, key: str) -> Scope | None:
        """The set of that key in this set alone; None if it is absent."""
        value = self.own(key)
        return None if value is None else self._section_of(value)

    def _section_of(self, value: Value) -> Scope:
        known = self._sections.get(value.key.lower())
        if known is None:
            known = self._sections[value.key.lower()] = value.section()
        return known

    def own_sections(self) -> list[str]:
        """The keys of this set whose values are sets, in alphabetical order without case."""
        return [self.entries[k].key.chars for k in sorted(self.entries) if self.entries[k].is_set]

    @contextmanager
    def blamed(self) -> Generator[None]:
        """Inside, an error says that it is about this set, and is placed where the set begins if it
        has no place of its own."""
        try:
            yield
        except GraphcError as error:
            raise GraphcError(
                [
                    d
                    if d.span is not None
                    else replace(
                        d,
                        span=self.parts[-1].span(0, 1),
                        notes=(*d.notes, Note(f"the values are those of {self.path}")),
                    )
                    for d in error.diagnostics
                ]
            ) from error

    def unused(self) -> Iterator[Diagnostic]:
        """A warning for every key, here and in the sets that were looked into, that nobody asked
        for. Sets that nobody looked into belong to commands that do not run."""
        names = sorted(self.asked)
        for key, entry in self.entries.items():
            if key in self.asked or (self.parent is None and entry.is_set):
                continue
            near = suggestion(entry.key.chars, names)
            message = f"nothing here takes the key `{entry.key.chars}`{near}"
            notes = (Note(f"it stands in {self.path}"),)
            yield make(Severity.WARNING, "bad-value", message, entry.key.span(), "", notes)
        for key, scope in self._sections.items():
            if key in self.entries:
                yield from scope.unused()

    def resolve(self, text: Text, users: Users = ()) -> Text:
        """`text` with each `$name$` replaced by the value of the key `name`, found from here.

        users  the keys, with their sets, whose values are being put together
        """
        chars = text.chars
        if "$" not in chars:
            return text
        parts: list[Text] = []
        done = size = 0
        for mark in _MARK.finditer(chars):
            place = text.part(mark.start(), mark.end())
            if mark[1] is None:
                message = "a variable is written `$name$`, got a `$` alone"
                raise fail("parse", message, place.span())
            value = place.standing_for(self._variable(mark[1], place, users))
            parts += text.part(done, mark.start()), value
            done = mark.end()
            size += len(parts[-2].chars) + len(value.chars)
            if size > MAX_VALUE:
                message = f"a value may have {MAX_VALUE} characters with its variables put in"
                raise fail("limit", message, place.span())
        return joined([*parts, text.part(done, len(chars))])

    def _variable(self, name: str, place: Text, users: Users) -> str:
        """The value of a variable. A key whose value names itself means the one further out."""
        self.ask(name)
        key = name.lower()
        scopes = [scope for scope in self.chain() if scope.own(name) is not None]
        scope = next((scope for scope in scopes if (scope.path, key) not in users), None)
        if scope is None and scopes:
            way = " → ".join(f"`{used}`" for _, used in (*users, ("", key)))
            raise fail("recursion", f"`${name}$` stands for itself: {way}", place.span())
        if scope is None or not without_quotes(scope.entries[key].value).chars:
            known = [e.key.chars for scope in self.chain() for e in scope.entries.values()]
            searched = ", ".join(scope.path for scope in self.chain())
            raise fail(
                "undefined-name",
                f"`${name}$` has no value{suggestion(name, known)}",
                place.span(),
                notes=(Note(f"searched in {searched}"),),
            )
        if len(users) >= MAX_VARIABLES:
            message = f"`${name}$` leads through more than {MAX_VARIABLES} variables"
            raise fail("limit", message, place.span())
        found = without_quotes(scope.resolve(scope.entries[key].value, (*users, (scope.path, key))))
        if "\n" in found.chars or "\r" in found.chars:
            raise fail("bad-value", f"`${name}$` requires a value of one line", place.span())
        return found.chars


@dataclass(frozen=True, slots=True)
class Value:
    """What a key was found to be. `scope`: the set that it stands in; `asked`: the one that it was
    looked for in first. The functions raise GraphcError `bad-value` for a value of another kind."""

    entry: Entry
    scope: Scope
    asked: Scope

    @property
    def key(self) -> str:
        return self.entry.key.chars

    @property
    def span(self) -> Span:
        return self.entry.value.span()

    @property
    def searched(self) -> list[str]:
        """The sets that were looked into, the last one has it."""
        paths: list[str] = []
        for scope in self.asked.chain():
            paths.append(scope.path)
            if scope is self.scope:
                break
        return paths

    def resolved(self) -> Text:
        """The value with its variables put in."""
        user = (self.scope.path, self.key.lower())
        return self.scope.resolve(self.entry.value, (user,))

    def text(self) -> str:
        """The text, without quotes around it."""
        return self._read(lambda: without_quotes(self.resolved()).chars)

    def number(self) -> float:
        return self._read(lambda: values.number(without_quotes(self.resolved()), self.key))

    def integer(self) -> int:
        return self._read(lambda: values.integer(without_quotes(self.resolved()), self.key))

    def truth(self) -> bool:
        return self._read(lambda: values.truth(without_quotes(self.resolved()), self.key))

    def runs(self) -> list[tuple[Text, int]]:
        """The elements of a list, each with how often it stands there."""
        return self._read(lambda: list(elements(without_quotes(self.resolved()))))

    def texts(self) -> list[str]:
        """The elements of a list as texts."""
        return self._read(lambda: [t.chars for t, n in self._runs() for _ in range(n)])

    def integers(self) -> list[int]:
        return self._read(
            lambda: [i for t, n in self._runs() for i in [values.integer(t, self.key)] * n]
        )

    def numbers(self) -> list[tuple[float, int]]:
        """The numbers of a list, each with how often it stands there."""
        return self._read(lambda: [(values.number(t, self.key), n) for t, n in self.runs()])

    def section(self) -> Scope:
        """The set that the value is, inside the set that it was asked from."""
        return self._read(self._section)

    def fail(self, message: str, slug: str = "bad-value") -> GraphcError:
        """An error about this value: its place, and the sets that it was looked for in."""
        return fail(slug, message, self.span, notes=(self._way(),))

    def _section(self) -> Scope:
        parts = self.entry.parts
        if not self.entry.is_set:
            parts = (self.resolved().stripped(),)
        for part in parts:
            if not is_block(part):
                raise values.mistake(part, self.key, "a set `[ … ]`")
        return Scope(self.key, parts, self.asked)

    def _runs(self) -> list[tuple[Text, int]]:
        """The runs, which have no more elements than a list may have."""
        runs = self.runs()
        if sum(n for _, n in runs) > MAX_ELEMENTS:
            raise fail("limit", f"`{self.key}` may have at most {MAX_ELEMENTS} elements", self.span)
        return runs

    @contextmanager
    def blamed(self) -> Generator[None]:
        """Inside, an error says where this value stands and was looked for, and is placed there if
        it has no place of its own."""
        try:
            yield
        except GraphcError as error:
            way = self._way()
            raise GraphcError(
                [
                    d
                    if way in d.notes
                    else replace(d, span=d.span or self.span, notes=(*d.notes, way))
                    for d in error.diagnostics
                ]
            ) from error

    def _read(self, read: Callable[[], T]) -> T:
        with self.blamed():
            return read()

    def _way(self) -> Note:
        *others, found = self.searched
        looked = f", looked for in {', '.join([*others, found])}" if others else ""
        return Note(f"`{self.key}` stands in {found}{looked}")


def merged(parts: Sequence[Text]) -> dict[str, Entry]:
    """The entries of one set or of several, by key in lower case: a later value replaces an earlier
    one, and a set is added to an earlier set."""
    entries: dict[str, Entry] = {}
    for part in parts:
        for record in records(part):
            name = record.key.chars.lower()
            entry, before = Entry(record.key, (record.value,)), entries.get(name)
            if before is not None and before.is_set and entry.is_set:
                entry = Entry(before.key, (*before.parts, *entry.parts))
            entries[name] = entry
    return entries
