"""Where user code stands: the first frame outside graphc, with columns."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

from graphc.support.callers import user_frame
from graphc.support.source import UNKNOWN, Location, Span

_OWN = Path(__file__).parent


def caller_location() -> Location:
    """The expression in user code that led here; unknown if there is no such frame."""
    frame = user_frame(_OWN)
    if frame is None:
        return UNKNOWN
    code = frame.f_code
    position = next(islice(code.co_positions(), frame.f_lasti // 2, None), None)
    line, end_line, column, end_column = position or (None, None, None, None)
    start = (column or 0) + 1
    end = end_column + 1 if end_line == line and end_column is not None else start + 1
    return Location(Span(code.co_filename, line or frame.f_lineno, start, max(end, start + 1)))
