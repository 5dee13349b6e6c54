"""Reading ahead on a thread, while the blocks before are computed with."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from graphc.data.reader import Block, Column, EpochRequest, Reader, fingerprint_of
from graphc.support.arguments import whole
from graphc.support.diagnostics import fail

POLL_SECONDS = 0.05
"""How long the thread waits for room before it looks whether it is still wanted."""


class Prefetch:
    """A reader whose blocks are made on a thread, up to `ahead` blocks before they are asked for.

    The blocks are those of the reader, in the same order. What reading raises is raised when the
    block is asked for that could not be read. The thread of an epoch ends with it, or within a
    block's reading once the iterator is closed or forgotten.
    """

    def __init__(self, reader: Reader, ahead: int = 2) -> None:
        if whole(ahead, "ahead") < 1:
            raise fail("bad-value", f"ahead requires at least 1 block, got {ahead}")
        self.reader = reader
        self.ahead = ahead

    @property
    def schema(self) -> Mapping[str, Column]:
        return self.reader.schema

    @property
    def samples(self) -> int | None:
        return self.reader.samples

    @property
    def fingerprint(self) -> str:
        """That of the reader, if it has one."""
        return fingerprint_of(self.reader)

    def blocks(self, request: EpochRequest) -> Iterator[Block]:
        """The blocks of the epoch; the thread starts with the first that is asked for."""
        found: queue.Queue[_Item] = queue.Queue(self.ahead)
        stopped = threading.Event()
        arguments = (self.reader, request, found, stopped)
        thread = threading.Thread(target=_read, args=arguments, name="graphc-reader", daemon=True)
        thread.start()
        try:
            while (item := found.get()).block is not None:
                yield item.block
            if item.error is not None:
                raise item.error
        finally:
            stopped.set()
            thread.join()


@dataclass(frozen=True, slots=True)
class _Item:
    """A block, or why there are no more: the end, or an error."""

    block: Block | None
    error: BaseException | None = None


def _read(
    reader: Reader, request: EpochRequest, found: queue.Queue[_Item], stopped: threading.Event
) -> None:
    """What the thread does. Nothing of the epoch is left open after it."""
    blocks = reader.blocks(request)
    last = _Item(None)
    try:
        for block in blocks:
            if not _put(_Item(block), found, stopped):
                return
    except BaseException as error:
        last = _Item(None, error)
    finally:
        close = getattr(blocks, "close", None)
        if callable(close):
            close()
    _put(last, found, stopped)


def _put(item: _Item, found: queue.Queue[_Item], stopped: threading.Event) -> bool:
    """Hand the item over; False if nobody wants it any more."""
    while not stopped.is_set():
        try:
            found.put(item, timeout=POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False
