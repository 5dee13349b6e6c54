"""What a writer is: rows of outputs in, files out that are whole or not there.

    with writer.open({"z": 10}) as sink:
        sink.write({"z": rows})         # arrays (samples, 10), as often as there are blocks

When the `with` ends well, the files are put into their places; after an error those that were there
before are still there, unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from graphc.support.arguments import kind_of, table, whole
from graphc.support.diagnostics import fail

Rows = Mapping[str, np.ndarray]


class Sink(Protocol):
    """Takes the rows of all outputs, block after block."""

    def write(self, rows: Mapping[str, object]) -> None:
        """Arrays (samples, width) of every output, of each equally many samples.

        GraphcError `input` for rows that are not, `file` if they cannot be written.
        """
        ...


@runtime_checkable
class Writer(Protocol):
    """Where outputs go."""

    def open(self, outputs: Mapping[str, int]) -> AbstractContextManager[Sink]:
        """Begin with outputs of these widths, by name."""
        ...


@dataclass(frozen=True, slots=True)
class WriterOptions:
    """What a writer is told besides its settings. dtype: of numbers, float32 or float64."""

    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))


def checked_outputs(outputs: Mapping[str, int]) -> dict[str, int]:
    """The widths; GraphcError `bad-value` for none, and for names that no file can have."""
    widths = {name: whole(width, f"the width of `{name}`") for name, width in outputs.items()}
    if not widths:
        raise fail("bad-value", "at least one output is required to write, got none")
    for name in widths:
        if not name or "/" in name or "\0" in name:
            raise fail("bad-value", f"a name that a file can have is required, got {name!r}")
    return widths


def checked_rows(given: Mapping[str, object], widths: Mapping[str, int]) -> dict[str, np.ndarray]:
    """The rows of every output, (samples, width)."""
    found = table(given, "what is written", "arrays")
    if set(found) != set(widths):
        wanted, got = (", ".join(f"`{n}`" for n in names) or "none" for names in (widths, found))
        raise fail("input", f"rows of {wanted} are required, got {got}")
    rows = {name: _rows(found[name], name, width) for name, width in widths.items()}
    counts = {name: len(array) for name, array in rows.items()}
    if len(set(counts.values())) > 1:
        got = ", ".join(f"{count} of `{name}`" for name, count in counts.items())
        raise fail("input", f"equally many rows of all outputs are required, got {got}")
    return rows


def _rows(given: object, name: str, width: int) -> np.ndarray:
    if not isinstance(given, np.ndarray):
        raise fail("argument-type", f"`{name}` requires an array, got {kind_of(given)}")
    if given.ndim != 2 or given.shape[1] != width or given.dtype.kind not in "fiub":
        got = f"{given.dtype} of shape {given.shape}"
        raise fail("input", f"`{name}` requires an array (samples, {width}) of numbers, got {got}")
    return given
