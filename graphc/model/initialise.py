"""Initial values of parameters, after CNTK: uniform, gaussian, one fixed value, or from a file.

Random values are counter-based: they depend on the seed and on the parameter's place in the
script, so a parameter keeps its values when others change their size. They are drawn as f64 and
rounded to f32, also for a network that computes in f64, so that runs in both precisions start
from the same numbers. Numbers that somebody wrote, in the network or in a file, are f64: whoever
holds them in f32 rounds them. Uniform values are the same bits on every platform; gaussian ones go
through the platform's log and cosine, which may differ in the last bit before the rounding.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from graphc.support.diagnostics import GraphcError, fail
from graphc.support.files import read_file_inside
from graphc.support.randomness import Purpose, unit_interval, word_blocks
from graphc.support.source import Location, SourceFile

UNIFORM_RANGE = 0.05
GAUSSIAN_DEVIATION = 0.2
MAX_ELEMENTS = 2**31
"""Of a parameter that is drawn; as f32 they are 8 GiB."""
MAX_TEXT_BYTES = 2**30
MAX_NUMBER_LENGTH = 64

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_ALLOWED = re.compile(r"[0-9eE+\-. \t\r\n]*")
_F32_MAX = float(np.finfo(np.float32).max)


def initial_value(
    kind: str,
    rows: int,
    cols: int,
    *,
    scale: float = 1.0,
    value: float = 0.0,
    path: str = "",
    folder: Path,
    seed: int,
    index: int,
    allow_absolute: bool = False,
) -> np.ndarray:
    """The initial value of a parameter, [rows, cols].

    uniform      f32 between -0.05 scale and 0.05 scale
    gaussian     f32, mean 0, standard deviation 0.2 scale / sqrt(cols)
    fixed_value  `value` everywhere, f64: one number in memory, read-only
    from_file    f64: the matrix in the text file `path`, whose shape replaces rows and cols

    `index` counts the parameters in the order of the script, from 0. A relative `path` is looked
    up in `folder`, that of the model, and cannot leave it; an absolute one needs
    `allow_absolute`. GraphcError `bad-value` for an unknown kind or a result beyond f32; `file`,
    `limit` or `bad-data` (with line and column) for a file. ValueError for dims below 1. How many
    elements are drawn is for the caller to bound, who knows the place: `check_size`.
    """
    if kind == "from_file":
        return read_matrix(folder, path, allow_absolute=allow_absolute)
    if rows < 1 or cols < 1:
        raise ValueError(f"rows and cols must be inferred before, got {rows} x {cols}")
    if kind == "uniform":
        drawn = _drawn(_uniform, UNIFORM_RANGE * scale, seed, index, rows * cols)
    elif kind == "gaussian":
        deviation = GAUSSIAN_DEVIATION * scale / cols**0.5
        drawn = _drawn(_gaussian, deviation, seed, index, rows * cols)
    elif kind == "fixed_value":
        drawn = np.array([value], np.float64)
    else:
        kinds = "uniform, gaussian, fixed_value or from_file"
        raise fail("bad-value", f"a parameter's init must be {kinds}, got `{kind}`")
    if not np.isfinite(_rounded(drawn)).all():
        raise fail("bad-value", f"an initial value lies beyond f32: scale {scale}, value {value}")
    if kind == "fixed_value":
        return np.broadcast_to(drawn, (rows, cols))
    return drawn.reshape(rows, cols)


def check_size(name: str, rows: int, cols: int, where: Location) -> None:
    """GraphcError `limit` unless the parameter is small enough to be drawn."""
    if rows * cols > MAX_ELEMENTS:
        raise fail(
            "limit",
            f"an initial value has at most {MAX_ELEMENTS} elements, "
            f"`{name}` is {rows} x {cols} = {rows * cols}",
            where,
        )


def read_matrix(folder: Path, name: str, *, allow_absolute: bool = False) -> np.ndarray:
    """The matrix in a text file, f64[rows, cols]: one row a line, numbers separated by blanks.

    Empty lines are skipped; CRLF and a UTF-8 byte order mark are fine. Errors and the rules for
    `name` are those of `initial_value`.
    """
    data = read_file_inside(folder, name, MAX_TEXT_BYTES, allow_absolute=allow_absolute)
    source = SourceFile(str(folder / name), _decoded(data, name))
    rows = list(_rows(source))
    if not rows:
        raise fail("bad-data", f"{source.name}: at least one row of numbers is required, got none")
    return np.stack(rows)


def _drawn(
    numbers: Callable[[np.ndarray], np.ndarray], factor: float, seed: int, index: int, count: int
) -> np.ndarray:
    """f32[count]: what `numbers` makes of random words, as many f64 numbers, times `factor`."""
    drawn = np.empty(count, np.float32)
    done = 0
    for words in word_blocks(seed, Purpose.INITIAL_VALUE, index, count + count % 2):
        made = numbers(words)
        made *= factor
        drawn[done : done + len(made)] = _rounded(made[: count - done])
        done += len(made)
    return drawn


def _rounded(numbers: np.ndarray) -> np.ndarray:
    """As f32; infinite beyond it."""
    with np.errstate(over="ignore"):
        return numbers.astype(np.float32, copy=False)


def _uniform(words: np.ndarray) -> np.ndarray:
    """f64 in [-1, 1)."""
    numbers = unit_interval(words)
    numbers *= 2.0
    numbers -= 1.0
    return numbers


def _gaussian(words: np.ndarray) -> np.ndarray:
    """f64, mean 0, deviation 1: Box-Muller, each pair of words giving two neighbours."""
    drawn = unit_interval(words).reshape(-1, 2)
    radius = np.sqrt(-2.0 * np.log(1.0 - drawn[:, 0]))  # the argument is in (0, 1]
    angle = (2.0 * np.pi) * drawn[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)


def _decoded(data: bytes, label: str) -> str:
    """The text with one character for each byte, lines ended by \\n; bad bytes fail as numbers."""
    if b"\0" in data:
        raise fail("bad-data", f"{label}: plain text is required, it has NUL bytes (UTF-16?)")
    text = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1")
    return text if "\n" in text else text.replace("\r", "\n")


def _rows(source: SourceFile) -> Iterator[np.ndarray]:
    """The rows of numbers; all have the width of the first one."""
    width = 0
    offset = 0
    for line in source.text.split("\n"):
        row = _numbers(line)
        if row is None:
            raise _bad_number(source, offset, line)
        width = width or len(row)
        if len(row) not in (0, width):
            message = f"each row must have {width} numbers as the first one, this has {len(row)}"
            raise fail("bad-data", message, source.span(offset, offset + len(line)))
        if len(row):
            yield row
        offset += len(line) + 1


def _numbers(line: str) -> np.ndarray | None:
    """The numbers of a line, f64[n], or None if some word is no number within f32."""
    words = line.split()
    # Python takes more for a number than is one here (1_000, nan, other digits), and needs
    # quadratic time for long ones.
    if not _ALLOWED.fullmatch(line) or max(map(len, words), default=0) > MAX_NUMBER_LENGTH:
        return None
    try:
        values = np.array([float(word) for word in words], dtype=np.float64)
    except ValueError:
        return None
    return values if np.all(np.abs(values) <= _F32_MAX) else None


def _bad_number(source: SourceFile, offset: int, line: str) -> GraphcError:
    """The error for the first word of a line that is no number within f32."""
    for word in re.finditer(r"\S+", line):
        text = word.group()
        is_number = len(text) <= MAX_NUMBER_LENGTH and _NUMBER.fullmatch(text)
        if not is_number or abs(float(text)) > _F32_MAX:
            kind = "within f32 " if is_number else ""
            message = f"a number {kind}is required, got `{text[:MAX_NUMBER_LENGTH]}`"
            return fail(
                "bad-data", message, source.span(offset + word.start(), offset + word.end())
            )
    return fail("bad-data", "a row of numbers is required", source.span(offset, offset + len(line)))
