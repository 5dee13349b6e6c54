"""Reads values: numbers, integers and truth values as the toolkit writes them.

A finite number is what `float` reads, without underscores. A number followed by `#inf`, in any
case, is infinity (`1#INF`), as the toolkit's own files have it.
"""

from __future__ import annotations

import math
import re

from graphc.config.text import Text
from graphc.support.diagnostics import GraphcError, fail

TRUE = frozenset({"t", "true", "1"})
FALSE = frozenset({"f", "false", "0", ""})

_MAX_NUMBER = 400  # characters
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_INFINITY = re.compile(r"([+-]?)(?:[0-9]+\.?[0-9]*|\.[0-9]+)?(?:[0-9.]*#inf|inf|infinity)", re.I)
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}")


def number(text: Text, what: str) -> float:
    """A number, finite or infinite. GraphcError `bad-value`."""
    chars = text.chars
    if len(chars) <= _MAX_NUMBER:
        if infinity := _INFINITY.fullmatch(chars):
            return -math.inf if infinity[1] == "-" else math.inf
        if _NUMBER.fullmatch(chars) and math.isfinite(value := float(chars)):
            return value
    raise mistake(text, what, "a number")


def integer(text: Text, what: str) -> int:
    """A whole number. GraphcError `bad-value`."""
    if _INTEGER.fullmatch(text.chars):
        return int(text.chars)
    raise mistake(text, what, "a whole number")


def truth(text: Text, what: str) -> bool:
    """A truth value. GraphcError `bad-value`."""
    chars = text.chars.lower()
    if chars in TRUE or chars in FALSE:
        return chars in TRUE
    raise mistake(text, what, "true or false")


def mistake(text: Text, what: str, required: str) -> GraphcError:
    """The error for a value that is not what is required."""
    got = text.chars if len(text.chars) <= 40 else text.chars[:39] + "…"
    return fail("bad-value", f"`{what}` requires {required}, got `{got}`", text.span())
