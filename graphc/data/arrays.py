"""Arrays for a compiled network: `.npy` or text, from a file or standard input, and back.

What starts with the magic of `.npy` is read as that, anything else as text: one row a line, numbers
separated and spelled as in `uci.py`. The header of a `.npy` file is read here and
not by numpy, and what it promises is compared with the size of the file before memory is taken.
Python objects in a `.npy` file, which would need unpickling, are refused.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from graphc.data.bad_lines import quoted
from graphc.data.plain_rows import NativeRows
from graphc.data.table_lines import read_table_lines
from graphc.data.uci import Columns, FeatureBlock, read_uci_stream
from graphc.support.diagnostics import GraphcError, fail
from graphc.support.files import write_atomically
from graphc.support.pipes import open_file_or_pipe

DASH = "-"
MAX_BYTES = 1 << 36
MAX_HEADER_BYTES = 1 << 12
MAX_ELEMENTS = 1 << 46  # also counted when another dimension is 0
MAX_DIMENSIONS = 32
ROWS_AT_ONCE = 1024

MAGIC = b"\x93NUMPY"
HEADER_ROOM = 128  # bytes of a header that is written, if they are enough
# Bytes of the header's length after the magic and the two version bytes.
LENGTH_BYTES = {(1, 0): 2, (2, 0): 4, (3, 0): 4}
NUMBER_TYPE = re.compile(r"[<>|=]?([fiub][1248])")
READABLE_TYPES = {"f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"}
HEADER_FIELDS = (
    re.compile(r"""(['"])descr\1\s*:\s*(?:'([^']*)'|"([^"]*)"|[^{}]*?\])"""),
    re.compile(r"""(['"])fortran_order\1\s*:\s*(True|False)"""),
    re.compile(r"""(['"])shape\1\s*:\s*\(([0-9,\s]*)\)"""),
)


def read_array(
    source: str | Path, *, stdin: BinaryIO, native: NativeRows | None = None, in_rows: bool = True
) -> npt.NDArray[Any]:
    """The array [samples, width] in the file `source`, or in `stdin` if `source` is "-".

    `native` makes reading long texts faster, as in `read_uci`; without `in_rows` an array from
    `.npy` keeps its shape and element type.

    From `.npy`: the first dimension counts samples, further ones are joined in C order; a single
    dimension is one sample. float32 and float64 stay what they are, float16 becomes float32,
    integers and truth values float64. From text: float64.

    GraphcError: `file` if it cannot be read, `bad-data` if it is malformed, `not-supported` for
    other element types, `limit` if it is too large.
    """
    with _open(source, stdin) as (stream, size, name):
        start = stream.read(len(MAGIC))
        stream.seek(0)
        if start == MAGIC:
            array = read_npy(stream, size, name)
            return _as_rows(array) if in_rows else array
        return _read_text(stream, size, name, native)


def write_array(target: str | Path, array: np.ndarray, *, stdout: BinaryIO) -> None:
    """Write the array to the file `target`, or as text to `stdout` if `target` is "-".

    A name that ends in `.npy` gets that format, any other name text: one row a line, with as many
    digits as it takes to read the same value again (`%.9g` for float32, `%.17g` for float64). A
    file is replaced in one step: after a failure the old one is still there.

    GraphcError `file` if it cannot be written, `not-supported` for other element types. A broken
    pipe of `stdout` stays a BrokenPipeError.
    """
    kind = array.dtype.str[1:]
    if kind not in READABLE_TYPES:
        raise fail("not-supported", f"an array of numbers is required, got {array.dtype}")
    if str(target) == DASH:
        try:
            _write_text(stdout, array)
            stdout.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise fail("file", f"cannot write standard output: {error.strerror}") from error
    elif Path(target).suffix.lower() == ".npy":
        write_atomically(Path(target), lambda stream: _write_npy(stream, array))
    else:
        write_atomically(Path(target), lambda stream: _write_text(stream, array))


@contextmanager
def _open(source: str | Path, stdin: BinaryIO) -> Generator[tuple[BinaryIO, int, str]]:
    """A stream that can seek, its size, and its name for messages."""
    if str(source) == DASH:
        try:
            content = _whole(stdin, "standard input")
        except OSError as error:
            raise fail("file", f"cannot read standard input: {error.strerror}") from error
        yield content, content.getbuffer().nbytes, "<stdin>"
        return
    with open_file_or_pipe(Path(source), MAX_BYTES) as (stream, size):
        if size is not None:
            yield stream, size, str(source)
        else:
            content = _whole(stream, str(source))
            yield content, content.getbuffer().nbytes, str(source)


def _whole(stream: BinaryIO, name: str) -> io.BytesIO:
    """Everything that comes out of a pipe, which cannot seek."""
    content = io.BytesIO()
    while block := stream.read(1 << 20):
        if content.tell() + len(block) > MAX_BYTES:
            raise fail("limit", f"{name} may have at most {MAX_BYTES} bytes")
        content.write(block)
    content.seek(0)
    return content


def _read_text(
    stream: BinaryIO, size: int, name: str, native: NativeRows | None
) -> npt.NDArray[np.floating]:
    """All columns of the text; the first line that is not empty says how many there are."""
    width = 1
    for lines in read_table_lines(stream, name):
        if len(lines.starts):
            width = int(lines.cell_counts[lines.cell_counts > 0][0])
            break
    stream.seek(0)
    block = FeatureBlock("input", Columns(0, width))
    tables = read_uci_stream(stream, size, name, [block], dtype=np.float64, native=native)
    return tables["input"]


@dataclass(frozen=True, slots=True)
class NpyHeader:
    """What a `.npy` file says about its elements."""

    dtype: np.dtype
    fortran_order: bool
    shape: tuple[int, ...]


def read_npy_header(stream: BinaryIO, size: int, name: str) -> NpyHeader:
    """The header of a `.npy` file, whose elements end at byte `size` of the stream."""
    header = _read_header(stream, name)
    if math.prod(max(d, 1) for d in header.shape) > MAX_ELEMENTS:
        message = f"at most {MAX_ELEMENTS} elements can be read, {name} has shape {header.shape}"
        raise fail("limit", message)
    promised = math.prod(header.shape) * header.dtype.itemsize
    present = size - stream.tell()
    if promised != present:
        what = f"shape {header.shape} of {header.dtype} takes {promised} bytes"
        raise _damaged(name, f"its {what}, {present} follow the header")
    return header


def read_npy(stream: BinaryIO, size: int, name: str) -> np.ndarray:
    """The array of a `.npy` file of `size` bytes, in C order and native byte order."""
    header = read_npy_header(stream, size, name)
    promised = math.prod(header.shape) * header.dtype.itemsize
    data = stream.read(promised)
    if len(data) != promised:
        raise fail("file", f"{name} changed while it was read")
    order = "F" if header.fortran_order else "C"
    array = np.frombuffer(data, header.dtype).reshape(header.shape, order=order)
    # A copy: what stands on bytes cannot be written to.
    return np.array(array, header.dtype.newbyteorder("="), order="C")


def _read_header(stream: BinaryIO, name: str) -> NpyHeader:
    start = stream.read(len(MAGIC) + 2)
    if len(start) < len(MAGIC) + 2:
        raise _damaged(name, "it ends within its first 8 bytes")
    version = (start[-2], start[-1])
    if version not in LENGTH_BYTES:
        known = ", ".join(f"{major}.{minor}" for major, minor in LENGTH_BYTES)
        got = f"{version[0]}.{version[1]}"
        raise fail("not-supported", f"version {known} of .npy is required, {name} has {got}")
    length = int.from_bytes(stream.read(LENGTH_BYTES[version]), "little")
    if length > MAX_HEADER_BYTES:
        raise fail("limit", f"the header of {name} may have {MAX_HEADER_BYTES} bytes, has {length}")
    content = stream.read(length)
    if len(content) != length:
        raise _damaged(name, "it ends within its header")
    return _parse_header(content.decode("latin-1"), name)


def _parse_header(text: str, name: str) -> NpyHeader:
    """The three fields of the header, in any order and with nothing else beside them."""
    found: list[re.Match[str]] = []
    rest = text
    for field in HEADER_FIELDS:
        match = field.search(rest)
        if match is None:
            raise _damaged(name, f"its header is {quoted(text.rstrip())}")
        found.append(match)
        rest = rest[: match.start()] + rest[match.end() :]
    if not re.fullmatch(r"\s*\{[\s,]*\}\s*", rest):
        raise _damaged(name, f"its header has more than three fields: {quoted(text.rstrip())}")
    descr, order, shape = found
    element = _number_type(descr[2] or descr[3], name)
    return NpyHeader(element, order[2] == "True", _sizes(shape[2], name))


def _sizes(text: str, name: str) -> tuple[int, ...]:
    """The shape in the text between the brackets, such as `3, 4` or `3,`."""
    parts = [part.strip() for part in text.split(",")]
    if parts[-1] == "":
        parts.pop()
    if len(parts) > MAX_DIMENSIONS or not all(p.isdigit() and len(p) <= 18 for p in parts):
        raise _damaged(name, f"its shape is {quoted(text)}")
    return tuple(int(p) for p in parts)


def _number_type(descr: str | None, name: str) -> np.dtype:
    match = NUMBER_TYPE.fullmatch(descr or "")
    if match is None or match[1] not in READABLE_TYPES:
        got = "records" if descr is None else "Python objects" if "O" in descr else quoted(descr)
        raise fail("not-supported", f"an array of real numbers is required, {name} has {got}")
    return np.dtype(descr)


def _damaged(name: str, how: str) -> GraphcError:
    return fail("bad-data", f"{name} is no complete .npy file: {how}")


def _as_rows(array: np.ndarray) -> npt.NDArray[np.floating]:
    rows = 1 if array.ndim < 2 else array.shape[0]
    width = math.prod(array.shape if array.ndim < 2 else array.shape[1:])
    element = np.float32 if array.dtype.str[1:] in {"f2", "f4"} else np.float64
    return array.reshape(rows, width).astype(element, copy=False)


def npy_header(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """What stands in a `.npy` file before the elements, in C order.

    Headers of a matrix are of one length, whatever its sizes, so that its rows can be counted while
    they are written.
    """
    header = f"{{'descr': '{dtype.str}', 'fortran_order': False, 'shape': {shape}, }}"
    start = len(MAGIC) + 4
    # The data start at a multiple of 64 bytes, so that the file can be mapped into memory.
    room = max(HEADER_ROOM, start + len(header) + 1)
    padding = room + -room % 64 - start - len(header) - 1
    content = (header + " " * padding + "\n").encode("ascii")
    return MAGIC + b"\x01\x00" + len(content).to_bytes(2, "little") + content


def _write_npy(stream: BinaryIO, array: np.ndarray) -> None:
    little = array.dtype.newbyteorder("<")
    stream.write(npy_header(little, array.shape))
    stream.write(np.ascontiguousarray(array, little).tobytes())


def _write_text(stream: BinaryIO, array: np.ndarray) -> None:
    width = math.prod(array.shape if array.ndim < 2 else array.shape[1:])
    rows = array.reshape(-1 if width else 0, width)
    cell = {"f2": "%.9g", "f4": "%.9g", "f8": "%.17g"}.get(array.dtype.str[1:], "%d")
    line = " ".join([cell] * width) + "\n"
    for first in range(0, len(rows), ROWS_AT_ONCE):
        piece = rows[first : first + ROWS_AT_ONCE].tolist()
        stream.write("".join([line % tuple(row) for row in piece]).encode("ascii"))
