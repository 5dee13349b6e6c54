"""Methods that make functions of each element or of each column."""

from __future__ import annotations

from collections.abc import Sequence

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand


class Elementwise(NetworkBase):
    """Nodes of the size of their operand."""

    def negate(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """-X."""
        return self._add("negate", (x,), {}, name, tag)

    def sigmoid(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Logistic sigmoid of each element."""
        return self._add("sigmoid", (x,), {}, name, tag)

    def tanh(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Hyperbolic tangent of each element."""
        return self._add("tanh", (x,), {}, name, tag)

    def rectified_linear(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """max(x, 0) of each element."""
        return self._add("rectified_linear", (x,), {}, name, tag)

    def exp(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Exponential of each element."""
        return self._add("exp", (x,), {}, name, tag)

    def cosine(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Cosine of each element, in radians."""
        return self._add("cosine", (x,), {}, name, tag)

    def log(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Natural logarithm of each element; arguments below 1e-37 are taken as 1e-37."""
        return self._add("log", (x,), {}, name, tag)

    def softmax(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Softmax of each column."""
        return self._add("softmax", (x,), {}, name, tag)

    def log_softmax(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Logarithm of the softmax of each column."""
        return self._add("log_softmax", (x,), {}, name, tag)

    def hardmax(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """1 at the first maximum of each column, 0 elsewhere; no gradient flows."""
        return self._add("hardmax", (x,), {}, name, tag)

    def dropout(
        self, x: Operand, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """X; in training with random elements set to zero, at the step's `dropout_rate`."""
        return self._add("dropout", (x,), {}, name, tag)
