"""Networks and data sets as the command line names them."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

import click
import numpy as np

from graphc import api
from graphc.builder import GraphBuilder
from graphc.cli.options import Block, DataFile, Definitions
from graphc.cli.stored_data import ARRAY, NAMED, read_array_columns, read_named_columns
from graphc.cli.terminal import Terminal
from graphc.data.arrays import DASH
from graphc.data.labels import read_label_mapping
from graphc.data.order import IN_ORDER, Order
from graphc.data.prefetch import Prefetch
from graphc.data.uci import MAX_FILE_BYTES, Columns, FeatureBlock, LabelBlock, read_uci_stream
from graphc.data.uci_reader import uci
from graphc.driver.native_rows import native_rows
from graphc.driver.options import CompileOptions
from graphc.learn.source import Data, is_reader
from graphc.model.model import Model
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import display_name
from graphc.ops.nodes.leaves import InputParams, input_type
from graphc.runtime.sparse import sample_count
from graphc.support.diagnostics import DiagnosticSink, fail
from graphc.support.pipes import open_file_or_pipe

IN_MEMORY_BYTES = 1 << 30
"""Of a text; a larger one is read in blocks, and its numbers are kept in a temporary file."""


def open_network(path: Path, definitions: Definitions, *, seed: int = 0) -> GraphBuilder:
    """The network in a file, by its suffix."""
    defines = dict(definitions.defines)
    return api.load(path, macros=definitions.macros, defines=defines, seed=seed)


def read_data(
    model: Model,
    terminal: Terminal,
    file: DataFile,
    options: CompileOptions,
    order: Order = IN_ORDER,
    *,
    keep: bool = True,
) -> Data:
    """The data set for the network's inputs, in the precision of the options.

    One array (samples, rows) each of a text, read by native code from the options' cache. Of a text
    larger than `IN_MEMORY_BYTES` and of other kinds of files a reader, which visits samples in
    this order; with `keep` it will be asked for more than one pass.

    GraphcError `not-supported` for a network that needs sequences, which the file does not tell.
    """
    _refuse_delays(model)
    suffix, dtype = file.data.suffix.lower(), np.dtype(options.precision.numpy)
    if suffix in NAMED:
        return read_named_columns(model, file, order, dtype, keep=keep)
    blocks = _blocks(model, file)
    if suffix == ARRAY:
        return read_array_columns(file.data, blocks, order, dtype)
    native = native_rows(options.cache)
    if file.data.is_file() and file.data.stat().st_size > IN_MEMORY_BYTES:
        reader = uci(file.data, blocks, order=order, dtype=dtype, keep=keep, native=native)
        return Prefetch(reader)
    sink = DiagnosticSink()
    with _opened(file.data, terminal) as (stream, size, name):
        arrays = read_uci_stream(stream, size, name, blocks, dtype=dtype, sink=sink, native=native)
    terminal.diagnostics(sink.diagnostics)
    return dict(arrays)


def sample_total(data: Data) -> int:
    """The samples of a data set once; 0 where only reading them tells."""
    if is_reader(data):
        return data.samples or 0
    assert isinstance(data, Mapping)
    return max(map(sample_count, data.values()), default=0)


def _blocks(model: Model, file: DataFile) -> list[FeatureBlock | LabelBlock]:
    """The columns that options name."""
    if not file.features:
        raise click.UsageError("Missing option '--features'.")
    mapping = read_label_mapping(file.label_mapping) if file.label_mapping is not None else None
    classes, classes_from = file.classes, f"--classes {file.classes}"
    if mapping is not None and classes is None:
        classes, classes_from = len(mapping), f"--label-mapping {file.label_mapping}"
    blocks: list[FeatureBlock | LabelBlock] = []
    for block in file.features:
        name = _input_name(model, block, "feature", "--features")
        blocks.append(FeatureBlock(name, _columns(model, name, block, "--features")))
    for block in file.labels:
        name = _input_name(model, block, "label", "--labels")
        if classes is not None:
            _require_classes(model, name, classes, classes_from)
            blocks.append(LabelBlock(name, Columns(block.start, block.dim or 1), classes, mapping))
        else:
            columns = _columns(model, name, block, "--labels")
            blocks.append(LabelBlock(name, columns, columns.dim, kind="regression"))
    return blocks


@contextmanager
def _opened(data: Path, terminal: Terminal) -> Generator[tuple[BinaryIO, int | None, str]]:
    """A stream of the data set, its size where that is known, and its name for messages."""
    if str(data) != DASH:
        with open_file_or_pipe(data, MAX_FILE_BYTES) as (stream, size):
            yield stream, size, str(data)
        return
    try:
        yield terminal.binary_stdin(), None, "<stdin>"
    except BrokenPipeError:
        raise
    except OSError as error:
        raise fail("file", f"cannot read standard input: {error.strerror}") from error


def _refuse_delays(model: Model) -> None:
    for op in model.graph.block:
        if op.opdef in DELAYS:
            raise fail(
                "not-supported",
                f"{display_name(op.opdef)} `{op.result.name}` looks along time, but lines of a "
                "data file are samples of no sequence: train and measure such a network from "
                "Python, with lists of sequences",
                op.location.span,
            )


def _input_name(model: Model, block: Block, tag: str, option: str) -> str:
    """The input that a block is for: the one it names, or the only one with this tag."""
    if block.name is not None:
        op = model.find(block.name)
        if op is None or not isinstance(op.params, InputParams):
            raise click.UsageError(f"{option}: the network has no input {block.name!r}")
        return op.result.name or ""
    names = model.tagged(tag)
    if len(names) != 1:
        raise fail(
            "missing-node",
            f"{option} without a name requires one {tag} node in the network, got "
            f"{', '.join(names) or 'none'}",
        )
    return names[0]


def _columns(model: Model, name: str, block: Block, option: str) -> Columns:
    """The columns of an input, as many as it has rows; a usage error for other numbers of them."""
    rows = _rows(model, name)
    if block.dim not in (None, rows):
        place = f"{option} {block.start}:{block.dim}"
        raise click.UsageError(f"{place}: `{name}` requires {rows} columns, got {block.dim}")
    return Columns(block.start, rows)


def _require_classes(model: Model, name: str, classes: int, said_by: str) -> None:
    rows = _rows(model, name)
    if classes != rows:
        raise click.UsageError(f"{said_by}: `{name}` requires {rows} classes, got {classes}")


def _rows(model: Model, name: str) -> int:
    op = model.find(name)
    assert op is not None
    assert isinstance(op.params, InputParams)
    rows = input_type(op.params).rows
    assert rows is not None
    return rows
