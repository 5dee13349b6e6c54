"""The kinds of values that options take: columns of a file, sizes of a dim, files by name.

A wrong value is a mistake of the command line (exit code 2) and is told before any work starts.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import click

NAME = r"[A-Za-z_][A-Za-z0-9_.]*"


@dataclass(frozen=True, slots=True)
class Block:
    """Columns of a data file for one input: `[NAME=]START[:DIM]`. None: to be found out."""

    name: str | None
    start: int
    dim: int | None


class BlockType(click.ParamType):
    """`START:DIM` or `NAME=START:DIM`; the DIM may be left out where the model knows it."""

    name = "block"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Block:
        if isinstance(value, Block):
            return value
        match = re.fullmatch(rf"(?:({NAME})=)?([0-9]{{1,9}})(?::([0-9]{{1,9}}))?", str(value))
        if match is None or (match[3] is not None and int(match[3]) == 0):
            self.fail(f"START:DIM or NAME=START:DIM is required, got {value!r}", param, ctx)
        return Block(match[1], int(match[2]), int(match[3]) if match[3] else None)


class DefineType(click.ParamType):
    """`name=value` of `-D`; the value is a number where it reads as one."""

    name = "name=value"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, object]:
        match = re.fullmatch(rf"({NAME})=(.*)", str(value))
        if match is None:
            self.fail(f"name=value is required, got {value!r}", param, ctx)
        return match[1], number_or_text(match[2])


@dataclass(frozen=True, slots=True)
class GivenDim:
    """What is said of a dim: the largest size and what all are multiples of, or the size that it
    has in every call, which may be that of another dim."""

    bound: int | None = None
    multiple: int = 1
    size: int | str | None = None

    def __str__(self) -> str:
        if self.bound is None:
            return f"{self.size}!" if isinstance(self.size, int) else f"{self.size}"
        return f"{self.bound}" if self.multiple == 1 else f"{self.bound}/{self.multiple}"


class DimType(click.ParamType):
    """`NAME=SIZE` of `--dim`, `NAME=SIZE!`, `NAME=SIZE/MULTIPLE` or `NAME=OTHER`; a name of a file
    may hold any character but `=`."""

    name = "name=size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, GivenDim]:
        text = r"([^=]+)=(?:([0-9]{1,9})(!|/([1-9][0-9]{0,8}))?|([^-0-9=!/][^=]*))"
        match = re.fullmatch(text, str(value))
        if match is None:
            forms = "NAME=SIZE, NAME=SIZE!, NAME=SIZE/MULTIPLE or NAME=OTHER"
            self.fail(f"{forms} is required, got {value!r}", param, ctx)
        name, number, end, multiple, other = match.groups()
        if other is not None:
            return name, GivenDim(size=other)
        if end == "!":
            return name, GivenDim(size=int(number))
        return name, GivenDim(int(number), int(multiple or 1))


class FixedType(click.ParamType):
    """`INPUT=NUMBERS` of `--fix`: one number, or a list with commas."""

    name = "input=numbers"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, object]:
        name, _, text = str(value).partition("=")
        try:
            numbers = [float(t) if re.search(r"[.en]", t) else int(t) for t in text.split(",")]
        except ValueError:
            self.fail(f"INPUT=NUMBERS is required, got {value!r}", param, ctx)
        return name, numbers if "," in text else numbers[0]


class FileValueType(click.ParamType):
    """`[NAME=]FILE`, where FILE may be `-` for stdin or stdout."""

    name = "[name=]file"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str | None, str]:
        match = re.fullmatch(rf"(?:({NAME})=)?(.+)", str(value), re.DOTALL)
        if match is None:
            self.fail("a file is required", param, ctx)
        return match[1], match[2]


class FiniteRange(click.FloatRange):
    """A range of floats that nan and infinity are not in."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        number = float(super().convert(value, param, ctx))  # type: ignore[arg-type] # click's own
        if not math.isfinite(number):
            self.fail(f"a finite number is required, got {value!r}", param, ctx)
        return number


def number_or_text(text: str) -> object:
    """An int or float where the text is one in the plainest form, otherwise the text."""
    if re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,3})?", text):
        return float(text)
    return text
