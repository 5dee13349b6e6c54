"""Where user code stands: the first frame outside graphc and numpy, with columns."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from types import FrameType

import numpy as np

from graphc.support.source import UNKNOWN, Location, Span

_NOT_USERS = tuple(
    str(folder) + os.sep
    for folder in (Path(sys.modules["graphc.support"].__path__[0]).parent, *map(Path, np.__path__))
)


_PLACE: ContextVar[Location | None] = ContextVar("_PLACE", default=None)


@contextmanager
def at(place: Location | None) -> Generator[None]:
    """What is called inside comes from this place, whatever Python code calls it; None: from the
    caller's own line."""
    token = _PLACE.set(place)
    try:
        yield
    finally:
        _PLACE.reset(token)


def caller_location() -> Location:
    """The expression in user code that led here; unknown if there is no such frame."""
    if (place := _PLACE.get()) is not None:
        return place
    frame: FrameType | None = sys._getframe(1)  # the public inspect.stack() reads every source file
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_USERS):
        frame = frame.f_back
    if frame is None:
        return UNKNOWN
    code = frame.f_code
    position = next(islice(code.co_positions(), frame.f_lasti // 2, None), None)
    line, end_line, column, end_column = position or (None, None, None, None)
    start = (column or 0) + 1
    end = end_column + 1 if end_line == line and end_column is not None else start + 1
    return Location(Span(code.co_filename, line or frame.f_lineno, start, max(end, start + 1)))


def definition_location(function: object) -> Location:
    """The first line of a Python function; unknown for other callables."""
    code = getattr(function, "__code__", None)
    if code is None:
        return UNKNOWN
    return Location(Span(code.co_filename, code.co_firstlineno, 1, 2))
