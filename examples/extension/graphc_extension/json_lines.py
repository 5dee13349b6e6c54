"""A reader of JSON lines: a sample in each line, as `{"features": [0.1, 0.2], "labels": [1, 0]}`.

    reader=[
        readerType=JsonLinesReader
        file=train.jsonl
        features=[dim=2]
        labels=[dim=2]
    ]

A block with `dim` is a column; `randomize` is that of graphc's own readers. Here is only how the
text is read: epochs, blocks and the order of samples are those of `from_iterable`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from graphc.data.iterable_reader import from_iterable
from graphc.data.reader import Column, Reader
from graphc.data.reader_options import ReaderOptions
from graphc.data.settings import Settings, file_path, integer, required
from graphc.data.uci_settings import read_order
from graphc.support.diagnostics import fail

LINES_AT_ONCE = 1000


def make_reader(settings: Settings, options: ReaderOptions) -> Reader:
    """The reader that the settings say; the file is not looked at before samples are asked for."""
    path = file_path(required(settings, "file"))
    blocks = {name: settings.section(name) for name in settings.own_sections()}
    widths = {n: integer(b, "dim", least=1) for n, b in blocks.items() if b.own("dim") is not None}
    if not widths:
        raise fail("bad-value", f"{settings.path} requires a block with `dim` for each column")
    order = read_order(settings, options)
    return from_iterable(
        {name: Column(width) for name, width in widths.items()},
        lambda: _pieces(path, widths, options.dtype),
        order=order,
        keep=options.keep or order.randomize == "auto",
    )


def _pieces(
    path: Path, widths: Mapping[str, int], dtype: np.dtype
) -> Iterator[Mapping[str, np.ndarray]]:
    """The samples of so many lines at a time: an array (samples, width) for each column."""
    rows: list[list[np.ndarray]] = []
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines, start=1):
                rows.append([_numbers(line, n, w, dtype, path, number) for n, w in widths.items()])
                if len(rows) == LINES_AT_ONCE:
                    yield dict(zip(widths, map(np.array, zip(*rows, strict=True)), strict=True))
                    rows = []
    except OSError as error:
        raise fail("file", f"cannot read {path}: {error.strerror}") from error
    if rows:
        yield dict(zip(widths, map(np.array, zip(*rows, strict=True)), strict=True))


def _numbers(
    line: str, name: str, width: int, dtype: np.dtype, path: Path, number: int
) -> np.ndarray:
    """What a line has of a column."""
    try:
        values = np.array(json.loads(line)[name], dtype)
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        message = f"{path}:{number}: requires an object with {width} numbers as `{name}`"
        raise fail("bad-data", f"{message} ({type(error).__name__}: {error})") from error
    if values.shape != (width,):
        got = f"shape {values.shape}"
        raise fail("bad-data", f"{path}:{number}: requires {width} numbers as `{name}`, got {got}")
    return values
