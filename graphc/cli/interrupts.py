"""Ctrl-C while training: the first asks to stop after the minibatch, the second leaves at once."""

from __future__ import annotations

import signal
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType

from graphc.cli.terminal import Terminal

EXIT_CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


class StopRequest:
    """What arrived: `signal` is None until the first interrupt."""

    def __init__(self) -> None:
        self.signal: signal.Signals | None = None

    def __bool__(self) -> bool:
        return self.signal is not None

    @property
    def exit_code(self) -> int:
        """What the program returns after it stopped as asked; 0 if it was not asked."""
        return EXIT_CODES[self.signal] if self.signal is not None else 0


@contextmanager
def stop_requests(terminal: Terminal) -> Generator[StopRequest]:
    """Inside, SIGINT and SIGTERM are only noted, once; a second one is a KeyboardInterrupt."""
    request = StopRequest()

    def note(number: int, frame: FrameType | None) -> None:
        if request:
            raise KeyboardInterrupt
        request.signal = signal.Signals(number)
        terminal.message("stopping after this minibatch; once more to leave at once, unsaved")

    previous = {number: signal.signal(number, note) for number in EXIT_CODES}
    try:
        yield request
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
