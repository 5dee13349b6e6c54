"""From the bytes of an ONNX file to its message: limits and damage.

The `onnx` package reads it; without that there is one error with the line that installs it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.support.diagnostics import fail
from graphc.support.files import open_regular_file
from graphc.support.onnx_package import onnx_package
from graphc_frontends.onnx.arrays import MAX_BYTES, message_without_arrays

if TYPE_CHECKING:
    from onnx import ModelProto


def element_type(number: int) -> np.dtype[Any]:
    """numpy's type for an element type as ONNX counts them."""
    return np.dtype(onnx_package().helper.tensor_dtype_to_np_dtype(number))


@cache
def bfloat16() -> np.dtype[Any]:
    """numpy's type for bf16, which a package that `onnx` needs brings."""
    return element_type(onnx_package().TensorProto.BFLOAT16)


def read_model(path: Path) -> ModelProto:
    """The model in a file, without its large arrays, which `Arrays` reads.

    GraphcError: `toolchain` without the onnx package, `file` for what cannot be read, and
    `bad-model-file` for what is no model, or damaged.
    """
    onnx = onnx_package()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(_message(path))
    except Exception as problem:  # DecodeError, whose module depends on protobuf's version
        raise fail("bad-model-file", f"{path} is no ONNX model: {problem}") from None
    if not model.HasField("graph") or not model.ir_version:
        message = f"{path} is no ONNX model: it has no graph or no version"
        raise fail("bad-model-file", message)
    return model


def _message(path: Path) -> bytes:
    """The bytes to read as a message: of what is none all, so that the package says what it is."""
    with open_regular_file(path, MAX_BYTES) as (stream, size):
        try:
            return message_without_arrays(stream, size)
        except ValueError:
            stream.seek(0)
            return stream.read(size)
