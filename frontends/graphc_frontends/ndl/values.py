"""NDL with the values of parameters beside it: text files that `init=fromFile` reads back.

`net.ndl` gets a folder `net-values` with a file for each parameter, one row a line, in digits from
which the same number is read back, in f32 and in f64. All files are written before the first
network text names them.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from graphc.support.diagnostics import fail
from graphc.support.files import write_atomically
from graphc_frontends.ndl.writer import write

if TYPE_CHECKING:
    from graphc.builder import GraphBuilder


def save(builder: GraphBuilder, path: Path, *, values: bool = False) -> None:
    """Write a network as NDL, and with `values` every parameter's value beside it.

    GraphcError `not-supported` for what NDL has no words for, `file` if a file cannot be written.
    """
    matrices = _matrices(builder) if values else {}
    files = _file_names(list(matrices), f"{path.stem}-values")
    text = write(builder, files)
    if matrices:
        _make_folder(path.parent / f"{path.stem}-values")
    for name, matrix in matrices.items():
        write_atomically(path.parent / files[name], _matrix_text(matrix).encode("ascii"))
    write_atomically(path, text.encode("utf-8"))


def _matrices(builder: GraphBuilder) -> dict[str, np.ndarray]:
    """The values of all parameters, by name, with all digits that the network has of them."""
    known = {*builder.parameters}  # draws those that were not drawn yet
    nodes = [node for node in builder.nodes if node.op == "parameter" and node.name in known]
    return {node.name: builder.model.exactly(node.name) for node in nodes}


def _file_names(names: list[str], folder: str) -> dict[str, str]:
    """A file for each node, called like it as far as file systems take its name."""
    width = len(str(len(names)))
    plain = [re.sub(r"[^A-Za-z0-9_.-]+", "_", name)[:80] for name in names]
    return {
        name: f"{folder}/{index:0{width}}-{text}.txt"
        for index, (name, text) in enumerate(zip(names, plain, strict=True))
    }


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise fail("file", f"cannot make the folder {folder}: {error.strerror}") from error


def _matrix_text(matrix: np.ndarray) -> str:
    rows = matrix.astype(np.float64).tolist()
    return "".join(f"{' '.join(map(repr, row))}\n" for row in rows)
