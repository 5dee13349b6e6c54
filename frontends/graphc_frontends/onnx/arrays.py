"""Large arrays of a file, read when they are wanted, each straight into memory of its own.

The package reads a message as a whole, and gives each array as a copy: weights would be in memory
three times. So a message is read without the bytes of its large initializers, and these are found
by their places in the file. What protobuf's wire format is: https://protobuf.dev/programming-guides/encoding
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.support.diagnostics import fail
from graphc.support.files import open_regular_file
from graphc.support.onnx_package import onnx_package

if TYPE_CHECKING:
    from onnx import TensorProto

MAX_BYTES = 2**31 - 1
"""The largest message that protobuf reads; larger models keep their arrays in other files."""

LARGE = 1 << 16
"""Bytes from which an array is left where it is."""

HERE = ""
"""The place that stands in a message for the file it came from."""

GRAPH, INITIALIZER, RAW_DATA, EXTERNAL_DATA, DATA_LOCATION = 7, 5, 9, 13, 14
"""Numbers of fields: of a model, of its graph, and of tensors there."""

VARINT, BITS_64, BYTES, BITS_32 = 0, 1, 2, 5
"""Kinds of fields."""


# --- messages without their large arrays ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Field:
    """Where a field begins, with its header, and where what it holds does, and ends."""

    number: int
    kind: int
    header: int
    start: int
    stop: int


def message_without_arrays(stream: BufferedReader, size: int) -> bytes:
    """The model's message, in which large initializers point at their places in the file.

    ValueError for what is no message.
    """
    return _rewritten(stream, 0, size, [GRAPH, INITIALIZER])


def _rewritten(stream: BufferedReader, start: int, stop: int, path: list[int]) -> bytes:
    """A message whose fields along the path are rewritten; at its end, a tensor."""
    pieces: list[bytes] = []
    for field in _fields(stream, start, stop):
        large = field.stop - field.start >= LARGE and field.kind == BYTES
        if large and path and field.number == path[0]:
            inner = _rewritten(stream, field.start, field.stop, path[1:])
            pieces += [_key(field.number, BYTES), _varint(len(inner)), inner]
        elif large and not path and field.number == RAW_DATA:
            pieces.append(_pointer(field))
        else:
            stream.seek(field.header)
            pieces.append(stream.read(field.stop - field.header))
    return b"".join(pieces)


def _pointer(field: _Field) -> bytes:
    """What ONNX writes of an array in a file: location, offset, length."""
    told = {"location": HERE, "offset": field.start, "length": field.stop - field.start}
    pieces = [_key(DATA_LOCATION, VARINT), _varint(1)]
    for name, value in told.items():
        texts = [t.encode() for t in (name, str(value))]
        entry = b"".join(_key(i + 1, BYTES) + _varint(len(t)) + t for i, t in enumerate(texts))
        pieces += [_key(EXTERNAL_DATA, BYTES), _varint(len(entry)), entry]
    return b"".join(pieces)


def _fields(stream: BufferedReader, start: int, stop: int) -> Iterator[_Field]:
    place = start
    while place < stop:
        stream.seek(place)
        key, at = _read_varint(stream, place)
        kind = key & 7
        if kind == VARINT:
            _, end = _read_varint(stream, at)
        elif kind == BYTES:
            length, at = _read_varint(stream, at)
            end = at + length
        elif kind in (BITS_64, BITS_32):
            end = at + (8 if kind == BITS_64 else 4)
        else:
            raise ValueError(f"a field of kind {kind}")
        if end > stop:
            raise ValueError("a field ends behind its message")
        yield _Field(key >> 3, kind, place, at, end)
        place = end


def _read_varint(stream: BufferedReader, place: int) -> tuple[int, int]:
    """A number where the stream stands, and the place behind it."""
    value = 0
    for i in range(10):
        (byte,) = stream.read(1)  # ValueError at the end
        value |= (byte & 127) << (7 * i)
        if byte < 128:
            return value, place + i + 1
    raise ValueError("a number of more than 64 bits")


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 127:
        made.append(value & 127 | 128)
        value >>= 7
    return bytes([*made, value])


def _key(number: int, kind: int) -> bytes:
    return _varint(number << 3 | kind)


# --- arrays --------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arrays:
    """The arrays of the model in a file: in its message, elsewhere in the file, in others."""

    path: Path

    def read(self, tensor: TensorProto) -> np.ndarray[Any, Any]:
        """Its array; TypeError and ValueError for a damaged one, GraphcError `bad-model-file` for
        another file that cannot be read or lies outside of the model's folder."""
        onnx = onnx_package()
        if tensor.data_location != onnx.TensorProto.EXTERNAL:
            return onnx.numpy_helper.to_array(tensor)
        told = {entry.key: entry.value for entry in tensor.external_data}
        if told.get("location") == HERE:
            return self._here(tensor, int(told["offset"]), int(told["length"]))
        own = onnx.TensorProto()
        own.CopyFrom(tensor)
        folder = os.fspath(self.path.absolute().parent)
        try:
            onnx.external_data_helper.load_external_data_for_tensor(own, folder)
        except Exception as problem:  # of many kinds: a path outside, a link, an offset too far
            message = f"{self.path}: data in another file: {problem}"
            raise fail("bad-model-file", message) from None
        return onnx.numpy_helper.to_array(own)

    def _here(self, tensor: TensorProto, offset: int, length: int) -> np.ndarray[Any, Any]:
        onnx = onnx_package()
        dtype = np.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).newbyteorder("<")
        with open_regular_file(self.path, MAX_BYTES) as (stream, _):
            stream.seek(offset)
            if dtype.itemsize * math.prod(tensor.dims) != length:  # of less than a byte, or damaged
                own = onnx.TensorProto(dims=tensor.dims, data_type=tensor.data_type)
                own.raw_data = stream.read(length)
                return onnx.numpy_helper.to_array(own)
            array = np.empty([*tensor.dims], dtype)
            if stream.readinto(array.reshape(-1).view(np.uint8).data) != length:
                raise ValueError("the file has become shorter")
        return array.astype(dtype.newbyteorder("="), copy=False)
