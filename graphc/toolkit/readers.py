"""Readers out of their blocks: files looked for, columns compared with what a network takes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from graphc.config.keys import text
from graphc.config.lookup import Scope, Value
from graphc.data.reader import Reader
from graphc.data.reader_options import ReaderOptions
from graphc.data.reader_types import make
from graphc.ir.core import Operation
from graphc.model.model import Model
from graphc.ops.nodes.layout import node_type
from graphc.ops.nodes.leaves import InputParams
from graphc.ops.nodes.statistics import StatisticParams
from graphc.passes.expand_nodes import inputs_of
from graphc.support.diagnostics import suggestion
from graphc.support.graphs import reachable
from graphc.toolkit.action import Block, Session

READER_TYPE = text("readerType", "the kind of reader; its other keys are in docs/readers.md")
READER = Block("reader", (READER_TYPE,), "where the data come from")
CV_READER = Block("cvReader", (READER_TYPE,), "data that are measured after each epoch")
IGNORED = ("verbosity", "traceLevel", "prefetch", "windowSize", "minibatchMode", "randomize")
FILE_KEYS = ("file", "labelMappingFile")


@dataclass(frozen=True, slots=True)
class PlannedReader:
    """A reader and where it was asked for. `is_there`: its files exist already; others are written
    by earlier commands."""

    reader: Reader
    value: Value
    is_there: bool

    def check(self, model: Model, names: Sequence[str], *, computed: bool = True) -> None:
        """GraphcError `input` unless it gives what these nodes need, in the sizes they need.

        computed  statistics over the data have their values by then
        """
        if not self.is_there and not all(file.is_file() for file in self.files()):
            return
        with self.value.blamed():
            schema = self.reader.schema
        roots = [op for name in names if (op := model.find(name)) is not None]
        columns = {name.lower(): column for name, column in schema.items()}
        for op in reachable(roots, _trained_inputs if computed else inputs_of):
            if not isinstance(op.params, InputParams):
                continue
            name, rows = op.result.name or "", node_type(op).rows
            column = columns.get(name.lower())
            if column is None:
                got = ", ".join(f"`{known}`" for known in schema) or "none"
                message = f"the network needs the input `{name}`, this reader gives {got}"
                raise self.value.fail(message + suggestion(name, schema), "input")
            if rows is not None and column.width != rows:
                message = f"the input `{name}` requires {rows} numbers a sample"
                raise self.value.fail(f"{message}, got {column.width}", "input")

    def files(self) -> Iterator[Path]:
        """The files that its block names."""
        for _, file in named_files(self.value.section()):
            yield file


def planned_reader(
    scope: Scope, block: Block, session: Session, *, in_order: bool = False, keep: bool = True
) -> PlannedReader:
    """The reader of a command's block. Its files are there, or earlier commands write them."""
    section = scope.section(block.name)
    section.ask(*(key.name for key in block.keys), *IGNORED)
    kind = section.require(READER_TYPE.name)
    options = ReaderOptions(
        dtype=np.dtype(session.options.precision.numpy), in_order=in_order, keep=keep
    )
    files = list(named_files(section))
    for value, file in files:
        if not session.exists(file):
            raise value.fail(f"there is no file {file}", "file")
    with kind.blamed():
        reader = make(kind.text(), section, options)
    is_there = all(file.is_file() for _, file in files)
    return PlannedReader(reader, scope.require(block.name), is_there)


def named_files(section: Scope) -> Iterator[tuple[Value, Path]]:
    """The files that a block and the blocks in it name."""
    for block in (section, *(section.section(name) for name in section.own_sections())):
        for key in FILE_KEYS:
            value = block.own(key)
            for name in value.texts() if value is not None else ():
                if value is not None:
                    yield value, Path(name.replace("\\", "/"))


def _trained_inputs(op: Operation) -> list[Operation]:
    """The nodes that a node of a trained network reads."""
    return [] if isinstance(op.params, StatisticParams) else inputs_of(op)
