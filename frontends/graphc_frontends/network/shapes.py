"""Methods that make nodes of another shape, with sizes given by place."""

from __future__ import annotations

from collections.abc import Sequence

from graphc_frontends.network.base import NetworkBase
from graphc_frontends.network.node import NetworkNode, Operand


class Shapes(NetworkBase):
    """Nodes that move, cut and repeat elements."""

    def row_repeat(
        self,
        x: Operand,
        num_repeats: int,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """All rows of X as a block, `num_repeats` times below each other."""
        return self._add("row_repeat", (x,), {"num_repeats": num_repeats}, name, tag)

    def row_slice(
        self,
        x: Operand,
        start_row: int,
        num_rows: int,
        *,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """`num_rows` rows of X from `start_row` on, counted from 0."""
        settings = {"start_row": start_row, "num_rows": num_rows}
        return self._add("row_slice", (x,), settings, name, tag)

    def row_stack(
        self,
        first: Operand,
        *others: Operand,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """Nodes with the same columns below each other."""
        return self._add("row_stack", (first, *others), {}, name, tag)

    def reshape(
        self,
        x: Operand,
        num_rows: int = 0,
        *,
        image_width: int = 0,
        image_height: int = 0,
        image_channels: int = 0,
        name: str | None = None,
        tag: str | Sequence[str] = (),
    ) -> NetworkNode:
        """The elements of X, column after column, in columns of `num_rows`; 0: as many as before.

        The image sizes say what the columns are images of from here on (one of them may be 0, it
        follows from the others); without any they are plain columns. Of samples, which are columns,
        it makes more or fewer; a call then has to have a multiple of what goes into one.
        """
        settings = {
            "num_rows": num_rows,
            "image_width": image_width,
            "image_height": image_height,
            "image_channels": image_channels,
        }
        return self._add("reshape", (x,), settings, name, tag)
