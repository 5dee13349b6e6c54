"""Readers out of their blocks: files looked for, columns compared with what a network takes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from graphc.config.keys import text
from graphc.config.lookup import Scope, Value
from graphc.data.reader import Reader
from graphc.data.reader_options import ReaderOptions
from graphc.data.reader_types import make
from graphc.model.model import Model
from graphc.ops.nodes.layout import node_type
from graphc.ops.nodes.leaves import InputParams
from graphc.passes.expand_nodes import inputs_of
from graphc.support.diagnostics import suggestion
from graphc.support.graphs import reachable
from graphc.toolkit.action import Session

READER_TYPE = text("readerType", "the kind of reader")
IGNORED = ("verbosity", "traceLevel", "prefetch", "windowSize", "minibatchMode", "randomize")
FILE_KEYS = ("file", "labelMappingFile")


def planned_reader(
    scope: Scope, key: str, session: Session, *, in_order: bool = False, keep: bool = True
) -> Reader:
    """The reader of a command's block. Its files are there, or earlier commands write them."""
    block = scope.section(key)
    block.ask(READER_TYPE.name, *IGNORED)
    kind = block.require(READER_TYPE.name)
    options = ReaderOptions(
        dtype=np.dtype(session.options.precision.numpy), in_order=in_order, keep=keep
    )
    for inner in (block, *(block.section(name) for name in block.own_sections())):
        _require_files(inner, session)
    with kind.blamed():
        return make(kind.text(), block, options)


def _require_files(block: Scope, session: Session) -> None:
    for key in FILE_KEYS:
        value = block.own(key)
        for name in value.texts() if value is not None else ():
            file = Path(name.replace("\\", "/"))
            if value is not None and not session.exists(file):
                raise value.fail(f"there is no file {file}", "file")


def check_columns(model: Model, names: Sequence[str], reader: Reader, value: Value) -> None:
    """GraphcError `input` unless the reader gives what these nodes need, in the sizes they need."""
    roots = [op for name in names if (op := model.find(name)) is not None]
    columns = {name.lower(): column for name, column in reader.schema.items()}
    for op in reachable(roots, inputs_of):
        if not isinstance(op.params, InputParams):
            continue
        name, rows = op.result.name or "", node_type(op).rows
        column = columns.get(name.lower())
        if column is None:
            known = list(reader.schema)
            got = ", ".join(f"`{k}`" for k in known) or "none"
            message = f"the network needs the input `{name}`, this reader gives {got}"
            raise value.fail(message + suggestion(name, known), "input")
        if rows is not None and column.width != rows:
            message = f"the input `{name}` requires {rows} numbers a sample, got {column.width}"
            raise value.fail(message, "input")
