"""Large arrays of an artifact, put into the finished object instead of through LLVM's text.

As text each byte takes three characters and several copies in the parser: 244 MB of weights took
3.4 GB. So the object is made with zeros in their places, behind a mark that is found again.
"""

from __future__ import annotations

import hashlib

import numpy as np

from graphc.backends.llvm.text import Module
from graphc.support.diagnostics import InternalError

LARGE = 1 << 16
"""Bytes from which an array is one of these."""


class LargeData:
    """The arrays that an object has places for."""

    def __init__(self) -> None:
        self._arrays: dict[bytes, np.ndarray] = {}

    def place(self, module: Module, array: np.ndarray, align: int) -> str:
        """`@name` of a place in the module for a contiguous array of at least `LARGE` bytes.

        `externally_initialized`: nothing may be concluded from what stands there meanwhile.
        """
        name = f"graphc.large{len(self._arrays)}"
        mark = hashlib.sha512(name.encode()).digest()
        zeros = array.nbytes - len(mark)
        kind = f"<{{ [{len(mark)} x i8], [{zeros} x i8] }}>"
        first = "\\" + mark.hex("\\")
        held = f'<{{ [{len(mark)} x i8] c"{first}", [{zeros} x i8] zeroinitializer }}>'
        module.add_global(
            name, f"internal externally_initialized constant {kind} {held}, align {align}"
        )
        self._arrays[mark] = array
        return f"@{name}"

    def fill(self, code: bytes) -> bytes:
        """The object with the arrays in their places."""
        if not self._arrays:
            return code
        places = {code.find(mark): array for mark, array in self._arrays.items()}
        if min(places) < 0 or len(places) < len(self._arrays):
            raise InternalError("the place of an array in an object is not found")
        pieces: list[memoryview] = []
        rest, end = memoryview(code), 0
        for start, array in sorted(places.items(), key=lambda found: found[0]):
            pieces += [rest[end:start], array.reshape(-1).view(np.uint8).data]
            end = start + array.nbytes
        return b"".join([*pieces, rest[end:]])
