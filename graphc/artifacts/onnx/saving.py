"""ONNX files: the message with the parameters in it, or beside it where it would be too large.

Protobuf reads messages below 2 GB. Above `OUTSIDE_BYTES` in all, the parameters lie one after the
other in a second file, `NAME.onnx.data`, that the message points into. Both files are whole before
the first one is replaced, and the message is replaced last.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from graphc.artifacts.onnx.model import ELEMENT_TYPES
from graphc.ir.elements import DTYPES
from graphc.support.diagnostics import fail
from graphc.support.files import staged
from graphc.support.onnx_package import onnx_package

if TYPE_CHECKING:
    from onnx import ModelProto

OUTSIDE_BYTES = 2**30
"""Of parameters in all, above which they are written beside the message."""
MESSAGE_BYTES = 2**31 - 1
"""The largest message that protobuf reads."""
ALIGNMENT = 4096
"""Of arrays in the second file, so that they can be mapped into memory."""


def write_model(
    path: Path,
    model: ModelProto,
    arrays: Mapping[str, np.ndarray],
    *,
    outside_bytes: int = OUTSIDE_BYTES,
) -> list[Path]:
    """Write the model with these parameters; the files that there are then.

    GraphcError `file` where one cannot be written, `limit` for a message above 2 GB: what a
    function has of constants.
    """
    onnx = onnx_package()
    total = sum(a.nbytes for a in arrays.values())
    beside = path.with_name(f"{path.name}.data") if total > outside_bytes else None
    offset = 0
    for name, array in arrays.items():
        tensor = model.graph.initializer.add()
        tensor.name = name
        tensor.data_type = onnx.TensorProto.DataType.Value(ELEMENT_TYPES[DTYPES[array.dtype].value])
        tensor.dims.extend(array.shape)
        if beside is None:
            tensor.raw_data = _little_endian(array).tobytes()
        else:
            _point_at(onnx, tensor, beside.name, offset, array.nbytes)
            offset = _aligned(offset + array.nbytes)
    if model.ByteSize() > MESSAGE_BYTES:
        message = (
            f"an ONNX file requires less than 2 GB besides its parameters, got {model.ByteSize()}"
        )
        raise fail("limit", message)
    with ExitStack() as stack:
        if beside is not None:
            put = stack.enter_context(staged(beside, lambda stream: _write_all(stream, arrays)))
            put_message = stack.enter_context(staged(path, model.SerializeToString()))
            put()
        else:
            put_message = stack.enter_context(staged(path, model.SerializeToString()))
        put_message()
    return [path] if beside is None else [path, beside]


def _point_at(onnx: Any, tensor: Any, file: str, offset: int, length: int) -> None:
    tensor.data_location = onnx.TensorProto.EXTERNAL
    for key, value in (("location", file), ("offset", str(offset)), ("length", str(length))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value


def _write_all(stream: BinaryIO, arrays: Mapping[str, np.ndarray]) -> None:
    offset = 0
    for array in arrays.values():
        stream.write(bytes(_aligned(offset) - offset))
        stream.write(np.ascontiguousarray(_little_endian(array)).data)
        offset = _aligned(offset) + array.nbytes


def _aligned(offset: int) -> int:
    return -(-offset // ALIGNMENT) * ALIGNMENT


def _little_endian(array: np.ndarray) -> np.ndarray:
    return array.astype(array.dtype.newbyteorder("<"), copy=False)
