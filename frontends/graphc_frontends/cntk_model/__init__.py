"""Model files of the toolkit (CNTK version 1: `BCN` …), as a reader of binary model files.

    layouts   which nodes there are, and what each writes of its own
    reading   bytes to records, checked
    network   records to a network

Versions 1 and 2 of the format are read, those of the toolkit that the book describes. All text is
UTF-16, ended by a zero; numbers are little-endian; matrices are column after column.
`docs/model-file.md` says what of it is read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from graphc_frontends.cntk_model.network import build
from graphc_frontends.cntk_model.reading import read

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder

MAGIC = "BCN\0".encode("utf-16-le")
"""What these files begin with."""


def load_bytes(builder: GraphBuilder, data: bytes, *, file: str) -> None:
    """Build the network of a model file, with its values. GraphcError for what is wrong with it."""
    build(builder, read(data, file), file)
