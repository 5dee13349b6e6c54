"""Small parts of emitted Python: lines with indentation, element types, constants."""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence

import numpy as np

from graphc.backends.numpy.names import Names
from graphc.ir.elements import stored
from graphc.ir.types import DType

_LISTED_ELEMENTS = 64  # longer constants are written as base64
_LINE = 88


def dtype_text(dtype: DType) -> str:
    """numpy's name of the type that elements have in arrays."""
    if dtype.numpy.names:
        return f'np.dtype([("{dtype}", np.uint{8 * dtype.itemsize})])'
    return "np.bool_" if dtype is DType.I1 else f"np.{dtype.numpy.name}"


def number_text(value: bool | int | float) -> str:
    """A Python literal, or numpy's name for what has none."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return "np.nan" if math.isnan(value) else "np.inf" if value > 0 else "-np.inf"
    return repr(value)


def decode_text(array: np.ndarray) -> list[str]:
    """Lines of an expression that gives the array back: base64 of little-endian bytes."""
    little = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"), copy=False)
    encoded = base64.b64encode(little.tobytes()).decode("ascii")
    pieces = [encoded[i : i + _LINE] for i in range(0, len(encoded), _LINE)] or [""]
    shape = tuple(int(n) for n in array.shape)
    kind = little.dtype.descr if little.dtype.names else f'"{little.dtype.str}"'
    return [
        "np.frombuffer(base64.b64decode(",
        *(f'    "{piece}"' for piece in pieces),
        f"), {kind}).reshape({shape})",
    ]


class Lines:
    """Text in the making."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._depth = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def blank(self) -> None:
        self._lines.append("")

    def indent(self) -> None:
        self._depth += 1

    def dedent(self) -> None:
        self._depth -= 1

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


class Constants:
    """The constants of a module, equal ones once, each under a name of its own.

    They carry their element type: a bare Python number would take part in numpy's promotion.
    """

    def __init__(self, names: Names) -> None:
        self.lines: list[str] = []
        self._names = names
        self._known: dict[tuple[str, ...], str] = {}

    def number(self, value: bool | int | float, dtype: DType) -> str:
        """The name of one number."""
        if dtype.numpy.names:
            return self.array([value], (), dtype)
        return self._define([f"{dtype_text(dtype)}({number_text(value)})"])

    def array(
        self, values: Sequence[bool | int | float], shape: Sequence[int], dtype: DType
    ) -> str:
        """The name of an array of these elements, row-major."""
        if len(values) > _LISTED_ELEMENTS or dtype.numpy.names:
            return self._define(decode_text(stored(values, dtype).reshape(shape)))
        listed = ", ".join(number_text(v) for v in values)
        return self._define([f"np.array([{listed}], {dtype_text(dtype)}).reshape({tuple(shape)})"])

    def _define(self, expression: list[str]) -> str:
        key = tuple(expression)
        if key not in self._known:
            name = self._names.fresh(f"C{len(self._known)}")
            self._known[key] = name
            first, *rest = expression
            self.lines.extend([f"{name} = {first}", *rest])
        return self._known[key]
