"""Cuts text into records: keys and values of a set, elements of a list.

    a=1; b=[c=2; d="x y"]        a set: records end at `,` `;` and line ends
    2:50*2:2    {|a|b|c}         lists: at `,` `:` and line ends, or at the `|` after the bracket

Four pairs of brackets hold text together: `[ ]`, `{ }`, `( )`, `" "`. After an opening one only
brackets of its own kind are counted until its closing one. There the record ends, unless it goes on
at once with one of `: * / \\ . $`, as in `"a b":2` and `(x86)/file`. One punctuation character
straight after an opening bracket separates the records of that block; a sign or a point before a
digit, the start of a path (`./`, `..`, `\\\\`) and of a `$name$` are none.

What stands between brackets is cut when somebody asks for it, so that text in another language
(networks in NDL) can stand there too.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from graphc.config.text import Text
from graphc.support.diagnostics import GraphcError, fail

CLOSERS = {"[": "]", "{": "}", "(": ")", '"': '"'}
SET_SEPARATOR = ";"
LIST_SEPARATOR = ":"

VARIABLE = re.compile(r"\$([^\s$,/<>?;':\"\[\]{}\\|!@#%^&*()+=~`]+)\$")
_PUNCTUATION = frozenset("`~!@$%^&*_-+|:;,?.")
_NO_SEPARATOR = re.compile(rf"[-+]?\.?[0-9]|\.\.|\./|\.\\|\\\\|{VARIABLE.pattern}")
_BLOCK_OF = {kind: re.compile(f"[{re.escape(kind + closer)}]") for kind, closer in CLOSERS.items()}
_GOES_ON = re.compile(r"[:*/\\.$]")
_NO_KEY = re.compile(r"[\[\](){}\"\\]")


@dataclass(frozen=True, slots=True)
class Record:
    """One `key=value` of a set; a key alone stands for `key=true`."""

    key: Text
    value: Text


def is_block(text: Text) -> bool:
    """Whether a text is one pair of `[ ]` or `{ }` with something in it."""
    chars = text.chars
    return chars[:1] in ("[", "{") and _closer(text, 0) == len(chars) - 1


def records(text: Text) -> Iterator[Record]:
    """The records of a set. GraphcError `parse` for brackets that do not match, and for a key that
    is none. Records without a value (`key=`) are left out."""
    body, separator = _opened(text, SET_SEPARATOR)
    ends = list(_tokens(body, separator))
    i = 0
    while i < len(ends):
        start, end = ends[i]
        i += 1
        token = body.part(start, end)
        key, equals, rest = _cut(token)
        if not rest.chars and i < len(ends) and body.chars[ends[i][0]] in "[{":
            rest = body.part(*ends[i])  # the bracket is on a line of its own
            i += 1
        if rest.chars:
            yield Record(key, rest)
        elif not equals:
            yield Record(key, key.standing_for("true"))


def elements(text: Text) -> Iterator[tuple[Text, int]]:
    """The elements of a list and how often each stands there: `v*n` is n times v. GraphcError
    `parse` for brackets that do not match or a number of times that is none."""
    body, separator = _opened(text, LIST_SEPARATOR)
    for start, end in _tokens(body, separator):
        yield _repeated(body.part(start, end))


def without_quotes(text: Text) -> Text:
    """A value without the double quotes around all of it."""
    chars = text.chars
    if len(chars) >= 2 and chars[0] == chars[-1] == '"':
        return text.part(1, len(chars) - 1)
    return text


def _cut(token: Text) -> tuple[Text, bool, Text]:
    """Key, whether there is a `=`, and value of a record."""
    at = re.search(r"[=\[{]", token.chars)
    if at is None:
        key, rest, equals = token, token.part(len(token.chars), len(token.chars)), False
    else:
        equals = at[0] == "="
        key = token.part(0, at.start())
        rest = token.part(at.end() if equals else at.start(), len(token.chars))
    key, rest = key.stripped(), rest.stripped()
    _check_key(key, token)
    if bad := _stray_closer(rest):
        raise bad
    return key, equals, rest


def _check_key(key: Text, token: Text) -> None:
    if not key.chars:
        raise fail("parse", "a key is required before a value", token.span(0, 1))
    if bad := _NO_KEY.search(key.chars):
        place = key.span(bad.start(), bad.end())
        if bad[0] in "])}":
            raise fail("parse", f"`{bad[0]}` closes nothing", place)
        shown = key.chars[:40]
        raise fail("parse", f"a key without brackets and backslashes is required: {shown}", place)


def _stray_closer(value: Text) -> GraphcError | None:
    """The error for `a=1]`, whose bracket closes nothing."""
    chars = value.chars
    opener = min((at for o in CLOSERS if (at := chars.find(o)) >= 0), default=len(chars))
    for closer in "])}":
        if 0 <= (at := chars.find(closer)) < opener:
            return fail("parse", f"`{closer}` closes nothing", value.span(at, at + 1))
    return None


def _opened(text: Text, separator: str) -> tuple[Text, str]:
    """What stands inside the brackets around all of a text, if there are any, and what separates
    its records."""
    text = text.stripped()
    if not is_block(text):
        return text, separator
    body = text.part(1, len(text.chars) - 1)
    first = body.chars[:1]
    if first in _PUNCTUATION and first and not _NO_SEPARATOR.match(body.chars):
        return body.part(1, len(body.chars)), first
    return body, separator


def _tokens(text: Text, separator: str) -> Iterator[tuple[int, int]]:
    """Start and end of each token."""
    chars = text.chars
    breaks = re.compile(rf"[,\r\n{re.escape(separator)}]")
    stops = re.compile(rf"[,\r\n{re.escape(separator)}\[{{(\"]")
    at = 0
    while at < len(chars):
        if chars[at].isspace() or breaks.match(chars, at):
            at += 1
            continue
        end = _token_end(text, at, breaks, stops)
        yield at, end
        at = end


def _token_end(text: Text, at: int, breaks: re.Pattern[str], stops: re.Pattern[str]) -> int:
    chars = text.chars
    while (stop := stops.search(chars, at)) is not None:
        if breaks.match(chars, stop.start()):
            return stop.start()
        at = _closer(text, stop.start()) + 1
        if breaks.match(chars, at) or not _GOES_ON.match(chars, at):
            return at
    return len(chars)


def _closer(text: Text, opener: int) -> int:
    """Where the bracket at `opener` is closed. Only brackets of its kind are looked at."""
    kind = text.chars[opener]
    if kind == '"':
        end = text.chars.find('"', opener + 1)
        if end >= 0:
            return end
    else:
        depth = 0
        for bracket in _BLOCK_OF[kind].finditer(text.chars, opener):
            depth += 1 if bracket[0] == kind else -1
            if depth == 0:
                return bracket.start()
    place = text.span(opener, opener + 1)
    raise fail("parse", f"a `{CLOSERS[kind]}` is required that closes this `{kind}`", place)


def _repeated(token: Text) -> tuple[Text, int]:
    """`v*n` as (v, n); anything else once."""
    value, star, times = token.chars.rpartition("*")
    count = times.strip()
    if not star or not value.strip() or not (count.isascii() and count.isdigit()):
        return without_quotes(token.stripped()), 1
    place = token.span(len(value) + 1, len(token.chars))
    if len(count) > 10 or not 1 <= int(count) <= 2**31:
        raise fail("bad-value", f"a number of times from 1 to {2**31} is required after `*`", place)
    return without_quotes(token.part(0, len(value)).stripped()), int(count)
