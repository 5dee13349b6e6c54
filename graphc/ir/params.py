"""Compile-time settings of operations: frozen dataclasses that print and parse by their fields.

A params class declares its fields with types out of: bool, int, float, str, DType, Dim,
TensorType, an Enum, Literal, `X | None`, tuple[X, ...], another params class. From these the text
form follows:

    {axes = [0, 1], init = "uniform", type = tensor<Nx1xf32>, tile = {rows = 6, vectors = 2}}

in field order, fields at their default left out. Nothing else can be a parameter.
"""

from __future__ import annotations

import math
import types as python_types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from enum import Enum
from functools import cache
from typing import Any, Literal

from graphc.ir.types import Dim, DType, MatrixType, Symbol, TensorType, size_of

Scalar = bool | int | float | str | DType | Symbol | TensorType | MatrixType | None
Literalish = Scalar | list["Literalish"] | dict[str, "Literalish"]
"""What the parser reads between `=` and `,`: a scalar, a list or a record of these."""


@dataclass(frozen=True)
class Params:
    """Base of every params class."""


@dataclass(frozen=True)
class NoParams(Params):
    """For operations without settings."""


class ParamsError(Exception):
    """A parameter list does not fit the params class; the message says what is required."""


def print_params(params: Params) -> str:
    """` {a = 1, b = "x"}`, or '' when every field is at its default."""
    parts = _printed_fields(params)
    return f" {{{', '.join(parts)}}}" if parts else ""


def _printed_fields(params: Params) -> list[str]:
    parts: list[str] = []
    for f in fields(params):
        value = getattr(params, f.name)
        if f.default is not MISSING and _same(value, f.default):
            continue
        parts.append(f"{f.name} = {print_value(value)}")
    return parts


def print_value(value: object) -> str:
    """The text of one parameter value; floats in the shortest form that reads back exactly."""
    match value:
        case bool():
            return "true" if value else "false"
        case None:
            return "none"
        case float():
            return print_float(value)
        case str():
            return quote(value)
        case Enum() if not isinstance(value, DType):
            return quote(str(value.value))
        case tuple() | list():
            return f"[{', '.join(print_value(v) for v in value)}]"
        case Params():
            return f"{{{', '.join(_printed_fields(value))}}}"
        case _:
            return str(value)


def print_float(value: float) -> str:
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value))


_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def quote(text: str) -> str:
    """A string literal of the text form."""
    out: list[str] = []
    for c in text:
        if c in _ESCAPES:
            out.append(_ESCAPES[c])
        elif c.isprintable():
            out.append(c)
        else:
            out.append(f"\\u{{{ord(c):x}}}")
    return f'"{"".join(out)}"'


def make_params(cls: type[Params], given: Mapping[str, object]) -> Params:
    """An instance of `cls` from parsed or frontend-given values.

    Raises ParamsError naming the field, what it requires and what came.
    """
    known = field_types(cls)
    for name in given:
        if name not in known:
            listed = ", ".join(known) or "none"
            raise ParamsError(f"no parameter `{name}`; the parameters are: {listed}")
    values: dict[str, Any] = {}
    for f in fields(cls):
        if f.name in given:
            values[f.name] = _decode(given[f.name], known[f.name], f.name)
        elif f.default is MISSING and f.default_factory is MISSING:
            raise ParamsError(f"parameter `{f.name}` is required")
    return cls(**values)


@cache
def field_types(cls: type[Params]) -> dict[str, Any]:
    """Field name to resolved annotation, in field order."""
    hints = typing.get_type_hints(cls)
    return {f.name: hints[f.name] for f in fields(cls)}


def resolve_sizes(params: Params, sizes: Mapping[str, int]) -> Params:
    """The params with every Symbol replaced by its size, for evaluation with real shapes."""
    return with_symbols(params, lambda symbol: size_of(symbol, sizes))


def with_symbols(params: Params, new: Callable[[Symbol], Dim]) -> Params:
    """The params with every Symbol replaced by another size."""
    changes = {
        f.name: made
        for f in fields(params)
        if (made := _replaced(old := getattr(params, f.name), new)) is not old
    }
    return replace(params, **changes) if changes else params


def symbols_in(params: Params) -> Iterator[Symbol]:
    """The dims that the params name."""
    for name in _fields_of_dims(type(params)):
        value = getattr(params, name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Symbol):
                yield item
            elif isinstance(item, TensorType):
                yield from item.symbols()


@cache
def _fields_of_dims(cls: type[Params]) -> tuple[str, ...]:
    """The fields that may hold dims."""

    def may(annotation: Any) -> bool:
        return annotation in (Symbol, TensorType) or any(map(may, typing.get_args(annotation)))

    return tuple(name for name, annotation in field_types(cls).items() if may(annotation))


def _replaced(value: object, new: Callable[[Symbol], Dim]) -> object:
    if isinstance(value, Symbol):
        return new(value)
    if isinstance(value, TensorType) and value.symbols():
        return value.with_dims(new(d) if isinstance(d, Symbol) else d for d in value.dims)
    if isinstance(value, tuple) and any(isinstance(v, Symbol) for v in value):
        return tuple(_replaced(v, new) for v in value)
    return value


def _same(a: object, b: object) -> bool:
    """Equality that tells 0.0 from -0.0 and takes nan as equal to itself."""
    if isinstance(a, float) and isinstance(b, float):
        return print_float(a) == print_float(b)
    return type(a) is type(b) and a == b


def _decode(value: object, annotation: Any, name: str) -> object:
    for option in _options(annotation):
        found, result = _decode_one(value, option, name)
        if found:
            return result
    raise ParamsError(
        f"parameter `{name}` requires {describe_annotation(annotation)}, got {_show(value)}"
    )


def _options(annotation: Any) -> tuple[Any, ...]:
    if typing.get_origin(annotation) in (typing.Union, python_types.UnionType):
        return typing.get_args(annotation)
    return (annotation,)


def _decode_one(value: object, option: Any, name: str) -> tuple[bool, object]:
    """(True, decoded) when `value` fits the annotation `option`."""
    origin = typing.get_origin(option)
    if origin is Literal:
        return isinstance(value, str) and value in typing.get_args(option), value
    if origin is tuple:
        if not isinstance(value, list | tuple):
            return False, None
        (item, *_) = typing.get_args(option)
        return True, tuple(_decode(v, item, name) for v in value)
    if option is type(None):
        return value is None, None
    if option is float:
        number = _as_float(value)
        return number is not None, number
    if option is int:
        return isinstance(value, int) and not isinstance(value, bool), value
    if isinstance(option, type) and issubclass(option, Enum) and option is not DType:
        return any(m.value == value for m in option), _member(option, value)
    if isinstance(option, type) and issubclass(option, Params) and isinstance(value, Mapping):
        return True, _record(option, value, name)
    return isinstance(option, type) and isinstance(value, option), value


def _record(cls: type[Params], value: Mapping[str, object], name: str) -> Params:
    try:
        return make_params(cls, value)
    except ParamsError as problem:
        raise ParamsError(f"in `{name}`: {problem}") from None


def _as_float(value: object) -> float | None:
    """The number as a float; None for what is no number or an integer beyond every float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def _member(enum: type[Enum], value: object) -> Enum | None:
    return next((m for m in enum if m.value == value), None)


def describe_annotation(annotation: Any) -> str:
    """The values of a field of this type in words: "an integer or none"."""
    words: list[str] = []
    for option in _options(annotation):
        origin = typing.get_origin(option)
        if origin is Literal:
            words.extend(print_value(v) for v in typing.get_args(option))
        elif origin is tuple:
            words.append(f"a list of {describe_annotation(typing.get_args(option)[0])}")
        elif isinstance(option, type) and issubclass(option, Enum) and option is not DType:
            words.extend(quote(str(m.value)) for m in option)
        elif isinstance(option, type) and issubclass(option, Params):
            words.append(f"a record of {', '.join(field_types(option))}")
        else:
            words.append(_WORDS.get(option, getattr(option, "__name__", str(option))))
    return " or ".join(words)


_WORDS: dict[Any, str] = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    type(None): "none",
    DType: "an element type",
    Symbol: "a dimension name",
    TensorType: "a tensor type",
}


def _show(value: object) -> str:
    try:
        text = print_value(value)
    except Exception:  # a frontend may hand over any object at all
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


__all__ = [
    "Dim",
    "Literalish",
    "NoParams",
    "Params",
    "ParamsError",
    "describe_annotation",
    "field_types",
    "make_params",
    "print_params",
    "print_value",
    "quote",
    "resolve_sizes",
    "symbols_in",
    "with_symbols",
]
