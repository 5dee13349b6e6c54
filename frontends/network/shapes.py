"""Methods that make nodes of another shape."""

from __future__ import annotations

from collections.abc import Sequence

from frontends.network.base import NetworkBase
from frontends.network.node import NetworkNode


class Shapes(NetworkBase):
    """Nodes that move, cut and repeat elements."""

    def transpose(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """Xᵀ; the columns of X are not samples."""
        return self._add("transpose", (x,), {}, name, tag)

    def diagonal(
        self, x: NetworkNode, *, name: str | None = None, tag: str | Sequence[str] = ()
    ) -> NetworkNode:
        """The diagonal of a square matrix, a row vector."""
        return self._add("diagonal", (x,), {}, name, tag)

    def row_repeat(
        self,
        x: NetworkNode,
        num_repeats: int,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """All rows of X as a block, `num_repeats` times below each other."""
        return self._add("row_repeat", (x,), {"num_repeats": num_repeats}, name, tag)
