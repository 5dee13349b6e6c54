"""The toolkit's binary data format: sections of arrays, each behind a header, in one file.

All numbers are little-endian. A header has 128 bytes of fields, 128 bytes of text
("name: description", filled up with zeros), two sizes and the file offsets of the sections in this
one; it is 320 bytes long, or longer for more than 6 sections. Fields, as 16-bit words unless said
otherwise: magic, version, bytes of the header, number of sections in this one, kind of section,
kind of element, bytes of an element, a structure's number, elements of a record, flags, a number
given when written, 5 unused; then a 64-bit number of elements, kind of labels, number of classes.
The elements follow the header. Writers let sections start at multiples of 64 KiB.

Nothing of this is believed before it is compared with the size of the file, and no memory is taken
for it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import BinaryIO, TypeVar

from graphc.support.diagnostics import GraphcError, fail

K = TypeVar("K", bound=IntEnum)

FIELDS = struct.Struct("<11H10xQ2H")
SIZES = struct.Struct("<2Q")
OFFSET_BYTES = 8
FIELDS_END = 128
TEXT_BYTES = 128
SIZES_AT = FIELDS_END + TEXT_BYTES
OFFSETS_AT = SIZES_AT + SIZES.size
HEADER_BYTES = 320
ALIGNMENT = 1 << 16

FILE_MAGIC, SECTION_MAGIC, UNFINISHED_MAGIC = 0xACE9, 0x4ACE, 0xBAD1
VERSION = 0x0100
MAX_DEPTH = 8
MAX_SECTIONS = 1 << 10
MAX_WORD = 0xFFFF


class Kind(IntEnum):
    """What a section holds."""

    NULL = 0
    FILE = 1
    DATA = 2
    LABELS = 3
    LABEL_MAPPING = 4
    STATISTICS = 5
    CATEGORY_LABELS = 6


class Element(IntEnum):
    NONE = 0
    FLOAT = 1
    STRING = 2
    INTEGER = 3
    STRUCTURE = 4


class LabelKind(IntEnum):
    NONE = 0
    CATEGORY = 1
    REGRESSION = 2
    OTHER = 3


ELEMENT_BYTES: dict[Element, tuple[int, ...]] = {
    Element.FLOAT: (4, 8),
    Element.INTEGER: (1, 2, 4, 8),
    Element.STRING: (0, 1),
}


@dataclass(frozen=True, slots=True)
class Header:
    """The fields of a section, without those that its place in the file decides."""

    kind: Kind
    name: str
    element: Element = Element.NONE
    element_bytes: int = 0
    per_record: int = 1
    elements: int = 0
    label_kind: LabelKind = LabelKind.NONE
    classes: int = 0

    @property
    def records(self) -> int:
        return self.elements // self.per_record

    @property
    def data_bytes(self) -> int:
        return self.elements * self.element_bytes


@dataclass(frozen=True, slots=True)
class Section:
    """A section of a file that was read. data_at: where its elements begin; parts: the sections in
    it."""

    header: Header
    data_at: int
    parts: tuple[Section, ...]


def encode_header(header: Header, magic: int, size: int, size_all: int, parts: list[int]) -> bytes:
    """The bytes of a header. size: of the section, size_all: with the sections in it, parts: their
    offsets."""
    length = header_bytes(len(parts))
    text = f"{header.name}: {header.kind.name.lower().replace('_', ' ')}".encode()
    if len(text) >= TEXT_BYTES:
        text = header.name.encode() + b": "
    if len(text) >= TEXT_BYTES or ":" in header.name or not header.name:
        message = f"a name without `:` of 1 to {TEXT_BYTES - 3} bytes is required"
        raise fail("bad-value", f"{message}, got {header.name!r}")
    for number, what in ((header.per_record, "numbers of a record"), (header.classes, "classes")):
        if number > MAX_WORD:
            message = f"this format holds at most {MAX_WORD} {what}"
            raise fail("limit", f"{message}, `{header.name}` has {number}")
    fields = FIELDS.pack(
        magic,
        VERSION,
        length,
        len(parts),
        header.kind,
        header.element,
        header.element_bytes,
        0,
        header.per_record,
        0,
        0,
        header.elements,
        header.label_kind,
        header.classes,
    )
    offsets = struct.pack(f"<{len(parts)}Q", *parts)
    start = fields.ljust(FIELDS_END, b"\0") + text.ljust(TEXT_BYTES, b"\0")
    return (start + SIZES.pack(size, size_all) + offsets).ljust(length, b"\0")


def header_bytes(parts: int) -> int:
    """The length of a header with so many sections in its section."""
    needed = OFFSETS_AT + OFFSET_BYTES * parts
    return HEADER_BYTES if needed <= HEADER_BYTES else -(-needed // 64) * 64


def read_sections(stream: BinaryIO, size: int, file: str) -> Section:
    """The sections of a file of `size` bytes, checked.

    GraphcError `bad-data` for a damaged file, one that was not finished and what is no such file,
    `not-supported` for elements of an unknown kind or size.
    """
    return _Walk(stream, size, file).section(0, 0)


class _Walk:
    """Goes through the sections of one file; counts them, so that none is read for ever."""

    def __init__(self, stream: BinaryIO, size: int, file: str) -> None:
        self.stream = stream
        self.size = size
        self.file = file
        self.count = 0

    def section(self, at: int, depth: int) -> Section:
        self.count += 1
        if depth > MAX_DEPTH or self.count > MAX_SECTIONS:
            limits = f"{MAX_SECTIONS} sections, {MAX_DEPTH} within each other"
            raise fail("limit", f"{self.file} may have at most {limits}")
        start = self._bytes(at, HEADER_BYTES)
        magic, version, length, parts, kind, element, element_bytes, *rest = FIELDS.unpack_from(
            start
        )
        per_record, elements, label_kind, classes = rest[1], rest[4], rest[5], rest[6]
        self._check_magic(magic, version, at)
        if length < max(HEADER_BYTES, OFFSETS_AT + OFFSET_BYTES * parts):
            raise self._damaged(f"the header of {length} bytes is too short for {parts} parts", at)
        name = start[FIELDS_END:SIZES_AT].split(b"\0")[0].split(b":")[0].decode("utf-8", "replace")
        header = Header(
            self._known(Kind, kind, "kind of section", at),
            name.strip(),
            self._known(Element, element, "kind of element", at),
            element_bytes,
            per_record,
            elements,
            self._known(LabelKind, label_kind, "kind of labels", at),
            classes,
        )
        self._check_elements(header, at + length, at)
        table = self._bytes(at + OFFSETS_AT, OFFSET_BYTES * parts)
        offsets = struct.unpack(f"<{parts}Q", table)
        if any(offset <= at for offset in offsets):
            raise self._damaged("it names a part that does not come after it", at)
        return Section(header, at + length, tuple(self.section(o, depth + 1) for o in offsets))

    def _bytes(self, at: int, count: int) -> bytes:
        if at + count > self.size:
            message = f"its header ends behind the end of the file, which has {self.size} bytes"
            raise self._damaged(message, at)
        self.stream.seek(at)
        found = self.stream.read(count)
        if len(found) != count:
            raise fail("file", f"{self.file} changed while it was read")
        return found

    def _check_magic(self, magic: int, version: int, at: int) -> None:
        if magic == UNFINISHED_MAGIC:
            raise self._damaged("writing it was not finished", at)
        wanted = SECTION_MAGIC if at else FILE_MAGIC
        if magic != wanted:
            message = f"{wanted:#06x} is required as its first word, got {magic:#06x}"
            raise self._damaged(message, at)
        if version != VERSION:
            message = f"version {VERSION:#06x} is required, got {version:#06x}"
            raise fail("not-supported", f"{self.file}, section at byte {at}: {message}")

    def _known(self, kinds: type[K], value: int, what: str, at: int) -> K:
        try:
            return kinds(value)
        except ValueError:
            raise self._damaged(f"there is no {what} {value}", at) from None

    def _check_elements(self, header: Header, data_at: int, at: int) -> None:
        if not header.elements:
            return
        sizes = ELEMENT_BYTES.get(header.element)
        if sizes is not None and header.element_bytes not in sizes:
            message = f"elements of {header.element.name} with {header.element_bytes} bytes"
            raise fail("not-supported", f"{self.file}, section at byte {at}: {message}")
        if header.per_record < 1 or header.elements % header.per_record:
            message = f"{header.elements} elements are no whole records of {header.per_record}"
            raise self._damaged(message, at)
        if header.data_bytes > self.size - data_at:
            left = max(0, self.size - data_at)
            message = f"its elements take {header.data_bytes} bytes, {left} follow the header"
            raise self._damaged(message, at)

    def _damaged(self, how: str, at: int) -> GraphcError:
        what = f"the section at byte {at}" if at else "its header"
        return fail("bad-data", f"{self.file} is no complete binary data file: {what}: {how}")
