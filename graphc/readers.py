"""`gc.readers`: sources of samples by named columns, for training and measuring (docs/readers.md).

A reader stands where `gc.train` and `gc.evaluate` take arrays, and gives its samples in blocks, so
that data larger than memory need the memory of a block alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from graphc.data.array_reader import from_arrays, npz
from graphc.data.arrow import arrow
from graphc.data.binary_reader import binary
from graphc.data.iterable_reader import from_iterable
from graphc.data.label_map import create_label_map
from graphc.data.order import Order
from graphc.data.prefetch import Prefetch
from graphc.data.reader import Block, Column, EpochRequest, Reader
from graphc.data.reader_options import ReaderOptions
from graphc.data.reader_types import make as _make
from graphc.data.settings import PythonSettings, Setting, Settings
from graphc.data.table_reader import BLOCK_BYTES, TableReader
from graphc.data.uci import Columns, FeatureBlock, LabelBlock
from graphc.data.uci_reader import uci as _uci
from graphc.data.word_classes import write_word_and_class
from graphc.driver.cache_key import default_cache
from graphc.driver.native_rows import native_rows

__all__ = [
    "Block",
    "Column",
    "Columns",
    "EpochRequest",
    "FeatureBlock",
    "LabelBlock",
    "Order",
    "Prefetch",
    "PythonSettings",
    "Reader",
    "ReaderOptions",
    "Setting",
    "Settings",
    "TableReader",
    "arrow",
    "binary",
    "create_label_map",
    "from_arrays",
    "from_iterable",
    "make",
    "npz",
    "uci",
    "write_word_and_class",
]


def uci(
    files: str | Path | Sequence[str | Path],
    blocks: Sequence[FeatureBlock | LabelBlock],
    *,
    order: Order | None = None,
    mappings: Mapping[str, Path] | None = None,
    dtype: npt.DTypeLike = np.float32,
    keep: bool = True,
    folder: str | Path | None = None,
    block_bytes: int = BLOCK_BYTES,
) -> TableReader:
    """A reader of text files that follow one another: one column for each block, by its name.

    blocks       columns of the text that are numbers (`FeatureBlock`) or labels (`LabelBlock`)
    order        how samples are visited, by default all exchanged (`Order()`)
    mappings     label mapping files by block, which are read when the data are
    dtype        of the numbers: float32 or float64
    keep         whether samples are kept in a temporary file, as numbers, once they have been read
    folder       where that is, by default the system's place for such files
    block_bytes  about what a block takes

    GraphcError `bad-value` or `duplicate-name` for blocks that make no sense. What the files hold
    is looked at while they are read: `file`, `bad-data` and `label`, with file, line and column.
    """
    return _uci(
        files,
        blocks,
        order=order,
        mappings=mappings,
        dtype=dtype,
        keep=keep,
        folder=folder,
        block_bytes=block_bytes,
        native=native_rows(default_cache()),
    )


def make(
    kind: str, settings: Settings | Mapping[str, object], options: ReaderOptions | None = None
) -> Reader:
    """The reader of a kind by its settings: a dictionary, or a block of a configuration.

    kind     as `readerType` in a configuration, in any case: "UCIFastReader", …
    options  precision and use; by default float32, and text is read by native code

    GraphcError `undefined-name` for an unknown kind, `not-supported` for one that is not there yet,
    `plug-in` for one of another distribution that is broken, `bad-value` for settings.
    """
    fast = ReaderOptions(native=native_rows(default_cache()))
    return _make(kind, settings, fast if options is None else options)
