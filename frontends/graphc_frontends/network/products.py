"""Methods that make products, sums and scalings of matrices."""

from __future__ import annotations

from collections.abc import Sequence

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand


class Products(NetworkBase):
    """Nodes of matrix arithmetic."""

    def times(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Matrix product A·B."""
        return self._add("times", (a, b), {}, name, tag)

    def transpose_times(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Aᵀ·B; the columns of A are not samples."""
        return self._add("transpose_times", (a, b), {}, name, tag)

    def plus(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Sum; a row or column vector is repeated to the other's size."""
        return self._add("plus", (a, b), {}, name, tag)

    def minus(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Difference; a row or column vector is repeated to the other's size."""
        return self._add("minus", (a, b), {}, name, tag)

    def element_times(
        self,
        a: Operand,
        b: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Element-wise product of nodes of one size."""
        return self._add("element_times", (a, b), {}, name, tag)

    def row_element_times(
        self,
        x: Operand,
        row: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Each row of X times a row vector, element by element."""
        return self._add("row_element_times", (x, row), {}, name, tag)

    def column_element_times(
        self,
        x: Operand,
        column: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Each column of X times a column vector, element by element."""
        return self._add("column_element_times", (x, column), {}, name, tag)

    def diag_times(
        self,
        diagonal: Operand,
        x: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """A diagonal matrix, given as a column vector, times X."""
        return self._add("diag_times", (diagonal, x), {}, name, tag)

    def khatri_rao_product(
        self,
        x: Operand,
        y: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Column by column all products of elements; the row of X varies fastest."""
        return self._add("khatri_rao_product", (x, y), {}, name, tag)

    def scale(
        self,
        factor: Operand,
        x: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """A 1x1 node times a matrix."""
        return self._add("scale", (factor, x), {}, name, tag)

    def lookup_table(
        self,
        table: Operand,
        x: Operand,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The table (dim x words) times each block of `words` rows of X: embeddings of one-hot
        blocks, below each other."""
        return self._add("lookup_table", (table, x), {}, name, tag)
