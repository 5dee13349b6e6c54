"""Runs a function by each operation's numpy reference: no pass, no fusion. The judge in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from graphc.ir.core import Array, Block, Function, OpDef, Operation, Trait, Value
from graphc.ir.params import Params, resolve_sizes
from graphc.ir.types import Type
from graphc.support.diagnostics import InternalError
from graphc.support.graphs import topological_order


def evaluate(
    function: Function, arguments: Mapping[str, Array], sizes: Mapping[str, int]
) -> dict[str, Array]:
    """The results by name. `arguments` has every argument of the function, `sizes` every dim."""
    inputs = [np.asarray(arguments[a.name or ""]) for a in function.arguments]
    with np.errstate(all="ignore"):
        outputs = evaluate_block(function.block, inputs, sizes)
    return {info.name: out for info, out in zip(function.results, outputs, strict=True)}


def evaluate_graph(function: Function, leaves: Mapping[str, Array]) -> dict[str, Array]:
    """Every node's matrix (rows x columns, as the book writes them) from those of the leaves.

    `leaves` holds the value of every input, parameter and computed statistic. Independent of
    expansion and layout, so it judges both. ValueError for a cycle.
    """
    order = topological_order(
        function.block, lambda op: [v.op for v in op.operands if v.op is not None]
    )
    if order is None:
        raise ValueError("a network with a cycle has no value without loops")
    values: dict[str, Array] = {}
    with np.errstate(all="ignore"):
        for op in order:
            name = op.result.name or ""
            if name in leaves:
                values[name] = np.asarray(leaves[name])
                continue
            if op.opdef.reference is None and op.opdef.typed_reference is None:
                raise InternalError(f"{op.opdef.name} has no reference and `{name}` no value")
            operands = [values[v.name or ""] for v in op.operands]
            types = [v.type for v in op.operands]
            values[name] = evaluate_node(op.opdef, op.params, types, operands)
    return values


def evaluate_node(
    opdef: OpDef, params: Params, types: Sequence[Type], operands: Sequence[Array]
) -> Array:
    """A node's matrix from those of its operands, which have these types."""
    if opdef.typed_reference is not None:
        return np.asarray(opdef.typed_reference(params, types, *operands))
    assert opdef.reference is not None
    return np.asarray(opdef.reference(params, *operands))


def evaluate_block(
    block: Block, inputs: list[Array], sizes: Mapping[str, int]
) -> tuple[Array, ...]:
    """What the block's terminator hands out."""
    values: dict[Value, Array] = dict(zip(block.arguments, inputs, strict=True))
    for op in block:
        operands = [values[v] for v in op.operands]
        if op.opdef.has(Trait.TERMINATOR):
            return tuple(operands)
        for value, array in zip(op.results, evaluate_operation(op, operands, sizes), strict=True):
            values[value] = array
    raise InternalError("the block has no terminator")


def evaluate_operation(
    op: Operation, operands: list[Array], sizes: Mapping[str, int]
) -> tuple[Array, ...]:
    """The results of one operation, checked against their types."""
    if op.opdef.reference is None:
        raise InternalError(f"{op.opdef.name} has no reference")
    params = resolve_sizes(op.params, sizes)
    if op.regions:
        body = op.regions[0].block
        empty = [np.zeros(v.tensor.shape(sizes), v.tensor.dtype.numpy) for v in op.results]
        out = op.opdef.reference(
            params, lambda *inputs: evaluate_block(body, list(inputs), sizes), empty, *operands
        )
    else:
        out = op.opdef.reference(params, *operands)
    results = out if isinstance(out, tuple) else (out,)
    for value, array in zip(op.results, results, strict=True):
        expected = value.tensor.shape(sizes)
        if array.shape != expected or array.dtype != value.tensor.dtype.numpy:
            raise InternalError(
                f"the reference of {op.opdef.name} gave {array.dtype}{list(array.shape)}, "
                f"its type is {value.type}"
            )
    return results
