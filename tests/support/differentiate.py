"""Gradients of one function by its operations' vjp rules, and by differences, for comparison."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from graphc.ir.core import (
    Function,
    IRBuilder,
    NotDifferentiable,
    OpDef,
    RegionKind,
    ResultInfo,
    Value,
)
from graphc.ir.params import Params
from graphc.ir.types import TensorType
from graphc.ops.control import RETURN
from graphc.ops.elementwise import ADD

Array = np.ndarray


def vjp_function(op: OpDef, params: Params, types: Sequence[TensorType]) -> Function:
    """`(x0, …, dy) -> (dx0, …)` by the operation's rule; operands without gradient are left out."""
    function = Function("vjp", RegionKind.SSA)
    operands = [function.add_argument(f"x{i}", t, "input") for i, t in enumerate(types)]
    builder = IRBuilder(function.block)
    made = builder.emit(op, operands, params)
    cotangent = function.add_argument("dy", made.result.type, "input")
    assert not isinstance(op.vjp, NotDifferentiable)
    gradients = op.vjp(builder, made, cotangent)
    _return(function, {f"dx{i}": g for i, g in enumerate(gradients) if g is not None})
    return function


def differentiate(function: Function) -> None:
    """Turn `function` into its own vjp: results become `d<argument>` for cotangents `d<result>`.

    Results that are no floats have no cotangent. Reverse mode over the function's operations, in
    their order backwards.
    """
    (terminator,) = [op for op in function.block if op.opdef is RETURN]
    returned, infos = terminator.operands, list(function.results)
    operations = [op for op in function.block if op is not terminator]
    terminator.erase()
    function.results.clear()
    builder = IRBuilder(function.block)
    cotangents: dict[Value, Value] = {}
    arguments = list(function.arguments)
    for value, info in zip(returned, infos, strict=True):
        assert isinstance(value.type, TensorType)
        if not value.type.dtype.is_float:
            continue
        seed = function.add_argument(f"d{info.name}", value.type, "input")
        _accumulate(builder, cotangents, value, seed)
    for op in reversed(operations):
        if op.results[0] not in cotangents or isinstance(op.opdef.vjp, NotDifferentiable):
            continue
        for operand, gradient in zip(
            op.operands, op.opdef.vjp(builder, op, cotangents[op.result]), strict=True
        ):
            if gradient is not None:
                _accumulate(builder, cotangents, operand, gradient)
    _return(function, {f"d{a.name}": cotangents[a] for a in arguments if a in cotangents})


def _accumulate(b: IRBuilder, cotangents: dict[Value, Value], value: Value, more: Value) -> None:
    known = cotangents.get(value)
    cotangents[value] = more if known is None else b.emit_one(ADD, known, more)


def _return(function: Function, results: Mapping[str, Value]) -> None:
    IRBuilder(function.block).emit(RETURN, list(results.values()))
    function.results.extend(ResultInfo(name) for name in results)


def central_differences(f: Callable[[Array], Array], x: Array, step: float = 1e-6) -> Array:
    """The Jacobian `[y.size, x.size]` of f at x."""
    jacobian = np.empty((f(x).size, x.size))
    for i in range(x.size):
        difference = f(_moved(x, i, step)) - f(_moved(x, i, -step))
        jacobian[:, i] = difference.ravel() / (2 * step)
    return jacobian


def _moved(x: Array, index: int, step: float) -> Array:
    moved = x.copy()
    moved.reshape(-1)[index] += step
    return moved
