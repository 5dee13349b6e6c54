"""`.npy` and `.npz` files as arrays by name, without unpickling: mapped where they are stored as
they are in memory, else (in compressed archives) held in memory.

What a header or an archive says about sizes is compared with the file before memory is taken.
"""

from __future__ import annotations

import lzma
import struct
import zipfile
import zlib
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from graphc.data.arrays import read_npy, read_npy_header
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.files import open_regular_file

MAX_FILE_BYTES = 1 << 46
MAX_MEMBERS = 1 << 12
MOST_DEFLATED = 1100
"""One byte of a deflated stream makes at most 1032; a little room for the headers of blocks."""
DAMAGE = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    ValueError,
    OverflowError,
    RuntimeError,  # of an unknown compression
)
"""What the packages that take part in reading a damaged archive raise."""
LOCAL_HEADER_BYTES = 30
NAME_LENGTHS_AT = 26
ENCRYPTED = 1


def map_npy(path: Path) -> np.ndarray:
    """The array in a `.npy` file, mapped. GraphcError as `read_array`."""
    with open_regular_file(path, MAX_FILE_BYTES) as (stream, size):
        return _map(stream, 0, size, str(path))


def open_npz(path: Path) -> dict[str, np.ndarray]:
    """The arrays in a `.npz` file by name.

    GraphcError `file` if it cannot be read, `bad-data` if it is damaged, `not-supported` for
    encrypted members and elements that are no numbers.
    """
    with open_regular_file(path, MAX_FILE_BYTES) as (stream, size):
        try:
            with zipfile.ZipFile(stream) as archive:
                return _members(archive, stream, size, str(path))
        except GraphcError:
            raise
        except DAMAGE as error:
            message = f"{path} is no complete .npz file: {error}"
            raise fail("bad-data", message) from error


def _members(
    archive: zipfile.ZipFile, stream: BinaryIO, size: int, file: str
) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    members = archive.infolist()
    if len(members) > MAX_MEMBERS:
        raise fail("limit", f"{file} may have {MAX_MEMBERS} arrays, it has {len(members)}")
    for member in members:
        name = member.filename.removesuffix(".npy")
        if name in arrays:
            raise fail("duplicate-name", f"{file} has two arrays `{name}`")
        arrays[name] = _member(archive, member, stream, size, file)
    if not arrays:
        raise fail("bad-data", f"at least one array is required, {file} has none")
    return arrays


def _member(
    archive: zipfile.ZipFile, member: zipfile.ZipInfo, stream: BinaryIO, size: int, file: str
) -> np.ndarray:
    label = f"{file}: {member.filename}"
    if member.flag_bits & ENCRYPTED:
        raise fail("not-supported", f"{label} is encrypted")
    if member.file_size > MOST_DEFLATED * member.compress_size:
        what = f"{member.compress_size} bytes cannot be {member.file_size} once unpacked"
        raise fail("bad-data", f"{label} is damaged: {what}")
    if member.compress_type == zipfile.ZIP_STORED:
        return _map(stream, _start(stream, member, label), member.file_size, label, size)
    with archive.open(member) as unpacked:
        # `read_npy` reads no more than the header promises, which has to be the member's size.
        return read_npy(cast("BinaryIO", unpacked), member.file_size, label)


def _start(stream: BinaryIO, member: zipfile.ZipInfo, label: str) -> int:
    """Where the bytes of a member begin: behind a header of its own, with name and extra fields."""
    stream.seek(member.header_offset)
    header = stream.read(LOCAL_HEADER_BYTES)
    if len(header) < LOCAL_HEADER_BYTES or not header.startswith(b"PK\x03\x04"):
        raise fail("bad-data", f"{label} is damaged: its header is not where it should be")
    lengths = header[NAME_LENGTHS_AT:]
    name, extra = int.from_bytes(lengths[:2], "little"), int.from_bytes(lengths[2:], "little")
    return member.header_offset + LOCAL_HEADER_BYTES + name + extra


def _map(
    stream: BinaryIO, start: int, length: int, label: str, size: int | None = None
) -> np.ndarray:
    """The array of a `.npy` file that lies in a stream from `start` on."""
    if size is not None and start + length > size:
        raise fail("bad-data", f"{label} is damaged: it ends behind the end of the file")
    stream.seek(start)
    header = read_npy_header(stream, start + length, label)
    if 0 in header.shape:
        return np.empty(header.shape, header.dtype)
    order = "F" if header.fortran_order else "C"
    shape = header.shape or (1,)
    return np.memmap(stream, header.dtype, "r", stream.tell(), shape, order)
