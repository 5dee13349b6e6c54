"""Where user code stands: the first frame outside graphc, with columns."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path
from types import FrameType

from graphc.support.source import UNKNOWN, Location, Span

_OWN = (Path(__file__).parent, Path(sys.modules["graphc.support"].__path__[0]).parent)


def caller_location() -> Location:
    """The expression in user code that led here; unknown if there is no such frame."""
    frame: FrameType | None = sys._getframe(1)  # the public inspect.stack() reads every source file
    while frame is not None and _is_own(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return UNKNOWN
    code = frame.f_code
    position = next(islice(code.co_positions(), frame.f_lasti // 2, None), None)
    line, end_line, column, end_column = position or (None, None, None, None)
    start = (column or 0) + 1
    end = end_column + 1 if end_line == line and end_column is not None else start + 1
    return Location(Span(code.co_filename, line or frame.f_lineno, start, max(end, start + 1)))


def _is_own(file: str) -> bool:
    path = Path(file)
    return any(folder in path.parents for folder in _OWN)
