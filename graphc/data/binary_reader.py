"""The toolkit's binary data format as a reader: sections of data and labels, mapped into memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt

from graphc.data.binary_format import Element, Kind, LabelKind, Section, read_sections
from graphc.data.order import Order, check_order
from graphc.data.reader import Column
from graphc.data.table_reader import BLOCK_BYTES, TableReader
from graphc.data.tables import ArrayTable
from graphc.support.arguments import paths
from graphc.support.diagnostics import fail
from graphc.support.files import open_regular_file

MAX_FILE_BYTES = 1 << 46
MAX_MAPPING_BYTES = 1 << 28
COLUMN_KINDS = (Kind.DATA, Kind.LABELS, Kind.CATEGORY_LABELS)


@dataclass(frozen=True)
class BinaryData:
    """What binary files hold: arrays (records, numbers of a record) by the sections' names, mapped.

    classes   of arrays of class numbers: how many there are
    mappings  label texts by class number, of sections that have them
    """

    arrays: dict[str, np.ndarray]
    classes: dict[str, int]
    mappings: dict[str, tuple[str, ...]]


def binary(
    files: str | Path | Sequence[str | Path],
    *,
    order: Order | None = None,
    dtype: npt.DTypeLike = np.float32,
    block_bytes: int = BLOCK_BYTES,
) -> TableReader:
    """A reader of one file, or of several that hold different sections of the same samples.

    Data keep their element type; labels become one-hot rows of `dtype`. GraphcError as
    `read_binary`.
    """
    data = read_binary(files)
    chosen = Order() if order is None else check_order(order)
    schema = {n: Column(data.classes.get(n) or a.shape[1]) for n, a in data.arrays.items()}
    element = np.dtype(dtype)
    return TableReader(ArrayTable(data.arrays), schema, chosen, data.classes, element, block_bytes)


def read_binary(files: str | Path | Sequence[str | Path]) -> BinaryData:
    """The data and labels in binary files.

    GraphcError `file` if one cannot be read, `bad-data` if it is damaged or has no data,
    `duplicate-name` if two sections have one name, `not-supported` for elements of another kind.
    """
    data = BinaryData({}, {}, {})
    for path in paths(files, "files"):
        with open_regular_file(path, MAX_FILE_BYTES) as (stream, size):
            root = read_sections(stream, size, str(path))
            for section in root.parts:
                if section.header.kind in COLUMN_KINDS:
                    _add(data, section, stream, str(path))
    counts = {name: len(array) for name, array in data.arrays.items()}
    if not counts:
        raise fail("bad-data", "at least one section of data or labels is required, got none")
    if len(set(counts.values())) > 1:
        found = ", ".join(f"{count} of `{name}`" for name, count in counts.items())
        raise fail("bad-data", f"sections of equally many records are required, got {found}")
    return data


def _add(data: BinaryData, section: Section, stream: BinaryIO, file: str) -> None:
    header = section.header
    if header.name in data.arrays:
        raise fail("duplicate-name", f"{file}: two sections have the name `{header.name}`")
    data.arrays[header.name] = _mapped(section, stream, file)
    for part in section.parts:
        if part.header.kind is Kind.LABEL_MAPPING:
            data.mappings[header.name] = _read_mapping(part, stream, file)
    if header.kind is Kind.DATA or header.element is Element.FLOAT:
        return
    classes = header.classes or len(data.mappings.get(header.name, ()))
    if header.label_kind is not LabelKind.CATEGORY or header.per_record != 1 or not classes:
        message = "whole numbers are required to be labels of a number of classes, one a record"
        raise fail("not-supported", f"{file}, section `{header.name}`: {message}")
    data.classes[header.name] = classes


def _mapped(section: Section, stream: BinaryIO, file: str) -> np.ndarray:
    header = section.header
    letters = {Element.FLOAT: "f", Element.INTEGER: "i"}
    if header.element not in letters:
        message = f"numbers are required, got elements of kind {header.element.name}"
        raise fail("not-supported", f"{file}, section `{header.name}`: {message}")
    shape = (header.records, header.per_record)
    if not header.elements:
        return np.empty((0, max(1, header.per_record)), np.float32)
    dtype = np.dtype(f"<{letters[header.element]}{header.element_bytes}")
    return np.memmap(stream, dtype, "r", section.data_at, shape)


def _read_mapping(section: Section, stream: BinaryIO, file: str) -> tuple[str, ...]:
    """Label texts, each with a zero behind it."""
    stream.seek(section.data_at)
    labels = stream.read(MAX_MAPPING_BYTES).split(b"\0", min(section.header.elements, 1 << 24))[:-1]
    if len(labels) != section.header.elements:
        message = f"{section.header.elements} label texts are required, {len(labels)} are there"
        raise fail("bad-data", f"{file}, section `{section.header.name}`: {message}")
    try:
        return tuple(label.decode() for label in labels)
    except UnicodeDecodeError as error:
        message = f"a label text is not UTF-8: {error.object!r}"
        raise fail("bad-data", f"{file}, section `{section.header.name}`: {message}") from error
