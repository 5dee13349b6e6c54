"""From the bytes of an ONNX file to its message: limits and damage.

The `onnx` package reads it; without that there is one error with the line that installs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.support.diagnostics import fail
from graphc.support.element_types import PACKAGE_NAMES, lacking_name
from graphc.support.files import open_regular_file
from graphc.support.onnx_package import onnx_package
from graphc.tensor.caller import caller_location
from graphc_frontends.onnx.arrays import MAX_BYTES, message_without_arrays

if TYPE_CHECKING:
    from onnx import ModelProto


def element_type(number: int, what: str = "this node") -> np.dtype[Any]:
    """numpy's type for an element type as ONNX counts them; `what` has such elements.

    GraphcError for one that is not here, and for what is none.
    """
    helper, kinds = onnx_package().helper, onnx_package().TensorProto.DataType
    try:
        name, dtype = kinds.Name(number), np.dtype(helper.tensor_dtype_to_np_dtype(number))
    except (KeyError, ValueError):
        message = f"{what} has elements of the type {number}, which ONNX does not have"
        raise fail("bad-model-file", message, caller_location()) from None
    if dtype.kind in "OcSU" or (dtype.kind == "V" and lacking_name(dtype) is None):
        message = f"{what} has elements of {name}, which are not supported"
        raise fail("not-supported", message, caller_location())
    return dtype


@cache
def brought_types() -> Mapping[str, np.dtype[Any]]:
    """By graphc's names the types that numpy lacks and a package that `onnx` needs brings."""
    helper = onnx_package().helper
    found = map(helper.tensor_dtype_to_np_dtype, helper.get_all_tensor_dtypes())
    return {PACKAGE_NAMES[dtype.name]: dtype for dtype in found if dtype.name in PACKAGE_NAMES}


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
