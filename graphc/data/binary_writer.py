"""Writes the toolkit's binary data format: a section for each output."""

from __future__ import annotations

import shutil
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from graphc.data.binary_format import (
    ALIGNMENT,
    FILE_MAGIC,
    SECTION_MAGIC,
    Element,
    Header,
    Kind,
    LabelKind,
    encode_header,
    header_bytes,
)
from graphc.data.labels import read_label_mapping
from graphc.data.writer import checked_outputs, checked_rows
from graphc.support.diagnostics import fail
from graphc.support.files import move_into_place, temporary_folder

LABEL_TYPE = np.dtype("<i4")


@dataclass(frozen=True)
class BinaryWriter:
    """Writes all outputs into the one file `path`.

    dtype     of numbers
    labels    outputs that are labels: their rows are one-hot, or hold one column of class numbers;
              what is written are the numbers
    mappings  texts of the classes of labels, or a file of them, written beside the numbers
    """

    path: Path
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))
    labels: Mapping[str, int] = field(default_factory=dict[str, int])
    mappings: Mapping[str, tuple[str, ...] | Path] = field(
        default_factory=dict[str, tuple[str, ...] | Path]
    )

    @contextmanager
    def open(self, outputs: Mapping[str, int]) -> Generator[BinarySink]:
        widths = checked_outputs(outputs)
        for name, width in widths.items():
            if name in self.labels and width not in (1, self.labels[name]):
                message = f"labels of {self.labels[name]} classes are one-hot or numbers"
                raise fail("input", f"{message}: `{name}` has {width} columns")
            encode_header(self._header(name, width, 0), SECTION_MAGIC, 0, 0, [])
            self._mapping(name)  # what cannot be written shows before anything is
        with temporary_folder(self.path) as folder:
            parts = {name: folder / str(number) for number, name in enumerate(widths)}
            with ExitStack() as stack:
                streams = {n: stack.enter_context(part.open("wb")) for n, part in parts.items()}
                sink = BinarySink(widths, streams, self.dtype.newbyteorder("<"), self.labels)
                yield sink
            sections = [
                _Planned(self._header(name, width, sink.rows), parts[name], self._mapping(name))
                for name, width in widths.items()
            ]
            with (folder / "all").open("wb") as stream:
                _write_file(stream, sections)
            move_into_place(folder / "all", self.path)

    def _header(self, name: str, width: int, rows: int) -> Header:
        if name not in self.labels:
            size = self.dtype.itemsize
            return Header(Kind.DATA, name, Element.FLOAT, size, width, rows * width)
        return Header(
            Kind.LABELS,
            name,
            Element.INTEGER,
            LABEL_TYPE.itemsize,
            elements=rows,
            label_kind=LabelKind.CATEGORY,
            classes=self.labels[name],
        )

    def _mapping(self, name: str) -> bytes | None:
        if name not in self.mappings:
            return None
        given = self.mappings[name]
        labels = read_label_mapping(given) if isinstance(given, Path) else given
        if any("\0" in label for label in labels):
            raise fail("bad-value", f"label texts without NUL are required of `{name}`")
        return b"".join(label.encode() + b"\0" for label in labels)


class BinarySink:
    """Elements into one stream for each section."""

    def __init__(
        self,
        widths: Mapping[str, int],
        streams: Mapping[str, BinaryIO],
        dtype: np.dtype,
        labels: Mapping[str, int],
    ) -> None:
        self.widths = widths
        self.streams = streams
        self.dtype = dtype
        self.labels = labels
        self.rows = 0

    def write(self, rows: Mapping[str, object]) -> None:
        arrays = checked_rows(rows, self.widths)
        for name, array in arrays.items():
            elements = array
            if name in self.labels:
                elements = _class_numbers(name, array, self.labels[name])
            dtype = LABEL_TYPE if name in self.labels else self.dtype
            self.streams[name].write(np.ascontiguousarray(elements, dtype).tobytes())
        self.rows += len(next(iter(arrays.values())))


def _class_numbers(name: str, array: np.ndarray, classes: int) -> np.ndarray:
    if array.shape[1] == 1 and classes != 1:
        if ((array < 0) | (array >= classes) | (array != np.floor(array))).any():
            raise fail("label", f"class numbers below {classes} are required of `{name}`")
        return array
    if ((array != 0).sum(axis=1) != 1).any() or not ((array == 0) | (array == 1)).all():
        raise fail("label", f"`{name}` requires one-hot rows: a single 1, else zeros")
    return array.argmax(axis=1)


@dataclass(frozen=True, slots=True)
class _Planned:
    """A section to be written, with the file of its elements and its label texts."""

    header: Header
    elements: Path
    mapping: bytes | None

    @property
    def length(self) -> int:
        """Bytes of the header and the elements."""
        return header_bytes(0 if self.mapping is None else 1) + self.header.data_bytes

    @property
    def mapping_header(self) -> Header:
        texts = (self.mapping or b"").count(b"\0")
        return Header(Kind.LABEL_MAPPING, self.header.name, Element.STRING, 1, elements=texts)

    @property
    def whole_length(self) -> int:
        """With the section of label texts, and up to where the next section begins."""
        if self.mapping is None:
            return _aligned(self.length)
        return _aligned(self.length) + _aligned(header_bytes(0) + len(self.mapping))


def _write_file(stream: BinaryIO, sections: list[_Planned]) -> None:
    first = _aligned(header_bytes(len(sections)))
    starts = [first]
    for section in sections:
        starts.append(starts[-1] + section.whole_length)
    root = Header(Kind.FILE, "file")
    stream.write(encode_header(root, FILE_MAGIC, first, starts[-1], starts[:-1]))
    for section, start in zip(sections, starts, strict=False):
        _write_section(stream, section, start)
    stream.truncate(starts[-1])


def _write_section(stream: BinaryIO, section: _Planned, start: int) -> None:
    mapping_at = start + _aligned(section.length)
    parts = [] if section.mapping is None else [mapping_at]
    length = section.whole_length
    stream.seek(start)
    stream.write(encode_header(section.header, SECTION_MAGIC, section.length, length, parts))
    with section.elements.open("rb") as elements:
        shutil.copyfileobj(elements, stream)
    if section.mapping is not None:
        stream.seek(mapping_at)
        size = header_bytes(0) + len(section.mapping)
        header = section.mapping_header
        stream.write(encode_header(header, SECTION_MAGIC, size, _aligned(size), []))
        stream.write(section.mapping)


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
