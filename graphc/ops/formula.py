"""`Formula`: operators that emit tensor operations, for rules that are written as formulas.

    velocity = (1 - momentum) * rate * gradient + momentum * velocity

A value of one element (of the other's rank) is a number: it meets arrays by being repeated. Plain
Python numbers become constants. What numbers alone decide has a location of its own, since it is
the same for every array.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from graphc.ir.core import IRBuilder, OpDef, Value
from graphc.ops import elementwise, functions
from graphc.ops.constant import full_like
from graphc.ops.elementwise import GREATER, LESS, MAXIMUM, MINIMUM, compare, select
from graphc.ops.reduction import broadcast, reduce_sum

NUMBERS = "learning_rate"
"""Where numbers are worked out from numbers: a rate is what most of them go into."""

Binary = Callable[[IRBuilder, Value, Value], Value]


@dataclass(frozen=True)
class Formula:
    """A value of a floating-point type, and where operations on it go."""

    b: IRBuilder
    value: Value

    def __add__(self, other: Formula | float) -> Formula:
        return _of_two(elementwise.add, self, other)

    def __radd__(self, other: float) -> Formula:
        return _of_two(elementwise.add, other, self)

    def __sub__(self, other: Formula | float) -> Formula:
        return _of_two(elementwise.sub, self, other)

    def __rsub__(self, other: float) -> Formula:
        return _of_two(elementwise.sub, other, self)

    def __mul__(self, other: Formula | float) -> Formula:
        return _of_two(elementwise.mul, self, other)

    def __rmul__(self, other: float) -> Formula:
        return _of_two(elementwise.mul, other, self)

    def __truediv__(self, other: Formula | float) -> Formula:
        return _of_two(elementwise.div, self, other)

    def __rtruediv__(self, other: float) -> Formula:
        return _of_two(elementwise.div, other, self)

    def __neg__(self) -> Formula:
        return Formula(self.b, elementwise.neg(self.b, self.value))

    def __gt__(self, other: Formula | float) -> Formula:
        """Truth values, for `where`."""
        return _of_two(lambda b, x, y: compare(b, GREATER, x, y), self, other)

    def __lt__(self, other: Formula | float) -> Formula:
        """Truth values, for `where`."""
        return _of_two(lambda b, x, y: compare(b, LESS, x, y), self, other)

    @property
    def is_number(self) -> bool:
        return all(d == 1 for d in self.value.tensor.dims)


def sqrt(x: Formula) -> Formula:
    return Formula(x.b, functions.sqrt(x.b, x.value))


def largest(x: Formula, y: Formula | float) -> Formula:
    return _of_two(_emitting(MAXIMUM), x, y)


def smallest(x: Formula, y: Formula | float) -> Formula:
    return _of_two(_emitting(MINIMUM), x, y)


def where(condition: Formula, x: Formula | float, y: Formula | float) -> Formula:
    """x where the condition holds, y elsewhere; one of them is no plain number."""
    return _of_two(lambda b, x, y: select(b, condition.value, x, y), x, y)


def total(x: Formula) -> Formula:
    """The sum of all elements, a number."""
    return Formula(x.b, reduce_sum(x.b, x.value, range(x.value.tensor.rank)))


def mean(x: Formula) -> Formula:
    """The mean of all elements, a number."""
    return total(x) / float(max(1, x.value.tensor.bound_elements))


def _emitting(opdef: OpDef) -> Binary:
    return lambda b, x, y: b.emit_one(opdef, x, y)


def _of_two(emit: Binary, x: Formula | float, y: Formula | float) -> Formula:
    if isinstance(x, Formula):
        return _met(emit, x, y if isinstance(y, Formula) else _constant(y, x))
    assert isinstance(y, Formula)
    return _met(emit, _constant(x, y), y)


def _constant(number: float, like: Formula) -> Formula:
    b = like.b
    with b.at(b.location.within(NUMBERS) if like.is_number else b.location):
        return Formula(b, full_like(b, float(number), like.value))


def _met(emit: Binary, x: Formula, y: Formula) -> Formula:
    b = x.b
    if x.is_number and y.is_number:
        with b.at(b.location.within(NUMBERS)):
            return Formula(b, emit(b, x.value, y.value))
    dims = (y if x.is_number else x).value.tensor.dims
    return Formula(b, emit(b, broadcast(b, x.value, dims), broadcast(b, y.value, dims)))
