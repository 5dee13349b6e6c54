"""What a signal does that ends a call: an exception between any instructions of graphc's own."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import graphc

PACKAGE = str(Path(graphc.__file__).parent)


class Interrupted(BaseException):
    """As Ctrl-C: no `Exception`."""


def interrupted_everywhere(call: Callable[[], object], folder: str = "") -> Iterator[int]:
    """`call()` is made again and again; each time it is ended one instruction later in graphc's
    files in `folder`, until it comes to its end. Gives the number of the instruction."""
    place = f"{PACKAGE}/{folder}"
    number = 1
    while not _is_through(call, place, number):
        yield number
        number += 1


def _is_through(call: Callable[[], object], place: str, number: int) -> bool:
    """Whether `call` has fewer instructions than that; else it is ended at this one."""
    count = 0

    def step(_frame: FrameType, event: str, _argument: object) -> Any:
        nonlocal count
        count += event == "opcode"
        if count == number:
            raise Interrupted
        return step

    def enter(frame: FrameType, _event: str, _argument: object) -> Any:
        if not frame.f_code.co_filename.startswith(place):
            return None
        frame.f_trace_opcodes = True
        return step

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        call()
    except Interrupted:
        return False
    finally:
        sys.settrace(before)
    return True
