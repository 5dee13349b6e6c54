"""Methods that write a network as NDL.

The language is imported where it is used: most programs never write it, and it takes time to load.
"""

from __future__ import annotations

from pathlib import Path

from graphc.support import arguments
from graphc_frontends.network.base import NetworkBase


class AsText(NetworkBase):
    """A network as text for people and for other tools."""

    def to_ndl(self) -> str:
        """The network as NDL, which `graphc.loads` reads back as the same network.

        Parameters are drawn again then: their values are in no NDL. GraphcError `not-supported`
        with every node that NDL has no words for.
        """
        from graphc_frontends.ndl.writer import write

        return write(self)

    def save_ndl(self, path: str | Path, *, values: bool = False) -> None:
        """Write `to_ndl` into a file.

        values  the parameters' values too, in text files in a folder beside it (`net-values` for
                `net.ndl`), from which the NDL then reads them
        """
        from graphc_frontends.ndl.values import save

        save(self, arguments.path(path, "save_ndl"), values=values)
