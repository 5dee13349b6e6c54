"""DBN files, stacks of layers that a tool before the toolkit pretrained, as networks.

reading   bytes to a stack of layers, checked
network   a stack to a network, named as the toolkit names it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphc_frontends.dbn.network import DbnOptions, build
from graphc_frontends.dbn.reading import read

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder

MAGIC = b"DBN\n"
"""What these files begin with."""


def load_bytes(
    builder: GraphBuilder, data: bytes, *, file: str, options: DbnOptions | None = None
) -> None:
    """Build the network of a DBN file, with its values. GraphcError for what is wrong with it."""
    build(builder, read(data, file), options or DbnOptions())
