"""Model files: parameters and text in one safetensors file, checked in full before use.

    u64 little-endian     length n of the header, so that the body starts at a multiple of 64
    n bytes               header: canonical JSON, filled up with blanks
    the rest              body: the tensors' bytes, little-endian, C order, no gaps

The header maps each tensor's name to dtype, shape and place in the body, and `__metadata__` to
strings. Four of these belong to this file format: `format` ("graphc"), `format_version`, `hashes`
(JSON: SHA-256 of each tensor's bytes) and `header_hash` (SHA-256 of the canonical header without
this entry). `ir` is the network's text, opaque here; other entries are free. The hashes find
damage; against forgery they do nothing, since who can write the file can write them as well.

Any safetensors reader can read these files. Writing and checking is done here and not by that
library: it orders metadata at random, so equal models would give different bytes, and it accepts
more than is wanted. Nothing in a file is executed. What the IR means is judged by its parser.

The checks are in the order in which they protect each other, and all of them but the hashes of
tensors come before the first tensor is allocated:

    1  the file's size, the header's length
    2  the header is JSON in UTF-8 without duplicate keys, with metadata of the known version
    3  each tensor: name, dtype, dims, product of dims, length, alignment
    4  the tensors fill the body: sorted by offset, no overlap, no hole, end = end of file
    5  the header is canonical and has the hash it states
    6  the hash of each tensor
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BufferedIOBase
from pathlib import Path
from typing import BinaryIO, NoReturn, cast

import numpy as np

from graphc.support.diagnostics import fail
from graphc.support.element_types import NUMPY_DTYPES, type_text
from graphc.support.files import open_regular_file, write_atomically
from graphc.support.short_types import SHORT_TYPES

FORMAT = "graphc"
KIND, PROGRAM = "kind", "program"
"""The entry of the metadata that tells a program from a network."""
FORMAT_VERSION = "1"
MAX_FILE_BYTES = 64 * 2**30
MAX_HEADER_BYTES = 16 * 2**20
MAX_TENSORS = 100_000
MAX_NAME_BYTES = 4096
MAX_DIMS = 8
MAX_DIM = 2**40
MAX_ELEMENTS = 2**46

_METADATA = "__metadata__"
_REQUIRED = ("format", "format_version", "hashes", "header_hash", "ir")
_ENTRY_KEYS = {"dtype", "shape", "data_offsets"}
_ALIGNMENT = 64
_MAX_INTEGER = 2**53  # what every JSON reader keeps exact
_SHOWN = 100  # characters of a file's own text in a message
_DTYPES: dict[str, np.dtype] = {
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
    "I32": np.dtype("<i4"),
    "I64": np.dtype("<i8"),
    "BOOL": np.dtype("bool"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype([("bf16", "<u2")]),
    "I8": np.dtype("i1"),
    "I16": np.dtype("<i2"),
    "U8": np.dtype("u1"),
    "U16": np.dtype("<u2"),
    "U32": np.dtype("<u4"),
    "U64": np.dtype("<u8"),
    "F8_E4M3": NUMPY_DTYPES["f8e4m3fn"],
    "F8_E4M3FNUZ": NUMPY_DTYPES["f8e4m3fnuz"],
    "F8_E5M2": NUMPY_DTYPES["f8e5m2"],
    "F8_E5M2FNUZ": NUMPY_DTYPES["f8e5m2fnuz"],
}
_DTYPE_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
IN_BYTES = frozenset(n for n in SHORT_TYPES if NUMPY_DTYPES[n] not in _DTYPE_NAMES)
"""Element types that the format has no name for: they are written as bytes (U8), a number each, and
the IR says what these are."""


@dataclass(frozen=True, eq=False)
class Container:
    """What a model file holds. Tensors are writable, C order, in order of their names.

    `metadata` includes the four entries of the file format; writing it back makes them anew.
    """

    tensors: dict[str, np.ndarray]
    metadata: dict[str, str]


def write_container(
    path: Path, tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write a model file, atomically. Equal content gives equal bytes.

    `metadata` needs `ir`; the entries `format`, `format_version`, `hashes` and `header_hash` are
    set here whatever it says. ValueError for what no reader would accept (dtype, names, missing
    `ir`); GraphcError `limit` if the header gets too long, `file` if it cannot be written.
    """
    write_atomically(path, container_writer(tensors, metadata, str(path)))


def container_writer(
    tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str], what: str
) -> Callable[[BinaryIO], None]:
    """What writes a model file into a stream, for whoever opens it; errors as `write_container`.

    The tensors are read when it is called. `what` is what messages call the file.
    """
    stored = {name: _storable(name, tensor) for name, tensor in tensors.items()}
    order = sorted(stored, key=lambda name: (-stored[name].itemsize, name))
    header = _make_header(stored, order, metadata)
    if len(header) > MAX_HEADER_BYTES or len(stored) > MAX_TENSORS:
        message = (
            f"a model may have {MAX_TENSORS} tensors and {MAX_HEADER_BYTES} bytes of header, "
            f"{what} would have {len(stored)} and {len(header)}"
        )
        raise fail("limit", message)

    def write(stream: BinaryIO) -> None:
        stream.write(len(header).to_bytes(8, "little"))
        stream.write(header)
        for name in order:
            stream.write(_bytes_of(stored[name]))

    return write


def looks_like_container(head: bytes) -> bool:
    """Whether a file that begins like this is a model file, whatever it is called: the length of a
    header, and the header's bracket."""
    return head[8:9] == b"{" and int.from_bytes(head[:8], "little") <= MAX_HEADER_BYTES


def read_container(path: Path, *, max_bytes: int = MAX_FILE_BYTES) -> Container:
    """Read and check a model file. The path itself may be a symbolic link.

    GraphcError `bad-model-file` if anything in it is wrong, naming the file and the tensor;
    `file` if it cannot be opened or is no regular file; `limit` if it is larger than `max_bytes`.
    """
    with open_regular_file(path, max_bytes) as (stream, size):
        return read_stream(stream, size, str(path))


def holds_program(path: Path) -> bool:
    """Whether a file is a model file with a program, by its header. GraphcError `bad-model-file`
    for a header that is wrong."""
    with open_regular_file(path, MAX_FILE_BYTES) as (stream, size):
        head = stream.read(9)
        if not looks_like_container(head):
            return False
        stream.seek(0)
        reader = _Reader(stream, size, str(path))
        return reader.metadata(reader.read_header()).get(KIND) == PROGRAM


def read_stream(stream: BufferedIOBase, size: int, name: str) -> Container:
    """As `read_container`, from a stream of `size` bytes that messages call `name`."""
    reader = _Reader(stream, size, name)
    header = reader.read_header()
    metadata = reader.metadata(header)
    places = reader.places(header)
    reader.check_canonical(header, metadata)
    hashes = reader.hashes(metadata, places)
    tensors = {place.name: reader.read_tensor(place, hashes[place.name]) for place in places}
    return Container(dict(sorted(tensors.items())), metadata)


# Writing


def _storable(name: str, tensor: np.ndarray) -> np.ndarray:
    if problem := _name_problem(name):
        raise ValueError(f"tensor {name!r}: {problem}")
    if type_text(tensor.dtype) in IN_BYTES:
        tensor = tensor.view(np.uint8)
    dtype = tensor.dtype.newbyteorder("<")
    if dtype not in _DTYPE_NAMES:
        raise ValueError(f"tensor {name!r}: one of {', '.join(_DTYPES)} is required, got {dtype}")
    if problem := _shape_problem(tensor.shape):
        raise ValueError(f"tensor {name!r}: {problem}")
    # `np.ascontiguousarray` would turn a scalar into a vector.
    return np.asarray(tensor, dtype=dtype, order="C")


def _make_header(
    stored: Mapping[str, np.ndarray], order: list[str], metadata: Mapping[str, str]
) -> bytes:
    if "ir" not in metadata:
        raise ValueError("the metadata of a model needs `ir`")
    # Largest elements first: without gaps, every tensor is then aligned to its element size.
    header: dict[str, object] = {}
    offset = 0
    for name in order:
        tensor = stored[name]
        header[name] = {
            "dtype": _DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [offset, offset + tensor.nbytes],
        }
        offset += tensor.nbytes
    hashes = {name: hashlib.sha256(_bytes_of(stored[name])).hexdigest() for name in order}
    entries = dict(metadata) | {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "hashes": _canonical(hashes).decode(),
    }
    header[_METADATA] = entries
    entries["header_hash"] = _header_hash(header, entries)
    return _padded(_canonical(header))


def _bytes_of(tensor: np.ndarray) -> memoryview:
    return tensor.reshape(-1).view(np.uint8).data


# Both directions


def _canonical(value: object) -> bytes:
    """JSON with sorted keys and no blanks, in UTF-8; UnicodeEncodeError for lone surrogates."""
    text = json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return text.encode("utf-8")


def _padded(header: bytes) -> bytes:
    return header + b" " * (-(len(header) + 8) % _ALIGNMENT)


def _header_hash(header: Mapping[str, object], metadata: Mapping[str, str]) -> str:
    rest = {key: value for key, value in metadata.items() if key != "header_hash"}
    return hashlib.sha256(_canonical({**header, _METADATA: rest})).hexdigest()


def _name_problem(name: str) -> str:
    """What is wrong with a tensor's name, or ''."""
    try:
        length = len(name.encode("utf-8"))
    except UnicodeEncodeError:
        return "its name is not valid Unicode"
    if not 1 <= length <= MAX_NAME_BYTES:
        return f"its name must have 1 to {MAX_NAME_BYTES} bytes, it has {length}"
    if name == _METADATA:
        return "this name is taken by the file format"
    if not unicodedata.is_normalized("NFC", name):
        return "its name is not in Unicode's normal form C"
    return ""


def _shape_problem(shape: tuple[int, ...]) -> str:
    """What is wrong with a tensor's dims, or ''."""
    if len(shape) > MAX_DIMS:
        return f"it may have at most {MAX_DIMS} dims, it has {len(shape)}"
    for dim in shape:
        if not 0 <= dim <= MAX_DIM:
            return f"each dim must be from 0 to 2^40, one is {dim}"
    if math.prod(shape) > MAX_ELEMENTS:
        return f"it may have at most 2^46 elements, it has {math.prod(shape)}"
    return ""


# Reading


@dataclass(frozen=True, slots=True)
class _Place:
    """A tensor whose header entry has been checked; begin and end are offsets in the body."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    end: int


class _Malformed(ValueError):
    """The header's JSON has something that JSON readers disagree about."""


@dataclass(slots=True)
class _Reader:
    """One pass over a stream, from front to back; holds what the error messages need."""

    stream: BufferedIOBase
    size: int
    name: str
    header_bytes: bytes = b""

    def bad(self, what: str) -> NoReturn:
        raise fail("bad-model-file", f"{self.name}: {what}")

    def bad_tensor(self, tensor: str, what: str) -> NoReturn:
        self.bad(f"tensor `{tensor[:_SHOWN]}`: {what}")

    def read_header(self) -> dict[str, object]:
        if self.size < 8:
            self.bad(f"a model file has at least 8 bytes, this one has {self.size}")
        length = int.from_bytes(self.read(8), "little")
        if length > MAX_HEADER_BYTES:
            self.bad(
                f"not a graphc model: its header may have at most {MAX_HEADER_BYTES} bytes, "
                f"it states {length}"
            )
        if 8 + length > self.size:
            self.bad(f"the file is cut short: its header needs {length} bytes after the first 8")
        self.header_bytes = self.read(length)
        try:
            text = self.header_bytes.decode("utf-8")
            header = json.loads(
                text,
                object_pairs_hook=_unique_keys,
                parse_constant=_refuse_number,
                parse_float=_refuse_number,
            )
        except (ValueError, RecursionError) as error:
            self.bad(f"not a graphc model: its header is not plain JSON ({error})")
        if not isinstance(header, dict):
            self.bad("not a graphc model: its header is not a JSON object")
        return cast("dict[str, object]", header)

    def metadata(self, header: dict[str, object]) -> dict[str, str]:
        given = header.get(_METADATA)
        if not isinstance(given, dict):
            self.bad("not a graphc model: it has no metadata")
        entries = cast("dict[str, object]", given)
        if entries.get("format") != FORMAT:
            self.bad(f'not a graphc model: its metadata has no `format` of "{FORMAT}"')
        version = entries.get("format_version")
        if version != FORMAT_VERSION:
            found = str(version)[:_SHOWN] if isinstance(version, str) else "that is no string"
            self.bad(f"it has a format version {found}, this graphc reads {FORMAT_VERSION}")
        metadata = {key: text for key, text in entries.items() if isinstance(text, str)}
        if len(metadata) != len(entries):
            self.bad("an entry of its metadata is not a string")
        for key in _REQUIRED:
            if key not in metadata:
                self.bad(f"its metadata lacks the entry `{key}`")
        return metadata

    def check_canonical(self, header: dict[str, object], metadata: dict[str, str]) -> None:
        try:
            same = _padded(_canonical(header)) == self.header_bytes
        except UnicodeEncodeError:
            self.bad("its header has text that is not valid Unicode")
        if not same:
            self.bad("its header is not in canonical form: damaged, or rewritten elsewhere")
        if _header_hash(header, metadata) != metadata["header_hash"]:
            self.bad("its header does not have the hash it states: the file is damaged")

    def places(self, header: dict[str, object]) -> list[_Place]:
        """The tensors in the order of the body, which they are known to fill."""
        if len(header) - 1 > MAX_TENSORS:
            self.bad(f"it may have at most {MAX_TENSORS} tensors, it has {len(header) - 1}")
        places = [self.place(name, entry) for name, entry in header.items() if name != _METADATA]
        places.sort(key=lambda place: (place.begin, place.end))
        end = 0
        for place in places:
            if place.begin != end:
                kind = "overlaps another" if place.begin < end else "leaves a hole before it"
                self.bad_tensor(place.name, f"it {kind}: it begins at {place.begin}, not at {end}")
            end = place.end
        body = self.size - 8 - len(self.header_bytes)
        if end != body:
            kind = "is cut short" if end > body else "has bytes that belong to no tensor"
            self.bad(f"the file {kind}: its tensors need {end} bytes, it has {body}")
        return places

    def place(self, name: str, given: object) -> _Place:
        if problem := _name_problem(name):
            self.bad_tensor(name, problem)
        if not isinstance(given, dict) or given.keys() != _ENTRY_KEYS:
            self.bad_tensor(name, "it must have a dtype, a shape and data offsets, nothing else")
        entry = cast("dict[str, object]", given)
        dtype = _DTYPES.get(entry["dtype"]) if isinstance(entry["dtype"], str) else None
        if dtype is None:
            self.bad_tensor(name, f"its dtype must be one of {', '.join(_DTYPES)}")
        shape = self.integers(name, "shape", entry["shape"])
        if problem := _shape_problem(shape):
            self.bad_tensor(name, problem)
        offsets = self.integers(name, "data_offsets", entry["data_offsets"])
        if len(offsets) != 2 or not 0 <= offsets[0] <= offsets[1]:
            self.bad_tensor(name, "its data offsets must be two numbers, begin and end")
        begin, end = offsets
        length = math.prod(shape) * dtype.itemsize
        if end - begin != length:
            self.bad_tensor(name, f"its shape needs {length} bytes, it has {end - begin}")
        if begin % dtype.itemsize:
            self.bad_tensor(name, f"its offset {begin} is no multiple of its element size")
        return _Place(name, dtype, shape, begin, end)

    def integers(self, name: str, key: str, given: object) -> tuple[int, ...]:
        items = cast("list[object]", given) if isinstance(given, list) else [None]
        # `type` and not `isinstance`: true is an int in Python and none in a shape.
        numbers = tuple(i for i in items if type(i) is int and abs(i) <= _MAX_INTEGER)
        if len(numbers) != len(items):
            self.bad_tensor(name, f"its {key} must be a list of integers of at most 2^53")
        return numbers

    def hashes(self, metadata: dict[str, str], places: list[_Place]) -> dict[str, str]:
        try:
            given = json.loads(metadata["hashes"], object_pairs_hook=_unique_keys)
        except (ValueError, RecursionError) as error:
            self.bad(f"its list of hashes is not plain JSON ({error})")
        if not isinstance(given, dict):
            self.bad("its list of hashes is not a JSON object")
        entries = cast("dict[str, object]", given)
        hashes = {name: value for name, value in entries.items() if isinstance(value, str)}
        for name in sorted({place.name for place in places} ^ hashes.keys()):
            self.bad_tensor(name, "it is in the header or in the list of hashes, not in both")
        return hashes

    def read_tensor(self, place: _Place, stated_hash: str) -> np.ndarray:
        tensor = np.empty(place.shape, dtype=place.dtype)
        view = _bytes_of(tensor)
        if _read_into(self.stream, view) != tensor.nbytes:
            self.bad_tensor(place.name, "the file became shorter while it was read")
        if hashlib.sha256(view).hexdigest() != stated_hash:
            self.bad_tensor(place.name, "its bytes do not have the hash stated: it is damaged")
        if place.dtype == np.bool_ and tensor.size and tensor.view(np.uint8).max() > 1:
            self.bad_tensor(place.name, "a BOOL must be 0 or 1")
        if sys.byteorder == "big":
            return tensor.astype(place.dtype.newbyteorder("="))
        return tensor

    def read(self, count: int) -> bytes:
        data = self.stream.read(count)
        if len(data) != count:
            self.bad("the file became shorter while it was read")
        return data


def _read_into(stream: BufferedIOBase, view: memoryview) -> int:
    """Fill `view`; the number of bytes read, fewer only at the end of the stream."""
    done = 0
    while done < len(view):
        count = stream.readinto(view[done:])
        if not count:
            break
        done += count
    return done


def _unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    table = dict(pairs)
    if len(table) != len(pairs):
        raise _Malformed("a key occurs twice")
    return table


def _refuse_number(text: str) -> NoReturn:
    raise _Malformed(f"`{text[:64]}` where only whole numbers are allowed")
