"""`NetworkNode`, a node with Python's operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, cast

from graphc.builder import Node
from graphc_frontends.network.rows import Rows, runs_of


class _Arithmetic(Protocol):
    """What the operators need of a network."""

    def times(self, a: Operand, b: Operand, /) -> NetworkNode: ...
    def plus(self, a: Operand, b: Operand, /) -> NetworkNode: ...
    def minus(self, a: Operand, b: Operand, /) -> NetworkNode: ...
    def element_times(self, a: Operand, b: Operand, /) -> NetworkNode: ...
    def scale(self, a: Operand, b: Operand, /) -> NetworkNode: ...
    def element_divide(self, a: Operand, b: Operand, /) -> NetworkNode: ...
    def pow(self, a: Operand, b: Operand, /) -> NetworkNode: ...
    def negate(self, a: Operand, /) -> NetworkNode: ...
    def abs(self, a: Operand, /) -> NetworkNode: ...
    def row_slice(self, x: Operand, start_row: int, num_rows: int, /) -> NetworkNode: ...
    def row_stack(self, first: Operand, /, *others: Operand) -> NetworkNode: ...
    def _bind(self, delay: NetworkNode, x: NetworkNode, /) -> NetworkNode: ...


class NetworkNode(Node):
    """A node of a `Network`: `@` is Times, `+` Plus, `-` Minus or Negate, `*` ElementTimes, `/`
    ElementDivide, `**` Pow, `abs` Abs; `x[2]`, `x[2:5]` and `x[[4, 0]]` are some of its rows.

    A number in an expression is a Constant; a number or 1x1 constant times a node is a Scale.
    """

    __iter__ = None  # else Python would ask for row after row
    __array_ufunc__ = None  # else `array + node` would be an array of nodes, one for each number

    @property
    def _network(self) -> _Arithmetic:
        return cast(_Arithmetic, self.builder)

    def bind(self, x: NetworkNode) -> NetworkNode:
        """Let this delay, made without a node, be one of `x`; gives `x`.

        `before = net.past_value(32)` and then `h = before.bind(expression)` make a cycle.
        """
        return self._network._bind(self, x)

    def __matmul__(self, other: NetworkNode) -> NetworkNode:
        return self._network.times(self, other)

    def __rmatmul__(self, other: float) -> NetworkNode:
        return self._network.times(other, self)

    def __add__(self, other: Operand) -> NetworkNode:
        return self._network.plus(self, other)

    def __radd__(self, other: float) -> NetworkNode:
        return self._network.plus(other, self)

    def __sub__(self, other: Operand) -> NetworkNode:
        return self._network.minus(self, other)

    def __rsub__(self, other: float) -> NetworkNode:
        return self._network.minus(other, self)

    def __mul__(self, other: Operand) -> NetworkNode:
        if isinstance(other, NetworkNode):
            return self._network.element_times(self, other)
        return self._network.scale(other, self)

    def __rmul__(self, other: float) -> NetworkNode:
        return self._network.scale(other, self)

    def __truediv__(self, other: Operand) -> NetworkNode:
        return self._network.element_divide(self, other)

    def __rtruediv__(self, other: float) -> NetworkNode:
        return self._network.element_divide(other, self)

    def __pow__(self, other: Operand) -> NetworkNode:
        return self._network.pow(self, other)

    def __rpow__(self, other: float) -> NetworkNode:
        return self._network.pow(other, self)

    def __neg__(self) -> NetworkNode:
        return self._network.negate(self)

    def __abs__(self) -> NetworkNode:
        return self._network.abs(self)

    def __getitem__(self, rows: Rows) -> NetworkNode:
        """A row, the rows of a slice, or those of a list of their numbers, in that order.

        Numbers below 0 count from the end. GraphcError `bad-value` for rows that there are not, and
        where the number of rows is needed and does not follow from the network yet.
        """
        network = self._network
        parts = [network.row_slice(self, *run) for run in runs_of(rows, self)]
        return parts[0] if len(parts) == 1 else network.row_stack(*parts)

    def __bool__(self) -> bool:
        raise TypeError(
            f"node `{self.name}` has no value while the network is built: a Python `if` or `while` "
            "cannot depend on it"
        )


Operand = NetworkNode | float
"""What a method takes as a node: a number stands for a 1x1 Constant."""

Tags = str | Sequence[str]
"""One tag, or several."""
