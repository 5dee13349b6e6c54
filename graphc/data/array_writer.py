"""Outputs as arrays of numpy: `.npy`, one file for each output, or all in one `.npz`."""

from __future__ import annotations

import zipfile
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np

from graphc.data.arrays import npy_header
from graphc.data.writer import checked_outputs, checked_rows
from graphc.support.files import move_into_place, temporary_folder


@dataclass(frozen=True)
class NpyWriter:
    """Writes to `path`.NAME.npy for every output; into the one file `path` if its suffix is
    `.npz`."""

    path: Path
    dtype: np.dtype = field(default_factory=lambda: np.dtype(np.float32))

    @contextmanager
    def open(self, outputs: Mapping[str, int]) -> Generator[NpySink]:
        widths = checked_outputs(outputs)
        with temporary_folder(self.path) as folder:
            parts = {name: folder / f"{number}.npy" for number, name in enumerate(widths)}
            with ExitStack() as stack:
                streams = {n: stack.enter_context(part.open("wb")) for n, part in parts.items()}
                sink = NpySink(widths, streams, self.dtype)
                yield sink
                sink.finish()
            if self.path.suffix.lower() == ".npz":
                move_into_place(_joined(parts, folder / "all.npz"), self.path)
                return
            for name, part in parts.items():
                move_into_place(part, self.path.with_name(f"{self.path.name}.{name}.npy"))


class NpySink:
    """Rows into one `.npy` for each output; how many they are is written at last."""

    def __init__(
        self, widths: Mapping[str, int], streams: Mapping[str, BinaryIO], dtype: np.dtype
    ) -> None:
        self.widths = widths
        self.streams = streams
        self.dtype = dtype.newbyteorder("<")
        self.rows = 0
        self._write_headers()

    def write(self, rows: Mapping[str, object]) -> None:
        arrays = checked_rows(rows, self.widths)
        for name, array in arrays.items():
            self.streams[name].write(np.ascontiguousarray(array, self.dtype).tobytes())
        self.rows += len(next(iter(arrays.values())))

    def finish(self) -> None:
        for stream in self.streams.values():
            stream.seek(0)
        self._write_headers()

    def _write_headers(self) -> None:
        for name, stream in self.streams.items():
            stream.write(npy_header(self.dtype, (self.rows, self.widths[name])))


def _joined(parts: Mapping[str, Path], target: Path) -> Path:
    """One archive of the files, not compressed so that it can be mapped."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, part in parts.items():
            archive.write(part, f"{name}.npy")
    return target
