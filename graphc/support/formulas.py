"""Formulas of numbers that are not known yet, such as how many updates came before.

    1 / (1 - 0.9 ** (UPDATES + 1))

is a number where UPDATES is one, and here a tree that can be written in another language
(`artifacts/numbers.py`). Each operation is rounded by itself, as Python rounds. What asks for the
number itself (`if`, `float`, `math.cos`) is a TypeError: `cos` and `choose` stand for these.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NoReturn, cast

Operator = Literal["+", "-", "*", "/", "//", "**", ">=", "cos", "choose"]


@dataclass(frozen=True)
class Formula:
    """An operation on numbers and formulas; without operands a number that is not known.

    `//` is of whole numbers that are at least 0; `choose` is its second operand where the first one
    is true, else the third.
    """

    operator: Operator | None = None
    operands: tuple[object, ...] = ()

    def __add__(self, other: object) -> Formula:
        return Formula("+", (self, other))

    def __radd__(self, other: object) -> Formula:
        return Formula("+", (other, self))

    def __sub__(self, other: object) -> Formula:
        return Formula("-", (self, other))

    def __rsub__(self, other: object) -> Formula:
        return Formula("-", (other, self))

    def __mul__(self, other: object) -> Formula:
        return Formula("*", (self, other))

    def __rmul__(self, other: object) -> Formula:
        return Formula("*", (other, self))

    def __truediv__(self, other: object) -> Formula:
        return Formula("/", (self, other))

    def __rtruediv__(self, other: object) -> Formula:
        return Formula("/", (other, self))

    def __floordiv__(self, other: object) -> Formula:
        return Formula("//", (self, other))

    def __pow__(self, other: object) -> Formula:
        return Formula("**", (self, other))

    def __rpow__(self, other: object) -> Formula:
        return Formula("**", (other, self))

    def __ge__(self, other: object) -> Formula:
        return Formula(">=", (self, other))

    def __bool__(self) -> NoReturn:
        raise TypeError("a number that is not known yet is neither true nor false")


UPDATES = Formula()
"""How many updates came before."""


def cos(x: float) -> float:
    """The cosine of a number or formula."""
    if isinstance(x, Formula):
        return cast("float", Formula("cos", (x,)))  # it has the arithmetic of a number
    return math.cos(x)


def choose(condition: bool, yes: Callable[[], float], no: Callable[[], float]) -> float:
    """`yes() if condition else no()`, of formulas too, whose other side is computed for nothing."""
    if isinstance(condition, Formula):  # pyright: ignore[reportUnnecessaryIsInstance]
        return cast("float", Formula("choose", (condition, yes(), no())))
    return yes() if condition else no()
