"""Networks and data sets as the command line names them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import click
import numpy as np

from graphc import api
from graphc.builder import GraphBuilder
from graphc.cli.data_inputs import DataInputs, program_inputs
from graphc.cli.options import DataFile, Definitions
from graphc.cli.stored_data import ARRAY, NAMED, read_array_columns, read_named_columns
from graphc.cli.terminal import Terminal
from graphc.cli.values import Block
from graphc.data.arrays import DASH
from graphc.data.labels import read_label_mapping
from graphc.data.order import IN_ORDER, Order
from graphc.data.prefetch import Prefetch
from graphc.data.uci import MAX_FILE_BYTES, Columns, FeatureBlock, LabelBlock, read_uci_stream
from graphc.data.uci_reader import uci
from graphc.driver.native_rows import native_rows
from graphc.driver.options import CompileOptions
from graphc.learn.program_training import shaped
from graphc.learn.source import Data
from graphc.model.program import Program
from graphc.support.diagnostics import DiagnosticSink, fail
from graphc.support.pipes import open_file_or_pipe

IN_MEMORY_BYTES = 1 << 30
"""Of a text; a larger one is read in blocks, and its numbers are kept in a temporary file."""


def open_network(path: Path, definitions: Definitions, *, seed: int = 0) -> GraphBuilder:
    """The network in a file, by its suffix."""
    defines = dict(definitions.defines)
    return api.load(path, macros=definitions.macros, defines=defines, seed=seed)


def read_data(
    inputs: DataInputs,
    terminal: Terminal,
    file: DataFile,
    options: CompileOptions,
    order: Order = IN_ORDER,
    *,
    keep: bool = True,
) -> Data:
    """The data set for these inputs, in the precision of the options.

    One array (samples, rows) each of a text, read by native code from the options' cache. Of a text
    larger than `IN_MEMORY_BYTES` and of other kinds of files a reader, which visits samples in
    this order; with `keep` it will be asked for more than one pass.
    """
    suffix, dtype = file.data.suffix.lower(), np.dtype(options.precision.numpy)
    if suffix in NAMED:
        return read_named_columns(inputs, file, order, dtype, keep=keep)
    blocks = _blocks(inputs, file)
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


def read_for_program(
    program: Program,
    terminal: Terminal,
    file: DataFile,
    options: CompileOptions,
    order: Order = IN_ORDER,
    *,
    keep: bool = True,
) -> Data:
    """As `read_data`, for a program with its loss: in its precision and in its inputs' shapes."""
    own = replace(options, precision=program.precision)
    inputs = program_inputs(program)
    return shaped(program, read_data(inputs, terminal, file, own, order, keep=keep))


def _blocks(inputs: DataInputs, file: DataFile) -> list[FeatureBlock | LabelBlock]:
    """The columns that options name."""
    if not file.features:
        raise click.UsageError("Missing option '--features'.")
    mapping = read_label_mapping(file.label_mapping) if file.label_mapping is not None else None
    classes, classes_from = file.classes, f"--classes {file.classes}"
    if mapping is not None and classes is None:
        classes, classes_from = len(mapping), f"--label-mapping {file.label_mapping}"
    blocks: list[FeatureBlock | LabelBlock] = []
    for block in file.features:
        name = _input_name(inputs, block, "feature", "--features")
        blocks.append(FeatureBlock(name, _columns(inputs, name, block, "--features")))
    for block in file.labels:
        name = _input_name(inputs, block, "label", "--labels")
        if classes is not None:
            _require_classes(inputs, name, classes, classes_from)
            blocks.append(LabelBlock(name, Columns(block.start, block.dim or 1), classes, mapping))
        else:
            columns = _columns(inputs, name, block, "--labels")
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


def _input_name(inputs: DataInputs, block: Block, tag: str, option: str) -> str:
    """The input that a block is for: the one it names, or the only one with this tag."""
    if block.name is not None:
        name = inputs.named(block.name)
        if name is None:
            raise click.UsageError(f"{option}: the {inputs.noun} has no input {block.name!r}")
        return name
    names = inputs.features if tag == "feature" else inputs.labels
    if len(names) != 1:
        raise fail(
            "missing-node",
            f"{option} without a name requires one {tag} {_NODES[inputs.noun]}, got "
            f"{', '.join(names) or 'none'}",
        )
    return names[0]


_NODES = {"network": "node in the network", "program": "input of the program"}


def _columns(inputs: DataInputs, name: str, block: Block, option: str) -> Columns:
    """The columns of an input, as many as it has rows; a usage error for other numbers of them."""
    rows = inputs.widths[name]
    if block.dim not in (None, rows):
        place = f"{option} {block.start}:{block.dim}"
        raise click.UsageError(f"{place}: `{name}` requires {rows} columns, got {block.dim}")
    return Columns(block.start, rows)


def _require_classes(inputs: DataInputs, name: str, classes: int, said_by: str) -> None:
    rows = inputs.widths[name]
    if classes != rows:
        raise click.UsageError(f"{said_by}: `{name}` requires {rows} classes, got {classes}")
