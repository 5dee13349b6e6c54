"""The UCI text format as a reader: one file or several that follow one another, of any size.

What a line holds is `uci.py`'s matter. Text is read once, no further than an epoch needs, and kept
as numbers in a temporary file; where samples are not to be kept (`keep=False`), every pass reads
the text again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphc.data.labels import read_label_mapping
from graphc.data.order import Order, check_order
from graphc.data.plain_rows import NativeRows
from graphc.data.reader import Column
from graphc.data.table_reader import BLOCK_BYTES, TableReader
from graphc.data.tables import Arrays, Source, Spool, Stream
from graphc.data.uci import Block, LabelBlock, check_blocks, read_uci_pieces
from graphc.support.arguments import instance, paths, truth
from graphc.support.diagnostics import DiagnosticSink, fail, warn
from graphc.support.pipes import open_file_or_pipe

MAX_FILE_BYTES = 1 << 46
"""Of a text, which is never held as a whole."""


def uci(
    files: str | Path | Sequence[str | Path],
    blocks: Sequence[Block],
    *,
    order: Order | None = None,
    mappings: Mapping[str, Path] | None = None,
    dtype: npt.DTypeLike = np.float32,
    keep: bool = True,
    folder: str | Path | None = None,
    block_bytes: int = BLOCK_BYTES,
    native: NativeRows | None = None,
) -> TableReader:
    """A reader of text files: one column for each block, by its name.

    order     how samples are visited, by default all exchanged (`Order()`)
    mappings  label mapping files by block, which are read when the data are
    dtype     of the numbers: float32 or float64
    keep      whether samples are kept in a temporary file, as numbers, once they have been read
    folder    where that is, by default the system's place for such files
    native    native code that reads text, as in `read_uci`

    GraphcError for blocks that make no sense; what the files hold is looked at while they are
    read, with the errors of `read_uci`.
    """
    named = paths(files, "files")
    if not named:
        raise fail("bad-value", "at least one file is required, got none")
    chosen = Order() if order is None else check_order(order)
    check_blocks(blocks)
    kept = [_kept(block) for block in blocks]
    source = _source(named, kept, dict(mappings or {}), np.dtype(dtype), native)
    where = None if folder is None else Path(folder)
    return TableReader(
        Spool(source, where) if truth(keep, "keep") else Stream(source),
        {block.name: Column(_width(block)) for block in blocks},
        chosen,
        {b.name: b.classes for b in blocks if isinstance(b, LabelBlock) and b.kind == "category"},
        np.dtype(dtype),
        instance(block_bytes, int, "block_bytes", "a whole number"),
        origin=partial(_sizes, named),
    )


def _sizes(files: Sequence[Path]) -> str:
    """The sizes of the files, as far as they have any."""
    sizes = (str(path.stat().st_size) if path.is_file() else "?" for path in files)
    return f"text of {' + '.join(sizes)} bytes"


def _source(
    files: Sequence[Path],
    given: Sequence[Block],
    mappings: Mapping[str, Path],
    dtype: np.dtype,
    native: NativeRows | None,
) -> Source:
    def pieces() -> Iterator[Arrays]:
        blocks = [_with_mapping(block, mappings.get(block.name)) for block in given]
        for path in files:
            sink = DiagnosticSink()
            with open_file_or_pipe(path, MAX_FILE_BYTES) as (stream, size):
                yield from read_uci_pieces(
                    stream, size, str(path), blocks, dtype=dtype, sink=sink, native=native
                )
            warn(sink.diagnostics)

    return pieces


def _kept(block: Block) -> Block:
    """A block as it is kept: of labels their class numbers."""
    if isinstance(block, LabelBlock) and block.kind == "category":
        return replace(block, kind="number")
    return block


def _with_mapping(block: Block, path: Path | None) -> Block:
    if path is None or not isinstance(block, LabelBlock):
        return block
    return replace(block, mapping=read_label_mapping(path))


def _width(block: Block) -> int:
    if isinstance(block, LabelBlock) and block.kind != "regression":
        return block.classes if block.kind == "category" else 1
    return block.columns.dim
