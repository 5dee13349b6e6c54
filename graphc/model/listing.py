"""A network as the toolkit's DumpModel writes it: one line a node, and the values if asked for.

    L1.T=Times(L1.W,features)
    L1.W=LearnableParameter [2,3]   NeedGradient=true
    0.1 0.2 0.3
    0.4 0.5 0.6
    ####################################################################

Nodes come in the order of their names, whatever the case, with an empty line before each; matrices
row by row, in as many digits as tell two numbers apart. An input that waits for a node is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType

import numpy as np

from graphc.ir.core import Operation
from graphc.model.model import Model
from graphc.ops.nodes.layout import display_name, node_type
from graphc.ops.nodes.leaves import ConstantParams, ParameterParams

LINE_UNDER_VALUES = "#" * 68

TOOLKIT_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "node.input": "InputValue",
        "node.sparse_input": "SparseInputValue",
        "node.parameter": "LearnableParameter",
        "node.constant": "LearnableParameter",
    }
)
"""Kinds of nodes that the toolkit calls by another name than NDL does."""


def listing(
    model: Model, nodes: Iterable[Operation], *, include_values: bool = False
) -> Iterator[str]:
    """The lines of a listing, each with its end; values must have been drawn."""
    for op in sorted(nodes, key=lambda op: (op.result.name or "").lower()):
        yield f"\n{op.result.name}={_described(model, op)}\n"
        if include_values:
            yield from _values(model, op)


def _described(model: Model, op: Operation) -> str:
    kind = TOOLKIT_NAMES.get(op.opdef.name, display_name(op.opdef))
    if op.operands:
        names = (
            "NULL" if (op, index) in model.unset else value.name or ""
            for index, value in enumerate(op.operands)
        )
        return f"{kind}({','.join(names)})"
    type = node_type(op)
    if isinstance(op.params, ParameterParams | ConstantParams):
        needs = isinstance(op.params, ParameterParams) and op.params.need_gradient
        sizes = f"[{type.rows or 0},{type.cols or 0}]"
        return f"{kind} {sizes}   NeedGradient={'true' if needs else 'false'}"
    return f"{kind} [{type.rows or 0},{type.cols or 0}]"


def _values(model: Model, op: Operation) -> Iterator[str]:
    """The rows of what a node holds, if it holds something, and the line under them."""
    value = model.values.get(op.result.name or "")
    if isinstance(op.params, ConstantParams):
        value = np.full((op.params.rows, op.params.cols), op.params.value)
    if value is None:
        return
    digits = 9 if value.dtype == np.float32 else 17
    for row in value:
        yield " ".join(f"{number:.{digits}g}" for number in row.tolist()) + "\n"
    yield LINE_UNDER_VALUES + "\n"
