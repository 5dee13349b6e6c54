"""The `onnx` package, which reads and writes messages of ONNX, and what both ways share.

It is imported when a file is read or written; without it there is one error with the line that
installs it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from graphc.support.diagnostics import fail

INSTALL = 'pip install "graphc[onnx]"'

BOUNDS = "graphc.bounds"
"""The property of a model that says up to which sizes calls go, by their names: `N=256,T=64`."""

_MODULES = ("defs", "external_data_helper", "helper", "numpy_helper")


def onnx_package() -> Any:
    """The `onnx` package. GraphcError (toolchain) where it is not installed."""
    try:
        for module in _MODULES:
            import_module(f"onnx.{module}")
        return import_module("onnx")
    except ImportError as problem:
        message = f"ONNX files are read and written with the package onnx: {INSTALL} ({problem})"
        raise fail("toolchain", message) from None
