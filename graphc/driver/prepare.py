"""What a network needs before it can be compiled: sizes, initial values, computed statistics."""

from __future__ import annotations

from graphc.model.model import Model
from graphc.passes.infer_shapes import infer_shapes
from graphc.support.diagnostics import DiagnosticSink


def prepare(model: Model) -> None:
    """Find all sizes and draw missing initial values. Raises GraphcError for a bad network."""
    sink = DiagnosticSink()
    model.load_matrices(sink)
    infer_shapes(model.graph, sink)
    sink.raise_if_errors()
    model.initialise()
