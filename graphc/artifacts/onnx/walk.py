"""A function as a graph of ONNX: each operation by its row in a table; mistakes all at once."""

from __future__ import annotations

from collections.abc import Mapping

from graphc.artifacts.onnx import arrays, lookups, windows
from graphc.artifacts.onnx.elementwise import FORMULAS
from graphc.artifacts.onnx.graph import Graph, Writer
from graphc.artifacts.onnx.loops import loop_writers
from graphc.ir.core import Block, Function, Level, OpDef, Operation, Trait
from graphc.ir.traversal import walk
from graphc.ir.types import Dim
from graphc.support.diagnostics import DiagnosticSink, Note


def write_block(g: Graph, block: Block) -> None:
    """The operations of a block whose arguments the graph holds."""
    for op in block:
        if op.opdef.has(Trait.TERMINATOR):
            continue
        g.called = op.results[0].called
        WRITERS[op.opdef](g, op)


def _element_by_element(g: Graph, op: Operation) -> None:
    """The formula of arrays that may lack what is repeated: the result then lacks it too."""
    held = [g.held(v) for v in op.operands]
    made = FORMULAS[op.opdef](g, op, *(h.name for h in held))
    ranked = [h.dims for h in held if h.dims]
    dims: list[Dim] = [next((d for d in along if d != 1), 1) for along in zip(*ranked, strict=True)]
    g.hold(op.result, made, dims)


WRITERS: Mapping[OpDef, Writer] = {
    **dict.fromkeys(FORMULAS, _element_by_element),
    **arrays.WRITERS,
    **windows.WRITERS,
    **lookups.WRITERS,
    **loop_writers(write_block),
}
"""What each operation becomes."""


def report_unwritable(function: Function, sink: DiagnosticSink) -> None:
    """An error for every place with an operation that no operator of ONNX stands for."""
    for op in walk(function):
        if op.opdef not in WRITERS and not op.opdef.has(Trait.TERMINATOR):
            message = f"ONNX has nothing for `{op.opdef.name}` ({op.opdef.summary})"
            is_later = op.opdef.level is Level.KERNEL
            notes = [Note("`graphc dump --stage tensor` prints what can be written")]
            sink.error("not-supported", message, op.location, notes=notes if is_later else [])
