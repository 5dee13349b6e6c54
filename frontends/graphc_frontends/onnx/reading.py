"""From the bytes of an ONNX file to its message: limits, damage, data in other files.

The `onnx` package reads it; without that there is one error with the line that installs it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from graphc.support.diagnostics import fail
from graphc.support.element_types import PACKAGE_NAMES, lacking_name
from graphc.support.files import read_regular_file
from graphc.support.onnx_package import onnx_package
from graphc.tensor.caller import caller_location

if TYPE_CHECKING:
    from onnx import ModelProto

MAX_BYTES = 2**31 - 1
"""The largest message that protobuf reads; larger models keep their arrays in other files."""


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
    """The model in a file, with the arrays that it keeps in others beside it.

    GraphcError: `toolchain` without the onnx package, `file` for what cannot be read, and
    `bad-model-file` for what is no model, damaged, or points outside its folder.
    """
    onnx = onnx_package()
    data = read_regular_file(path, MAX_BYTES)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except Exception as problem:  # DecodeError, whose module depends on protobuf's version
        raise fail("bad-model-file", f"{path} is no ONNX model: {problem}") from None
    if not model.HasField("graph") or not model.ir_version:
        message = f"{path} is no ONNX model: it has no graph or no version"
        raise fail("bad-model-file", message)
    folder = path.absolute().parent
    try:
        onnx.external_data_helper.load_external_data_for_model(model, os.fspath(folder))
    except Exception as problem:  # of many kinds: a path outside, a link, an offset behind the end
        raise fail("bad-model-file", f"{path}: data in another file: {problem}") from None
    return model
