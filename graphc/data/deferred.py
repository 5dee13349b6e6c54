"""A reader that opens its file when something is asked of it, for settings that are checked before
the file is there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property

from graphc.data.reader import Block, Column, EpochRequest, Reader, fingerprint_of


class Deferred:
    """The reader that `open()` gives, once it is needed."""

    def __init__(self, open: Callable[[], Reader]) -> None:
        self.open = open

    @cached_property
    def reader(self) -> Reader:
        return self.open()

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
        return self.reader.blocks(request)
