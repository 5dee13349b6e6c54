"""`gc.writers`: files that outputs are written to, whole or not at all (docs/readers.md)."""

from __future__ import annotations

from graphc.data.array_writer import NpyWriter
from graphc.data.arrow import ParquetWriter
from graphc.data.binary_writer import BinaryWriter
from graphc.data.text_writer import TextWriter
from graphc.data.writer import Sink, Writer, WriterOptions
from graphc.data.writer_types import make

__all__ = [
    "BinaryWriter",
    "NpyWriter",
    "ParquetWriter",
    "Sink",
    "TextWriter",
    "Writer",
    "WriterOptions",
    "make",
]
