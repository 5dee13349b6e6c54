"""A reader of JSON lines: a sample in each line, as `{"features": [0.1, 0.2], "labels": [1, 0]}`.

    reader=[
        readerType=JsonLinesReader
        file=train.jsonl
        features=[dim=2]
        labels=[dim=2]
    ]

A block with `dim` is a column. With `randomize=true` all samples are exchanged in every epoch. Here
is only how the text is read: epochs, blocks and the order of samples are those of `from_iterable`.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from graphc.readers import (
    Column,
    Order,
    Reader,
    ReaderOptions,
    Settings,
    from_iterable,
)
from graphc.support.diagnostics import fail

LINES_AT_ONCE = 1000


def make_reader(settings: Settings, options: ReaderOptions) -> Reader:
    """The reader that the settings say; the file is not looked at before samples are asked for."""
    file, randomize = settings.find("file"), settings.find("randomize")
    if file is None:
        raise settings.missing("file")
    path, widths = Path(file.text()), _widths(settings)
    exchanged = randomize is not None and randomize.truth() and not options.in_order
    return from_iterable(
        {name: Column(width) for name, width in widths.items()},
        lambda: _pieces(path, widths, options.dtype),
        order=Order("auto" if exchanged else None, options.seed),
        keep=options.keep or exchanged,
    )


def _widths(settings: Settings) -> dict[str, int]:
    """The numbers of each column: the blocks that have a `dim` of their own."""
    widths: dict[str, int] = {}
    for name in settings.own_sections():
        dim = settings.section(name).own("dim")
        if dim is None:
            continue
        widths[name] = dim.integer()
        if widths[name] < 1:
            raise dim.fail(f"at least 1 is required, got {widths[name]}")
    if not widths:
        raise fail("bad-value", f"{settings.path} requires a block with `dim` for each column")
    return widths


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
