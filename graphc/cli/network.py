"""Networks and data sets as the command line names them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import click
import numpy as np

from graphc import api
from graphc.builder import GraphBuilder
from graphc.cli.options import Block
from graphc.cli.terminal import Terminal
from graphc.data.labels import read_label_mapping
from graphc.data.uci import Columns, FeatureBlock, LabelBlock, read_uci
from graphc.ir.types import DType
from graphc.model.model import Model
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import display_name
from graphc.ops.nodes.leaves import InputParams, input_type
from graphc.support.diagnostics import DiagnosticSink, fail


def open_network(
    path: Path,
    *,
    defines: Sequence[tuple[str, object]] = (),
    macros: Sequence[Path] = (),
    seed: int = 0,
) -> GraphBuilder:
    """The network in a file, by its suffix."""
    return api.load(path, macros=macros, defines=dict(defines), seed=seed)


def names_of(text: str | None) -> list[str]:
    """The names in `a,b,c`."""
    return [name for name in re.split(r"[,\s]+", text or "") if name]


def read_data(
    model: Model,
    terminal: Terminal,
    *,
    data: Path,
    features: Sequence[Block],
    labels: Sequence[Block],
    classes: int | None,
    label_mapping: Path | None,
    precision: DType,
) -> dict[str, np.ndarray]:
    """The data set for the network's inputs: one array (samples, rows) each.

    GraphcError `not-supported` for a network that needs sequences, which the file does not tell.
    """
    _refuse_delays(model)
    mapping = read_label_mapping(label_mapping) if label_mapping is not None else None
    if mapping is not None and classes is None:
        classes = len(mapping)
    blocks: list[FeatureBlock | LabelBlock] = []
    for block in features:
        name = _input_name(model, block, "feature", "--features")
        dim = block.dim if block.dim is not None else _rows(model, name)
        blocks.append(FeatureBlock(name, Columns(block.start, dim)))
    for block in labels:
        name = _input_name(model, block, "label", "--labels")
        if classes is not None:
            columns = Columns(block.start, block.dim or 1)
            blocks.append(LabelBlock(name, columns, classes, mapping))
        else:
            dim = block.dim if block.dim is not None else _rows(model, name)
            columns = Columns(block.start, dim)
            blocks.append(LabelBlock(name, columns, dim, kind="regression"))
    sink = DiagnosticSink()
    arrays = read_uci(data, blocks, dtype=precision.numpy, sink=sink)
    terminal.diagnostics(sink.diagnostics)
    return dict(arrays)


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


def _rows(model: Model, name: str) -> int:
    op = model.find(name)
    assert op is not None
    assert isinstance(op.params, InputParams)
    rows = input_type(op.params).rows
    assert rows is not None
    return rows
