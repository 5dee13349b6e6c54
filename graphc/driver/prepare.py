"""What a network needs before it can be compiled: sizes, initial values, computed statistics."""

from __future__ import annotations

from collections.abc import Set

from graphc.ir.core import Operation
from graphc.model.editing import forget_sizes, missing_input
from graphc.model.initialise import check_size
from graphc.model.model import Model
from graphc.ops.nodes.delays import DELAYS
from graphc.ops.nodes.layout import display_name, node_type
from graphc.ops.nodes.leaves import ParameterParams, parameter_shape
from graphc.passes.infer_shapes import infer_shapes
from graphc.support.diagnostics import DiagnosticSink, fail, warn


def infer(model: Model) -> None:
    """Find all sizes, with those of the files of `init=fromFile`; draws nothing.

    Enough for whoever only looks at a network. Raises GraphcError for a bad one.
    """
    sink = DiagnosticSink()
    _require_bound(model, sink)
    model.load_matrices(sink)
    if model.has_old_sizes:
        forget_sizes(model)
    infer_shapes(model.graph, sink)
    sink.raise_if_errors()
    warn(sink.diagnostics)


def _require_bound(model: Model, sink: DiagnosticSink) -> None:
    """Refuse inputs that wait for a node, and delays of nothing: forward references that were left
    open read themselves."""
    is_reported: set[Operation] = set()
    for op in model.graph.block:
        if op.opdef in DELAYS and op.operands == (op.result,):
            name = op.result.name
            sink.error(
                "missing-node",
                f"{display_name(op.opdef)} `{name}` requires the node that it is the delay of, "
                f"it reads only itself; in Python bind it: `h = {name}.bind(expression)`",
                op.location,
            )
            is_reported.add(op)
    for op, index in model.unset_inputs():
        if op not in is_reported:
            sink.error("missing-node", f"{missing_input(op, index)}: set it", op.location)
    sink.raise_if_errors()


def prepare(model: Model) -> None:
    """Find all sizes and draw missing initial values. Raises GraphcError for a bad network."""
    infer(model)
    draw(model)


def draw(model: Model, names: Set[str] | None = None) -> None:
    """Draw the missing initial values of these parameters, by default of all; sizes must be known.

    What only computes needs those that its function takes: others may not fit into memory.
    """
    missing = model.missing_values()
    wanted = missing if names is None else missing & names
    for op in model.graph.block:
        name = op.result.name or ""
        is_drawn = name in wanted and node_type(op).is_known
        if isinstance(op.params, ParameterParams) and is_drawn:
            check_size(name, *parameter_shape(op), op.location)
    try:
        model.initialise(wanted)
    except MemoryError:
        raise fail(
            "limit", "the parameters' initial values take more memory than there is"
        ) from None
