"""Large arrays of an artifact, put behind the finished object instead of through LLVM.

As text each byte takes three characters and several copies in the parser, and LLVM's object and
that of Python are two more. So LLVM reserves a section of zeros for each array, which takes no
bytes of a file, and here it becomes one of read-only data whose bytes follow the object.

The format is ELF's, of 64 bits: https://refspecs.linuxfoundation.org/elf/gabi4+/contents.html
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from graphc.backends.llvm.text import Module
from graphc.support.diagnostics import InternalError

LARGE = 1 << 16
"""Bytes from which an array is one of these."""

RESERVED, FILLED = b".bss.at.graphc.array", b".rodata.graphc.array"
"""Names of sections, of one length: of zeros, as linkers know them by their beginning, and of
data. A number follows."""

SECTION = struct.Struct("<IIQQQQIIQQ")
"""Of a section: name, type, flags, address, offset, size, link, info, alignment, entry size."""

PROGBITS, NOBITS, ALLOC = 1, 8, 2


def reserve(module: Module, number: int, size: int, align: int) -> str:
    """`@name` of a place in the module for so many bytes.

    `externally_initialized`: nothing may be concluded from the zeros that stand there meanwhile.
    """
    name, section = f"graphc.large{number}", f"{RESERVED.decode()}{number}"
    kind = f"internal externally_initialized constant [{size} x i8] zeroinitializer"
    module.add_global(name, f'{kind}, section "{section}", align {align}')
    return f"@{name}"


def filled(code: bytes, arrays: Mapping[int, np.ndarray]) -> list[bytes | memoryview]:
    """The object in pieces, with contiguous arrays in their places, by numbers."""
    if not arrays:
        return [code]
    head = bytearray(code)
    pieces: list[bytes | memoryview] = [memoryview(head)]
    end, missing = len(code), set(arrays)
    for place in _places(code):
        array = arrays[place.number]
        if place.size != array.nbytes:
            raise InternalError(f"an object has {place.size} bytes for {array.nbytes}")
        missing.remove(place.number)
        gap = -end % place.align
        fields = list(SECTION.unpack_from(head, place.at))
        fields[1], fields[2], fields[4] = PROGBITS, ALLOC, end + gap
        SECTION.pack_into(head, place.at, *fields)
        head[place.name : place.name + len(FILLED)] = FILLED
        pieces += [bytes(gap), array.reshape(-1).view(np.uint8).data]
        end += gap + array.nbytes
    if missing:
        raise InternalError("the place of an array in an object is not found")
    return pieces


@dataclass(frozen=True, slots=True)
class _Place:
    """A reserved section: where its fields and its name stand in the object."""

    number: int
    size: int
    align: int
    at: int
    name: int


def _places(code: bytes) -> Iterator[_Place]:
    if code[:6] != b"\x7fELF\x02\x01":
        raise InternalError("an object of another format than ELF")
    (table,) = struct.unpack_from("<Q", code, 0x28)
    count, names = struct.unpack_from("<HH", code, 0x3C)
    first_name = SECTION.unpack_from(code, table + names * SECTION.size)[4]
    for at in range(table, table + count * SECTION.size, SECTION.size):
        name, kind, _, _, _, size, _, _, align, _ = SECTION.unpack_from(code, at)
        start = first_name + name
        text = code[start : code.index(b"\0", start)]
        if kind == NOBITS and text.startswith(RESERVED):
            yield _Place(int(text[len(RESERVED) :]), size, align, at, start)
